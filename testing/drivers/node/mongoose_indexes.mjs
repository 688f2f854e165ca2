// Mongoose: autoIndex, syncIndexes, diffIndexes and every kind of index that its schemas can name.

import mongoose from 'mongoose';
import { assert, fails, flow, same, uri } from './flow.mjs';

const { Schema } = mongoose;
const names = list => list.map(index => index.name).sort();

await flow(async step => {
  const db = await mongoose.createConnection(uri()).asPromise();

  await step('autoIndex builds what the schema names', async () => {
    const schema = new Schema({ a: { type: Number, index: true }, u: { type: String, unique: true }, s: { type: String, sparse: true, index: true }, t: { type: Date, expires: 3600 }, h: String, w: Schema.Types.Mixed, nested: { x: { type: Number, index: -1 } }, subs: [{ k: { type: String, index: true } }] });
    schema.index({ a: 1, s: -1 }, { name: 'pair' });
    schema.index({ h: 'hashed' });
    schema.index({ 'w.$**': 1 });
    schema.index({ s: 1, a: 1 }, { unique: true, partialFilterExpression: { a: { $gt: 5 } } });
    const Indexed = db.model('Indexed', schema);
    await Indexed.init();
    const list = await Indexed.listIndexes();
    same(names(list), ['_id_', 'a_1', 'h_hashed', 'nested.x_-1', 'pair', 's_1', 's_1_a_1', 'subs.k_1', 't_1', 'u_1', 'w.$**_1']);
    same(list.find(one => one.name === 't_1'), { v: 2, key: { t: 1 }, name: 't_1', expireAfterSeconds: 3600 });
    same(list.find(one => one.name === 's_1_a_1'), { v: 2, key: { s: 1, a: 1 }, name: 's_1_a_1', unique: true, partialFilterExpression: { a: { $gt: 5 } } });
    await Indexed.create([{ u: '1', s: 'x', a: 1 }, { u: '2', s: 'x', a: 1 }, { u: '3', s: 'x', a: 6 }]);
    await fails(Indexed.create({ u: '4', s: 'x', a: 6 }), { code: 11000, keyPattern: { s: 1, a: 1 }, keyValue: { s: 'x', a: 6 } });
    await Indexed.ensureIndexes();
    return `${list.length} indexes`;
  });

  await step('the same key with other options conflicts', async () => {
    const Indexed = db.model('Indexed');
    await fails(Indexed.collection.createIndex({ a: 1 }, { unique: true }), { code: 86, codeName: 'IndexKeySpecsConflict' });
    await fails(Indexed.collection.createIndex({ a: 1 }, { name: 'other' }), { code: 85, codeName: 'IndexOptionsConflict' });
    await fails(Indexed.collection.createIndex({ t: 1 }, { expireAfterSeconds: 10 }), { code: 85 });
    await fails(Indexed.collection.createIndex({ z: 1 }, { name: 'pair' }), { code: 86 });
    await fails(Indexed.collection.createIndex({ z: 'nope' }), { code: 67, codeName: 'CannotCreateIndex' });
    await fails(Indexed.collection.dropIndex('nope'), { code: 27, codeName: 'IndexNotFound', message: /index not found with name \[nope\]/ });
    await fails(Indexed.collection.dropIndex('_id_'), { code: 72, codeName: 'InvalidOptions' });
  });

  await step('syncIndexes and diffIndexes', async () => {
    const First = db.model('Synced', new Schema({ a: { type: Number, index: true }, b: { type: Number, index: true } }, { autoIndex: false }));
    await First.createIndexes();
    db.deleteModel('Synced');
    const schema = new Schema({ a: { type: Number, index: true }, c: { type: Number, unique: true } }, { autoIndex: false });
    const Second = db.model('Synced', schema);
    same(await Second.diffIndexes(), { toDrop: ['b_1'], toCreate: [{ c: 1 }] });
    same(await Second.syncIndexes(), ['b_1']);
    same(names(await Second.listIndexes()), ['_id_', 'a_1', 'c_1']);
    same(await Second.diffIndexes(), { toDrop: [], toCreate: [] });
    same(await Second.cleanIndexes(), []);
  });

  await step('a unique index over duplicates fails and names the key', async () => {
    const Dup = db.model('Dup', new Schema({ k: Number }));
    await Dup.create([{ k: 1 }, { k: 1 }]);
    const error = await fails(Dup.collection.createIndex({ k: 1 }, { unique: true }), { code: 11000, codeName: 'DuplicateKey', keyPattern: { k: 1 }, keyValue: { k: 1 } });
    same(names(await Dup.listIndexes()), ['_id_']);
    return error.message;
  });

  await step('createCollection with options: capped, validator', async () => {
    const Capped = db.model('Capped', new Schema({ n: Number }, { capped: { size: 4096, max: 3 } }));
    await Capped.createCollection();
    await Capped.insertMany([1, 2, 3, 4, 5].map(n => ({ n })));
    same((await Capped.find()).map(one => one.n), [3, 4, 5]);
    // with autoCreate the model would race to create it without the validator
    const Checked = db.model('Checked', new Schema({}, { strict: false, autoCreate: false, autoIndex: false }));
    await Checked.createCollection({ validator: { $jsonSchema: { bsonType: 'object', required: ['a'], properties: { a: { bsonType: 'int', minimum: 0 } } } } });
    const error = await fails(Checked.create({ a: -1 }), { code: 121, message: 'Document failed validation' });
    assert.ok(error.errInfo.details.schemaRulesNotSatisfied.length > 0);
    await Checked.createCollection().catch(error => same(error.codeName, 'NamespaceExists'));
  });

  await db.close();
});
