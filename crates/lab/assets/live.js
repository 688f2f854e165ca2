// The live page: hears the run's news (src/live/news.rs) and draws what it knows, at most twice a second.
'use strict';
(() => {
  const EVENTS_MAX = 200;
  const POINTS_MAX = 2000;
  const at = id => document.getElementById(id);
  let state, due = false;

  function begin(news) {
    state = { systems: [], intervals: new Map(), steps: [], last: null };
    at('steps').replaceChildren();
    at('events').replaceChildren();
    if (news) {
      document.querySelector('h1').textContent = document.title = news.experiment;
      at('about').textContent = news.about;
      at('phase').textContent = 'The run has begun.';
      at('left').textContent = '';
      at('progress').removeAttribute('value');
    }
  }

  function know(system) { if (!state.systems.includes(system)) state.systems.push(system); }

  function interval(news) {
    know(news.system);
    if (!state.intervals.has(news.step)) state.intervals.set(news.step, new Map());
    const step = state.intervals.get(news.step);
    // a step that begins again is another one
    if (!step.has(news.system) || step.get(news.system).at(-1).elapsed > news.elapsed) step.set(news.system, []);
    const all = step.get(news.system);
    all.push(news);
    if (all.length > POINTS_MAX) step.set(news.system, all.filter((_, n) => n % 2 === all.length % 2));
    state.last = news;
  }

  function step(news) {
    know(news.system);
    state.steps.push(news);
    const row = at('steps').insertRow(-1);
    const cells = [news.system, news.step, news.clients, news.rate, news.p50, news.p99, news.seconds];
    cells.forEach((value, n) => {
      const cell = row.appendChild(document.createElement(n === 0 ? 'th' : 'td'));
      if (n === 0) cell.scope = 'row';
      cell.textContent = n < 3 ? value : Charts.short(value);
    });
  }

  function event(news) {
    const text = `${news.t.toFixed(1)} s, ${news.system}: ${news.what.replace('_', ' ')}: ${news.text}`;
    const item = document.createElement('li');
    item.textContent = text;
    at('events').prepend(item);
    if (at('events').children.length > EVENTS_MAX) at('events').lastChild.remove();
    if (news.what === 'phase') at('phase').textContent = `${news.system}: ${news.text}`;
  }

  function end(news) {
    at('phase').textContent = `The run is over: ${news.ending}. Its report: ${news.report}`;
    at('progress').value = 1;
    at('left').textContent = '';
    state.over = true;
  }

  function inWords(seconds) {
    const s = Math.round(seconds);
    if (s < 60) return `${s} s`;
    return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  }

  const lines = (name, series, log) => ({ shape: 'lines', label: '', x: { name: 'seconds' }, y: { name, log }, series });

  function draw() {
    due = false;
    const now = state.last;
    if (!now) return;
    if (!state.over) {
      at('phase').textContent = `${now.system}: ${now.phase === 'run' ? now.step : now.phase}, ${now.clients} client${now.clients === 1 ? '' : 's'}`;
      if (now.done === null) at('progress').removeAttribute('value'); else at('progress').value = now.done;
      at('left').textContent = now.left === null ? '' : `${Math.floor(100 * now.done)} % of the steps, ${inWords(now.left)} left`;
    }
    for (const name of ['rate', 'p50', 'p99', 'cpu', 'errors']) at(name).textContent = Charts.short(now[name]) || '-';
    at('unit').textContent = `${now.unit.replace('_', ' ')} per second`;
    at('throughput-title').textContent = `Throughput, ${now.step}`;
    const step = [...state.intervals.get(now.step)];
    const series = (value, name, dashed) => step.map(([system, all]) => ({
      name: system + name, system, dashed, points: all.filter(each => each[value] > 0 || value === 'rate').map(each => [each.elapsed, each[value]]),
    }));
    Charts.draw(at('throughput'), lines(`${now.unit.replace('_', ' ')} per second`, series('rate', '', false)), state.systems);
    Charts.draw(at('latency'), lines('microseconds', [...series('p50', ' p50', false), ...series('p99', ' p99', true)], true), state.systems);
    ladder();
  }

  function ladder() {
    const steps = state.steps.filter(each => each.phase === 'run');
    const names = [...new Set(steps.map(each => each.step))];
    at('ladder-figure').hidden = names.length === 0;
    if (!names.length) return;
    const series = state.systems.map(system => ({
      name: system, system, points: steps.filter(each => each.system === system).map(each => [names.indexOf(each.step), each.rate]),
    }));
    Charts.draw(at('ladder'), { shape: 'bars', label: '', x: { name: 'step', categories: names }, y: { name: 'per second' }, series }, state.systems);
  }

  begin(null);
  const hear = { begin, interval, step, event, end };
  const source = new EventSource('/events');
  source.onmessage = message => {
    const news = JSON.parse(message.data);
    hear[news.kind]?.(news);
    if (!due) { due = true; setTimeout(draw, 500); }
  };
  source.onerror = () => { if (!state.over) at('left').textContent = 'The laboratory does not answer; trying again.'; };
})();
