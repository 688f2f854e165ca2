// Mongoose: schemas with every type, validation, defaults, timestamps, population, subdocuments, discriminators, versions.

import mongoose from 'mongoose';
import { assert, fails, flow, same, uri } from './flow.mjs';

const { Schema } = mongoose;

await flow(async step => {
  const db = await mongoose.createConnection(uri()).asPromise();

  await step('a schema of all types round-trips', async () => {
    const Everything = db.model('Everything', new Schema({
      name: { type: String, required: true, trim: true, lowercase: true },
      age: { type: Number, min: 0, max: 150 }, born: Date, raw: Buffer, alive: { type: Boolean, default: true },
      mixed: Schema.Types.Mixed, owner: Schema.Types.ObjectId, price: Schema.Types.Decimal128, big: Schema.Types.BigInt,
      id2: { type: Schema.Types.UUID }, score: Schema.Types.Double, small: Schema.Types.Int32, tags: [String], labels: { type: Map, of: String },
      nested: { deep: { value: Number } }, list: [{ n: Number }], grid: [[Number]], level: { type: String, enum: ['low', 'high'] },
    }, { timestamps: true }));
    const made = await Everything.create({
      name: '  Ada ', age: 36, born: new Date(0), raw: Buffer.from('abc'), mixed: { any: [1, 'x', null] },
      owner: new mongoose.Types.ObjectId(), price: '9.99', big: 2n ** 60n, id2: '0ff91d3a-3b24-4d11-8f0e-8d5c4c1f4b21', score: 2,
      small: 7, tags: ['a', 'b'], labels: { k: 'v', 'x-y': 'z' }, nested: { deep: { value: 1 } }, list: [{ n: 1 }, { n: 2 }],
      grid: [[1, 2], [3]], level: 'low',
    });
    const found = await Everything.findById(made._id);
    same(found.toObject(), made.toObject());
    same([found.name, found.alive, found.big, found.price.toString(), found.labels.get('x-y')], ['ada', true, 2n ** 60n, '9.99', 'z']);
    same(await Everything.countDocuments({ score: { $type: 'double' }, small: { $type: 'int' }, big: { $type: 'long' }, id2: { $type: 'binData' } }), 1);
    same(await Everything.findOne({ 'labels.k': 'v', grid: [3] }).select('tags -_id').lean(), { tags: ['a', 'b'] });
    return `${Object.keys(found.toObject()).length} paths`;
  });

  await step('validation refuses before the server sees it', async () => {
    const error = await fails(db.model('Everything').create({ age: 200, level: 'odd' }), { name: 'ValidationError' });
    same(Object.keys(error.errors).sort(), ['age', 'level', 'name']);
    await fails(db.model('Everything').updateOne({}, { age: -1 }, { runValidators: true }), { name: 'ValidationError' });
    await fails(db.model('Everything').find({ age: 'x' }), { name: 'CastError' });
  });

  await step('timestamps change with save, update and upsert', async () => {
    const Note = db.model('Note', new Schema({ text: String, n: { type: Number, default: 5 } }, { timestamps: { createdAt: 'made', updatedAt: 'changed' } }));
    const note = await Note.create({ text: 'one' });
    const before = note.changed;
    note.text = 'two';
    await new Promise(resolve => setTimeout(resolve, 3));
    await note.save();
    const read = await Note.findById(note._id);
    assert.ok(read.changed > before && +read.made === +note.made && read.n === 5);
    const upserted = await Note.findOneAndUpdate({ text: 'three' }, { $inc: { n: 1 } }, { upsert: true, returnDocument: 'after' });
    assert.ok(upserted.made instanceof Date && upserted.changed instanceof Date && upserted.n === 1);
    const defaults = await Note.findOneAndUpdate({ text: 'four' }, {}, { upsert: true, new: true, setDefaultsOnInsert: true });
    same(defaults.n, 5);
  });

  await step('population: paths, nested, virtual, match, lean, counts', async () => {
    const author = new Schema({ name: String }, { toJSON: { virtuals: true } });
    author.virtual('books', { ref: 'Book', localField: '_id', foreignField: 'author', options: { sort: { year: -1 } } });
    author.virtual('bookCount', { ref: 'Book', localField: '_id', foreignField: 'author', count: true });
    const Author = db.model('Author', author);
    const Publisher = db.model('Publisher', new Schema({ name: String, boss: { type: Schema.Types.ObjectId, ref: 'Author' } }));
    const Book = db.model('Book', new Schema({
      title: String, year: Number, author: { type: Schema.Types.ObjectId, ref: 'Author' },
      publisher: { type: Schema.Types.ObjectId, ref: 'Publisher' }, related: [{ type: Schema.Types.ObjectId, ref: 'Book' }],
      reviews: [{ by: { type: Schema.Types.ObjectId, ref: 'Author' }, stars: Number }],
      on: { kind: String, item: { type: Schema.Types.ObjectId, refPath: 'on.kind' } },
    }));
    const [ada, bob] = await Author.create([{ name: 'Ada' }, { name: 'Bob' }], { ordered: true });
    const house = await Publisher.create({ name: 'House', boss: bob._id });
    const first = await Book.create({ title: 'First', year: 1990, author: ada, publisher: house, on: { kind: 'Publisher', item: house._id } });
    await Book.create({ title: 'Second', year: 2000, author: ada, related: [first._id], reviews: [{ by: bob._id, stars: 4 }], on: { kind: 'Author', item: bob._id } });
    const second = await Book.findOne({ title: 'Second' }).populate('author').populate('reviews.by', 'name -_id')
      .populate({ path: 'related', populate: { path: 'publisher', populate: 'boss' } }).populate('on.item');
    same([second.author.name, second.reviews[0].by.name, second.related[0].publisher.boss.name, second.on.item.name], ['Ada', 'Bob', 'Bob', 'Bob']);
    const all = await Author.find().sort('name').populate('books', 'title').populate('bookCount');
    same(all.map(one => [one.name, one.books.map(book => book.title), one.bookCount]), [['Ada', ['Second', 'First'], 2], ['Bob', [], 0]]);
    const matching = await Author.findOne({ name: 'Ada' }).populate({ path: 'books', match: { year: { $lt: 1995 } }, options: { limit: 5 } }).lean();
    same(matching.books.map(book => book.title), ['First']);
    const limited = await Author.find().sort('name').populate({ path: 'books', perDocumentLimit: 1 });
    same(limited[0].books.length, 1);
    const looked = await Author.aggregate([{ $lookup: { from: 'books', localField: '_id', foreignField: 'author', as: 'b' } }, { $project: { n: { $size: '$b' }, name: 1 } }]).sort('name');
    same(looked.map(row => row.n), [2, 0]);
  });

  await step('subdocument arrays: id, push, pull, positional and filtered updates', async () => {
    const Order = db.model('Order', new Schema({ items: [{ sku: String, count: Number, sizes: [{ s: String, n: Number }] }], log: [String] }));
    const order = await Order.create({ items: [{ sku: 'a', count: 1, sizes: [{ s: 'S', n: 1 }, { s: 'L', n: 2 }] }, { sku: 'b', count: 2 }] });
    order.items.id(order.items[1]._id).count = 20;
    order.items.push({ sku: 'c', count: 3 });
    await order.save();
    await Order.updateOne({ _id: order._id, 'items.sku': 'b' }, { $inc: { 'items.$.count': 1 } });
    await Order.updateOne({ _id: order._id }, { $set: { 'items.$[i].sizes.$[s].n': 9 } }, { arrayFilters: [{ 'i.sku': 'a' }, { 's.s': { $in: ['L'] } }] });
    await Order.updateOne({ _id: order._id }, { $inc: { 'items.$[].count': 100 }, $push: { log: { $each: ['x', 'y', 'z'], $slice: -2 } } });
    await Order.updateOne({ _id: order._id }, { $addToSet: { log: { $each: ['z', 'w'] } }, $pull: { items: { sku: 'c' } } });
    const read = await Order.findById(order._id).lean();
    same(read.items.map(item => [item.sku, item.count]), [['a', 101], ['b', 121]]);
    same([read.items[0].sizes.map(size => size.n), read.log], [[1, 9], ['y', 'z', 'w']]);
    same((await Order.findOne({ items: { $elemMatch: { sku: 'b', count: { $gt: 100 } } } }, { 'items.$': 1 }).lean()).items.length, 1);
    same((await Order.findOne({}, { items: { $slice: [1, 1] } }).lean()).items[0].sku, 'b');
  });

  await step('save writes the difference only, arrays with $push', async () => {
    const seen = [];
    const Diff = db.model('Diff', new Schema({ a: Number, b: [Number], c: { d: Number } }));
    const doc = await Diff.create({ a: 1, b: [1], c: { d: 1 } });
    mongoose.set('debug', (_, method, ...rest) => seen.push([method, rest[1]]));
    doc.b.push(2, 3);
    doc.c.d = undefined;
    doc.set('a', 2);
    await doc.save();
    mongoose.set('debug', false);
    same(seen.map(([method]) => method), ['updateOne']);
    same(Object.keys(seen[0][1]).sort(), ['$inc', '$push', '$set', '$unset'].filter(key => key in seen[0][1]));
    const read = await Diff.findById(doc._id).lean();
    same([read.a, read.b, read.c?.d], [2, [1, 2, 3], undefined]);
    return JSON.stringify(seen[0][1]);
  });

  await step('discriminators: models, arrays, changes of kind', async () => {
    const Event = db.model('Event', new Schema({ at: Date }, { discriminatorKey: 'kind' }));
    const Click = Event.discriminator('Click', new Schema({ url: String }));
    const Sign = Event.discriminator('Sign', new Schema({ user: String }), 'signed');
    await Event.create([{ at: 1, kind: 'Click', url: '/a' }, { at: 2, kind: 'signed', user: 'u' }, { at: 3 }]);
    same([await Event.countDocuments(), await Click.countDocuments(), await Sign.countDocuments()], [3, 1, 1]);
    same((await Event.find().sort('at')).map(event => event.constructor.modelName), ['Click', 'Sign', 'Event']);
    const shape = new Schema({ n: Number }, { discriminatorKey: 'k', _id: false });
    const holder = new Schema({ shapes: [shape] });
    holder.path('shapes').discriminator('Circle', new Schema({ r: Number }, { _id: false }));
    holder.path('shapes').discriminator('Square', new Schema({ side: Number }, { _id: false }));
    const Drawing = db.model('Drawing', holder);
    const drawing = await Drawing.create({ shapes: [{ k: 'Circle', r: 2 }, { k: 'Square', side: 3 }] });
    drawing.shapes.push({ k: 'Circle', r: 4 });
    await drawing.save();
    await Drawing.updateOne({ 'shapes.k': 'Square' }, { $set: { 'shapes.$[s].side': 5 } }, { arrayFilters: [{ 's.k': 'Square' }] });
    same((await Drawing.findById(drawing._id)).toObject().shapes.map(one => one.r ?? one.side), [2, 5, 4]);
    await Event.findOneAndReplace({ at: new Date(3) }, { kind: 'Click', url: '/b', at: 3 });
    same(await Click.countDocuments(), 2);
  });

  await step('versions: VersionError and optimistic concurrency', async () => {
    const Account = db.model('Account', new Schema({ sum: Number, list: [Number] }, { optimisticConcurrency: true }));
    const account = await Account.create({ sum: 1, list: [1, 2] });
    const [one, two] = [await Account.findById(account._id), await Account.findById(account._id)];
    one.sum = 2;
    await one.save();
    two.sum = 3;
    await fails(two.save(), { name: 'VersionError' });
    same((await Account.findById(account._id)).__v, 1);
    await Account.deleteOne({ _id: account._id });
    one.sum = 4;
    await fails(one.save(), { name: 'VersionError' });
    const Plain = db.model('Plain', new Schema({ n: Number }));
    const gone = await Plain.create({ n: 1 });
    await Plain.deleteOne({ _id: gone._id });
    gone.n = 2;
    await fails(gone.save(), { name: 'DocumentNotFoundError' });
  });

  await step('a document with middleware, methods, statics and validators of arrays', async () => {
    const calls = [];
    const schema = new Schema({ email: { type: String, validate: /@/ }, tags: { type: [String], validate: list => list.length < 3 } });
    schema.pre('save', function () { calls.push('save'); });
    schema.post('findOneAndUpdate', function (doc) { calls.push(`after ${doc.email}`); });
    schema.pre('deleteOne', { document: true, query: false }, () => { calls.push('deleteOne'); });
    schema.statics.byEmail = function (email) { return this.findOne({ email }); };
    schema.query.tagged = function (tag) { return this.where({ tags: tag }); };
    const Person = db.model('Person', schema);
    const person = await Person.create({ email: 'a@b', tags: ['x'] });
    await fails(Person.create({ email: 'nope', tags: [1, 2, 3] }), { name: 'ValidationError' });
    await Person.findOneAndUpdate({ email: 'a@b' }, { $push: { tags: 'y' } }, { returnDocument: 'after' });
    same((await Person.find().tagged('y')).length, 1);
    await (await Person.byEmail('a@b')).deleteOne();
    same(calls, ['save', 'after a@b', 'deleteOne']);
    same(await Person.exists({ _id: person._id }), null);
  });

  await db.close();
});
