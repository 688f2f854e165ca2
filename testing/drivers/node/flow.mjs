// A flow is a script of named steps against one server. Each step prints what it saw; a step that fails does not end the flow,
// the process's exit code does. MONGODB_URI names the server, DRIVERS_FULL=1 asks for the long form.

import assert from 'node:assert/strict';
import path from 'node:path';

export { assert };
export const same = assert.deepEqual;

export const full = process.env.DRIVERS_FULL === '1';
const given = process.env.MONGODB_URI ?? 'mongodb://127.0.0.1:27017/';
const title = path.basename(process.argv[1], '.mjs');

/** The database of this flow; emptied by `flow` before the first step. */
export const database = `drivers_${title}`;

/** The connection string with the flow's database and the given options. */
export function uri(options = {}, name = database) {
  // a list of hosts is none that URL would read
  const [, hosts] = /^mongodb:\/\/([^/?]+)/.exec(given);
  const url = new URL(given.replace(hosts, 'hosts'));
  url.pathname = `/${name}`;
  for (const [key, value] of Object.entries(options)) url.searchParams.set(key, value);
  return url.toString().replace('//hosts', `//${hosts}`);
}

/** Awaits an error and compares the named fields of it; a regular expression is matched. */
export async function fails(promise, expected = {}) {
  let error;
  try {
    await (typeof promise === 'function' ? promise() : promise);
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `no error, but ${JSON.stringify(expected)} was expected`);
  for (const [key, value] of Object.entries(expected)) {
    const seen = error[key];
    const where = `error.${key} of ${error.name}: ${error.message}`;
    if (value instanceof RegExp) assert.match(String(seen), value, where);
    else assert.deepEqual(seen, value, where);
  }
  return error;
}

/** Runs the steps and ends the process with 0 when all of them passed. */
export async function flow(run) {
  let passed = 0;
  const failed = [];
  const step = async (name, action) => {
    const begin = performance.now();
    try {
      const detail = await action();
      passed += 1;
      const text = detail === undefined ? '' : `: ${typeof detail === 'string' ? detail : JSON.stringify(detail)}`;
      console.log(`  ok    ${name} (${Math.round(performance.now() - begin)} ms)${text}`);
    } catch (error) {
      failed.push(name);
      const stack = (error.stack ?? '').split('\n').filter(line => line.includes('/testing/drivers/node/')).slice(0, 2).join('\n');
      console.log(`  FAIL  ${name}: ${error.name}: ${error.message}\n${stack}`);
      if (error.errorResponse) console.log(`        reply: ${JSON.stringify(error.errorResponse)}`);
    }
  };
  try {
    const { MongoClient } = await import('mongodb');
    const client = await new MongoClient(given, { serverSelectionTimeoutMS: 10_000 }).connect();
    await client.db(database).dropDatabase();
    await client.close();
    await run(step);
  } catch (error) {
    failed.push('(the flow itself)');
    console.log(`  FAIL  the flow ended: ${error.stack}`);
  }
  console.log(`${title}: ${passed} steps passed${failed.length ? `, ${failed.length} FAILED: ${failed.join('; ')}` : ''}`);
  process.exit(failed.length ? 1 : 0);
}
