// Mongoose: queries, cursors, aggregation, findOneAnd*, bulk writes and how errors look to it.

import mongoose from 'mongoose';
import paginate from 'mongoose-paginate-v2';
import { assert, fails, flow, same, uri } from './flow.mjs';

const { Schema } = mongoose;

await flow(async step => {
  const db = await mongoose.createConnection(uri({ maxPoolSize: 5, retryWrites: true, w: 'majority', appName: 'drivers', readPreference: 'primaryPreferred' })).asPromise();
  const schema = new Schema({ name: String, email: { type: String, unique: true, sparse: true }, n: Number, tags: [String], at: Date, sub: { a: Number } });
  schema.plugin(paginate);
  const User = db.model('User', schema);

  await step('insertMany ordered and unordered', async () => {
    await User.init();
    await User.insertMany(Array.from({ length: 100 }, (_, n) => ({ name: `user${n}`, email: `u${n}@x`, n, tags: n % 2 ? ['odd'] : ['even', 'two'], at: new Date(2020, n % 12, 1), sub: { a: n % 7 } })));
    const ordered = await fails(User.insertMany([{ email: 'n1@x' }, { email: 'u1@x' }, { email: 'n2@x' }]), { name: 'MongoBulkWriteError', code: 11000 });
    same([ordered.insertedDocs.length, ordered.writeErrors.length, ordered.writeErrors[0].index], [1, 1, 1]);
    assert.match(ordered.message, /^E11000 duplicate key error collection: drivers_mongoose_queries\.users index: email_1 dup key: \{ email: "u1@x" \}$/);
    const unordered = await fails(User.insertMany([{ email: 'n3@x' }, { email: 'u1@x' }, { email: 'u2@x' }, { email: 'n4@x' }], { ordered: false }), { code: 11000 });
    same([unordered.insertedDocs.length, unordered.writeErrors.map(error => error.index)], [2, [1, 2]]);
    const mixed = await fails(User.insertMany([{ email: 'n5@x' }, { email: 'u1@x' }, { n: 'bad' }], { ordered: false, rawResult: true }), { code: 11000 });
    same(mixed.result.insertedCount, 1);
    const raw = await User.insertMany([{ email: 'n6@x' }, { n: 'bad' }], { ordered: false, rawResult: true });
    same([raw.insertedCount, raw.mongoose.validationErrors.length], [1, 1]);
    same(await User.deleteMany({ name: null }), { acknowledged: true, deletedCount: 5 });
  });

  await step('a duplicate key has keyPattern and keyValue', async () => {
    const error = await fails(User.create({ email: 'u5@x' }), { name: 'MongoServerError', code: 11000, keyPattern: { email: 1 }, keyValue: { email: 'u5@x' }, codeName: undefined });
    same(error.index, 0);
    await fails(User.updateOne({ n: 1 }, { email: 'u2@x' }), { code: 11000, keyValue: { email: 'u2@x' } });
    const found = await fails(User.findOneAndUpdate({ n: 1 }, { email: 'u2@x' }), { code: 11000, codeName: 'DuplicateKey', keyPattern: { email: 1 } });
    assert.match(found.message, /E11000 duplicate key error collection: .* dup key: \{ email: "u2@x" \}/);
    await fails(User.create({ _id: (await User.findOne())._id }), { code: 11000, keyPattern: { _id: 1 } });
  });

  await step('query helpers', async () => {
    same(await User.find().where('n').gte(10).lt(15).where('tags').in(['odd']).select('n -_id').sort({ n: -1 }).lean(), [{ n: 13 }, { n: 11 }]);
    same((await User.find({ $or: [{ n: 1 }, { name: /^USER2$/i }] }).sort('n')).map(user => user.n), [1, 2]);
    same(await User.find({ tags: { $all: ['even', 'two'], $size: 2 } }).countDocuments(), 50);
    same(await User.find({ n: { $mod: [10, 3] } }).distinct('n'), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]);
    same(await User.find({ n: { $not: { $gt: 1 } } }).countDocuments(), 2);
    same(await User.find({ $expr: { $eq: ['$sub.a', '$n'] } }).countDocuments(), 7);
    same(await User.estimatedDocumentCount(), 100);
    same(await User.exists({ n: 5 }).then(Boolean), true);
    same((await User.find({}, { total: { $add: ['$n', 1] }, _id: 0 }).sort('n').limit(1).lean()), [{ total: 1 }]);
    same((await User.find().sort('n').hint({ _id: 1 }).comment('why').maxTimeMS(5000).batchSize(7).allowDiskUse(true).limit(20)).length, 20);
    await fails(User.find().hint('nope'), { code: 2, message: /hint provided does not correspond to an existing index/ });
    const page = await User.paginate({ tags: 'odd' }, { page: 2, limit: 20, sort: { n: 1 }, lean: true });
    same([page.totalDocs, page.totalPages, page.docs[0].n, page.hasNextPage], [50, 3, 41, true]);
    const plan = await User.find({ email: 'u1@x' }).explain('executionStats');
    same([plan.executionStats.nReturned, plan.executionStats.totalKeysExamined, plan.queryPlanner.winningPlan.inputStage.indexName], [1, 1, 'email_1']);
  });

  await step('cursors: async iteration, eachAsync, close in the middle, streams', async () => {
    let sum = 0;
    for await (const user of User.find().batchSize(9).lean()) sum += user.n;
    same(sum, 4950);
    const batches = [];
    await User.find().sort('n').cursor({ batchSize: 10 }).eachAsync(list => { batches.push(list.length); }, { batchSize: 30, parallel: 2 });
    same(batches.reduce((a, b) => a + b), 100);
    const cursor = User.find().batchSize(2).cursor();
    await cursor.next();
    await cursor.close();
    let streamed = 0;
    await new Promise((resolve, reject) => User.find().lean().cursor().on('data', () => { streamed += 1; }).on('end', resolve).on('error', reject));
    same(streamed, 100);
    let grouped = 0;
    for await (const row of User.aggregate([{ $group: { _id: '$sub.a', n: { $sum: 1 } } }]).cursor({ batchSize: 2 })) grouped += row.n;
    same(grouped, 100);
  });

  await step('the aggregation builder', async () => {
    const rows = await User.aggregate().match({ n: { $lt: 50 } }).unwind('tags').group({ _id: '$tags', n: { $sum: 1 }, top: { $max: '$n' }, names: { $firstN: { input: '$name', n: 2 } } }).sort({ _id: 1 }).project({ n: 1, top: 1, c: { $size: '$names' } });
    same(rows, [{ _id: 'even', n: 25, top: 48, c: 2 }, { _id: 'odd', n: 25, top: 49, c: 2 }, { _id: 'two', n: 25, top: 48, c: 2 }]);
    const [facets] = await User.aggregate().facet({ count: [{ $count: 'n' }], low: [{ $sort: { n: 1 } }, { $limit: 2 }, { $project: { _id: 0, n: 1 } }], by: [{ $bucket: { groupBy: '$n', boundaries: [0, 50, 100] } }] });
    same(facets, { count: [{ n: 100 }], low: [{ n: 0 }, { n: 1 }], by: [{ _id: 0, count: 50 }, { _id: 50, count: 50 }] });
    same((await User.aggregate().sample(5)).length, 5);
    same((await User.aggregate().sortByCount('$tags')), [{ _id: ['even', 'two'], count: 50 }, { _id: ['odd'], count: 50 }]);
    const graph = await User.aggregate().match({ n: 3 }).graphLookup({ from: 'users', startWith: '$n', connectFromField: 'sub.a', connectToField: 'n', as: 'g', maxDepth: 3 }).replaceRoot({ $mergeObjects: ['$$ROOT', { g: { $size: '$g' } }] });
    same(graph[0].g, 1);
    await User.aggregate().match({ n: { $lt: 3 } }).append({ $out: 'copied' });
    same(await db.collection('copied').countDocuments(), 3);
    const plan = await User.aggregate([{ $match: { n: 1 } }]).explain();
    assert.ok(plan.queryPlanner || plan.stages);
    same((await User.aggregate().unionWith({ coll: 'copied', pipeline: [] }).count('n'))[0].n, 103);
  });

  await step('findOneAnd*: new, sort, fields, upsert, raw result', async () => {
    same((await User.findOneAndUpdate({ n: { $gte: 10 } }, { $inc: { 'sub.a': 100 } }, { sort: { n: -1 }, returnDocument: 'after', projection: { 'sub.a': 1 } }).lean()).sub, { a: 101 });
    const raw = await User.findOneAndUpdate({ n: 1000 }, { $setOnInsert: { email: 'new@x' } }, { upsert: true, includeResultMetadata: true, new: true });
    same([raw.lastErrorObject.updatedExisting, raw.value.email, raw.ok], [false, 'new@x', 1]);
    same(raw.lastErrorObject.upserted, raw.value._id);
    same((await User.findOneAndDelete({ n: 1000 })).email, 'new@x');
    same(await User.findOneAndDelete({ n: 1000 }), null);
    same((await User.findOneAndReplace({ n: 99 }, { name: 'r', n: 99, email: 'r@x' }, { returnDocument: 'after' })).name, 'r');
    same((await User.findOneAndUpdate({ n: 5 }, [{ $set: { name: { $concat: ['$name', '!'] } } }], { returnDocument: 'after', updatePipeline: true })).name, 'user5!');
    same((await User.findByIdAndUpdate((await User.findOne({ n: 6 }))._id, { $unset: { tags: 1 } }, { new: true })).tags, []);
    same((await User.findOneAndUpdate({ n: 7 }, { $set: { 'tags.$[t]': 'ODD' } }, { arrayFilters: [{ t: 'odd' }], new: true })).tags, ['ODD']);
    await User.updateOne({ n: 99 }, { tags: ['odd'] });
  });

  await step('updates: counts, upsert, conflicts, multi', async () => {
    same(await User.updateMany({ n: { $lt: 10 } }, { $set: { flag: 1 } }), { acknowledged: false }, 'strict schemas send nothing');
    const strict = await User.updateMany({ n: { $lt: 10 } }, { $set: { flag: 1 } }, { strict: false });
    same([strict.matchedCount, strict.modifiedCount], [10, 10]);
    const upsert = await User.updateOne({ n: 500, 'sub.a': 3 }, { $setOnInsert: { name: 'up' } }, { upsert: true });
    same([upsert.upsertedCount, upsert.matchedCount, (await User.findById(upsert.upsertedId).lean()).sub.a], [1, 0, 3]);
    await fails(User.updateOne({ n: 1 }, { $set: { sub: { a: 1 }, 'sub.a': 2 } }), { code: 40, codeName: undefined, message: /Updating the path 'sub(\.a)?' would create a conflict at 'sub(\.a)?'/ });
    await fails(User.collection.updateOne({ n: 1 }, { $set: { _id: 5 } }), { code: 66, message: /Performing an update on the path '_id' would modify the immutable field '_id'/ });
    await fails(User.collection.updateOne({ n: 1 }, { $inc: { name: 1 } }), { code: 14, message: /Cannot apply \$inc to a value of non-numeric type/ });
    same((await User.replaceOne({ n: 500 }, { n: 500, name: 'rep' })).modifiedCount, 1);
    await User.deleteOne({ n: 500 });
  });

  await step('bulkWrite and bulkSave', async () => {
    const result = await User.bulkWrite([
      { insertOne: { document: { n: 200, email: 'b200@x' } } },
      { updateOne: { filter: { n: 201 }, update: { $set: { email: 'b201@x' } }, upsert: true } },
      { updateMany: { filter: { n: { $gte: 200 } }, update: { $set: { name: 'bulk' } } } },
      { replaceOne: { filter: { n: 200 }, replacement: { n: 200, name: 'replaced', email: 'b200@x' } } },
      { deleteOne: { filter: { n: 201 } } }, { deleteMany: { filter: { n: 200 } } },
    ]);
    same([result.insertedCount, result.upsertedCount, result.matchedCount, result.modifiedCount, result.deletedCount], [1, 1, 3, 3, 2]);
    const error = await fails(User.bulkWrite([{ insertOne: { document: { email: 'u1@x' } } }, { insertOne: { document: { n: 300, email: 'b300@x' } } }], { ordered: false }), { name: 'MongoBulkWriteError', code: 11000 });
    same([error.result.insertedCount, error.writeErrors[0].errmsg.includes('dup key: { email: "u1@x" }')], [1, true]);
    const some = await User.find({ n: { $lt: 3 } }).sort('n');
    some.forEach(user => { user.name = 'saved'; });
    same((await User.bulkSave(some)).modifiedCount, 3);
    await User.deleteOne({ n: 300 });
  });

  await step('what a standalone refuses: watch, transactions', async () => {
    const error = await fails(new Promise((_, reject) => User.watch().on('error', reject).on('change', () => {})), { code: 40573 });
    const session = await db.startSession();
    const refused = await fails(session.withTransaction(() => User.create([{ n: 1 }], { session })), { message: /does not support retryable writes/ });
    same([refused.originalError.code, refused.originalError.errmsg], [20, 'Transaction numbers are only allowed on a replica set member or mongos']);
    await session.endSession();
    const plain = await db.startSession();
    same((await User.findOne({ n: 4 }).session(plain)).n, 4);
    await plain.endSession();
    return error.message;
  });

  await step('map-reduce is gone, $where is refused', async () => {
    same(typeof User.mapReduce, 'undefined');
    const error = await fails(User.$where('this.n > 1'), {});
    return `${error.code} ${error.message}`;
  });

  await step('connection: states, databases, bad options', async () => {
    same([db.readyState, db.name], [1, 'drivers_mongoose_queries']);
    const other = db.useDb('drivers_mongoose_other', { useCache: true });
    await other.model('T', new Schema({ a: Number })).create({ a: 1 });
    assert.ok((await db.listDatabases()).databases.some(one => one.name === 'drivers_mongoose_other'));
    await other.dropDatabase();
    same((await db.listCollections()).map(one => one.name).includes('users'), true);
    await fails(mongoose.createConnection('mongodb://127.0.0.1:1/x', { serverSelectionTimeoutMS: 200 }).asPromise(), { name: 'MongooseServerSelectionError' });
    await fails(mongoose.createConnection(uri({ replicaSet: 'rs0' }), { serverSelectionTimeoutMS: 400 }).asPromise(), { name: 'MongooseServerSelectionError' });
    const direct = await mongoose.createConnection(uri({ directConnection: true, compressors: 'zlib', zlibCompressionLevel: 3, w: 1, journal: true, readConcernLevel: 'local', maxIdleTimeMS: 1000, minPoolSize: 1 })).asPromise();
    same((await direct.db.admin().ping()).ok, 1);
    await direct.close();
  });

  await db.close();
});
