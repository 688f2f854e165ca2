// The report's pages in a browser: what is drawn, both themes, a narrow window, paper, no scripts, no network.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { drawing, launch, open, place, report, sampleRuns, shot } from './pages.mjs';

const RUNS = ['000-linkbench-cached', '001-point-queries', '002-readwrite-checkpoints', '002-recovery', '003-chunk-moves', '004-ycsb', 'iibench', 'kv', 'sysbench', 'load'];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let directory, browser;

before(async () => {
  directory = sampleRuns();
  browser = await launch();
});
after(() => browser?.close());

for (const name of RUNS) {
  for (const [scheme, width] of [['light', 1200], ['dark', 390], ['light', 320]]) {
    test(`${name}, ${scheme}, ${width} wide: everything is drawn and nothing is wrong`, async () => {
      const { page, faults, close } = await open(browser, report(directory, name), { scheme, width });
      const ids = await page.$$eval('figure[data-figure]', figures => figures.map(figure => figure.dataset.figure));
      for (const id of ids) {
        const drawn = await drawing(page, id);
        assert.ok(drawn.shapes > 0, `${id}: nothing is drawn`);
        assert.equal(drawn.wrong, 0, `${id}: coordinates that are no numbers`);
        assert.ok(drawn.label.length > 20, `${id}: no description for those who do not see it`);
      }
      const size = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(size[0] <= size[1], `the page is wider than its window: ${size}`);
      await shot(page, `${name}-${scheme}-${width}`);
      assert.deepEqual(faults, []);
      await close();
    });
  }
}

test('bars: one per system and number of clients, ours and theirs apart', async () => {
  const { page, close } = await open(browser, report(directory, '001-point-queries'));
  const ours = await drawing(page, 'ladder-clients');
  assert.deepEqual(ours.series.map(series => series.name), ['ftree', 'lmdb', 'rocksdb', 'tcp-echo']);
  assert.ok(ours.shapes >= 4 * 7 && ours.texts.includes('40'), `${ours.shapes}`);
  const theirs = await drawing(page, 'published-rate');
  assert.equal(theirs.series.length, 7);
  assert.match(await page.textContent('#figure-published-rate h3'), /published/);
  const published = await page.$$eval('#result tr.published', rows => rows.map(row => row.textContent));
  assert.ok(published.some(row => row.startsWith('fb56.handler published') && row.endsWith('350665')), published[0]);
  await close();
});

test('one engine has one colour in all charts, published or ours', async () => {
  const { page, close } = await open(browser, report(directory, '000-linkbench-cached'));
  const colours = async (page, id) => Object.fromEntries((await drawing(page, id)).series.map(one => [one.name, one.colour]));
  const [ours, theirs, sizes] = [await colours(page, 'rounds'), await colours(page, 'published-rounds'), await colours(page, 'sizes')];
  assert.equal(ours.ftree, sizes.ftree);
  assert.equal(ours.lmdb, sizes.lmdb);
  const kv = await open(browser, report(directory, 'kv'));
  const others = await colours(kv.page, 'times');
  assert.deepEqual([others.ftree, others.lmdb], [ours.ftree, ours.lmdb]);
  assert.deepEqual([others.wiredTiger, others.rocksdb], [theirs.wiredtiger, theirs.rocksdb]);
  assert.equal(new Set(Object.values(others)).size, 4);
  await kv.close();
  await close();
});

test('phases are ratios to a peer on a logarithmic axis that bars begin at one of', async () => {
  const { page, faults, close } = await open(browser, report(directory, 'kv'));
  const chart = await drawing(page, 'ratios');
  assert.deepEqual([chart.axis.type, chart.axis.startValue], ['log', 1]);
  assert.deepEqual(chart.series.map(series => series.name), ['ftree', 'lmdb', 'rocksdb']);
  const rows = await page.$$eval('#result table tbody tr', rows => rows.map(row => row.textContent));
  assert.ok(rows.some(row => /^reopen-kill.* s.* s/.test(row)), rows.join('; '));
  assert.equal(await page.locator('#latency table').count(), 1);
  assert.deepEqual(faults, []);
  await close();
});

test('repeats are one choice, with a line from the lowest to the highest', async () => {
  const { page, close } = await open(browser, report(directory, 'sysbench'));
  const choices = await page.$$eval(`${place('throughput')} option`, options => options.map(option => option.textContent));
  assert.deepEqual(choices, ['1 client, median of 3 repeats', '4 clients, median of 3 repeats']);
  const { series } = await drawing(page, 'ladder-clients');
  assert.deepEqual(series.map(one => one.type), ['bar', 'bar', 'custom', 'custom']);
  await close();
});

test('names of events cover no other name', async () => {
  for (const name of ['003-chunk-moves', '002-readwrite-checkpoints']) {
    const { page, close } = await open(browser, report(directory, name), { width: 900 });
    const covered = await page.evaluate(chart => {
      const names = [...document.querySelectorAll(`${chart} svg text`)].filter(text => /: (move chunk|checkpoint|stall)/.test(text.textContent));
      const boxes = names.map(text => text.getBoundingClientRect());
      const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
      return [names.length, boxes.flatMap((a, n) => boxes.slice(n + 1).filter(b => over(a, b))).length];
    }, place('throughput'));
    assert.ok(covered[0] > 0 && covered[1] === 0, `${name}: ${covered}`);
    await close();
  }
});

