// What the tests of the laboratory's pages share: the sample runs, a browser that watches for faults, counting of shapes.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

// The example program that writes sample runs; `make lab-report-test` builds it.
export const sampler = process.env.SAMPLE_RUNS ?? `${process.env.CARGO_TARGET_DIR ?? 'target'}/debug/examples/sample_runs`;

// Draws all sample runs; gives the directory.
export function sampleRuns() {
  const directory = mkdtempSync(join(tmpdir(), 'lab-pages-'));
  execFileSync(sampler, [directory], { stdio: ['ignore', 'ignore', 'inherit'] });
  return directory;
}

export function launch() {
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
}

// A page whose faults are collected: console errors, exceptions, dialogs, requests beyond `allowed`.
export async function open(browser, url, { scheme = 'light', width = 1200, scripts = true } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 900 }, javaScriptEnabled: scripts });
  // a busy machine is no fault of a page
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const faults = [];
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) faults.push(message.text()); });
  page.on('pageerror', error => faults.push(String(error)));
  page.on('dialog', dialog => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  const origin = new URL(url).origin;
  page.on('request', request => {
    if (request.url() !== url && !(origin !== 'null' && request.url().startsWith(origin)) && !request.url().startsWith('data:')) {
      faults.push(`request: ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}

export const report = (directory, name) => pathToFileURL(join(directory, name, 'report.html')).href;

// The element of a chart and what belongs to it.
export const place = id => `#figure-${id}`;

// Contents of a chart's drawing: counts of SVG elements filled or stroked with a series' colour, its texts, and whether it has faults.
export function drawing(page, id) {
  return page.evaluate(id => {
    const plot = document.querySelector(id);
    const svg = plot.querySelector('svg');
    const options = echarts.getInstanceByDom(plot).getOption();
    const colours = new Set([0, 1, 2, 3, 4, 5, 6, 7].map(n => getComputedStyle(document.documentElement).getPropertyValue(`--s${n}`).trim()));
    const elements = [...svg.querySelectorAll('path,circle,rect,line,polyline')];
    const own = elements.filter(element => colours.has(element.getAttribute('fill')) || colours.has(element.getAttribute('stroke')));
    const wrong = elements.filter(element => [...element.attributes].some(attribute => /NaN|Infinity|undefined/.test(attribute.value)));
    return {
      series: options.series.map(series => ({ name: series.name, type: series.type, length: (series.data ?? []).length, colour: series.color })),
      axis: options.yAxis?.[0] ?? {},
      shapes: own.length,
      areas: (options.series[0]?.markArea?.[0] ?? options.series[0]?.markArea)?.data?.length ?? 0,
      texts: [...svg.querySelectorAll('text')].map(text => text.textContent),
      wrong: wrong.length,
      label: plot.getAttribute('aria-label') ?? '',
      outline: own.map(element => element.getAttribute('d') ?? '').join(' '),
    };
  }, id.startsWith('#') ? id : `${place(id)} .plot`);
}

export async function shot(page, name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
}
