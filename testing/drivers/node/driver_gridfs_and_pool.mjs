// The Node driver: files in GridFS, and a pool under fifty concurrent users.

import { createHash, randomBytes } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { GridFSBucket, MongoClient } from 'mongodb';
import { database, fails, flow, full, same, uri } from './flow.mjs';

const digest = bytes => createHash('sha256').update(bytes).digest('hex');
const read = async stream => { const parts = []; for await (const part of stream) parts.push(part); return Buffer.concat(parts); };

await flow(async step => {
  const client = await new MongoClient(uri()).connect();
  const db = client.db(database);

  await step('GridFS: large files go in and out', async () => {
    const bucket = new GridFSBucket(db);
    const bytes = randomBytes((full ? 40 : 5) * 1024 * 1024 + 12345);
    const upload = bucket.openUploadStream('big.bin', { metadata: { owner: 'me' } });
    await pipeline(Readable.from([bytes]), upload);
    same(digest(await read(bucket.openDownloadStream(upload.id))), digest(bytes));
    same(digest(await read(bucket.openDownloadStreamByName('big.bin'))), digest(bytes));
    same((await read(bucket.openDownloadStream(upload.id, { start: 300_000, end: 700_123 }))).equals(bytes.subarray(300_000, 700_123)), true);
    same(await db.collection('fs.chunks').countDocuments({ files_id: upload.id }), Math.ceil(bytes.length / 261120));
    const file = await bucket.find({ 'metadata.owner': 'me' }).next();
    same([file.length, file.chunkSize, file.filename], [bytes.length, 261120, 'big.bin']);
    same((await db.collection('fs.files').indexes()).map(index => [index.name, index.key]), [['_id_', { _id: 1 }], ['filename_1_uploadDate_1', { filename: 1, uploadDate: 1 }]]);
    same((await db.collection('fs.chunks').indexes()).map(index => [index.name, index.unique]), [['_id_', undefined], ['files_id_1_n_1', true]]);
    return `${bytes.length} bytes`;
  });

  await step('GridFS: revisions, rename, delete, small chunks, abort, empty file', async () => {
    const bucket = new GridFSBucket(db, { bucketName: 'photos', chunkSizeBytes: 1000 });
    for (const text of ['one', 'two', 'three']) await pipeline(Readable.from([Buffer.from(text)]), bucket.openUploadStream('rev'));
    same((await read(bucket.openDownloadStreamByName('rev', { revision: 0 }))).toString(), 'one');
    same((await read(bucket.openDownloadStreamByName('rev', { revision: -2 }))).toString(), 'two');
    const stream = bucket.openUploadStreamWithId('mine', 'long', { metadata: { a: 1 } });
    await pipeline(Readable.from([Buffer.alloc(10_500, 7)]), stream);
    same([await db.collection('photos.chunks').countDocuments({ files_id: 'mine' }), (await read(bucket.openDownloadStream('mine'))).length], [11, 10_500]);
    await bucket.rename('mine', 'renamed');
    same((await bucket.find({ filename: 'renamed' }).toArray()).length, 1);
    const gone = bucket.openUploadStream('gone');
    gone.on('error', () => {});
    await new Promise(resolve => gone.write(Buffer.alloc(5000), resolve));
    await gone.abort();
    same(await db.collection('photos.chunks').countDocuments({ files_id: gone.id }), 0);
    await pipeline(Readable.from([]), bucket.openUploadStreamWithId('empty', 'empty'));
    same((await read(bucket.openDownloadStream('empty'))).length, 0);
    await bucket.delete('mine');
    await fails(read(bucket.openDownloadStream('mine')), { message: /FileNotFound/ });
    await bucket.drop();
    same((await db.listCollections({ name: /^photos/ }).toArray()).length, 0);
  });

  await step('fifty concurrent clients with pools of their own', async () => {
    const c = db.collection('counters');
    await c.deleteMany({});
    const rounds = full ? 200 : 10;
    const users = Array.from({ length: 50 }, async (_, user) => {
      const own = await new MongoClient(uri({ maxPoolSize: 2, appName: `user${user}` })).connect();
      const mine = own.db(database).collection('counters');
      for (let round = 0; round < rounds; round += 1) {
        await Promise.all([
          mine.updateOne({ _id: 'shared' }, { $inc: { n: 1 } }, { upsert: true }).catch(error => { if (error.code !== 11000) throw error; return mine.updateOne({ _id: 'shared' }, { $inc: { n: 1 } }); }),
          mine.insertOne({ _id: `${user}-${round}`, user }),
          mine.find({ user }).limit(5).toArray(),
        ]);
      }
      await own.close();
    });
    await Promise.all(users);
    same([(await c.findOne({ _id: 'shared' })).n, await c.countDocuments({ user: { $gte: 0 } })], [50 * rounds, 50 * rounds]);
    return `${50 * rounds * 3} operations`;
  });

  await step('one pool of 10 under 50 users, waiting for connections, and a queue that times out', async () => {
    const pooled = await new MongoClient(uri({ maxPoolSize: 10, minPoolSize: 2, maxConnecting: 2 })).connect();
    const c = pooled.db(database).collection('queue');
    await Promise.all(Array.from({ length: 50 }, (_, n) => c.findOneAndUpdate({ _id: 'job' }, { $push: { takers: n } }, { upsert: true, returnDocument: 'after' }).catch(error => { if (error.code !== 11000) throw error; return c.updateOne({ _id: 'job' }, { $push: { takers: n } }); })));
    const { takers } = await c.findOne({ _id: 'job' });
    same(new Set(takers).size, 50);
    await pooled.close();
    const narrow = await new MongoClient(uri({ maxPoolSize: 1, waitQueueTimeoutMS: 400 })).connect();
    const own = narrow.db(database).collection('queue');
    await db.createCollection('log', { capped: true, size: 10_000 });
    await db.collection('log').insertOne({ a: 1 });
    await own.findOne({});
    const tail = narrow.db(database).collection('log').find({}, { tailable: true, awaitData: true, maxAwaitTimeMS: 1500 });
    await tail.next();
    const waiting = tail.next().catch(() => null);
    await new Promise(resolve => setTimeout(resolve, 50));
    const error = await fails(own.findOne({}), { name: 'MongoWaitQueueTimeoutError' });
    await tail.close();
    await waiting;
    await narrow.close();
    return error.message.slice(0, 60);
  });

  await step('a tailable cursor sees what others insert', async () => {
    const tail = db.collection('log').find({}, { tailable: true, awaitData: true, maxAwaitTimeMS: 2000 });
    same((await tail.next()).a, 1);
    const next = tail.next();
    await db.collection('log').insertOne({ a: 2 });
    same((await next).a, 2);
    await tail.close();
  });

  await client.close();
});
