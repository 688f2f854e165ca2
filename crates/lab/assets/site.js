// The page over many runs: filters its data, compares what is left with the best of it, draws the history of a step.
'use strict';
(() => {
  const { systems, runs, entries, changes, currency } = JSON.parse(document.getElementById('data').textContent);
  const at = id => document.getElementById(id);
  const METRICS = [
    { name: 'rate', title: 'operations per second', unit: '/s', value: entry => entry.rate, best: Math.max, ratio: (value, best) => best / value },
    { name: 'p99', title: 'p99, microseconds', unit: ' us', value: entry => entry.p99, best: Math.min, ratio: (value, best) => value / best },
    { name: 'seconds', title: 'seconds of loads, recoveries and timed phases', unit: ' s', value: entry => entry.seconds, best: Math.min, ratio: (value, best) => value / best },
  ];
  if (currency) {
    const price = entry => { const one = instanceOf(entry.run); return one && entry.rate ? one.per_hour / 3600 / entry.rate * 1e6 : null; };
    METRICS.push({ name: 'price', title: `price of a million operations, ${currency}`, unit: ` ${currency}`, value: price, best: Math.min, ratio: (value, best) => value / best });
  }
  const isNumber = value => typeof value === 'number' && isFinite(value) && value > 0;
  const unique = values => [...new Set(values)];
  const machines = unique(runs.map(run => run.machine));
  const instances = unique(runs.flatMap(run => (run.instances || []).map(one => one.name)));
  function instanceOf(run) { return (runs[run].instances || []).find(one => one.name === at('instance').value); }

  function options(select, values, titles) {
    values.forEach((value, n) => {
      const option = document.createElement('option');
      option.value = value;
      option.textContent = titles ? titles[n] : value;
      select.append(option);
    });
  }
  function boxes(place, values) {
    for (const value of values) {
      const label = place.appendChild(document.createElement('label'));
      const box = label.appendChild(document.createElement('input'));
      Object.assign(box, { type: 'checkbox', checked: true, value });
      label.append(' ' + value);
    }
  }
  const checked = id => new Set([...at(id).querySelectorAll('input:checked')].map(box => box.value));

  options(at('experiment'), unique(runs.map(run => `${run.experiment}, ${run.scale}`)));
  options(at('metric'), METRICS.map(metric => metric.name), METRICS.map(metric => metric.title));
  options(at('instance'), instances);
  at('instances-label').hidden = instances.length === 0;
  boxes(at('systems'), systems);
  boxes(at('machines'), machines);

  // Entries of the chosen experiment, systems and machines; a column is a system in a run.
  function shown() {
    const [experiment, ofSystems, ofMachines] = [at('experiment').value, checked('systems'), checked('machines')];
    const all = entries.filter(entry => {
      const run = runs[entry.run];
      return `${run.experiment}, ${run.scale}` === experiment && ofSystems.has(entry.system) && ofMachines.has(run.machine);
    });
    if (at('latest').value === 'all') return all;
    const latest = new Map();
    for (const entry of all) latest.set(entry.system + runs[entry.run].machine, entry.run);
    return all.filter(entry => latest.get(entry.system + runs[entry.run].machine) === entry.run);
  }
  function columns(all) {
    const several = { machines: unique(all.map(entry => runs[entry.run].machine)).length > 1, runs: unique(all.map(entry => entry.run)).length > 1 };
    const found = new Map();
    for (const entry of all) {
      const key = `${entry.run} ${entry.system}`, run = runs[entry.run];
      const parts = [entry.system, several.runs && run.commit, several.machines && run.machine.split(':')[0], several.runs && run.started.slice(0, 10)];
      if (!found.has(key)) found.set(key, { key, system: entry.system, run: entry.run, name: parts.filter(Boolean).join(' ') });
    }
    return [...found.values()];
  }

  function table(place, caption, head, rows) {
    const table = document.createElement('table');
    table.createCaption().textContent = caption;
    const row = table.createTHead().insertRow();
    head.forEach(text => { const cell = row.appendChild(document.createElement('th')); cell.scope = 'col'; cell.textContent = text; });
    const body = table.createTBody();
    for (const cells of rows) {
      const row = body.insertRow();
      cells.forEach((content, n) => {
        const cell = row.appendChild(document.createElement(n === 0 ? 'th' : 'td'));
        if (n === 0) cell.scope = 'row';
        cell.textContent = content.text ?? content;
        if (content.best) cell.className = 'best';
      });
    }
    place.replaceChildren(table);
  }

  function compare() {
    const metric = METRICS.find(metric => metric.name === at('metric').value), caches = at('caches').value;
    const all = shown().filter(entry => caches === 'all' || entry.cold === (caches === 'cold'));
    const some = all.filter(entry => isNumber(metric.value(entry)));
    const places = columns(some);
    const steps = unique(some.map(entry => entry.step));
    const value = (place, step) => { const entry = some.find(entry => entry.run === place.run && entry.system === place.system && entry.step === step); return entry ? metric.value(entry) : null; };
    const logs = new Map(places.map(place => [place.key, []]));
    const rows = steps.map(step => {
      const values = places.map(place => value(place, step)), known = values.filter(isNumber);
      const best = metric.best(...known);
      const cells = values.map((value, n) => {
        if (!isNumber(value)) return '-';
        const ratio = metric.ratio(value, best);
        // a step that some column lacks would favour it
        if (known.length === places.length) logs.get(places[n].key).push(Math.log(ratio));
        return { text: `${Charts.short(value)} (${ratio.toFixed(2)})`, best: ratio === 1 };
      });
      return [some.find(entry => entry.step === step).label || step, ...cells];
    });
    const means = places.map(place => { const of = logs.get(place.key); return of.length ? Math.exp(of.reduce((a, b) => a + b, 0) / of.length) : null; });
    const common = Math.max(0, ...[...logs.values()].map(of => of.length));
    rows.unshift([`geometric mean of ${common} common steps`, ...means.map(mean => (mean === null ? '-' : { text: mean.toFixed(3), best: mean === Math.min(...means.filter(isNumber)) }))]);
    table(at('ratios'), `${metric.title}, and the ratio to the best`, ['step', ...places.map(place => place.name)], places.length ? rows : []);
    const order = places.map((place, n) => [place, means[n]]).filter(([, mean]) => mean !== null).sort((a, b) => a[1] - b[1]);
    const series = unique(order.map(([place]) => place.system)).map(system => ({
      name: system, system, points: order.flatMap(([place, mean], n) => (place.system === system ? [[n, mean]] : [])),
    }));
    Charts.draw(at('means'), { shape: 'bars', stacked: true, label: '', x: { name: '', categories: order.map(([place]) => place.name) }, y: { name: 'geometric mean' }, series }, systems);
  }

  function sizes() {
    const all = shown(), places = columns(all);
    const of = (place, step) => all.find(entry => entry.run === place.run && entry.system === place.system && entry.step === step);
    const rows = places.map(place => {
      const [load, size] = [of(place, 'load'), of(place, 'size')];
      return [place.name, load?.seconds ? load.seconds.toFixed(1) : '-', load?.rate ? Charts.short(load.rate) : '-', size ? (size.bytes / 1e6).toFixed(1) : '-', size?.note || 'not known'];
    }).filter(row => row[1] !== '-' || row[3] !== '-');
    table(at('sizes'), 'Load, and size at the end', ['system', 'load, s', 'documents/s', 'MB', 'compression'], rows);
  }

  function steps() {
    const before = at('step').value;
    at('step').replaceChildren();
    const known = unique(shownAll().filter(entry => isNumber(entry.rate)).map(entry => entry.step));
    options(at('step'), known);
    if (known.includes(before)) at('step').value = before;
  }
  function shownAll() {
    const latest = at('latest').value;
    at('latest').value = 'all';
    const all = shown();
    at('latest').value = latest;
    return all;
  }
  function history() {
    const all = shownAll().filter(entry => entry.step === at('step').value && isNumber(entry.rate));
    const inOrder = unique(all.map(entry => entry.run)).sort((a, b) => a - b);
    const names = inOrder.map(run => `${runs[run].commit} ${runs[run].started.slice(0, 10)}`);
    const several = unique(all.map(entry => runs[entry.run].machine)).length > 1;
    const lines = new Map();
    for (const entry of all) {
      const name = several ? `${entry.system} ${runs[entry.run].machine.split(':')[0]}` : entry.system;
      if (!lines.has(name)) lines.set(name, { name, system: entry.system, points: [] });
      lines.get(name).points.push([inOrder.indexOf(entry.run), entry.rate]);
    }
    const found = changes.filter(change => change.step === at('step').value && all.some(entry => entry.run === change.run && entry.system === change.system));
    const percent = change => `${change.relative > 0 ? '+' : ''}${(100 * change.relative).toFixed(1)} %`;
    const marks = found.map(change => ({ begin: inOrder.indexOf(change.run), kind: percent(change), system: change.system, text: `${change.step}, from ${runs[change.run].commit} on` }));
    Charts.draw(at('line'), { shape: 'lines', label: '', x: { name: 'run', categories: names }, y: { name: 'per second' }, series: [...lines.values()], marks }, systems);
    const place = at('changes');
    if (!found.length) { place.textContent = 'No change of level was found (at least five runs before and after it are needed).'; return; }
    table(place, 'Changes of level', ['system', 'commit', 'change'], found.map(change => [change.system, runs[change.run].commit, percent(change)]));
  }

  function draw() { compare(); sizes(); steps(); history(); }
  at('filters').addEventListener('change', draw);
  at('filters').addEventListener('submit', event => event.preventDefault());
  at('step').addEventListener('change', history);
  draw();
})();
