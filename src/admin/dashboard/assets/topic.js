// One topic: its partitions and segments, what goes in and out, its records, how it is kept.

import { request } from './api.js';
import { History, lines } from './chart.js';
import { h, setText } from './dom.js';
import { byteRate, bytes, count, rate, timeNs, whole } from './format.js';
import { messages, produce } from './messages.js';
import { settingFields, topicPath, valueOf } from './topics.js';
import { attempt, button, confirm, dialog, field, figure, formDialog, heading, pane, say, table } from './ui.js';

const TABS = [['', 'Partitions'], ['messages', 'Messages'], ['settings', 'Settings']];

/** Rates of the topics that were looked at, for as long as the page is open. */
const histories = new Map();

export function topic(ctx, name, tab = '') {
  const actions = h('span', { class: 'actions' });
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'Parts of the topic' }, TABS.map(([part, title]) => h('a', {
    href: `#/topics/${encodeURIComponent(name)}${part ? `/${part}` : ''}`,
    'aria-current': part === tab ? 'page' : null,
  }, title)));
  const list = pane(ctx, {
    every: tab === 'messages' ? 0 : 2000,
    fetch: async (signal) => {
      const about = await request('GET', topicPath(name), undefined, signal);
      const traffic = tab === '' ? await request('GET', topicPath(name, 'traffic'), undefined, signal) : null;
      return { about, traffic };
    },
    build: ({ about }) => {
      actions.replaceChildren(...actionsFor(ctx, about, () => list.load()));
      if (tab === 'messages') return messages(ctx, about);
      if (tab === 'settings') return settings();
      return partitions(ctx, name);
    },
  });
  const crumb = h('p', { class: 'crumb' }, h('a', { href: '#/topics' }, 'Topics'));
  return [crumb, heading(name, actions), tabs, list.el];
}

function actionsFor(ctx, about, reload) {
  if (about.reserved) return [h('span', { class: 'muted' }, "One of the broker's own: it can only be looked at.")];
  const write = button('Produce a record', () => produce(ctx, about, reload), 'primary');
  if (about.declared) return [h('span', { class: 'muted' }, 'Declared in the configuration: it is changed there.'), write];
  // What it is now, not what it was when the page came.
  const now = (then) => () => attempt(ctx, async () => then(await request('GET', topicPath(about.name), undefined, ctx.signal)));
  return [
    write,
    button('Alter', now((one) => alter(ctx, one, reload))),
    button('Delete', now((one) => remove(ctx, one)), 'danger-text'),
  ];
}

function partitions(ctx, name) {
  const [into, out, size, records] = ['In', 'Out', 'Size', 'Records'].map((title) => figure(title));
  if (!histories.has(name)) histories.set(name, new History());
  const history = histories.get(name);
  const chart = lines({ label: 'Throughput', names: ['In', 'Out'], format: byteRate, history, base: 1024 });
  const rows = table({
    label: `Partitions of ${name}`,
    key: (row) => row.partition,
    columns: [
      { title: 'Partition', text: (row) => String(row.partition), sort: (row) => row.partition },
      { title: 'First offset', num: true, text: (row) => whole(row.start_offset), sort: (row) => row.start_offset },
      { title: 'End offset', num: true, text: (row) => whole(row.end_offset), sort: (row) => row.end_offset },
      { title: 'Size', num: true, text: (row) => bytes(row.bytes), sort: (row) => row.bytes },
      { title: 'In', num: true, text: (row) => byteRate(row.rate?.bytes_in), sort: (row) => row.rate?.bytes_in ?? 0 },
      { title: 'Out', num: true, text: (row) => byteRate(row.rate?.bytes_out), sort: (row) => row.rate?.bytes_out ?? 0 },
      { title: 'State', text: stateOf, sort: stateOf },
      { title: 'Segments', node: (row) => button('', () => segments(ctx, name, row.partition), 'link'), refresh: (cell, row) => {
        setText(cell.firstChild, count(row.segments, 'segment'));
        cell.firstChild.setAttribute('aria-label', `${count(row.segments, 'segment')} of partition ${row.partition}`);
      } },
    ],
  });
  const el = h('div', { class: 'stack' }, h('div', { class: 'figures' }, into.el, out.el, size.el, records.el),
    h('div', { class: 'card' }, chart.el), h('div', { class: 'card' }, h('h2', {}, 'Partitions'), rows.el));
  let before = null;
  return {
    el,
    update({ about, traffic }) {
      const rates = before ? ratesOf(before, traffic) : null;
      // Two looks at the same moment say nothing.
      if (!before || traffic.time_ms > before.time_ms) before = traffic;
      const sum = (list, what) => list.reduce((total, one) => total + what(one), 0);
      if (rates) {
        const total = [...rates.values()];
        history.add(Date.now(), [sum(total, (one) => one.bytes_in), sum(total, (one) => one.bytes_out)]);
        into.set(byteRate(sum(total, (one) => one.bytes_in)), `${rate(sum(total, (one) => one.records_in)).replace('/s', '')} records/s`);
        out.set(byteRate(sum(total, (one) => one.bytes_out)), count(sum(traffic.partitions, (one) => one.waiting_consumers), 'consumer waits', 'consumers wait'));
        chart.draw();
      }
      size.set(bytes(sum(about.partitions, (one) => one.bytes)), count(sum(about.partitions, (one) => one.segments), 'segment'));
      records.set(whole(sum(about.partitions, (one) => one.end_offset - one.start_offset)), 'by their offsets');
      rows.update(about.partitions.map((one) => ({ ...one, rate: rates?.get(one.partition) })));
    },
  };
}

