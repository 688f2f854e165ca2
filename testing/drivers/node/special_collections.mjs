// Mongoose and the Node driver over collation, geo, time series, clustered collections and the bulkWrite of a client.

import mongoose from 'mongoose';
import { MongoClient } from 'mongodb';
import { assert, database, fails, flow, same, uri } from './flow.mjs';

const { Schema } = mongoose;

await flow(async step => {
  const db = await mongoose.createConnection(uri()).asPromise();
  const client = await new MongoClient(uri()).connect();
  const raw = client.db(database);

  await step('collation: queries, sorts, unique indexes, default of a collection', async () => {
    const schema = new Schema({ name: String, n: Number });
    schema.index({ name: 1 }, { unique: true, collation: { locale: 'en', strength: 2 } });
    const Person = db.model('Person', schema);
    await Person.init();
    await Person.create([{ name: 'Émile', n: 2 }, { name: 'adam', n: 10 }, { name: 'Bob', n: 1 }]);
    const twice = await fails(Person.create({ name: 'ADAM' }), { code: 11000, keyPattern: { name: 1 } });
    same((await Person.find({ name: 'BOB' }).collation({ locale: 'en', strength: 2 })).length, 1);
    same((await Person.find({ name: 'emile' }).collation({ locale: 'fr', strength: 1 })).length, 1);
    same((await Person.find({ name: 'BOB' })).length, 0);
    same((await Person.find().sort('name').collation({ locale: 'en' })).map(one => one.name), ['adam', 'Bob', 'Émile']);
    same((await Person.find().sort('name')).map(one => one.name), ['Bob', 'adam', 'Émile']);
    const plan = await Person.find({ name: 'BOB' }).collation({ locale: 'en', strength: 2 }).explain();
    assert.match(JSON.stringify(plan.queryPlanner.winningPlan), /IXSCAN/);
    const index = (await Person.listIndexes()).find(one => one.key.name);
    same([index.collation.locale, index.collation.strength, index.collation.version], ['en', 2, '57.1']);
    same(await Person.diffIndexes(), { toDrop: [], toCreate: [] });
    const Default = db.model('Default', new Schema({ name: String }, { collation: { locale: 'en', strength: 1 } }));
    await Default.createCollection();
    await Default.create([{ name: 'é' }, { name: 'E' }]);
    same([await Default.countDocuments({ name: 'e' }), (await Default.distinct('name')).length], [2, 1]);
    same((await Default.aggregate([{ $group: { _id: '$name', n: { $sum: 1 } } }])).length, 1);
    same((await raw.collection('people').find({ name: { $in: ['ADAM', 'bob'] } }, { collation: { locale: 'en', strength: 2 } }).toArray()).length, 2);
    same((await raw.collection('people').updateMany({ name: 'ADAM' }, { $set: { n: 3 } }, { collation: { locale: 'en', strength: 2 } })).modifiedCount, 1);
    await raw.collection('parts').insertMany(['a10', 'a2', 'a1'].map(_id => ({ _id })));
    same((await raw.collection('parts').find().sort({ _id: 1 }).collation({ locale: 'en', numericOrdering: true }).toArray()).map(one => one._id), ['a1', 'a2', 'a10']);
    await fails(raw.collection('people').find({}, { collation: { locale: 'zz_nope' } }).toArray(), { code: 2 });
    return twice.message;
  });

  await step('geo: near, within, intersects, $geoNear, legacy pairs', async () => {
    const schema = new Schema({ name: String, location: { type: { type: String, enum: ['Point'] }, coordinates: [Number] }, pair: [Number] });
    schema.index({ location: '2dsphere' });
    schema.index({ pair: '2d' });
    const Place = db.model('Place', schema);
    await Place.init();
    const at = (name, x, y) => ({ name, location: { type: 'Point', coordinates: [x, y] }, pair: [x, y] });
    await Place.create([at('Berlin', 13.405, 52.52), at('Potsdam', 13.06, 52.4), at('Hamburg', 9.99, 53.55), at('Paris', 2.35, 48.86)]);
    const berlin = { type: 'Point', coordinates: [13.4, 52.5] };
    same((await Place.find({ location: { $near: { $geometry: berlin, $maxDistance: 300_000 } } })).map(one => one.name), ['Berlin', 'Potsdam', 'Hamburg']);
    same((await Place.find().where('location').nearSphere({ center: berlin, maxDistance: 50_000, spherical: true })).map(one => one.name), ['Berlin', 'Potsdam']);
    const box = { type: 'Polygon', coordinates: [[[9, 52], [14, 52], [14, 54], [9, 54], [9, 52]]] };
    same((await Place.find({ location: { $geoWithin: { $geometry: box } } }).sort('name')).map(one => one.name), ['Berlin', 'Hamburg', 'Potsdam']);
    same(await Place.find().where('location').within({ center: [13.4, 52.5], radius: 50 / 6378.1, unique: true, spherical: true }).countDocuments(), 2);
    same(await Place.countDocuments({ location: { $geoIntersects: { $geometry: { type: 'LineString', coordinates: [[13.405, 52.52], [2.35, 48.86]] } } } }), 2);
    same((await Place.find({ pair: { $near: [2, 48] } }).limit(1))[0].name, 'Paris');
    same(await Place.countDocuments({ pair: { $geoWithin: { $box: [[9, 52], [14, 54]] } } }), 3);
    const rows = await Place.aggregate().near({ near: berlin, distanceField: 'd', spherical: true, maxDistance: 400_000, key: 'location', query: { name: { $ne: 'Berlin' } } }).project({ name: 1, d: 1, _id: 0 });
    same(rows.map(row => row.name), ['Potsdam', 'Hamburg']);
    assert.ok(Math.abs(rows[0].d - 25_500) < 1_000, `Potsdam at ${rows[0].d}`);
    await fails(Place.create({ name: 'bad', location: { type: 'Point', coordinates: [500, 1] } }), { code: 16755 });
    await fails(raw.collection('parts').find({ location: { $near: { $geometry: berlin } } }).toArray(), { code: 291 });
    return rows.map(row => Math.round(row.d));
  });

  await step('time series through Mongoose', async () => {
    const Reading = db.model('Reading', new Schema({ at: Date, sensor: String, value: Number }, { timeseries: { timeField: 'at', metaField: 'sensor', granularity: 'minutes' }, expireAfterSeconds: 10 ** 9, autoCreate: false }));
    await Reading.createCollection();
    await Reading.insertMany(Array.from({ length: 200 }, (_, n) => ({ at: new Date(Date.UTC(2024, 0, 1, 0, n)), sensor: n % 2 ? 'a' : 'b', value: n })));
    same([await Reading.countDocuments(), await Reading.countDocuments({ sensor: 'a', at: { $gte: new Date(Date.UTC(2024, 0, 1, 1)) } })], [200, 70]);
    const rows = await Reading.aggregate([{ $group: { _id: { $dateTrunc: { date: '$at', unit: 'hour' } }, mean: { $avg: '$value' }, n: { $sum: 1 } } }, { $sort: { _id: 1 } }]);
    same(rows.map(row => row.n), [60, 60, 60, 20]);
    const [info] = await raw.listCollections({ name: 'readings' }).toArray();
    same([info.type, info.options.timeseries.timeField, info.options.timeseries.granularity], ['timeseries', 'at', 'minutes']);
    same((await Reading.deleteMany({ sensor: 'a' })).deletedCount, 100);
  });

  await step('clustered collections', async () => {
    const Log = db.model('Log', new Schema({ _id: Number, text: String }, { clusteredIndex: { key: { _id: 1 }, unique: true, name: 'by id' }, autoCreate: false }));
    await Log.createCollection();
    await Log.create([{ _id: 3, text: 'c' }, { _id: 1, text: 'a' }]);
    same((await Log.find({ _id: { $gte: 1 } })).map(one => one._id), [1, 3]);
    const [info] = await raw.listCollections({ name: 'logs' }).toArray();
    same([info.options.clusteredIndex.name, info.options.clusteredIndex.unique], ['by id', true]);
    const [index] = await raw.collection('logs').listIndexes().toArray();
    same([index.name, index.clustered], ['by id', true]);
  });

  await step("a client's bulkWrite over several collections", async () => {
    const hello = await raw.admin().command({ hello: 1 });
    if (hello.maxWireVersion < 25) {
      const models = [{ ns: `${database}.b1`, insertOne: { document: { _id: 1 } } }];
      const reply = await client.db('admin').command({ bulkWrite: 1, ops: [{ insert: 0, document: { _id: 1 } }, { insert: 1, document: { _id: 1 } }, { update: 0, filter: { _id: 1 }, updateMods: { $set: { a: 1 } } }, { insert: 0, document: { _id: 1 } }], nsInfo: [{ ns: `${database}.b1` }, { ns: `${database}.b2` }], ordered: false });
      same([reply.nInserted, reply.nModified, reply.nErrors, reply.cursor.firstBatch[3].code], [2, 1, 1, 11000]);
      const error = await fails(client.bulkWrite(models), {});
      return `by command; the driver wants wire version 25: ${error.message}`;
    }
    const result = await client.bulkWrite([{ namespace: `${database}.b1`, name: 'insertOne', document: { _id: 1 } }, { namespace: `${database}.b2`, name: 'updateOne', filter: { _id: 1 }, update: { $set: { a: 1 } }, upsert: true }]);
    same([result.insertedCount, result.upsertedCount], [1, 1]);
  });

  await step('what Parse Server and Payload send', async () => {
    const users = raw.collection('_User');
    await users.createIndex({ username: 1 }, { unique: true, sparse: true, background: true });
    await users.createIndex({ username: 1 }, { name: 'case_insensitive_username', sparse: true, background: true, collation: { locale: 'en_US', strength: 2 } });
    await users.insertMany([{ _id: 'a', username: 'Ada', _rperm: ['*'], _wperm: ['a'], _created_at: new Date(1), at: [13.4, 52.5] }, { _id: 'b', username: 'bob', _rperm: ['b'], _wperm: ['b'], _created_at: new Date(2) }]);
    same((await users.find({ username: 'ADA' }, { collation: { locale: 'en_US', strength: 2 } }).hint('case_insensitive_username').toArray()).length, 1);
    same((await users.find({ $and: [{ _created_at: { $gte: new Date(0) } }, { _rperm: { $in: [null, '*', 'c'] } }] }, { sort: { _created_at: -1 }, maxTimeMS: 5000 }).toArray()).map(one => one._id), ['a']);
    same((await users.findOneAndUpdate({ _id: 'a', _wperm: { $in: [null, '*', 'a'] } }, { $set: { x: 1 }, $addToSet: { roles: { $each: ['r'] } } }, { returnDocument: 'after' })).roles, ['r']);
    same(await users.countDocuments({ at: { $geoWithin: { $centerSphere: [[13.4, 52.5], 0.01] } } }), 1);
    const posts = raw.collection('posts');
    await posts.insertMany(Array.from({ length: 30 }, (_, n) => ({ _id: n, title: { en: `Post ${n}`, de: `Beitrag ${n}` }, _status: n % 3 ? 'published' : 'draft', version: { parent: n % 5, updatedAt: new Date(n) } })));
    const where = { $and: [{ _status: { $eq: 'published' } }] };
    const page = await posts.find({ ...where, 'title.en': { $regex: 'post 2', $options: 'i' } }, { collation: { locale: 'en', strength: 1 } }).sort({ 'title.en': -1 }).limit(3).toArray();
    same(page.map(one => one._id), [29, 28, 26]);
    same(await posts.countDocuments(where, { hint: { _id: 1 } }), 20);
    const latest = await posts.aggregate([{ $sort: { 'version.updatedAt': -1 } }, { $group: { _id: '$version.parent', latest: { $first: '$$ROOT' } } }, { $replaceRoot: { newRoot: '$latest' } }, { $sort: { _id: 1 } }], { collation: { locale: 'en', strength: 1 }, allowDiskUse: true }).toArray();
    same(latest.map(one => one._id), [25, 26, 27, 28, 29]);
  });

  await client.close();
  await db.close();
});
