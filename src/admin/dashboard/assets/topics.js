// All topics; creating one.

import { path, request } from './api.js';
import { h } from './dom.js';
import { bytes, count, whole } from './format.js';
import { button, field, formDialog, heading, pane, say, state, table } from './ui.js';

const at = (name) => `#/topics/${encodeURIComponent(name)}`;

export function topics(ctx) {
  const filter = h('input', { type: 'search', 'aria-label': 'Filter topics by name', placeholder: 'Filter by name', 'aria-keyshortcuts': '/' });
  const own = h('input', { type: 'checkbox' });
  const found = h('p', { class: 'muted', role: 'status' });
  const rows = table({
    label: 'Topics',
    key: (topic) => topic.name,
    sorted: 'Name',
    columns: [
      { title: 'Name', node: ({ name }) => h('a', { href: at(name) }, name), sort: ({ name }) => name, class: 'name' },
      { title: 'Partitions', num: true, text: (topic) => whole(topic.partitions), sort: (topic) => topic.partitions },
      { title: 'Size', num: true, text: (topic) => bytes(topic.bytes), sort: (topic) => topic.bytes },
    ],
  });
  const none = state('empty', 'No topic has such a name', '');
  let all = [];
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const some = all.filter(({ name, reserved }) => (own.checked || !reserved) && name.toLowerCase().includes(wanted));
    rows.update(some);
    rows.el.hidden = some.length === 0;
    none.hidden = some.length > 0;
    const total = some.reduce((sum, topic) => sum + topic.bytes, 0);
    found.textContent = `${count(some.length, 'topic')}, ${bytes(total)}`;
  };
  filter.addEventListener('input', draw);
  own.addEventListener('change', draw);
  const list = pane(ctx, {
    every: 3000,
    fetch: (signal) => request('GET', '/topics', undefined, signal),
    empty: (data) => (data.topics.every(({ reserved }) => reserved) && !own.checked
      ? state('empty', 'No topics yet', 'A topic is created here, or by the first client that names it.',
        button('Create a topic', () => createTopic(ctx), 'primary')) : null),
    build: () => ({
      el: h('div', { class: 'card' }, h('div', { class: 'tools' }, filter, h('label', { class: 'check' }, own, "The broker's own, too"), found), rows.el, none),
      update: (data) => {
        all = data.topics;
        draw();
      },
    }),
  });
  return [heading('Topics', button('Create a topic', () => createTopic(ctx, list.load), 'primary')), list.el];
}

/** Fields for how a topic is kept. `now` are its settings, `effective` what holds where it has none. */
export function settingFields(now = {}, effective = {}) {
  const default_ = (value) => (value === undefined ? 'As configured for all' : `As configured for all (${value})`);
  const choice = (label, name, hint, values) => field({ label, name, hint, options: [['', default_(now[name] ? undefined : effective[name])], ...values.map((value) => [value, value])], value: now[name] ?? '' });
  const number = (label, name, hint) => field({ label, name, hint, inputmode: 'numeric', placeholder: now[name] === null || now[name] === undefined ? effective[name] ?? 'As configured for all' : 'As configured for all', value: now[name] ?? '' });
  return [
    choice('Durability', 'durability', 'interval: acked when accepted; always: acked when on the disk', ['interval', 'always']),
    choice('Clean-up', 'cleanup', 'delete: by age and size; compact: the newest record of each key stays', ['delete', 'compact', 'both']),
    number('Retention, hours', 'retention_hours', '0 for no limit by age'),
    number('Retention, MiB', 'retention_mb', 'Of each partition so much is kept at least; 0 for no limit by size'),
    number('Segment size, MiB', 'max_segment_mb', 'For the segments that begin from now on'),
    number('Largest payload, MiB', 'max_payload_mb', 'For the producers that connect from now on'),
    choice('Timestamps', 'timestamp', "create: the sender's time; append: the broker's", ['create', 'append']),
  ];
}

/** A number if it is one, else the text: the broker says what is wrong with that. */
export const numberOf = (text) => (/^\d+$/.test(text.trim()) ? Number(text.trim()) : text);

const NUMBERS = ['partitions', 'retention_hours', 'retention_mb', 'max_segment_mb', 'max_payload_mb'];

/** What a field holds, as the API takes it; `null` if it is empty. */
export const valueOf = (one) => {
  if (one.value.trim() === '') return null;
  return NUMBERS.includes(one.name) ? numberOf(one.value) : one.value.trim();
};

export function createTopic(ctx, then) {
  const name = field({ label: 'Name', name: 'name', hint: 'Letters, digits, dots, dashes and underscores' });
  const partitions = field({ label: 'Partitions', name: 'partitions', hint: 'More can be added later, never taken away', inputmode: 'numeric', placeholder: 'As configured' });
  const settings = settingFields();
  const fields = [name, partitions];
  return formDialog(ctx, {
    title: 'Create a topic',
    fields,
    extra: h('details', { class: 'more' }, h('summary', {}, 'How it is kept'), settings.map((one) => one.el)),
    action: 'Create',
    ready: () => name.value.trim() !== '',
    submit: async () => {
      const body = {};
      for (const one of [...fields, ...settings]) {
        const value = valueOf(one);
        if (value !== null) body[one.name] = value;
      }
      const made = await request('POST', '/topics', body);
      say(`Topic ${made.name} was created`);
      if (then) then();
      else location.hash = at(made.name);
    },
  });
}

export const topicPath = (...parts) => path('topics', ...parts);
