// Consumer groups: where they stand, how far they are behind, putting them somewhere else.

import { path, request } from './api.js';
import { History, lines } from './chart.js';
import { h } from './dom.js';
import { ago, count, nsOf, short, whole } from './format.js';
import { numberOf } from './topics.js';
import { button, confirm, field, figure, formDialog, heading, pane, say, STAY, state, table } from './ui.js';

const at = (name) => `#/groups/${encodeURIComponent(name)}`;

/** Lines of one chart: more cannot be told apart. */
const LINES_MAX = 6;

export function groups(ctx) {
  const filter = h('input', { type: 'search', 'aria-label': 'Filter groups by name', placeholder: 'Filter by name', 'aria-keyshortcuts': '/' });
  const rows = table({
    label: 'Groups',
    key: (row) => row.name,
    sorted: 'Lag',
    descending: true,
    columns: [
      { title: 'Name', node: ({ name }) => h('a', { href: at(name) }, name), sort: ({ name }) => name, class: 'name' },
      { title: 'Lag', num: true, text: (row) => whole(row.lag), sort: (row) => row.lag },
      { title: 'Consumers', num: true, text: (row) => whole(row.consumers), sort: (row) => row.consumers },
      { title: 'Partitions', num: true, text: (row) => whole(row.partitions), sort: (row) => row.partitions },
      { title: 'Last commit', text: (row) => ago(row.last_commit_ns), sort: (row) => row.last_commit_ns ?? 0 },
    ],
  });
  const none = state('empty', 'No group has such a name', '');
  let all = [];
  const draw = () => {
    const some = all.filter(({ name }) => name.toLowerCase().includes(filter.value.trim().toLowerCase()));
    rows.update(some);
    rows.el.hidden = some.length === 0;
    none.hidden = some.length > 0;
  };
  filter.addEventListener('input', draw);
  const list = pane(ctx, {
    fetch: (signal) => request('GET', '/groups', undefined, signal),
    empty: (data) => (data.groups.length === 0
      ? state('empty', 'No groups yet', 'A group is there as soon as a consumer of it is connected or has committed: hermitmq consume greetings --group billing.') : null),
    build: () => ({
      el: h('div', { class: 'card' }, h('div', { class: 'tools' }, filter), rows.el, none),
      update: (data) => {
        all = data.groups;
        draw();
      },
    }),
  });
  return [heading('Groups'), list.el];
}

/** Lags of the groups that were looked at, for as long as the page is open. */
const histories = new Map();

export function group(ctx, name) {
  let about = null;
  const actions = [
    button('Reset', () => about && reset(ctx, about, list.load), 'primary'),
    button('Delete', () => about && remove(ctx, about), 'danger-text'),
  ];
  if (!histories.has(name)) histories.set(name, { history: new History(), order: [] });
  const past = histories.get(name);
  const list = pane(ctx, {
    fetch: (signal) => request('GET', path('groups', name), undefined, signal),
    build: () => {
      const shown = standing(name, past);
      return {
        el: shown.el,
        update: (data) => {
          about = data;
          shown.update(data);
        },
      };
    },
  });
  const crumb = h('p', { class: 'crumb' }, h('a', { href: '#/groups' }, 'Groups'));
  return [crumb, heading(name, actions), list.el];
}

const label = ({ topic, partition }) => `${topic}/${partition}`;

function standing(name, past) {
  const [lag, consumers, partitions] = ['Lag', 'Consumers', 'Partitions'].map((title) => figure(title));
  const chart = lines({ label: 'Lag', names: [], format: short, history: past.history });
  const rows = table({
    label: `Where ${name} stands`,
    key: label,
    sorted: 'Lag',
    descending: true,
    columns: [
      { title: 'Topic', node: (row) => h('a', { href: `#/topics/${encodeURIComponent(row.topic)}` }, row.topic), sort: (row) => row.topic, class: 'name' },
      { title: 'Partition', num: true, text: (row) => String(row.partition), sort: (row) => row.partition },
      { title: 'Committed', num: true, text: (row) => whole(row.committed), sort: (row) => row.committed ?? -1 },
      { title: 'End offset', num: true, text: (row) => whole(row.end_offset), sort: (row) => row.end_offset ?? -1 },
      { title: 'Lag', num: true, text: (row) => whole(row.lag), sort: (row) => row.lag ?? -1 },
      { title: 'Consumers', num: true, text: (row) => whole(row.consumers), sort: (row) => row.consumers },
      { title: 'Last commit', text: (row) => ago(row.last_commit_ns), sort: (row) => row.last_commit_ns ?? 0 },
    ],
  });
  const el = h('div', { class: 'stack' }, h('div', { class: 'figures' }, lag.el, consumers.el, partitions.el),
    h('div', { class: 'card' }, chart.el), h('div', { class: 'card' }, h('h2', {}, 'Where it stands'), rows.el));
  return {
    el,
    update(about) {
      const { offsets } = about;
      const total = offsets.reduce((sum, one) => sum + (one.lag ?? 0), 0);
      lag.set(whole(total), 'records that it has not committed');
      consumers.set(whole(about.consumers), about.consumers ? '' : 'nobody is connected');
      partitions.set(whole(offsets.length), '');
      // The lines of a chart stay what they are: those that are behind most when they begin.
      const lags = new Map(offsets.map((one) => [label(one), one.lag ?? 0]));
      past.order = past.order.filter((one) => lags.has(one));
      const more = [...lags.keys()].filter((one) => !past.order.includes(one)).sort((a, b) => lags.get(b) - lags.get(a));
      const before = past.order.length;
      past.order.push(...more.slice(0, Math.max(0, LINES_MAX - before)));
      past.history.add(Date.now(), past.order.map((one) => lags.get(one)));
      chart.name(past.order);
      chart.draw();
      rows.update(offsets);
    },
  };
}

