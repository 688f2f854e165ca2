// The Node driver on a replica set: discovery, conflicts, retries, causal and snapshot sessions, streams, and a tailer of the
// oplog as Meteor has it.

import { Long, MongoClient, Timestamp } from 'mongodb';
import { assert, database, fails, flow, full, same, uri } from '../node/flow.mjs';

await flow(async step => {
  const client = await new MongoClient(uri(), { monitorCommands: true }).connect();
  const db = client.db(database);

  await step('discovery', async () => {
    const { type, setName } = client.topology.description;
    same(type, 'ReplicaSetWithPrimary');
    const hello = await client.db('admin').command({ hello: 1 });
    assert.ok(hello.isWritablePrimary && hello.setName === setName && hello.hosts.includes(hello.me) && hello.primary === hello.me);
    assert.ok(hello.electionId && hello.topologyVersion && hello.lastWrite.opTime.ts);
    return setName;
  });

  await step('16 writers on one document', async () => {
    await db.collection('one').insertOne({ _id: 1, n: 0 });
    const each = full ? 50 : 6;
    let attempts = 0;
    await Promise.all(Array.from({ length: 16 }, () => client.withSession(async session => {
      for (let n = 0; n < each; n += 1) {
        await session.withTransaction(async () => {
          attempts += 1;
          const { n: before } = await db.collection('one').findOne({ _id: 1 }, { session });
          await db.collection('one').updateOne({ _id: 1 }, { $set: { n: before + 1 } }, { session });
        });
      }
    })));
    same((await db.collection('one').findOne({ _id: 1 })).n, 16 * each);
    return `${16 * each} transactions in ${attempts} attempts`;
  });

  await step('writes carry numbers and answer the same when sent again', async () => {
    const inserts = [];
    const record = event => { if (event.commandName === 'insert') inserts.push(event.command); };
    client.on('commandStarted', record);
    await db.collection('again').insertMany([{ _id: 1 }, { _id: 2 }]);
    client.off('commandStarted', record);
    const [{ lsid, txnNumber }] = inserts;
    assert.ok(lsid.id && txnNumber !== undefined);
    // as the driver does it after a cut: the same command with the same number; a client of its own, whose session no other client shares
    const other = await new MongoClient(uri()).connect();
    const session = other.startSession();
    const command = { insert: 'again', documents: [{ _id: 3 }, { _id: 4 }] };
    const send = number => other.db(database).command({ ...command, txnNumber: Long.fromNumber(number) }, { session });
    const [first, second] = [await send(1), await send(1)];
    same([first.n, second.n, second.writeErrors], [2, 2, undefined]);
    same(await db.collection('again').countDocuments(), 4);
    await fails(send(0), { code: 225, codeName: 'TransactionTooOld' });
    await session.endSession();
    await other.close();
  });

  await step('conflict and its label', async () => {
    const [a, b] = [client.startSession(), client.startSession()];
    a.startTransaction();
    b.startTransaction();
    await db.collection('one').updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: a });
    const error = await fails((async () => {
      await db.collection('one').updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: b });
      await a.commitTransaction();
      await b.commitTransaction();
    })(), { code: 112, codeName: 'WriteConflict' });
    assert.ok(error.hasErrorLabel('TransientTransactionError'));
    if (a.inTransaction()) await a.commitTransaction();
    await Promise.all([a.endSession(), b.endSession()]);
  });

  await step('causal and snapshot sessions', async () => {
    await client.withSession({ causalConsistency: true }, async session => {
      await db.collection('causal').insertOne({ _id: 1 }, { session });
      assert.ok(session.operationTime);
      same(await db.collection('causal').countDocuments({}, { session, readConcern: { level: 'majority' } }), 1);
    });
    await client.withSession({ snapshot: true }, async session => {
      same((await db.collection('causal').find({}, { session }).toArray()).length, 1);
      await db.collection('causal').insertOne({ _id: 2 });
      same((await db.collection('causal').find({}, { session }).toArray()).length, 1);
      same((await db.collection('causal').aggregate([{ $count: 'n' }], { session }).toArray())[0].n, 1);
      same((await db.collection('causal').distinct('_id', {}, { session })), [1]);
    });
    same(await db.collection('causal').countDocuments(), 2);
  });

  await step('a collection and an index made inside a transaction', async () => {
    await client.withSession(session => session.withTransaction(async () => {
      const made = await db.createCollection('inside', { session });
      await made.createIndex({ a: 1 }, { session, unique: true });
      await made.insertOne({ _id: 1, a: 1 }, { session });
      await db.collection('implicit').insertOne({ _id: 1 }, { session });
    }));
    same((await db.collection('inside').indexes()).map(index => index.name), ['_id_', 'a_1']);
    same(await db.collection('implicit').countDocuments(), 1);
  });

  await step('streams of a client, a database and a collection', async () => {
    const streams = [client.watch(), db.watch(), db.collection('s').watch([], { fullDocumentBeforeChange: 'whenAvailable' })];
    const seen = streams.map(() => []);
    streams.forEach((stream, at) => stream.on('change', event => { if (event.ns?.db === database) seen[at].push(`${event.operationType} ${event.ns.coll}`); }));
    await new Promise(resolve => setTimeout(resolve, 500));
    await db.collection('s').insertOne({ _id: 1 });
    await db.collection('t').insertOne({ _id: 1 });
    await db.collection('s').updateOne({ _id: 1 }, { $set: { a: 1 } });
    const expected = [['insert s', 'insert t', 'update s'], ['insert s', 'insert t', 'update s'], ['insert s', 'update s']];
    for (let wait = 0; wait < 100 && JSON.stringify(seen) !== JSON.stringify(expected); wait += 1) await new Promise(resolve => setTimeout(resolve, 50));
    same(seen, expected);
    await Promise.all(streams.map(stream => stream.close()));
  });

  await step('a collection that goes invalidates its stream', async () => {
    await db.collection('gone').insertOne({ _id: 1 });
    const stream = db.collection('gone').watch();
    const next = stream.next();
    await new Promise(resolve => setTimeout(resolve, 300));
    await db.collection('gone').drop();
    same((await next).operationType, 'drop');
    const last = await stream.next();
    same(last.operationType, 'invalidate');
    await fails(db.collection('gone').watch([], { resumeAfter: last._id }).next(), { code: 260 });
    const again = db.collection('gone').watch([], { startAfter: last._id });
    const first = again.next();
    await new Promise(resolve => setTimeout(resolve, 300));
    await db.collection('gone').insertOne({ _id: 2 });
    same((await first).operationType, 'insert');
    await again.close();
  });

  await step('a tailer of the oplog keeps a copy', async () => {
    const oplog = client.db('local').collection('oplog.rs');
    const [last] = await oplog.find({}, { sort: { $natural: -1 }, limit: 1 }).toArray();
    assert.ok(last.ts instanceof Timestamp);
    const selector = {
      ns: new RegExp(`^(?:${database}\\.|admin\\.\\$cmd)`),
      $or: [{ op: { $in: ['i', 'u', 'd'] } }, { op: 'c', 'o.drop': { $exists: true } }, { op: 'c', 'o.dropDatabase': 1 }, { op: 'c', 'o.applyOps': { $exists: true } }],
      ts: { $gt: last.ts },
    };
    const copy = new Map();
    const cursor = oplog.find(selector, { tailable: true, awaitData: true });
    const apply = entry => {
      if (entry.op === 'c') {
        for (const inner of entry.o.applyOps ?? []) apply(inner);
        return;
      }
      if (entry.ns !== `${database}.tailed`) return;
      const id = entry.o2?._id ?? entry.o._id;
      if (entry.op === 'd') copy.delete(id);
      else if (entry.op === 'i' || !('$v' in entry.o)) copy.set(id, entry.o);
      else {
        const { diff } = entry.o;
        const doc = { ...copy.get(id), ...diff.i, ...diff.u };
        for (const name of Object.keys(diff.d ?? {})) delete doc[name];
        copy.set(id, doc);
      }
    };
    const tailing = (async () => {
      try {
        for await (const entry of cursor) apply(entry);
      } catch (error) {
        if (!/closed|killed/i.test(error.message)) throw error;
      }
    })();
    const tailed = db.collection('tailed');
    for (let n = 0; n < (full ? 300 : 60); n += 1) {
      const _id = n % 17;
      if (n % 5 === 0) await tailed.replaceOne({ _id }, { n }, { upsert: true });
      else if (n % 5 === 4) await tailed.deleteOne({ _id });
      else if (n % 5 === 3) await client.withSession(session => session.withTransaction(() => tailed.updateOne({ _id }, { $set: { t: n, n } }, { session, upsert: true })));
      else await tailed.updateOne({ _id }, n % 2 ? { $set: { n }, $unset: { t: 1 } } : { $inc: { m: 1 } }, { upsert: true });
    }
    const stored = Object.fromEntries((await tailed.find().toArray()).map(doc => [doc._id, doc]));
    const order = doc => JSON.stringify(Object.entries(doc).sort());
    const equal = () => copy.size === Object.keys(stored).length && [...copy].every(([id, doc]) => stored[id] && order(stored[id]) === order(doc));
    for (let wait = 0; wait < 100 && !equal(); wait += 1) await new Promise(resolve => setTimeout(resolve, 50));
    assert.ok(equal(), JSON.stringify([[...copy.values()], Object.values(stored)]));
    await cursor.close();
    await tailing;
    return `${copy.size} documents`;
  });

  await client.close();
});
