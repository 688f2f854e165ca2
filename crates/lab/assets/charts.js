// How each shape of chart is drawn, and the switch of themes. The data is described in src/report/chart/mod.rs.
'use strict';
const Charts = (() => {
  const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect', 'emptyTriangle', 'emptyDiamond'];
  const MANY_POINTS = 60;
  const COLOURS = 8;
  const MARGIN = 80; // of the axis and its numbers, at the sides of a plot
  const drawn = new Map(); // element -> {chart, systems, plot}

  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isNumber = value => typeof value === 'number' && isFinite(value);
  const escaped = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

  function short(value) {
    if (!isNumber(value)) return value === null || value === undefined ? '' : String(value);
    const size = Math.abs(value);
    if (size >= 1e9) return +(value / 1e9).toPrecision(4) + ' G';
    if (size >= 1e6) return +(value / 1e6).toPrecision(4) + ' M';
    if (size >= 1e4) return +(value / 1e3).toPrecision(4) + ' k';
    return String(+value.toPrecision(4));
  }
  // the next number that an axis may end at
  function round(value) {
    const step = Math.pow(10, Math.floor(Math.log10(Math.max(value, 1e-9)))) / 2;
    return Math.ceil(value / step) * step;
  }
  const percent = x => +(100 * (1 - Math.pow(10, -x))).toPrecision(7) + ' %';

  // One engine has one colour on every page, published or ours: first what is named after it, then others in order, which take the
  // colours that are left.
  const ENGINES = [/^(ftree|toku|perconaft)/i, /^(wiredtiger|wt\b)/i, /^(my)?rocks/i, /^lmdb/i, /^(innodb|fb5|orig5|mysql|mariadb)/i, /^(mongo|mmap)/i, /^tcp-echo/i];
  function colours(names) {
    const of = new Map(), taken = new Set();
    const take = (name, colour) => { of.set(name, colour); taken.add(colour); };
    for (const name of names) {
      const engine = ENGINES.findIndex(engine => engine.test(name));
      if (!of.has(name) && engine >= 0 && !taken.has(engine)) take(name, engine);
    }
    for (const name of names) {
      if (of.has(name)) continue;
      const free = [...Array(COLOURS).keys()].reverse().find(colour => !taken.has(colour));
      take(name, free ?? of.size % COLOURS);
    }
    return of;
  }
  function palette(systems, chart) {
    const of = colours([...new Set([...systems, ...chart.series.map(series => series.system)])]);
    return system => css('--s' + (of.get(system) ?? 0));
  }

  function axis(of, name, faint, line, across) {
    const common = {
      axisLabel: { color: faint, hideOverlap: true, fontSize: 12 },
      axisLine: { lineStyle: { color: line } },
      axisTick: { lineStyle: { color: line } },
      splitLine: { show: !across, lineStyle: { color: line, width: 0.6 } },
      name, nameTextStyle: { color: faint, fontSize: 12 },
      nameLocation: across ? 'middle' : 'end', nameGap: across ? 28 : 12,
    };
    if (!across) common.nameTextStyle.align = 'left';
    if (of.categories && of.categories.length) {
      const crowded = across && of.categories.length > 8 && of.categories.some(name => name.length > 5);
      const axisLabel = crowded ? { ...common.axisLabel, rotate: 45, hideOverlap: false, interval: 0 } : common.axisLabel;
      return { ...common, type: 'category', data: of.categories, axisLabel, ...(crowded ? { name: '' } : {}) };
    }
    if (of.scale === 'percentile') {
      return { ...common, type: 'value', min: 0, interval: 1, axisLabel: { ...common.axisLabel, formatter: percent } };
    }
    const labelled = { ...common.axisLabel, formatter: short };
    const from = isNumber(of.start) ? { startValue: of.start } : {};
    if (of.log) return { ...common, ...from, type: 'log', axisLabel: labelled, ...(across ? { min: 'dataMin', max: 'dataMax' } : {}) };
    return { ...common, type: 'value', axisLabel: labelled };
  }

  // Rows of names below the top of a chart, and the width of a letter in them.
  const NAME_ROWS = 4, LETTER = 6.5;
  // Gives the first mark of each kind and system a row in which its name covers no other name; the others are known by their colour.
  function named(chart, name, width) {
    const marks = chart.marks || [], rows = new Map(), seen = new Set(), ends = Array(NAME_ROWS).fill(-Infinity);
    const xs = [...chart.series.flatMap(of => of.points.map(point => point[0])), ...marks.map(mark => mark.end ?? mark.begin)].filter(isNumber);
    const most = Math.max(...xs, 1e-9), place = x => Math.max(0, x) / most * width;
    for (const mark of [...marks].sort((a, b) => a.begin - b.begin)) {
      const key = mark.system + mark.kind;
      if (seen.has(key)) continue;
      const length = name(mark).length * LETTER, middle = (place(mark.begin) + place(mark.end ?? mark.begin)) / 2;
      const row = ends.findIndex(end => end < middle - length / 2);
      if (row < 0 || middle + length / 2 > width) continue;
      seen.add(key);
      ends[row] = middle + length / 2 + LETTER;
      rows.set(mark, row);
    }
    return rows;
  }
  function marks(chart, colour, text, width) {
    const several = new Set(chart.series.map(series => series.system)).size > 1;
    const name = mark => (several ? mark.system + ': ' : '') + mark.kind.replace('_', ' ');
    const moments = (chart.marks || []).filter(mark => mark.end === undefined);
    const times = (chart.marks || []).filter(mark => mark.end !== undefined);
    const rows = named(chart, name, width);
    const label = mark => ({ show: rows.has(mark), color: text, fontSize: 11, offset: [0, 14 * (rows.get(mark) ?? 0)] });
    return {
      markLine: {
        symbol: 'none', animation: false,
        label: { position: 'insideEnd', rotate: 0, distance: [8, 8], formatter: item => item.name },
        data: moments.map(mark => ({
          name: name(mark), xAxis: mark.begin, label: label(mark), lineStyle: { color: colour(mark.system), type: 'dotted', width: 1.5 },
          tooltip: { formatter: escaped(name(mark) + ': ' + mark.text) },
        })),
      },
      markArea: {
        animation: false,
        data: times.map(mark => [
          { name: name(mark), xAxis: mark.begin, label: { ...label(mark), position: 'insideTop' }, itemStyle: { color: colour(mark.system), opacity: 0.16 },
            tooltip: { formatter: escaped(name(mark) + ': ' + mark.text) } },
          { xAxis: mark.end },
        ]),
      },
    };
  }

  const shapes = {
    lines(chart, colour, text, line, back, width) {
      const series = chart.series.map((of, n) => ({
        type: 'line', name: of.name, data: of.points, color: colour(of.system), symbol: SYMBOLS[n % SYMBOLS.length],
        showSymbol: of.points.length <= MANY_POINTS, symbolSize: 6,
        lineStyle: { width: 1.8, type: of.published || of.dashed ? 'dashed' : 'solid' },
      }));
      if (series.length) Object.assign(series[0], marks(chart, colour, text, width));
      for (const of of chart.series) {
        const repeated = of.points.filter(point => point.length > 2);
        if (repeated.length) series.push(whiskers(of, repeated, colour(of.system), () => ({ offsetCenter: 0, width: 24 })));
      }
      return { series, tooltip: { trigger: 'axis' } };
    },
    bars(chart, colour, text) {
      const series = chart.series.map(of => {
        const data = chart.x.categories.map(() => null);
        for (const [x, y] of of.points) data[x] = y;
        const itemStyle = of.published ? { opacity: 0.75, decal: { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -Math.PI / 4, color: 'rgba(255,255,255,0.35)' } } : {};
        return { type: 'bar', name: of.name, data, ...(chart.stacked ? { stack: 'one' } : {}), color: colour(of.system), barGap: '8%', barMaxWidth: 48, itemStyle };
      });
      const bars = series.length;
      chart.series.forEach((of, n) => {
        const repeated = of.points.filter(point => point.length > 2);
        if (repeated.length) series.push(whiskers(of, repeated, text, api => api.barLayout({ count: bars, barGap: '8%', barMaxWidth: 48 })[n]));
      });
      return { series, tooltip: { trigger: 'axis', axisPointer: { type: 'shadow' } } };
    },
    scatter(chart, colour) {
      const series = [];
      chart.series.forEach((of, n) => {
        series.push({ type: 'scatter', name: of.name, data: of.points, color: colour(of.system), symbol: SYMBOLS[n % SYMBOLS.length], symbolSize: 6, itemStyle: { opacity: 0.55 } });
        series.push({ type: 'line', name: of.name, data: medians(of.points), color: colour(of.system), showSymbol: false, lineStyle: { width: 1.8 }, tooltip: { show: false } });
      });
      return { series, tooltip: { trigger: 'item', formatter: item => `${escaped(item.seriesName)}<br>${short(item.value[0])}: <b>${short(item.value[1])}</b>` } };
    },
    jitter(chart, colour, text, line) {
      const systems = chart.series.length;
      const series = chart.series.map((of, n) => ({
        type: 'custom', name: of.name, data: of.points, color: colour(of.system), encode: { x: 0, y: 1 },
        renderItem(params, api) {
          const [x, y] = api.coord([api.value(0), api.value(1)]);
          const slot = api.size([1, 0])[0] * 0.8 / systems;
          // the same place at every drawing
          const random = Math.abs(Math.sin((params.dataIndex + 1) * 12.9898 + n * 78.233) * 43758.5453) % 1;
          const cx = x + (n - (systems - 1) / 2) * slot + (random - 0.5) * slot * 0.7;
          return { type: 'circle', shape: { cx, cy: y, r: 3 }, style: { fill: colour(of.system), opacity: 0.6 } };
        },
      }));
      return { series, tooltip: { trigger: 'item', formatter: item => `${escaped(item.seriesName)}: <b>${short(item.value[1])}</b>` } };
    },
    boxes(chart, colour, text, line, back) {
      const systems = chart.series.length;
      const series = chart.series.map((of, n) => ({
        type: 'custom', name: of.name, data: of.points.map(row => row.slice(0, 6)), color: colour(of.system), encode: { x: 0, y: [1, 2, 3, 4, 5] },
        renderItem(params, api) {
          const [category, ...values] = of.points[params.dataIndex];
          const slot = api.size([1, 0])[0] * 0.8 / systems;
          const at = value => api.coord([category, value]);
          const x = at(values[0])[0] + (n - (systems - 1) / 2) * slot;
          const half = Math.min(slot * 0.4, 28);
          const [low, first, median, third, high] = values.slice(0, 5).map(value => at(value)[1]);
          const stroke = { stroke: colour(of.system), lineWidth: 1.5 };
          const path = (x1, y1, x2, y2, width) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { ...stroke, lineWidth: width || 1.5 } });
          return { type: 'group', children: [
            path(x, low, x, first), path(x, third, x, high),
            path(x - half / 2, low, x + half / 2, low), path(x - half / 2, high, x + half / 2, high),
            { type: 'rect', shape: { x: x - half, y: third, width: 2 * half, height: Math.max(first - third, 1) }, style: { ...stroke, fill: colour(of.system), fillOpacity: 0.25 } },
            path(x - half, median, x + half, median, 3),
            ...values.slice(5).map(value => ({ type: 'circle', shape: { cx: x, cy: at(value)[1], r: 2.5 }, style: { ...stroke, fill: back } })),
          ] };
        },
      }));
      const names = ['lowest', 'first quartile', 'median', 'third quartile', 'highest'];
      const formatter = item => `${escaped(item.seriesName)}<br>` + names.map((name, n) => `${name} <b>${short(item.value[n + 1])}</b>`).reverse().join('<br>');
      return { series, tooltip: { trigger: 'item', formatter }, extent: chart.series.flatMap(of => of.points.flatMap(row => row.slice(1))) };
    },
    timeline(chart, colour, text) {
      const series = chart.series.map(of => ({
        type: 'custom', name: of.name, color: colour(of.system), encode: { x: [0, 1], y: 2 }, data: of.points,
        renderItem(params, api) {
          const [begin, y] = api.coord([api.value(0), api.value(2)]);
          const end = api.coord([api.value(1), api.value(2)])[0];
          const height = Math.min(api.size([0, 1])[1] * 0.4, 26);
          return { type: 'rect', shape: { x: begin, y: y - height / 2, width: Math.max(end - begin, 3), height }, style: { fill: colour(of.system), opacity: 0.8 } };
        },
        tooltip: { formatter: item => `${escaped(of.texts[item.dataIndex])}<br>${short(item.value[0])} s to ${short(item.value[1])} s` },
      }));
      return { series, tooltip: { trigger: 'item' } };
    },
  };

  // Lines from the lowest to the highest of the repeats, in the middle of the bars that echarts has laid out, or on the points of a line.
  function whiskers(of, points, stroke, placed) {
    return {
      type: 'custom', name: of.name, data: points, encode: { x: 0, y: [2, 3] }, z: 5, tooltip: { show: false }, silent: true,
      renderItem(params, api) {
        const place = placed(api);
        const x = api.coord([api.value(0), 0])[0] + place.offsetCenter;
        const [low, high] = [2, 3].map(dimension => api.coord([api.value(0), api.value(dimension)])[1]);
        const half = Math.min(place.width / 3, 8);
        const path = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke, lineWidth: 1.5 } });
        return { type: 'group', children: [path(x, low, x, high), path(x - half, low, x + half, low), path(x - half, high, x + half, high)] };
      },
    };
  }

  function medians(points) {
    const by = new Map();
    for (const [x, y] of points) by.set(x, [...(by.get(x) || []), y]);
    return [...by].sort((a, b) => a[0] - b[0]).map(([x, ys]) => {
      ys.sort((a, b) => a - b);
      const middle = ys.length >> 1;
      return [x, ys.length % 2 ? ys[middle] : (ys[middle - 1] + ys[middle]) / 2];
    });
  }

  function option(chart, systems, width) {
    const [text, faint, line, back] = ['--text', '--faint', '--line', '--back'].map(css);
    const { series, tooltip, extent } = shapes[chart.shape](chart, palette(systems, chart), text, line, back, width);
    const x = axis(chart.x, chart.x.name, faint, line, true);
    const y = axis(chart.y, chart.y.name, faint, line, false);
    if (chart.shape === 'timeline') { y.inverse = true; y.name = ''; y.splitLine.show = false; x.splitLine.show = true; }
    if (extent && extent.length) y.max = value => round(Math.max(value.max, ...extent));
    if (chart.shape === 'lines' && !chart.x.scale && !x.data) x.max = 'dataMax';
    const value = chart.x.scale === 'percentile' ? percent : item => item;
    return {
      animation: false, backgroundColor: 'transparent', textStyle: { color: text, fontFamily: 'system-ui, sans-serif' },
      aria: { enabled: true },
      grid: { left: 12, right: chart.x.scale === 'percentile' ? 36 : 20, top: chart.shape === 'timeline' ? 12 : 66, bottom: 34, containLabel: true },
      legend: { type: 'scroll', top: 0, left: 0, right: 0, textStyle: { color: text }, pageTextStyle: { color: faint }, pageIconColor: text, show: chart.shape !== 'timeline' },
      tooltip: {
        confine: true, backgroundColor: back, borderColor: line, textStyle: { color: text }, valueFormatter: short,
        axisPointer: { label: { formatter: item => value(item.value) } }, ...tooltip,
      },
      xAxis: x, yAxis: y, series,
    };
  }

  // Draws into an element, in place of what is there.
  function draw(element, chart, systems) {
    let known = drawn.get(element);
    if (!known) {
      known = { plot: echarts.init(element, null, { renderer: 'svg' }) };
      drawn.set(element, known);
      watch.observe(element);
    }
    known.chart = chart;
    known.systems = systems;
    known.plot.setOption(option(chart, systems, known.plot.getWidth() - MARGIN), true);
  }
  const watch = new ResizeObserver(entries => entries.forEach(entry => drawn.get(entry.target)?.plot.resize()));
  const redraw = () => drawn.forEach(known => { known.plot.resize(); known.plot.setOption(option(known.chart, known.systems, known.plot.getWidth() - MARGIN), true); });

  // Rows for the table behind a chart: [header, ...rows].
  function rows(chart) {
    const category = x => (chart.x.categories && chart.x.categories.length ? chart.x.categories[x] : x);
    if (chart.shape === 'timeline') {
      const all = chart.series.flatMap(of => of.points.map((point, n) => [of.name, of.texts[n], point[0], point[1]]));
      return [['system', 'what', 'begin, s', 'end, s'], ...all];
    }
    if (chart.shape === 'boxes') {
      const all = chart.series.flatMap(of => of.points.map(row => [`${of.name} ${category(row[0])}`, ...row.slice(1, 6), row.length - 6]));
      return [['system', 'low', 'first quartile', 'median', 'third quartile', 'high', 'beyond'], ...all];
    }
    if (chart.shape === 'jitter' || chart.shape === 'scatter') {
      const all = chart.series.flatMap(of => {
        const by = new Map();
        for (const [x, y] of of.points) by.set(x, [...(by.get(x) || []), y]);
        return [...by].map(([x, ys]) => [`${of.name} ${category(x)}`, ys.map(short).join('  ')]);
      });
      return [['system', 'intervals'], ...all];
    }
    const xs = new Map();
    chart.series.forEach((of, n) => of.points.forEach(([x, y]) => {
      if (!xs.has(x)) xs.set(x, chart.series.map(() => null));
      xs.get(x)[n] = y;
    }));
    const name = chart.x.scale === 'percentile' ? percent : category;
    const sorted = [...xs].sort((a, b) => a[0] - b[0]);
    return [[chart.x.name, ...chart.series.map(of => of.name)], ...sorted.map(([x, ys]) => [name(x), ...ys])];
  }

  function tableOf(chart, title) {
    const table = document.createElement('table');
    table.createCaption().textContent = title + (chart.label ? ', ' + chart.label : '') + ': ' + chart.y.name;
    const [head, ...body] = rows(chart);
    const cells = (row, values, heads) => values.forEach((value, n) => {
      const cell = row.appendChild(document.createElement((heads || n === 0) && value !== '' ? 'th' : 'td'));
      if (cell.tagName === 'TH') cell.scope = heads ? 'col' : 'row';
      cell.textContent = isNumber(value) ? String(value) : value ?? '';
    });
    cells(table.createTHead().insertRow(), head, true);
    const tbody = table.createTBody();
    body.forEach(values => cells(tbody.insertRow(), values, false));
    return table;
  }

  // ---- themes: as the system says, or as chosen; paper is light
  const button = document.getElementById('theme');
  const themes = ['auto', 'light', 'dark'];
  function remembered() { try { return localStorage.getItem('arbor-theme'); } catch { return null; } }
  function apply(theme) {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = 'Theme: ' + theme;
    redraw();
  }
  let theme = themes.includes(remembered()) ? remembered() : 'auto';
  button.addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem('arbor-theme', theme); } catch { /* a page from a file may have no storage */ }
    apply(theme);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  const paper = on => { if (on) document.documentElement.dataset.theme = 'light'; else apply(theme); redraw(); };
  addEventListener('beforeprint', () => paper(true));
  addEventListener('afterprint', () => paper(false));
  matchMedia('print').addEventListener('change', event => paper(event.matches));
  apply(theme);

  return { draw, tableOf, short };
})();
