// The Node driver: writes, reads, cursors, sessions, stages that write, the versioned API, events and compression.

import { Binary, Decimal128, Long, MongoClient, ObjectId, Timestamp, UUID } from 'mongodb';
import { assert, database, fails, flow, full, same, uri } from './flow.mjs';

await flow(async step => {
  const client = await new MongoClient(uri(), { monitorCommands: true }).connect();
  const db = client.db(database);
  const c = db.collection('c');

  await step('every BSON type comes back as it went', async () => {
    const doc = { _id: new ObjectId(), d: 1.5, i: 7, l: Long.fromString('9007199254740993'), s: 'é', b: new Binary(Buffer.from([1, 2])), u: new UUID(), t: true, n: null, when: new Date(5), r: /a.b/i, ts: new Timestamp({ t: 1, i: 2 }), dec: Decimal128.fromString('1.10'), a: [1, [2]], o: { x: {} }, z: -0 };
    await c.insertOne(doc);
    same(await c.findOne({ _id: doc._id }, { promoteLongs: false, promoteValues: true }), { ...doc });
    same(await c.findOne({ _id: doc._id }, { projection: { s: 1, _id: 0 } }), { s: 'é' });
    await c.deleteMany({});
  });

  await step('insertMany over several batches, countDocuments, estimated count', async () => {
    const many = full ? 200_000 : 5_000;
    const { insertedCount } = await c.insertMany(Array.from({ length: many }, (_, n) => ({ _id: n, n, k: n % 10, pad: 'x'.repeat(100) })));
    same([insertedCount, await c.countDocuments(), await c.estimatedDocumentCount(), await c.countDocuments({ k: 3 })], [many, many, many, many / 10]);
    return `${many} documents`;
  });

  await step('cursors: batchSize, close, abort by signal, rewind, tailable refused', async () => {
    const events = [];
    const listen = event => { if (['find', 'getMore', 'killCursors'].includes(event.commandName)) events.push(event.commandName); };
    client.on('commandStarted', listen);
    const cursor = c.find({}, { batchSize: 100 }).sort({ _id: 1 });
    for (let index = 0; index < 250; index += 1) same((await cursor.next())._id, index);
    await cursor.close();
    same(events, ['find', 'getMore', 'getMore', 'killCursors']);
    client.off('commandStarted', listen);
    const controller = new AbortController();
    const aborted = c.find({}, { batchSize: 2, signal: controller.signal });
    await aborted.next();
    controller.abort();
    await fails(aborted.toArray(), { name: 'AbortError' });
    const rewound = c.find().limit(3);
    same([(await rewound.toArray()).length, (rewound.rewind(), (await rewound.toArray()).length)], [3, 3]);
    const singles = c.find({ k: 1 }, { batchSize: 1, limit: 5, skip: 2, sort: { _id: -1 } });
    same((await singles.toArray()).length, 5);
    same((await c.find().limit(-3).toArray()).length, 3);
    await fails(c.find({}, { tailable: true }).toArray(), { code: 2, message: /tailable cursor requested on non capped collection/ });
  });

  await step('sessions: implicit ones are pooled, explicit ones end', async () => {
    const lsids = new Set();
    const listen = event => { if (event.command.lsid) lsids.add(event.command.lsid.id.toString('hex')); };
    client.on('commandStarted', listen);
    for (let index = 0; index < 20; index += 1) await c.findOne({ _id: index });
    client.off('commandStarted', listen);
    same(lsids.size, 1);
    await client.withSession(async session => {
      await c.updateOne({ _id: 1 }, { $set: { seen: 1 } }, { session });
      same((await c.findOne({ _id: 1 }, { session })).seen, 1);
      const error = await fails(async () => { session.startTransaction(); await c.insertOne({ _id: -5 }, { session }); }, { message: /retryable writes/ });
      same(error.originalError.code, 20);
      await session.abortTransaction();
    });
    const causal = client.startSession({ causalConsistency: true });
    await c.findOne({}, { session: causal, readConcern: { level: 'local' } });
    await causal.endSession();
    const snapshot = client.startSession({ snapshot: true });
    const refused = await fails(c.findOne({}, { session: snapshot }));
    await snapshot.endSession();
    return `snapshot session: ${refused.code ?? refused.name} ${refused.message}`;
  });

  await step('retryWrites on a standalone sends no transaction numbers; linearizable and majority reads', async () => {
    const retrying = await new MongoClient(uri({ retryWrites: true, retryReads: true, w: 'majority' }), { monitorCommands: true }).connect();
    const seen = [];
    retrying.on('commandStarted', event => seen.push(event.command.txnNumber));
    const own = retrying.db(database).collection('c');
    await own.updateOne({ _id: 2 }, { $inc: { n: 0 } });
    await own.findOne({ _id: 2 }, { readConcern: { level: 'majority' } });
    same(seen, [undefined, undefined]);
    const linear = await own.findOne({ _id: 2 }, { readConcern: { level: 'linearizable' } }).then(() => 'answered', error => `${error.code} ${error.message}`);
    const two = await own.insertOne({ _id: -2 }, { writeConcern: { w: 2 } }).then(() => 'answered', error => `${error.code} ${error.message}`);
    await own.deleteOne({ _id: -2 });
    await own.insertOne({ _id: -3 }, { writeConcern: { w: 0 } });
    await own.deleteOne({ _id: -3 });
    await retrying.close();
    return { linear, two };
  });

  await step('findOneAnd*', async () => {
    same(await c.findOneAndUpdate({ _id: 5 }, { $inc: { n: 1 } }, { returnDocument: 'after', projection: { n: 1 } }), { _id: 5, n: 6 });
    same((await c.findOneAndReplace({ _id: 5 }, { n: 5 }, { returnDocument: 'before', includeResultMetadata: true })).lastErrorObject, { n: 1, updatedExisting: true });
    same(await c.findOneAndDelete({ k: 9 }, { sort: { _id: -1 }, projection: { k: 1, _id: 0 } }), { k: 9 });
    same(await c.findOneAndUpdate({ _id: 'none' }, { $set: { a: 1 } }), null);
    same((await c.findOneAndUpdate({ _id: 'up', 'a.b': 1 }, { $set: { c: 1 } }, { upsert: true, returnDocument: 'after' })), { _id: 'up', a: { b: 1 }, c: 1 });
    await fails(c.findOneAndUpdate({ _id: 6 }, { $set: { _id: 7 } }), { code: 66, codeName: 'ImmutableField' });
    await c.deleteOne({ _id: 'up' });
  });

  await step('collection bulkWrite: results and errors', async () => {
    const result = await c.bulkWrite([{ insertOne: { document: { _id: 'a' } } }, { updateOne: { filter: { _id: 'a' }, update: { $set: { x: [1, 2, 3] } } } }, { updateOne: { filter: { _id: 'a' }, update: { $set: { 'x.$[e]': 9 } }, arrayFilters: [{ e: { $gte: 2 } }] } }, { updateOne: { filter: { _id: 'b' }, update: { $set: { y: 1 } }, upsert: true } }, { deleteMany: { filter: { _id: { $in: ['b'] } } } }]);
    same([result.insertedCount, result.matchedCount, result.modifiedCount, result.upsertedIds, result.deletedCount], [1, 2, 2, { 3: 'b' }, 1]);
    same((await c.findOne({ _id: 'a' })).x, [1, 9, 9]);
    const ordered = await fails(c.bulkWrite([{ insertOne: { document: { _id: 'm' } } }, { insertOne: { document: { _id: 'a' } } }, { deleteOne: { filter: { _id: 'm' } } }]), { code: 11000 });
    same([ordered.result.insertedCount, ordered.result.deletedCount, ordered.writeErrors.length, ordered.writeErrors[0].index], [1, 0, 1, 1]);
    const loose = await fails(c.bulkWrite([{ insertOne: { document: { _id: 'a' } } }, { updateOne: { filter: {}, update: { $inc: { pad: 1 } } } }, { deleteOne: { filter: { _id: 'm' } } }], { ordered: false }), { code: 11000 });
    same([loose.result.deletedCount, loose.writeErrors.map(error => error.code)], [1, [11000, 14]]);
    await c.deleteOne({ _id: 'a' });
  });

  await step('aggregate: $out, $merge, cursors, options', async () => {
    same(await c.aggregate([{ $match: { n: { $lt: 100 }, k: { $gte: 0 } } }, { $group: { _id: '$k', n: { $sum: 1 } } }, { $out: 'groups' }]).toArray(), []);
    same(await db.collection('groups').countDocuments(), 10);
    await c.aggregate([{ $match: { n: { $lt: 50 }, k: { $gte: 0 } } }, { $group: { _id: '$k', m: { $sum: '$n' } } }, { $merge: { into: 'groups', on: '_id', whenMatched: 'merge', whenNotMatched: 'fail' } }]).toArray();
    same(Object.keys(await db.collection('groups').findOne({ _id: 3 })).sort(), ['_id', 'm', 'n']);
    await c.aggregate([{ $limit: 5 }, { $project: { n: 1 } }, { $out: { db: `${database}_2`, coll: 'there' } }]).toArray();
    same(await client.db(`${database}_2`).collection('there').countDocuments(), 5);
    await client.db(`${database}_2`).dropDatabase();
    let rows = 0;
    for await (const row of c.aggregate([{ $match: { k: { $in: [1, 2] } } }], { batchSize: 500, allowDiskUse: true, maxTimeMS: 60000, comment: 'x', let: { a: 1 } })) rows += row.k > 0 ? 1 : 0;
    same(rows, await c.countDocuments({ k: { $in: [1, 2] } }));
    same(await db.aggregate([{ $documents: [{ a: 1 }, { a: 2 }] }, { $match: { a: 2 } }]).toArray(), [{ a: 2 }]);
    same((await db.admin().command({ aggregate: 1, pipeline: [{ $currentOp: { idleConnections: true } }], cursor: {} })).ok, 1);
    await fails(c.aggregate([{ $nope: 1 }]).toArray(), { code: 40324, message: /Unrecognized pipeline stage name: '\$nope'/ });
    await fails(c.aggregate([{ $sort: { n: 1 } }], { maxTimeMS: 1 }).toArray(), { code: 50, codeName: 'MaxTimeMSExpired' });
  });

  await step('explain of find, aggregate, update, delete, findAndModify, distinct, count', async () => {
    await c.createIndex({ k: 1, n: -1 });
    const find = await c.find({ k: 3 }).sort({ n: -1 }).limit(3).explain('executionStats');
    same([find.executionStats.nReturned, find.executionStats.totalKeysExamined, find.queryPlanner.namespace], [3, 3, `${database}.c`]);
    same((await c.find({ k: 3 }).explain('allPlansExecution')).ok, 1);
    for (const verbosity of ['queryPlanner', 'executionStats', 'allPlansExecution']) {
      same((await c.aggregate([{ $match: { k: 1 } }, { $group: { _id: '$n' } }]).explain(verbosity)).ok, 1);
      for (const inner of [{ update: 'c', updates: [{ q: { k: 1 }, u: { $set: { z: 1 } }, multi: true }] }, { delete: 'c', deletes: [{ q: { k: 1 }, limit: 0 }] }, { findAndModify: 'c', query: { k: 1 }, remove: true }, { distinct: 'c', key: 'k' }, { count: 'c', query: { k: 1 } }]) {
        const plan = await db.command({ explain: inner, verbosity });
        assert.ok(plan.queryPlanner.winningPlan.stage, Object.keys(inner)[0]);
        same(Boolean(plan.executionStats), verbosity !== 'queryPlanner');
      }
    }
    same(await c.countDocuments({ z: 1 }), 0);
  });

  await step('listCollections, listIndexes, createIndexes with all options, rename, drop', async () => {
    await db.createCollection('made', { capped: true, size: 8192, max: 10 });
    await db.createCollection('seen', { viewOn: 'c', pipeline: [{ $match: { k: 1 } }] });
    const list = await db.listCollections({}, { batchSize: 1 }).toArray();
    same(list.map(one => [one.name, one.type]).sort(), [['c', 'collection'], ['groups', 'collection'], ['made', 'collection'], ['seen', 'view'], ['system.views', 'collection']].filter(([name]) => name !== 'system.views' || list.some(one => one.name === name)));
    same((await db.listCollections({ type: 'view' }, { nameOnly: true }).toArray()), [{ name: 'seen', type: 'view' }]);
    same(Object.keys((await db.listCollections({ name: 'made' }).toArray())[0]).sort(), ['idIndex', 'info', 'name', 'options', 'type']);
    same(await c.createIndexes([{ key: { a: 1 }, name: 'one', unique: false, sparse: true }, { key: { b: -1 }, hidden: true }, { key: { when: 1 }, expireAfterSeconds: 60 }, { key: { p: 1 }, partialFilterExpression: { q: { $exists: true } } }, { key: { '$**': 1 }, wildcardProjection: { w: 1 } }]), ['one', 'b_-1', 'when_1', 'p_1', '$**_1']);
    same((await c.listIndexes().toArray()).map(index => index.name), ['_id_', 'k_1_n_-1', 'one', 'b_-1', 'when_1', 'p_1', '$**_1']);
    same(await c.indexExists(['one', 'p_1']), true);
    same(await c.indexInformation(), { _id_: [['_id', 1]], 'k_1_n_-1': [['k', 1], ['n', -1]], one: [['a', 1]], 'b_-1': [['b', -1]], when_1: [['when', 1]], p_1: [['p', 1]], '$**_1': [['$**', 1]] });
    await c.dropIndex('one');
    await c.dropIndexes();
    same((await c.indexes()).length, 1);
    await db.collection('groups').rename('renamed');
    await fails(db.collection('renamed').rename('c'), { code: 48, codeName: 'NamespaceExists' });
    await db.collection('renamed').rename('made', { dropTarget: true });
    same(await db.dropCollection('made'), true);
    same(await db.dropCollection('made'), true, 'dropping what is not there is no error since 7.0');
    await fails(db.collection('none').listIndexes().toArray(), { code: 26, codeName: 'NamespaceNotFound' });
    same((await db.collection('none').drop()), true);
  });

  await step('the versioned API', async () => {
    const strict = await new MongoClient(uri(), { serverApi: { version: '1', strict: true, deprecationErrors: true } }).connect();
    const own = strict.db(database).collection('api');
    await own.insertOne({ _id: 1, a: [1, 2] });
    same(await own.find().toArray(), [{ _id: 1, a: [1, 2] }]);
    same(await own.aggregate([{ $unwind: '$a' }, { $count: 'n' }]).toArray(), [{ n: 2 }]);
    same(await own.countDocuments({}), 1);
    await fails(own.distinct('a'), { code: 323, codeName: 'APIStrictError' });
    await fails(strict.db(database).command({ collStats: 'api' }), { code: 323, codeName: 'APIStrictError' });
    await fails(strict.db('admin').command({ serverStatus: 1 }), { code: 323 });
    const stage = await own.aggregate([{ $collStats: { count: {} } }]).toArray().then(() => 'allowed', error => `${error.code} ${error.codeName}`);
    const index = await own.createIndex({ a: 1 }, { sparse: true }).then(() => 'allowed', error => `${error.code} ${error.codeName}`);
    await fails(db.command({ ping: 1, apiVersion: '2' }), { code: 322, codeName: 'APIVersionError' });
    await fails(db.command({ ping: 1, apiStrict: true }), { code: 322 }).catch(() => {});
    await strict.close();
    return { stage, index };
  });

  await step('monitoring: commands, pool and topology events', async () => {
    const watched = new MongoClient(uri({ maxPoolSize: 3 }), { monitorCommands: true });
    const count = {};
    for (const name of ['commandStarted', 'commandSucceeded', 'commandFailed', 'connectionCreated', 'connectionReady', 'connectionCheckedOut', 'connectionCheckedIn', 'serverDescriptionChanged', 'topologyDescriptionChanged', 'serverHeartbeatSucceeded']) watched.on(name, () => { count[name] = (count[name] ?? 0) + 1; });
    await watched.connect();
    await Promise.all(Array.from({ length: 30 }, (_, n) => watched.db(database).collection('c').findOne({ _id: n })));
    await fails(watched.db(database).command({ nope: 1 }), { code: 59, codeName: 'CommandNotFound', message: "no such command: 'nope'" });
    same([count.commandStarted, count.commandSucceeded, count.commandFailed], [31, 30, 1]);
    assert.ok(count.connectionCreated <= 3 && count.connectionCheckedOut === count.connectionCheckedIn);
    const kind = watched.topology.description.type;
    await watched.close();
    return { ...count, kind };
  });

  await step('compression with zlib, snappy and none answers the same', async () => {
    const sums = [];
    for (const compressors of [['zlib'], ['snappy'], ['snappy', 'zlib'], ['none']]) {
      const packed = await new MongoClient(uri(), { compressors }).connect();
      const own = packed.db(database).collection('c');
      let sum = 0;
      for await (const doc of own.find({ k: 2 }).limit(3000)) sum += doc.n + doc.pad.length;
      await own.updateMany({ k: 2, n: { $lt: 500 } }, { $set: { packed: 'y'.repeat(50) } });
      sums.push(sum);
      await packed.close();
    }
    same(new Set(sums).size, 1);
    return sums[0];
  });

  await step('errors: bad names, too large documents, bad filters', async () => {
    await fails(db.collection('c').find({ $nope: 1 }).toArray(), { code: 2, codeName: 'BadValue', message: /unknown top level operator: \$nope/ });
    await fails(c.find({ a: { $nope: 1 } }).toArray(), { code: 2, message: 'unknown operator: $nope' });
    await fails(db.command({ insert: '', documents: [{}] }), { code: 73, codeName: 'InvalidNamespace' });
    await fails(client.db('a'.repeat(70)).command({ insert: 'c', documents: [{}] }), { code: 73 });
    await fails(c.insertOne({ big: 'x'.repeat(17 * 1024 * 1024) }), {});
    await fails(c.updateOne({ _id: 1 }, { $set: { $x: 1 } }), {});
    await fails(c.updateOne({ _id: 1 }, { $nope: { a: 1 } }), { code: 9, message: /Unknown modifier: \$nope/ });
    await fails(db.command({ find: 'c', sort: { a: 5 } }), { code: 15975 });
    await fails(c.find({}, { projection: { a: 1, b: 0 } }).toArray(), { code: 31254 });
    await fails(c.find({ a: { $in: 5 } }).toArray(), { code: 2, message: '$in needs an array' });
    await fails(c.find({ a: { $regex: '(' } }).toArray(), { code: 51091 });
    await fails(c.distinct('a', { $or: [] }), { code: 2, message: /must be a nonempty array/ });
  });

  await client.close();
});