test('box, jitter and scatter plots show every interval', async () => {
  const { page, close } = await open(browser, report(directory, '002-readwrite-checkpoints'));
  // 120 seconds are 12 intervals; 3 numbers of clients, 2 systems
  const jitter = await drawing(page, 'jitter-plot-clients');
  assert.deepEqual(jitter.series.map(series => series.length), [36, 36]);
  assert.ok(jitter.shapes >= 72, `${jitter.shapes}`);
  const boxes = await drawing(page, 'box-plot-cache_mb');
  assert.deepEqual(boxes.series.map(series => series.length), [4, 4]);
  // box, median, two whiskers with their ends; and the dips of one system beyond them
  assert.ok(boxes.shapes >= 8 * 6 + 4, `${boxes.shapes}`);
  const scatter = await drawing(page, 'scatter-plot-clients');
  assert.deepEqual(scatter.series.map(series => [series.type, series.length]), [['scatter', 36], ['line', 3], ['scatter', 36], ['line', 3]]);
  await close();
});

test('events are marks over the lines, bars of a time line, and a table', async () => {
  const { page, close } = await open(browser, report(directory, '003-chunk-moves'));
  assert.equal((await drawing(page, 'throughput')).areas, 6);
  assert.ok((await drawing(page, 'timeline')).shapes >= 6);
  const rows = await page.$$eval('#time .texts tbody tr', rows => rows.map(row => row.textContent));
  assert.equal(rows.length, 6);
  // what a server says is text, not markup
  assert.ok(rows.some(row => row.includes('<script>alert(1)</script>')) && (await page.$$('#time b')).length === 0);
  const latency = await drawing(page, 'latency');
  assert.deepEqual(latency.series.map(series => series.name), ['arbor p50', 'arbor p99', 'mongo <b>x</b> p50', 'mongo <b>x</b> p99']);
  await close();
});

test('another step is drawn when it is chosen, and its table follows', async () => {
  const { page, faults, close } = await open(browser, report(directory, '001-point-queries'));
  const before = (await drawing(page, 'throughput')).outline;
  const select = page.locator('#figure-throughput select');
  assert.equal(await select.locator('option:checked').textContent(), '40 clients');
  await page.click('#figure-throughput summary');
  const first = () => page.textContent('#figure-throughput td');
  const high = Number(await first());
  await select.selectOption({ label: '1 client' });
  assert.notEqual((await drawing(page, 'throughput')).outline, before);
  assert.ok(high > 50_000 && Number(await first()) < 30_000, `${high}`);
  assert.match(await page.textContent('#figure-throughput caption'), /1 client: point queries per second/);
  assert.equal(await page.locator('#figure-throughput tbody tr').count(), 60);
  assert.deepEqual(faults, []);
  await close();
});

test('every chart has a table behind it', async () => {
  for (const name of RUNS) {
    const { page, faults, close } = await open(browser, report(directory, name));
    for (const summary of await page.$$('details.data summary')) await summary.click();
    // the event that fills a table comes a moment after it is opened
    await page.waitForFunction(() => [...document.querySelectorAll('details.data')].every(one => one.querySelector('tbody tr'))).catch(() => {});
    const empty = await page.$$eval('details.data', all => all.filter(one => one.querySelectorAll('tbody tr').length === 0).map(one => one.closest('figure').id));
    assert.deepEqual([empty, faults], [[], []], name);
    await close();
  }
});

test('the theme is the chosen one, and is remembered', async () => {
  const { page, faults, close } = await open(browser, report(directory, '004-ycsb'));
  const colours = () => page.evaluate(() => [getComputedStyle(document.body).backgroundColor, document.querySelector('#figure-throughput svg text').getAttribute('fill')]);
  const auto = await colours();
  await page.click('#theme');
  assert.deepEqual([await page.textContent('#theme'), await colours()], ['Theme: light', auto]);
  await page.click('#theme');
  const dark = await colours();
  assert.equal(await page.textContent('#theme'), 'Theme: dark');
  assert.ok(dark[0] !== auto[0] && dark[1] !== auto[1], `${dark}`);
  await page.reload();
  assert.deepEqual(await colours(), dark);
  assert.deepEqual(faults, []);
  await close();
});

test('on paper it is light, without buttons, within the page', async () => {
  const { page, close } = await open(browser, report(directory, '001-point-queries'), { scheme: 'dark' });
  await page.emulateMedia({ media: 'print' });
  const [back, button] = await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.getElementById('theme')).display]);
  assert.deepEqual([back, button], ['rgb(255, 255, 255)', 'none']);
  const pdf = await page.pdf({ format: 'A4' });
  assert.ok(pdf.length > 50_000 && pdf.subarray(0, 5).toString() === '%PDF-');
  await page.emulateMedia({ media: 'screen', colorScheme: 'dark' });
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  await close();
});

