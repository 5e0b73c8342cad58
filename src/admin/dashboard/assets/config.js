// The settings in effect, and what set each; what is logged.

import { request } from './api.js';
import { h } from './dom.js';
import { count } from './format.js';
import { attempt, button, field, formDialog, heading, pane, say, state, table } from './ui.js';

export function config(ctx) {
  const filter = h('input', { type: 'search', 'aria-label': 'Filter settings', placeholder: 'Filter by key or value', 'aria-keyshortcuts': '/' });
  const changed = h('input', { type: 'checkbox' });
  const found = h('p', { class: 'muted', role: 'status' });
  const rows = table({
    label: 'Settings',
    key: (row) => row.key,
    columns: [
      { title: 'Key', text: (row) => row.key, class: 'mono name' },
      { title: 'Value', text: (row) => row.value, class: 'mono name' },
      { title: 'Set by', node: () => h('span', { class: 'tag' }), refresh: (cell, row) => {
        const tag = cell.firstChild;
        tag.textContent = row.layer === 'default' ? 'Default' : row.layer;
        tag.classList.toggle('set', row.layer !== 'default');
      } },
    ],
  });
  const none = state('empty', 'No setting is like that', '');
  let all = [];
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const some = all.filter((row) => (!changed.checked || row.layer !== 'default')
      && `${row.key} ${row.value} ${row.layer}`.toLowerCase().includes(wanted));
    rows.update(some);
    rows.el.hidden = some.length === 0;
    none.hidden = some.length > 0;
    found.textContent = count(some.length, 'setting');
  };
  filter.addEventListener('input', draw);
  changed.addEventListener('change', draw);
  const list = pane(ctx, {
    every: 10000,
    fetch: (signal) => request('GET', '/config', undefined, signal),
    empty: (data) => (data.settings.length === 0 ? state('empty', 'No settings are known', '') : null),
    build: () => ({
      el: h('div', { class: 'card' }, h('div', { class: 'tools' }, filter, h('label', { class: 'check' }, changed, 'Only what is set'), found), rows.el, none),
      update: (data) => {
        all = data.settings;
        draw();
      },
    }),
  });
  return [heading('Configuration', button('Log level', () => logLevel(ctx))), list.el];
}

const logLevel = (ctx) => attempt(ctx, async () => {
  const now = await request('GET', '/log-level', undefined, ctx.signal);
  const level = field({ label: 'Log level', name: 'log_level', value: now.log_level, hint: 'error, warn, info, debug, trace, or directives such as info,hermitmq::storage=debug. Until the next start.' });
  formDialog(ctx, {
    title: 'Log level',
    fields: [level],
    action: 'Change',
    submit: async () => {
      const set = await request('PUT', '/log-level', { log_level: level.value });
      say(`The log level is ${set.log_level}`);
    },
  });
});