const PLACES = [['earliest', 'The oldest record kept'], ['latest', 'The end'], ['offset', 'An offset'], ['timestamp_ns', 'A time']];

/** Says what a reset would do before it is done. */
async function reset(ctx, about, then) {
  const names = [...new Set(about.offsets.map((one) => one.topic))];
  const topic = field({ label: 'Topic', name: 'topic', options: names.map((name) => [name, name]), value: names[0] });
  const partition = field({ label: 'Partitions', name: 'partitions', options: [['', 'All']], value: '' });
  const to = field({ label: 'To', name: 'to', options: PLACES, value: 'earliest' });
  const offset = field({ label: 'Offset', name: 'offset', inputmode: 'numeric' });
  const moment = field({ label: 'Time', name: 'timestamp', type: 'datetime-local', step: '1', hint: 'The first record of this time or later, as the clock is here' });
  const preview = h('div', { class: 'preview-table', 'aria-live': 'polite' });
  let previewed = null;
  const wanted = () => {
    const place = { offset: { offset: numberOf(offset.value) }, timestamp_ns: { timestamp_ns: nsOf(moment.value) } }[to.value] ?? to.value;
    const some = partition.value === '' ? {} : { partitions: [Number(partition.value)] };
    return { topic: topic.value, ...some, to: place };
  };
  const places = () => {
    offset.el.hidden = to.value !== 'offset';
    moment.el.hidden = to.value !== 'timestamp_ns';
    const of = about.offsets.filter((one) => one.topic === topic.value).map((one) => one.partition);
    const was = partition.value;
    partition.input.replaceChildren(h('option', { value: '' }, 'All'), ...of.map((one) => h('option', { value: String(one) }, String(one))));
    partition.input.value = of.map(String).includes(was) ? was : '';
  };
  const warning = about.consumers ? h('p', { class: 'form-warning' }, `${count(about.consumers, 'consumer is', 'consumers are')} connected. A group is not reset while they are: their next commits would undo it.`) : null;
  const el = formDialog(ctx, {
    title: `Reset ${about.name}`,
    intro: warning,
    fields: [topic, partition, to, offset, moment],
    extra: preview,
    action: 'Preview',
    ready: () => (to.value !== 'offset' || offset.value.trim() !== '') && (to.value !== 'timestamp_ns' || moment.value !== ''),
    submit: async () => {
      if (previewed) {
        const done = await request('POST', `${path('groups', about.name)}/reset`, { ...previewed, dry_run: false });
        say(`${about.name} was put elsewhere in ${count(done.steps.length, 'partition')}`);
        return void then();
      }
      const asked = wanted();
      const { steps } = await request('POST', `${path('groups', about.name)}/reset`, { ...asked, dry_run: true });
      // A choice that was made meanwhile wants another preview.
      if (JSON.stringify(wanted()) !== JSON.stringify(asked)) return STAY;
      previewed = asked;
      const rows = table({
        label: 'What the reset does',
        key: (row) => row.partition,
        columns: [
          { title: 'Partition', num: true, text: (row) => String(row.partition) },
          { title: 'Now', num: true, text: (row) => whole(row.from) },
          { title: 'Then', num: true, text: (row) => whole(row.to) },
          { title: 'Effect', text: effect },
        ],
      });
      rows.update(steps);
      preview.replaceChildren(rows.el);
      name('Reset the group', 'danger');
      return STAY;
    },
  });
  const done = el.querySelector('button[type=submit]');
  function name(text, kind) {
    done.textContent = text;
    done.className = kind;
  }
  // What was shown is what is done: any change asks for another preview.
  for (const event of ['input', 'change']) {
    el.addEventListener(event, () => {
      previewed = null;
      preview.replaceChildren();
      name('Preview', 'primary');
    });
  }
  for (const one of [topic, to]) one.input.addEventListener('change', places);
  places();
}

function effect({ from, to, start_offset: start }) {
  const stood = Math.max(from ?? start, start);
  if (to < stood) return `${count(stood - to, 'record')} again`;
  if (to > stood) return `${count(to - stood, 'record')} skipped`;
  return 'Nothing changes';
}

function remove(ctx, about) {
  confirm(ctx, {
    title: `Delete ${about.name}`,
    loses: `What it has committed in ${count(about.offsets.length, 'partition')} is forgotten: its consumers begin anew, as if they had never been there. It cannot be undone.`,
    phrase: about.name,
    action: 'Delete the group',
    submit: async () => {
      await request('DELETE', path('groups', about.name));
      say(`Group ${about.name} was deleted`);
      location.hash = '#/groups';
    },
  });
}
