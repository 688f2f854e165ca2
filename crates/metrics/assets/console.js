// The console: asks for console.json once per second and shows it. All text goes through textContent.
'use strict';
(() => {
  const PERIOD_MS = 1000, POINTS_MAX = 180, COLLECTIONS_EVERY = 10;
  const at = id => document.getElementById(id);
  const make = (name, text, of = {}) => {
    const element = Object.assign(document.createElement(name), of);
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  };
  let token = sessionStorage.getItem('token') || '', paused = false, before = null, turn = 0;
  const history = [];

  const date = value => value && value.$date ? new Date(typeof value.$date === 'object' ? Number(value.$date.$numberLong) : value.$date).getTime() : NaN;
  const number = value => value && value.$date !== undefined ? date(value) : value && value.$numberLong ? Number(value.$numberLong) : Number(value);
  const dig = (doc, path) => path.split('/').reduce((value, name) => value === undefined || value === null ? undefined : value[name], doc);
  const got = (doc, path) => { const value = dig(doc, path); return value === undefined ? NaN : number(value); };

  function short(value, digits = 4) {
    if (!isFinite(value)) return '-';
    const size = Math.abs(value);
    if (size >= 1e9) return +(value / 1e9).toPrecision(digits) + ' G';
    if (size >= 1e6) return +(value / 1e6).toPrecision(digits) + ' M';
    if (size >= 1e4) return +(value / 1e3).toPrecision(digits) + ' k';
    return String(+value.toPrecision(digits));
  }
  function bytes(value) {
    if (!isFinite(value)) return '-';
    for (const [unit, size] of [['TB', 2 ** 40], ['GB', 2 ** 30], ['MB', 2 ** 20], ['KB', 2 ** 10]]) {
      if (Math.abs(value) >= size) return +(value / size).toPrecision(3) + ' ' + unit;
    }
    return +value.toPrecision(3) + ' B';
  }
  function age(seconds) {
    if (!isFinite(seconds)) return '-';
    if (seconds < 120) return Math.round(seconds) + ' s';
    if (seconds < 7200) return Math.round(seconds / 60) + ' min';
    return seconds < 172800 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' d';
  }

  // Definitions show on hover and on focus.
  const definition = make('div', '', { id: 'definition', hidden: true });
  definition.setAttribute('role', 'tooltip');
  document.body.append(definition);
  function show(event) {
    const of = event.target.closest && event.target.closest('[data-def]');
    definition.hidden = !of;
    if (!of) return;
    definition.textContent = of.dataset.def;
    const box = of.getBoundingClientRect();
    definition.style.left = Math.max(4, Math.min(box.left, innerWidth - definition.offsetWidth - 4)) + 'px';
    const below = box.bottom + 6;
    definition.style.top = (below + definition.offsetHeight > innerHeight ? box.top - definition.offsetHeight - 6 : below) + 'px';
  }
  document.addEventListener('mouseover', show);
  document.addEventListener('focusin', show);
  document.addEventListener('keydown', event => { if (event.key === 'Escape') definition.hidden = true; });
  function define(element, text) {
    element.dataset.def = text;
    element.tabIndex = 0;
    return element;
  }
  document.querySelectorAll('[data-def]').forEach(element => { element.tabIndex = 0; });

  // Rates between two documents; NaN over a restart.
  function rate(now, path) {
    if (!before) return NaN;
    const seconds = (date(now.now) - date(before.now)) / 1000;
    const difference = got(now.statistics, path) - got(before.statistics, path);
    return difference < 0 || seconds <= 0 ? NaN : difference / seconds;
  }
  function percentile(now, kind, share) {
    const rows = doc => new Map((dig(doc.statistics, `opLatencies/${kind}/histogram`) || []).map(row => [number(row.micros), number(row.count)]));
    if (!before) return NaN;
    const old = rows(before);
    const buckets = [...rows(now)].map(([micros, count]) => [micros, count - (old.get(micros) || 0)]).filter(([, count]) => count > 0).sort((a, b) => a[0] - b[0]);
    let left = buckets.reduce((sum, [, count]) => sum + count, 0) * share;
    if (!left) return NaN;
    for (const [micros, count] of buckets) { left -= count; if (left <= 0) return micros / 1000; }
    return NaN;
  }
  const share = (part, other) => part + other > 0 ? 100 * part / (part + other) : NaN;

  function tiles(now) {
    const s = now.statistics, state = { 1: 'primary', 2: 'secondary' };
    const rows = [
      ['operations/s', short(KINDS.reduce((sum, kind) => sum + (rate(now, 'opcounters/' + kind) || 0), 0)), 'Operations of clients that ended in the last second: the sum of opcounters.'],
      ['reads p50 / p99', `${short(percentile(now, 'reads', 0.5), 3)} / ${short(percentile(now, 'reads', 0.99), 3)} ms`, 'Latency of reads in the last second, from the histogram of opLatencies; - without reads.'],
      ['writes p50 / p99', `${short(percentile(now, 'writes', 0.5), 3)} / ${short(percentile(now, 'writes', 0.99), 3)} ms`, 'Latency of writes in the last second, from the histogram of opLatencies; - without writes.'],
      ['connections', `${short(got(s, 'connections/active'))} of ${short(got(s, 'connections/current'))}`, 'Operations that run now, of the open connections.'],
      ['cache misses', short(share(rate(now, 'ftree/leaf block misses'), rate(now, 'ftree/leaf block hits')), 3) + ' %', 'Share of the blocks of leaves that the fractal tree read from its file in the last second, not from its cache.'],
      ['resident memory', bytes(got(s, 'mem/resident') * 1048576), 'Memory of the process that is in RAM.'],
      ['caches', bytes(got(s, 'engine/cacheBytes')), 'Memory of the caches of all engines.'],
      ['files', bytes(got(s, 'engine/diskBytes')), 'Size of the files of all engines, with the space in them that is free.'],
      ['log', bytes(rate(now, 'arborLog/bytes')) + '/s', 'Bytes that were written to the log in the last second.'],
      ['fsync', short(rate(now, 'arborLog/fsyncMicros') / rate(now, 'arborLog/fsyncs') / 1000, 3) + ' ms', 'Mean duration of the fsyncs of the log in the last second.'],
      ['writers held up', short(rate(now, 'ftree/pacing sleep us') / 1e4, 3) + ' %', 'Time for which writers slept in the last second because flushes were behind; several writers may sleep at a time.'],
      ['write amplification', short(got(s, 'ftree/file bytes written') / got(s, 'ftree/bytes applied'), 3), 'Bytes that the fractal tree has written to its file per byte of rows and messages that it was given, since the start; before the first checkpoint it is low.'],
      ['up for', age(got(s, 'uptimeMillis') / 1000), 'Time since the server started.'],
      ['role', s.set ? state[number(s.set.myState)] || 'not ready' : now.isRouter ? 'router' : 'standalone', 'Role in the replica set; a standalone belongs to none.'],
    ];
    at('tiles').replaceChildren(...rows.map(([name, value, text]) => {
      const tile = make('div');
      tile.append(define(make('dt', name), text), make('dd', value));
      return tile;
    }));
  }

  const KINDS = ['insert', 'query', 'update', 'delete', 'getmore', 'command'];
  function plot(element, names) {
    const width = Math.max(200, element.clientWidth), height = 180, left = 44, bottom = 18, top = 8;
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const draw = (name, of, text) => {
      const part = document.createElementNS('http://www.w3.org/2000/svg', name);
      for (const [key, value] of Object.entries(of)) part.setAttribute(key, value);
      if (text !== undefined) part.textContent = text;
      svg.append(part);
    };
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('role', 'img');
    const values = names.map(name => history.map(point => point[name]));
    const most = Math.max(...values.flat().filter(isFinite), 0) || 1;
    const unit = 10 ** Math.floor(Math.log10(most)), high = Math.ceil(most / unit) * unit;
    svg.setAttribute('aria-label', names.map((name, n) => `${name} ${short(values[n].at(-1))}`).join(', '));
    const x = n => left + (width - left - 4) * n / (POINTS_MAX - 1), y = value => height - bottom - (height - bottom - top) * value / high;
    for (const part of [0, 0.5, 1]) {
      draw('line', { x1: left, x2: width - 4, y1: y(high * part), y2: y(high * part), stroke: 'var(--line)', 'stroke-width': 0.7 });
      draw('text', { x: left - 6, y: y(high * part) + 4, 'text-anchor': 'end' }, short(high * part, 3));
    }
    draw('text', { x: width - 4, y: height - 4, 'text-anchor': 'end' }, 'now');
    draw('text', { x: left, y: height - 4 }, `${POINTS_MAX} s ago`);
    values.forEach((series, n) => {
      let path = '', on = false;
      series.forEach((value, k) => {
        const point = `${x(POINTS_MAX - series.length + k).toFixed(1)} ${y(value).toFixed(1)}`;
        if (isFinite(value)) path += (on ? 'L' : 'M') + point;
        on = isFinite(value);
      });
      if (path) draw('path', { d: path, fill: 'none', stroke: `var(--s${n})`, 'stroke-width': 1.8 });
    });
    const legend = make('div', undefined, { className: 'legend' });
    names.forEach((name, n) => {
      const item = make('span');
      const line = make('i');
      line.style.background = `var(--s${n})`;
      item.append(line, `${name} ${short(values[n].at(-1), 3)}`);
      legend.append(item);
    });
    element.replaceChildren(legend, svg);
  }

  // columns: [title, definition, kind of cell]
  function table(id, columns, rows, empty) {
    const section = at(id), body = section.querySelector('table');
    section.querySelector('.empty').textContent = rows.length ? '' : empty;
    if (section.contains(document.activeElement) && document.activeElement.tagName === 'BUTTON') return; // not under a finger
    if (!rows.length) return body.replaceChildren();
    const head = make('tr');
    for (const [title, text, kind] of columns) {
      const cell = make('th', undefined, { scope: 'col', className: kind ? 'text' : '' });
      cell.append(text ? define(make('span', title), text) : make('span', title));
      head.append(cell);
    }
    const lines = rows.map(cells => {
      const line = make('tr');
      cells.forEach((value, n) => {
        const kind = columns[n][2] || '';
        const cell = make('td', undefined, { className: kind === 'wide' ? 'text wide' : kind });
        if (value instanceof Node) cell.append(value); else cell.textContent = value;
        line.append(cell);
      });
      return line;
    });
    const focused = body.contains(document.activeElement);
    if (focused) return;
    body.replaceChildren(make('thead'), make('tbody'));
    body.tHead.append(head);
    body.tBodies[0].append(...lines);
  }

  async function end(id) {
    if (!confirm(`End operation ${id}?`)) return;
    const reply = await fetch(`/kill?op=${id}`, { method: 'POST', headers: headers({ 'X-Arbor-Console': '1' }) });
    at('status').textContent = (await reply.text()).trim();
  }

  function operations(now) {
    const rows = (now.operations || []).filter(operation => operation.opid !== undefined).map(operation => {
      const button = make('button', 'End');
      const id = number(operation.opid);
      button.setAttribute('aria-label', `End operation ${id}`);
      button.addEventListener('click', () => { button.blur(); end(id); });
      return [String(id), operation.op || operation.type || '', operation.ns || '', short(number(operation.microsecs_running) / 1e6, 3), operation.planSummary || '', operation.client || operation.client_s || '', JSON.stringify(operation.command || {}).slice(0, 300), button];
    });
    table('operations', [
      ['id', 'Number of the operation, as currentOp and killOp have it.'], ['kind', '', 'text'], ['collection', '', 'text'],
      ['seconds', 'Time since the operation began.'], ['plan', 'The indexes that the statement reads; COLLSCAN reads all documents.', 'text'], ['client', '', 'text'],
      ['command', 'The first 300 characters.', 'wide'], ['', ''],
    ], rows, now.operations ? 'None at this moment.' : 'With access control, operations are shown with the token of --httpTokenFile.');
  }

  function shapes(now) {
    const rows = now.shapes.map(shape => {
      const [count, micros] = [number(shape.count), number(shape.micros)];
      const examined = Math.max(number(shape.docsExamined), number(shape.keysExamined));
      const fields = (shape.shape.match(/(?:filter|q|query) (\{.*?\})(?: (?:sort|projection|hint|u|update) |$)/) || [])[1];
      const wasteful = shape.plan.includes('COLLSCAN') && examined > 100 * Math.max(1, number(shape.returned));
      const names = wasteful && fields ? [...new Set([...fields.matchAll(/(?<![\w.$])([A-Za-z_][\w.]*): /g)].map(match => match[1]))] : [];
      const advice = names.length ? `createIndex({${names.map(name => `${name}: 1`).join(', ')}})` : '';
      return [shape.shape, shape.ns, shape.plan || '-', short(count), short(micros / 1e6, 3), short(micros / count / 1e3, 3), short(number(shape.microsMax) / 1e3, 3), short(examined), short(number(shape.returned)), advice];
    });
    table('shapes', [
      ['shape', 'A statement that was slower than slowms, with ? for its values.', 'wide'], ['collection', '', 'text'],
      ['plan', 'The plan of the last statement of this shape.', 'text'], ['times', 'Slow statements of this shape since the start.'],
      ['total s', 'Time of all of them.'], ['mean ms', ''], ['longest ms', ''], ['examined', 'Documents or index entries that they read.'], ['returned', 'Documents that they returned.'],
      ['would help', 'An index over the fields of the filter; suggested where a collection scan reads a hundred times of what it returns.', 'text'],
    ], rows, 'No statement was slower than slowms.');
  }

  function collections(now) {
    if (!now.collections) return;
    const rows = now.collections.map(row => {
      const [data, disk] = [number(row.dataBytes), number(row.diskBytes)];
      return [row.ns, row.engine, short(number(row.documents)), bytes(data), bytes(disk), disk > 0 ? short(data / disk, 3) : '-', short(number(row.indexes)), bytes(number(row.indexBytes))];
    });
    const hidden = number(now.collectionsHidden);
    table('collections', [
      ['collection', '', 'text'], ['engine', 'The storage engine of its documents.', 'text'], ['documents', 'Exact.'], ['data', 'Size of all documents.'],
      ['on disk', 'Size of its tree in the file of the engine; what is only in memory and in the log is not in it yet.'],
      ['compression', 'Data by size on disk.'], ['indexes', 'Secondary indexes.'], ['indexes on disk', ''],
    ], rows, 'There are none.');
    if (hidden > 0) at('collections').querySelector('.empty').textContent = `${hidden} more are not shown.`;
  }

  function tree(now) {
    const ftree = now.statistics.ftree;
    const flows = [
      ['applied', 'bytes applied', 'Rows and messages that commits put into the memory of the trees.'],
      ['absorbed', 'bytes absorbed', 'Messages that moved from memory into the buffers of the roots.'],
      ['to level 1', 'bytes flushed to level 1', 'Messages that were flushed one level above the leaves.'],
      ['to level 2', 'bytes flushed to level 2', 'Messages that were flushed two levels above the leaves.'],
      ['to level 3 and above', 'bytes flushed to level 3 and above', 'Messages that were flushed to higher levels.'],
      ['to leaves', 'bytes flushed to leaves', 'Messages that reached their leaves.'],
      ['written to the file', 'file bytes written', 'All bytes that the engine wrote.'],
      ['pending in memory', null, 'Messages that commits applied and that no level has absorbed yet.'],
    ];
    const rows = !ftree ? [] : flows.map(([title, name, text]) => {
      const total = name ? number(ftree[name]) : Math.max(0, number(ftree['bytes applied']) - number(ftree['bytes absorbed']));
      return [define(make('span', title), text), name ? bytes(rate(now, 'ftree/' + name)) + '/s' : '', bytes(total)];
    });
    table('tree', [['flow', '', 'text'], ['now', 'In the last second.'], ['since the start', '']], rows, 'The engine ftree is not open.');
  }

  function members(now) {
    const set = now.statistics.set, all = set ? set.members : [];
    const applied = all.map(member => date(member.lastAppliedWallTime)).filter(isFinite);
    const newest = Math.max(...applied);
    const rows = all.map(member => {
      const lag = (newest - date(member.lastAppliedWallTime)) / 1000;
      const role = make('span', number(member.health) ? member.stateStr : 'unreachable', { className: number(member.health) ? '' : 'bad' });
      return [member.name + (member.self ? ' (this one)' : ''), role, short(lag, 3), age(number(member.uptime))];
    });
    table('members', [
      ['member', '', 'text'], ['state', 'As this server sees it.', 'text'], ['lag, s', 'Time from what the most advanced member has applied to what this member has applied.'], ['up for', ''],
    ], rows, 'This server is not a member of a replica set.');
  }

  // One bar for each sharded collection: its chunks in the order of the shard key, each in the color of its shard.
  function chunks(now) {
    if (!now.isRouter) { at('chunks').querySelector('.empty').textContent = 'Routers show where chunks are.'; return; }
    const map = now.chunks;
    if (!map) return;
    const section = at('chunks'), shards = map.shards || [], color = shard => `var(--s${Math.max(0, shards.indexOf(shard)) % 6})`;
    const bars = (map.collections || []).map(collection => {
      const total = number(collection.chunks), box = make('div', undefined, { className: 'map' });
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      const counts = Object.entries(collection.byShard).map(([shard, count]) => [shard, number(count)]);
      svg.setAttribute('viewBox', '0 0 1000 22');
      svg.setAttribute('preserveAspectRatio', 'none');
      svg.setAttribute('role', 'img');
      svg.setAttribute('aria-label', `${collection.ns}: ` + counts.map(([shard, count]) => `${shard} ${count}`).join(', '));
      let before = 0;
      for (const run of collection.runs) {
        const part = document.createElementNS('http://www.w3.org/2000/svg', 'rect'), count = number(run.chunks);
        for (const [key, value] of Object.entries({ x: 1000 * before / total, y: 0, width: 1000 * count / total, height: 22, fill: color(run.shard), stroke: 'var(--back)', 'stroke-width': 0.5 })) part.setAttribute(key, value);
        svg.append(part);
        before += count;
      }
      const legend = make('div', undefined, { className: 'legend' });
      for (const [shard, count] of counts) {
        const item = make('span'), mark = make('i');
        mark.style.background = color(shard);
        item.append(mark, `${shard} ${short(count)} (${short(100 * count / total, 3)} %)`);
        legend.append(item);
      }
      const title = define(make('h3', `${collection.ns} ${JSON.stringify(collection.key)}`), `${total} chunks in the order of the shard key, each in the color of its shard; neighbours of one shard are drawn together.`);
      const caption = make('div');
      caption.append(title);
      box.append(caption, svg, legend);
      return box;
    });
    if (!section.querySelector('.maps').contains(document.activeElement)) section.querySelector('.maps').replaceChildren(...bars, ...(number(map.hidden) > 0 ? [make('p', `${number(map.hidden)} more collections are not shown.`)] : []));
    const key = move => [move.ns, move.from, move.to, JSON.stringify(move.min)].join(' ');
    const ended = new Map(), rows = [];
    for (const move of map.moves || []) { // the newest first
      if (move.what === 'moveChunk.commit' || move.what === 'moveChunk.error') {
        ended.set(key(move), true);
        rows.push([new Date(date(move.time)).toLocaleTimeString(), move.ns, `${move.from} to ${move.to}`, move.what === 'moveChunk.commit' ? 'moved' : make('span', move.errmsg || 'failed', { className: 'bad' }), short(number(move.totalTimeMS) / 1000, 3), short(number(move.criticalSectionMicros) / 1000, 3)]);
      } else if (move.what === 'moveChunk.start' && !ended.delete(key(move))) {
        const seconds = (date(now.now) - date(move.time)) / 1000;
        if (seconds < 3600) rows.push([new Date(date(move.time)).toLocaleTimeString(), move.ns, `${move.from} to ${move.to}`, 'moves', short(seconds, 3), '-']);
      }
    }
    table('chunks', [
      ['time', 'When the move ended, or began.', 'text'], ['collection', '', 'text'], ['shards', '', 'text'], ['outcome', 'From config.changelog.', 'wide'],
      ['seconds', 'Duration of the whole move.'], ['writers waited, ms', 'Duration of the critical section: writers of the range wait for it.'],
    ], rows.slice(0, 15), map.error ? `Not known: ${map.error}` : bars.length ? 'No chunk has moved lately.' : 'No collection is sharded.');
  }

  function backups(now) {
    const begun = date(now.lastBackup);
    at('backup').textContent = isFinite(begun) ? `The last backup of this server began ${age((date(now.now) - begun) / 1000)} ago.` : 'No backup has been taken from this server since it started; arbor backup list shows those of a directory.';
  }

  const headers = more => token ? { ...more, Authorization: 'Bearer ' + token } : more;
  function shown(now) {
    at('host').textContent = now.host;
    document.title = `Arbor ${now.host}`;
    at('build').textContent = now.build;
    history.push({
      ...Object.fromEntries(KINDS.map(kind => [kind, rate(now, 'opcounters/' + kind)])),
      reads: percentile(now, 'reads', 0.99), writes: percentile(now, 'writes', 0.99), commands: percentile(now, 'commands', 0.99),
    });
    if (history.length > POINTS_MAX) history.shift();
    if (!at('tiles').contains(document.activeElement)) tiles(now);
    plot(at('throughput'), KINDS);
    plot(at('latency'), ['reads', 'writes', 'commands']);
    for (const part of [operations, shapes, collections, tree, members, chunks, backups]) part(now);
    before = now;
  }

  async function ask() {
    if (!paused && !document.hidden) {
      try {
        const reply = await fetch(`/console.json?collections=${turn % COLLECTIONS_EVERY === 0 ? 1 : 0}`, { headers: headers({}) });
        at('login').hidden = reply.status !== 401;
        if (reply.ok) {
          turn += 1;
          shown(await reply.json());
          at('status').className = '';
          at('status').textContent = '';
        } else {
          at('status').className = 'bad';
          at('status').textContent = (await reply.text()).trim();
        }
      } catch (error) {
        at('status').className = 'bad';
        at('status').textContent = `The server does not answer: ${error.message}`;
      }
    }
    setTimeout(ask, PERIOD_MS);
  }

  at('login').addEventListener('submit', event => {
    event.preventDefault();
    token = at('token').value;
    sessionStorage.setItem('token', token);
    at('token').value = '';
  });
  at('pause').addEventListener('click', () => {
    paused = !paused;
    at('pause').setAttribute('aria-pressed', String(paused));
    at('pause').textContent = paused ? 'Continue' : 'Pause';
  });
  const THEMES = ['auto', 'light', 'dark'];
  at('theme').addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || 'auto') + 1) % THEMES.length];
    document.documentElement.dataset.theme = next;
    at('theme').textContent = 'Theme: ' + next;
  });
  ask();
})();