test('without scripts the text and the tables are there', async () => {
  const { page, close } = await open(browser, report(directory, '000-linkbench-cached'), { scripts: false });
  const text = await page.textContent('#result');
  assert.ok(text.includes('18279') && text.includes('ftree'));
  assert.ok((await page.locator('noscript').count()) > 0);
  await close();
});

test('no serious fault of accessibility', async () => {
  for (const [name, scheme] of [['001-point-queries', 'light'], ['003-chunk-moves', 'dark'], ['000-linkbench-cached', 'dark'], ['002-recovery', 'light']]) {
    const { page, close } = await open(browser, report(directory, name), { scheme });
    for (const summary of await page.$$('#result details.data summary')) await summary.click();
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
    const serious = found.violations.map(violation => `${violation.impact} ${violation.id}: ${violation.nodes[0].html.slice(0, 120)} ${violation.nodes[0].failureSummary}`);
    assert.deepEqual(serious, [], name);
    await close();
  }
});

test('the site compares many runs, filters them, and finds a change of level', async () => {
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const { page, faults, close } = await open(browser, pathToFileURL(join(directory, 'site.html')).href, { scheme, width });
    const rows = () => page.$$eval('#ratios tbody tr', rows => rows.map(row => [...row.cells].map(cell => cell.textContent)));
    await page.selectOption('#experiment', 'sysbench, full');
    const columns = await page.$$eval('#ratios thead th', cells => cells.map(cell => cell.textContent));
    assert.deepEqual(columns, ['step', 'ftree', 'lmdb']);
    const before = await rows();
    assert.match(before[0][0], /geometric mean of 2 common steps/);
    // ftree was faster by a quarter, and is slower since it lost a third
    assert.deepEqual([before[0][2], +before[0][1] > 1.1], ['1.000', true]);
    await page.uncheck('#systems input[value="lmdb"]');
    assert.equal((await rows())[0][1], '1.000');
    await page.check('#systems input[value="lmdb"]');
    await page.selectOption('#metric', 'price');
    // 0.36 an hour for about 400 transactions a second
    assert.match((await rows()).find(row => row[0] === '1 client')[2], /^0\.2\d* \(1\.00\)$/);
    await page.selectOption('#step', 'c8');
    const changes = await page.$$eval('#changes tbody tr', rows => rows.map(row => row.textContent));
    assert.equal(changes.length, 1, changes.join('; '));
    assert.match(changes[0], /^ftree075a5a5a5a-3\d\.\d %$/);
    const history = await drawing(page, '#line');
    assert.deepEqual(history.series.map(series => [series.name, series.length]), [['ftree', 14], ['lmdb', 14]]);
    await page.selectOption('#experiment', 'kv, small');
    await page.selectOption('#metric', 'rate');
    await page.selectOption('#caches', 'cold');
    assert.deepEqual((await rows()).map(row => row[0]).slice(1), ['1 client, phase get-cold-x1']);
    const size = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(size[0] <= size[1], `the page is wider than its window: ${size}`);
    await page.selectOption('#experiment', 'sysbench, full');
    await page.selectOption('#caches', 'all');
    await shot(page, `site-${scheme}-${width}`);
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(found.violations.map(violation => `${violation.id}: ${violation.nodes[0].html.slice(0, 120)}`), []);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a comparison is drawn with its intervals and verdicts', async () => {
  for (const [scheme, width] of [['light', 1440], ['dark', 390]]) {
    const { page, faults, close } = await open(browser, pathToFileURL(join(directory, 'comparison.html')).href, { scheme, width });
    const { series } = await drawing(page, 'differences-0');
    assert.deepEqual(series.map(one => [one.name, one.type]), [['ftree', 'bar'], ['lmdb', 'bar'], ['ftree', 'custom'], ['lmdb', 'custom']]);
    const verdicts = await page.$$eval('.texts tbody tr', rows => rows.map(row => [row.cells[0].textContent, row.cells[2].textContent, row.cells[8].textContent].join(' ')));
    assert.ok(verdicts.some(row => row === 'ftree transaction/s better'), verdicts.join('; '));
    const size = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(size[0] <= size[1], `the page is wider than its window: ${size}`);
    await shot(page, `comparison-${scheme}-${width}`);
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(found.violations.map(violation => `${violation.id}: ${violation.nodes[0].html.slice(0, 120)}`), []);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('the index links to each report and says how it ended', async () => {
  const { page, faults, close } = await open(browser, pathToFileURL(join(directory, 'index.html')).href);
  const links = await page.$$eval('table.texts a', links => links.map(link => link.href));
  assert.equal(links.length, RUNS.length);
  assert.match(await page.textContent('tr:has(a[href^="load"])'), /interrupted/);
  assert.match(await page.textContent('tr:has(a[href^="002-recovery"])'), /partial/);
  await shot(page, 'index');
  assert.deepEqual(faults, []);
  await page.click('table.texts a');
  assert.equal(await page.textContent('h1'), RUNS[0]);
  await close();
});
