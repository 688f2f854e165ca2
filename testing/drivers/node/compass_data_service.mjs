// Compass's access layer itself: what the application calls for its sidebar, its tabs, and its previews of updates.

import dataService from 'mongodb-data-service';
import { assert, database, fails, flow, full, same, uri } from './flow.mjs';

await flow(async step => {
  const service = await dataService.connect({ connectionOptions: { connectionString: uri() } });
  const people = `${database}.people`;
  const documents = full ? 5000 : 500;

  await step('connection and instance', async () => {
    same([service.isConnected(), service.isWritable(), service.isMongos()], [true, true, false]);
    const instance = await service.instance();
    same([instance.build.isEnterprise, instance.dataLake.isDataLake, instance.isAtlas], [false, false, false]);
    assert.ok(instance.host.memory_bits > 0 && instance.build.version, JSON.stringify(instance));
    return instance.build.version;
  });

  await step('documents: insertions, cursors, replacements, updates, bulk', async () => {
    same((await service.insertMany(people, Array.from({ length: documents }, (_, n) => ({ _id: n, age: n % 50, name: `n${n}` })))).insertedCount, documents);
    same((await service.findCursor(people, { age: { $lt: 5 } }, { sort: { _id: 1 }, batchSize: 20 }).toArray()).length, documents / 10);
    same(await service.estimatedCount(people), documents);
    same((await service.findOneAndReplace(people, { _id: 1 }, { a: 1 }, { returnDocument: 'after' })), { _id: 1, a: 1 });
    same((await service.findOneAndUpdate(people, { _id: 1 }, { $set: { b: 2 } }, { returnDocument: 'after' })), { _id: 1, a: 1, b: 2 });
    same((await service.updateMany(people, { age: 7 }, { $inc: { age: 100 } })).modifiedCount, documents / 50);
    same((await service.bulkWrite(people, [{ deleteOne: { filter: { _id: 2 } } }, { insertOne: { document: { _id: 2 } } }], {})).insertedCount, 1);
    await fails(service.insertOne(people, { _id: 1 }), { code: 11000 });
  });

  await step('the preview of an update changes nothing', async () => {
    const before = await service.findCursor(people, { age: 3 }).toArray();
    try {
      const preview = await service.previewUpdate(people, { age: 3 }, { $set: { age: 'three' } });
      same(preview.changes.every(change => change.after.age === 'three'), true);
    } catch (error) {
      // previews are transactions: a standalone has none
      if (!/Transaction numbers are only allowed|standalone|replica set/i.test(error.message)) throw error;
    }
    same(await service.findCursor(people, { age: 3 }).toArray(), before);
  });

  await step('indexes tab', async () => {
    same(await service.createIndex(people, { age: 1, name: -1 }, { partialFilterExpression: { age: { $gt: 3 } } }), 'age_1_name_-1');
    await service.createIndex(people, { name: 1 }, { unique: true, sparse: true, name: 'own' });
    const indexes = await service.indexes(people);
    same(indexes.map(index => index.name), ['_id_', 'age_1_name_-1', 'own']);
    same(indexes.map(index => [index.type, index.properties]), [['regular', ['unique']], ['regular', ['partial']], ['regular', ['unique', 'sparse']]]);
    // documents are kept by _id: that index takes no room of its own
    assert.ok(indexes.every(index => (index.size > 0 || index.name === '_id_') && index.usageHost), JSON.stringify(indexes));
    await service.dropIndex(people, 'own');
    same(await service.isListSearchIndexesSupported(people), false);
  });

  await step('sidebar: databases, collections of all kinds and their statistics', async () => {
    await service.createCollection(`${database}.series`, { timeseries: { timeField: 't' } });
    await service.createView('adults', people, [{ $match: { age: { $gte: 18 } } }], {});
    const databases = await service.listDatabases();
    assert.ok(databases.some(one => one.name === database), JSON.stringify(databases));
    const collections = await service.listCollections(database);
    const types = Object.fromEntries(collections.map(one => [one.name, one.type]));
    same([types.people, types.adults, types.series], ['collection', 'view', 'timeseries']);
    const stats = await service.collectionStats(database, 'people', 'collection');
    same([stats.document_count, stats.index_count], [documents, 2]);
    same((await service.databaseStats(database)).document_count >= documents, true);
    same((await service.collectionInfo(database, 'adults')).view_on, 'people');
  });

  await step('aggregations, explain, performance', async () => {
    same((await service.aggregate(people, [{ $group: { _id: null, n: { $sum: 1 } } }]))[0].n, documents);
    const plan = await service.explainFind(people, { age: 30 }, {}, { explainVerbosity: 'executionStats' });
    assert.ok(plan.executionStats.nReturned > 0);
    assert.ok((await service.explainAggregate(people, [{ $match: { age: 30 } }], {})).queryPlanner);
    assert.ok(Array.isArray(await service.currentOp()) || (await service.currentOp()).inprog !== undefined);
    assert.ok((await service.serverStatus()).opcounters.insert >= 0);
    assert.ok((await service.top()).totals);
  });

  await step('names: rename and drop', async () => {
    await service.renameCollection(people, 'persons');
    same(await service.dropCollection(`${database}.persons`), true);
    same(await service.dropDatabase(database), true);
  });
  await service.disconnect();
});
