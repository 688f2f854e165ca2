// Draws the charts of a report; the data is in the page.
'use strict';
(() => {
  const { systems, figures: groups } = JSON.parse(document.getElementById('data').textContent);
  // systems of other machines keep their colours on the whole page, too
  for (const { charts } of Object.values(groups)) for (const chart of charts) for (const of of chart.series) {
    if (!systems.includes(of.system)) systems.push(of.system);
  }
  for (const figure of document.querySelectorAll('figure[data-figure]')) {
    const { chosen, charts } = groups[figure.dataset.figure];
    const plot = figure.querySelector('.plot');
    const select = figure.querySelector('select');
    const behind = figure.querySelector('details.data');
    const title = figure.querySelector('h3').firstChild.textContent;
    const chart = () => charts[select ? Number(select.value) : chosen];
    const fill = () => behind.open && behind.querySelector('.scroll').replaceChildren(Charts.tableOf(chart(), title));
    behind.addEventListener('toggle', fill);
    if (select) select.addEventListener('change', () => { Charts.draw(plot, chart(), systems); fill(); });
    Charts.draw(plot, chart(), systems);
  }
})();