function stateOf({ read_only: readOnly, damaged, flushed_offset: flushed, end_offset: end }) {
  if (readOnly) return 'Read-only: a flush failed';
  if (damaged.length) return `${count(damaged.length, 'damaged range')}`;
  return flushed < end ? 'Flushing' : 'On the disk';
}

/** In a second, by partition. */
function ratesOf(before, now) {
  const seconds = (now.time_ms - before.time_ms) / 1000;
  if (seconds <= 0) return null;
  const old = new Map(before.partitions.map((one) => [one.partition, one]));
  return new Map(now.partitions.map((one) => {
    const was = old.get(one.partition) ?? one;
    const per = (what) => Math.max(0, one[what] - was[what]) / seconds;
    return [one.partition, { bytes_in: per('bytes_in'), bytes_out: per('bytes_out'), records_in: per('records_in') }];
  }));
}

function segments(ctx, name, partition) {
  const rows = table({
    label: `Segments of partition ${partition}`,
    key: (row) => row.base_offset,
    columns: [
      { title: 'First offset', num: true, text: (row) => whole(row.base_offset) },
      { title: 'Size', num: true, text: (row) => bytes(row.bytes) },
      { title: 'Last append', text: (row) => timeNs(row.last_append_ns) },
      { title: 'State', text: (row) => (row.active ? 'Being written' : 'Sealed') },
    ],
  });
  const end = new AbortController();
  ctx.signal.addEventListener('abort', () => end.abort());
  const list = pane({ ...ctx, signal: end.signal }, {
    fetch: (signal) => request('GET', topicPath(name, 'partitions', partition, 'segments'), undefined, signal),
    build: () => ({
      el: rows.el,
      update: (data) => rows.update(data.segments.map((one, at) => ({ ...one, active: at === data.segments.length - 1 })).reverse()),
    }),
  });
  const el = dialog(ctx, `Segments of ${name}, partition ${partition}`, h('div', { class: 'dialog-body' }, list.el), 'wide');
  el.addEventListener('close', () => end.abort());
}

const NAMES = {
  durability: 'Durability',
  cleanup: 'Clean-up',
  retention_hours: 'Retention by age',
  retention_mb: 'Retention by size',
  max_segment_mb: 'Segment size',
  max_payload_mb: 'Largest payload',
  timestamp: 'Timestamps',
};

function written(key, value) {
  if (key === 'retention_hours') return value === 0 ? 'No limit' : `${whole(value)} h`;
  if (key === 'retention_mb') return value === 0 ? 'No limit' : `${whole(value)} MiB`;
  return key.endsWith('_mb') ? `${whole(value)} MiB` : String(value);
}

function settings() {
  const rows = table({
    label: 'Settings of the topic',
    key: (row) => row.key,
    columns: [
      { title: 'Setting', text: (row) => NAMES[row.key] ?? row.key },
      { title: 'Value', text: (row) => written(row.key, row.value) },
      { title: 'Set', text: (row) => (row.own ? 'For this topic' : 'For all topics') },
    ],
  });
  return {
    el: h('div', { class: 'card' }, rows.el),
    update: ({ about }) => rows.update(Object.entries(about.effective).map(([key, value]) => ({ key, value, own: about.settings[key] !== null }))),
  };
}

function alter(ctx, about, reload) {
  const now = about.settings;
  const partitions = field({ label: 'Partitions', name: 'partitions', hint: `There are ${about.partitions.length}; more can be added, none taken away. Records with keys go elsewhere then.`, inputmode: 'numeric', value: about.partitions.length });
  const fields = [partitions, ...settingFields(now, about.effective)];
  return formDialog(ctx, {
    title: `Alter ${about.name}`,
    fields,
    action: 'Alter',
    submit: async () => {
      const body = {};
      for (const one of fields) {
        const value = valueOf(one);
        const was = one === partitions ? about.partitions.length : now[one.name] ?? null;
        if (value !== was) body[one.name] = value;
      }
      await request('PATCH', topicPath(about.name), body);
      say(`Topic ${about.name} was altered`);
      reload();
    },
  });
}

function remove(ctx, about) {
  const sum = (what) => about.partitions.reduce((total, one) => total + what(one), 0);
  const holds = `${count(sum((one) => one.end_offset - one.start_offset), 'record')} (${bytes(sum((one) => one.bytes))})`;
  confirm(ctx, {
    title: `Delete ${about.name}`,
    loses: `${holds} in ${count(about.partitions.length, 'partition')}, and what every group has committed of them, are lost. It cannot be undone.`,
    phrase: about.name,
    action: 'Delete the topic',
    submit: async () => {
      await request('DELETE', topicPath(about.name));
      say(`Topic ${about.name} was deleted`);
      location.hash = '#/topics';
    },
  });
}
