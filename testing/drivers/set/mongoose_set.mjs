// Mongoose on a replica set: sessions, transactions in all their forms, and change streams.

import mongoose from 'mongoose';
import { assert, fails, flow, full, same, uri } from '../node/flow.mjs';

const { Schema } = mongoose;
const when = (stream, count) => new Promise((resolve, reject) => {
  const seen = [];
  const late = setTimeout(() => reject(new Error(`${seen.length} of ${count} events: ${seen.map(event => event.operationType)}`)), 15_000);
  stream.on('error', error => { clearTimeout(late); reject(error); });
  stream.on('change', event => {
    seen.push(event);
    if (seen.length === count) { clearTimeout(late); resolve(seen); }
  });
});

await flow(async step => {
  const db = await mongoose.createConnection(uri()).asPromise();
  const Account = db.model('Account', new Schema({ name: { type: String, unique: true }, balance: { type: Number, min: 0 }, log: [String] }, { timestamps: true }));
  await Account.init();
  // Writes go over another connection and may come before the stream is open: it begins behind all that was done before.
  const watch = async (pipeline, options) => {
    const { operationTime } = await db.db.command({ ping: 1 });
    const behind = new mongoose.mongo.Timestamp({ t: operationTime.getHighBitsUnsigned(), i: operationTime.getLowBitsUnsigned() + 1 });
    return Account.watch(pipeline, { startAtOperationTime: behind, ...options });
  };
  await Account.create([{ name: 'a', balance: 100 }, { name: 'b', balance: 100 }]);

  await step('startSession, startTransaction, commitTransaction', async () => {
    const session = await db.startSession();
    session.startTransaction();
    await Account.create([{ name: 'c', balance: 1 }], { session });
    same(await Account.countDocuments({ name: 'c' }), 0);
    same(await Account.countDocuments({ name: 'c' }).session(session), 1);
    const own = await Account.findOne({ name: 'c' }).session(session);
    own.balance = 5;
    await own.save();
    same(own.$session(), session);
    await session.commitTransaction();
    await session.endSession();
    same((await Account.findOne({ name: 'c' })).balance, 5);
  });

  await step('abortTransaction undoes all', async () => {
    const session = await db.startSession();
    session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } });
    await Account.deleteMany({}, { session });
    await Account.insertMany([{ name: 'x', balance: 0 }, { name: 'y', balance: 0 }], { session });
    same(await Account.countDocuments({}, { session }), 2);
    await session.abortTransaction();
    await session.endSession();
    same((await Account.find().sort('name').distinct('name')), ['a', 'b', 'c']);
  });

  await step('connection.transaction restores documents when it fails', async () => {
    const doc = new Account({ name: 'd', balance: 1 });
    await fails(db.transaction(async session => {
      await doc.save({ session });
      throw new Error('no');
    }), { message: 'no' });
    assert.ok(doc.isNew);
    await db.transaction(async session => { await doc.save({ session }); });
    assert.ok(!doc.isNew);
    same(await Account.countDocuments({ name: 'd' }), 1);
  });

  await step('a duplicate key aborts the transaction', async () => {
    await fails(db.transaction(async session => {
      await Account.create([{ name: 'e' }], { session });
      await Account.create([{ name: 'a' }], { session });
    }), { code: 11000 });
    same(await Account.countDocuments({ name: 'e' }), 0);
  });

  await step('many withTransaction on the same documents', async () => {
    const transfers = full ? 200 : 40;
    await Promise.all(Array.from({ length: 8 }, async () => {
      for (let n = 0; n < transfers / 8; n += 1) {
        await db.transaction(async session => {
          await Account.updateOne({ name: 'a' }, { $inc: { balance: -1 } }, { session });
          await Account.updateOne({ name: 'b' }, { $inc: { balance: 1 } }, { session });
        });
      }
    }));
    same((await Account.findOne({ name: 'a' })).balance, 100 - transfers);
    same((await Account.findOne({ name: 'b' })).balance, 100 + transfers);
  });

  await step('aggregate, cursor and populate inside a transaction', async () => {
    const Owner = db.model('Owner', new Schema({ accounts: [{ type: Schema.Types.ObjectId, ref: 'Account' }] }));
    await Owner.createCollection();
    await db.transaction(async session => {
      const accounts = await Account.find({ name: { $in: ['a', 'b'] } }).session(session);
      const [owner] = await Owner.create([{ accounts }], { session });
      const found = await Owner.findById(owner._id).populate('accounts').session(session);
      same(found.accounts.length, 2);
      const [joined] = await Owner.aggregate([{ $lookup: { from: 'accounts', localField: 'accounts', foreignField: '_id', as: 'all' } }]).session(session);
      same(joined.all.length, 2);
      let count = 0;
      for await (const _ of Account.find().session(session).cursor({ batchSize: 2 })) count += 1;
      same(count, await Account.countDocuments().session(session));
    });
  });

  await step('Model.watch sees what happens', async () => {
    const stream = await watch([], { fullDocument: 'updateLookup' });
    const events = when(stream, 5);
    await new Promise(resolve => stream.once('ready', resolve));
    const doc = await Account.create({ name: 'watched', balance: 1 });
    doc.log.push('one');
    await doc.save();
    await Account.replaceOne({ _id: doc._id }, { name: 'replaced', balance: 2 });
    await db.transaction(async session => { await Account.updateOne({ _id: doc._id }, { balance: 3 }, { session }); });
    await Account.deleteOne({ _id: doc._id });
    const seen = await events;
    await stream.close();
    same(seen.map(event => event.operationType), ['insert', 'update', 'replace', 'update', 'delete']);
    assert.ok(seen.every(event => event.documentKey._id.equals(doc._id)));
    assert.ok(seen[3].lsid && Number(seen[3].txnNumber) >= 1);
    return `${seen.length} events`;
  });

  await step('watch with a pipeline, and resumed', async () => {
    const pipeline = [{ $match: { operationType: 'insert', 'fullDocument.balance': { $gte: 10 } } }, { $project: { 'fullDocument.name': 1 } }];
    const stream = await watch(pipeline);
    const first = when(stream, 1);
    await new Promise(resolve => stream.once('ready', resolve));
    await Account.create([{ name: 'small', balance: 1 }, { name: 'large', balance: 10 }], { ordered: true });
    const [event] = await first;
    same(event.fullDocument.name, 'large');
    await stream.close();
    await Account.create({ name: 'later', balance: 20 });
    const resumed = Account.watch(pipeline, { resumeAfter: event._id });
    const [next] = await when(resumed, 1);
    await resumed.close();
    same(next.fullDocument.name, 'later');
  });

  await step('hydrated events', async () => {
    const stream = await watch([], { fullDocument: 'updateLookup', hydrate: true });
    const events = when(stream, 1);
    await new Promise(resolve => stream.once('ready', resolve));
    await Account.create({ name: 'hydrated', balance: 7 });
    const [event] = await events;
    await stream.close();
    assert.ok(event.fullDocument instanceof Account);
  });

  await db.close();
});
