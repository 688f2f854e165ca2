// The live page: grows with the run, survives a reload and a lost connection, says when the run is over.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { drawing, launch, open, sampler, shot } from './pages.mjs';

let browser, run, url;

before(async () => {
  browser = await launch();
  run = spawn(sampler, ['--live', '0'], { stdio: ['pipe', 'pipe', 'inherit'] });
  url = String((await once(run.stdout, 'data'))[0]).trim();
});
after(async () => {
  run?.kill();
  await browser?.close();
});

const seconds = count => run.stdin.write('\n'.repeat(count));
const shows = (page, id, pattern) => page.waitForFunction(([id, pattern]) => new RegExp(pattern).test(document.getElementById(id).textContent), [id, pattern], { timeout: 120_000 });

test('a run is followed to its end', async () => {
  const { page, faults, close } = await open(browser, url, { scheme: 'dark' });
  seconds(30);
  await shows(page, 'left', '^[01] % of the steps, ');
  await shows(page, 'phase', '^ftree: c1, 1 client$');
  assert.match(await page.textContent('#rate'), /k$/);
  assert.deepEqual((await drawing(page, '#throughput')).series.map(series => [series.name, series.length]), [['ftree', 30]]);

  // the first system is over, the second at its second step
  seconds(7 * 60 - 30 + 60 + 20);
  await shows(page, 'phase', '^lmdb: c2, 2 clients$');
  assert.equal(await page.locator('#steps tr').count(), 8);
  const both = await drawing(page, '#throughput');
  assert.deepEqual(both.series.map(series => [series.name, series.length]), [['ftree', 60], ['lmdb', 20]]);
  assert.deepEqual((await drawing(page, '#ladder')).series.map(series => series.name), ['ftree', 'lmdb']);
  assert.ok((await drawing(page, '#latency')).shapes >= 4);
  await shot(page, 'live');

  // a page that is opened late, or again, shows the same
  const outline = both.outline;
  await page.reload();
  await shows(page, 'phase', '^lmdb: c2');
  await page.waitForFunction(() => document.querySelectorAll('#steps tr').length === 8);
  assert.equal((await drawing(page, '#throughput')).outline, outline);
  const narrow = await open(browser, url, { width: 360 });
  await shows(narrow.page, 'phase', '^lmdb: c2');
  const size = await narrow.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(size[0] <= size[1], `${size}`);
  await shot(narrow.page, 'live-narrow');
  await narrow.close();

  run.stdin.end();
  await shows(page, 'phase', '^The run is over: interrupted. Its report: lab-results/sample/report.html$');
  assert.deepEqual(faults, []);
  assert.equal(await page.getAttribute('#progress', 'value'), '1');
  await page.waitForTimeout(1500);
  assert.match(await page.textContent('#phase'), /over/);

  // a page that outlives its run follows the next one on its port
  run = spawn(sampler, ['--live', new URL(url).port], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(run.stdout, 'data');
  seconds(5);
  await shows(page, 'phase', '^ftree: c1, 1 client$');
  assert.equal(await page.locator('#steps tr').count(), 0);
  await close();
});
