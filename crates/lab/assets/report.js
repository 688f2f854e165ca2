// Draws the charts of a report; the data is in the page.
'use strict';
(() => {
  const { systems, figures } = JSON.parse(document.getElementById('data').textContent);
  for (const figure of document.querySelectorAll('figure[data-figure]')) {
    const { chosen, charts } = figures[figure.dataset.figure];
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
