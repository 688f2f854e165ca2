// Text search through Mongoose and the Node driver.

import mongoose from 'mongoose';
import { assert, fails, flow, same, uri } from './flow.mjs';

const { Schema } = mongoose;

await flow(async step => {
  const db = await mongoose.createConnection(uri()).asPromise();
  const raw = db.db;

  await step('text: weights, score, phrases, negation, languages', async () => {
    const schema = new Schema({ title: String, body: String, tags: [String] });
    schema.index({ title: 'text', body: 'text', tags: 'text' }, { weights: { title: 10, tags: 5 }, name: 'search', default_language: 'english' });
    const Article = db.model('Article', schema);
    await Article.init();
    await Article.create([{ title: 'Running databases', body: 'A story of storage', tags: ['mongo'] }, { title: 'Cooking', body: 'He runs a kitchen with databases', tags: ['food'] }, { title: 'Storage', body: 'trees and leaves', tags: [] }]);
    const found = await Article.find({ $text: { $search: 'database' } }, { score: { $meta: 'textScore' } }).sort({ score: { $meta: 'textScore' } }).lean();
    same(found.map(one => one.title), ['Running databases', 'Cooking']);
    assert.ok(found[0].score > found[1].score);
    same((await Article.find({ $text: { $search: 'run -kitchen' } })).map(one => one.title), ['Running databases']);
    same((await Article.find({ $text: { $search: '"trees and"' } })).map(one => one.title), ['Storage']);
    same(await Article.countDocuments({ $text: { $search: 'STORAGE', $caseSensitive: true } }), 0);
    const rows = await Article.aggregate([{ $match: { $text: { $search: 'storage' } } }, { $sort: { score: { $meta: 'textScore' } } }, { $project: { title: 1, score: { $meta: 'textScore' }, _id: 0 } }]);
    same(rows.map(row => row.title), ['Storage', 'Running databases']);
    same(await Article.diffIndexes(), { toDrop: [], toCreate: [] });
    const index = (await Article.listIndexes()).find(one => one.name === 'search');
    same([index.key, index.weights, index.default_language, index.language_override, index.textIndexVersion], [{ _fts: 'text', _ftsx: 1 }, { body: 1, tags: 5, title: 10 }, 'english', 'language', 3]);
    await raw.collection('parts').insertOne({ x: 1 });
    await fails(raw.collection('parts').find({ $text: { $search: 'x' } }).toArray(), { code: 27, codeName: 'IndexNotFound' });
    return { scores: found.map(one => one.score) };
  });

  await db.close();
});
