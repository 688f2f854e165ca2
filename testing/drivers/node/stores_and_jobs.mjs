// Packages that keep their state in MongoDB: session stores, job queues, migrations, caches, rate limits, another ODM.

import 'reflect-metadata';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { MongoBackend } from '@agendajs/mongo-backend';
import { Agenda } from 'agenda';
import MongoStore from 'connect-mongo';
import express from 'express';
import session from 'express-session';
import Keyv from 'keyv';
import KeyvMongo from '@keyv/mongo';
import * as migrate from 'migrate-mongo';
import { MongoClient } from 'mongodb';
import { RateLimiterMongo } from 'rate-limiter-flexible';
import { DataSource, EntitySchema } from 'typeorm';
import { assert, database, fails, flow, full, same, uri } from './flow.mjs';

await flow(async step => {
  const client = await new MongoClient(uri()).connect();
  const db = client.db(database);

  await step('connect-mongo keeps the sessions of an Express application', async () => {
    const store = MongoStore.create({ mongoUrl: uri(), dbName: database, collectionName: 'sessions', ttl: 100, touchAfter: 0 });
    const app = express().use(session({ secret: 's', resave: false, saveUninitialized: false, store }));
    app.get('/', (request, response) => { request.session.views = (request.session.views ?? 0) + 1; response.json(request.session.views); });
    app.get('/out', (request, response) => request.session.destroy(() => response.json('bye')));
    const server = app.listen(0, '127.0.0.1');
    await new Promise(resolve => server.once('listening', resolve));
    const url = `http://127.0.0.1:${server.address().port}`;
    const first = await fetch(url);
    const cookie = first.headers.get('set-cookie').split(';')[0];
    same([await first.json(), await (await fetch(url, { headers: { cookie } })).json(), await (await fetch(url)).json()], [1, 2, 1]);
    same(await db.collection('sessions').countDocuments(), 2);
    const indexes = await db.collection('sessions').indexes();
    same(indexes.find(index => index.key.expires).expireAfterSeconds, 0);
    await fetch(`${url}/out`, { headers: { cookie } });
    const ask = method => new Promise((resolve, reject) => store[method]((error, answer) => (error ? reject(error) : resolve(answer))));
    same([await ask('length'), (await ask('all')).length], [1, 1]);
    await ask('clear');
    await store.close();
    server.close();
  });

  await step('Agenda runs, repeats, locks and cancels jobs', async () => {
    const agenda = new Agenda({ backend: new MongoBackend({ mongo: db, collection: 'jobs' }), processEvery: 50 });
    const done = [];
    agenda.define('greet', async job => { done.push(job.attrs.data.name); });
    agenda.define('fails', async () => { throw new Error('on purpose'); });
    agenda.define('tick', async () => { done.push('tick'); });
    await agenda.start();
    await agenda.now('greet', { name: 'Ada' });
    await agenda.now('fails', {});
    await agenda.schedule(new Date(Date.now() + 100), 'greet', { name: 'Bob' });
    await agenda.every('1 second', 'tick');
    await agenda.create('greet', { name: 'once' }).unique({ 'data.name': 'once' }).schedule(new Date(Date.now() + 3_600_000)).save();
    await agenda.create('greet', { name: 'once' }).unique({ 'data.name': 'once' }).schedule(new Date(Date.now() + 3_600_000)).save();
    const until = Date.now() + 15_000;
    while (Date.now() < until && !(done.includes('Ada') && done.includes('Bob') && done.filter(one => one === 'tick').length > 1)) await new Promise(resolve => setTimeout(resolve, 50));
    await agenda.stop();
    assert.ok(done.includes('Ada') && done.includes('Bob') && done.includes('tick'), done.join());
    same(await db.collection('jobs').countDocuments({ 'data.name': 'once' }), 1);
    same((await db.collection('jobs').findOne({ name: 'fails' })).failReason, 'on purpose');
    const cancelled = await agenda.cancel({ name: 'tick' });
    same(cancelled, 1);
    return { done, indexes: (await db.collection('jobs').indexes()).map(index => index.name) };
  });

  await step('migrate-mongo: up, status, down, lock', async () => {
    const directory = await fs.mkdtemp(path.join(os.tmpdir(), 'migrations-'));
    await fs.writeFile(path.join(directory, '1-first.mjs'), 'export const up = async db => { await db.collection("albums").insertOne({ _id: 1 }); await db.collection("albums").createIndex({ a: 1 }); };\nexport const down = async db => { await db.collection("albums").drop(); };\n');
    const api = migrate.default ?? migrate;
    // it awaits none of its createIndex, which closing would interrupt: on one connection they end before what it awaits next
    api.config.set({ mongodb: { url: uri(), databaseName: database, options: { maxPoolSize: 1 } }, migrationsDir: directory, changelogCollectionName: 'changelog', lockCollectionName: 'changelog_lock', lockTtl: 30, migrationFileExtension: '.mjs', useFileHash: true, moduleSystem: 'esm' });
    const connection = await api.database.connect();
    same(await api.up(connection.db, connection.client), ['1-first.mjs']);
    same((await api.status(connection.db)).map(one => one.fileName), ['1-first.mjs']);
    same((await db.collection('albums').indexes()).length, 2);
    same(await api.down(connection.db, connection.client), ['1-first.mjs']);
    same((await db.listCollections({ name: 'albums' }).toArray()).length, 0);
    await connection.client.close();
    await fs.rm(directory, { recursive: true });
  });

  await step('keyv: values, expiry, iteration, GridFS', async () => {
    for (const useGridFS of [false, true]) {
      const store = new KeyvMongo(uri(), { collection: `keyv${useGridFS ? 'grid' : ''}`, useGridFS });
      const keyv = new Keyv({ store, namespace: 'n' });
      await keyv.set('a', { x: [1, 2] });
      await keyv.set('b', 'soon', 20);
      await keyv.set('a', { x: 3 });
      await new Promise(resolve => setTimeout(resolve, 40));
      same([await keyv.get('a'), await keyv.get('b'), await keyv.get('c')], [{ x: 3 }, undefined, undefined]);
      same([await keyv.delete('a'), await keyv.delete('none')], [true, false]);
      await keyv.set('z', 1);
      await keyv.clear();
      same(await keyv.get('z'), undefined);
      await keyv.disconnect();
    }
  });

  await step('rate-limiter-flexible counts with upserts', async () => {
    const limiter = new RateLimiterMongo({ storeClient: client, dbName: database, tableName: 'limits', points: 5, duration: 60 });
    await new Promise(resolve => setTimeout(resolve, 300));
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => limiter.consume('ip')));
    same(results.filter(one => one.status === 'fulfilled').length, 5);
    same((await limiter.get('ip')).consumedPoints, 8);
    await limiter.penalty('ip', 2);
    same((await limiter.delete('ip')), true);
    return (await db.collection('limits').indexes()).map(index => index.name);
  });

  await step('TypeORM: entities, repository, indexes, cursors', async () => {
    const Photo = new EntitySchema({ name: 'Photo', columns: { id: { type: String, objectId: true, primary: true, generated: true }, title: { type: String, unique: true }, views: { type: Number }, tags: { type: 'simple-array', nullable: true } }, indices: [{ columns: ['views'], name: 'by_views' }] });
    const source = await new DataSource({ type: 'mongodb', url: uri(), database, entities: [Photo], synchronize: true }).initialize();
    const photos = source.getMongoRepository('Photo');
    await photos.save([{ title: 'a', views: 1 }, { title: 'b', views: 5 }, { title: 'c', views: 9 }]);
    same((await photos.find({ where: { views: { $gt: 1 } }, order: { views: 'DESC' }, take: 1 })).map(one => one.title), ['c']);
    same((await photos.findAndCount({ skip: 1, order: { title: 'ASC' } }))[1], 3);
    await photos.updateMany({ views: { $lt: 6 } }, { $inc: { views: 1 } });
    same((await photos.aggregate([{ $group: { _id: null, sum: { $sum: '$views' } } }]).toArray())[0].sum, 17);
    await fails(photos.save({ title: 'a', views: 0 }), { code: 11000 });
    same((await photos.collectionIndexes()).map(index => index.name).includes('by_views'), true);
    await photos.deleteMany({});
    await source.destroy();
  });

  if (full) {
    await step('Agenda: 500 jobs by four workers, each once', async () => {
      const jobs = db.collection('many_jobs');
      const seen = new Map();
      const workers = Array.from({ length: 4 }, () => new Agenda({ backend: new MongoBackend({ mongo: db, collection: 'many_jobs' }), processEvery: 20, maxConcurrency: 20, defaultConcurrency: 20 }));
      for (const worker of workers) worker.define('n', async job => { seen.set(job.attrs.data.n, (seen.get(job.attrs.data.n) ?? 0) + 1); });
      await workers[0].start();
      for (let n = 0; n < 500; n += 1) await workers[0].now('n', { n });
      await Promise.all(workers.slice(1).map(worker => worker.start()));
      const until = Date.now() + 120_000;
      while (seen.size < 500 && Date.now() < until) await new Promise(resolve => setTimeout(resolve, 100));
      await Promise.all(workers.map(worker => worker.stop()));
      same([seen.size, Math.max(...seen.values())], [500, 1]);
      same(await jobs.countDocuments({ lastFinishedAt: { $ne: null } }), 500);
    });
  }

  await client.close();
});
