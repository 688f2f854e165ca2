// Logs in by each connection string of LOGINS (JSON: name to string) and prints who it is then.
import { MongoClient } from 'mongodb';

const found = {};
for (const [name, uri] of Object.entries(JSON.parse(process.env.LOGINS))) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 5000 });
  try {
    await client.db('test').collection('logins').insertOne({ by: 'node' });
    const status = await client.db('admin').command({ connectionStatus: 1 });
    found[name] = status.authInfo.authenticatedUsers[0].user;
  } catch (error) {
    found[name] = `error ${error.code}`;
  } finally {
    await client.close();
  }
}
console.log(JSON.stringify(found));
