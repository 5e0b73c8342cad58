// How the broker is, and what it does.

import { lines } from './chart.js';
import { h, setText } from './dom.js';
import { byteRate, bytes, count, duration, rate, whole } from './format.js';
import { failure, figure, heading, state, table } from './ui.js';
import { createTopic } from './topics.js';

const CHECKS = {
  recovery: 'The log is recovered',
  shutdown: 'It is not going down',
  reactors: 'The reactors answer',
  certificate: 'The certificate does not expire soon',
  disk_space: 'Disk space is left',
  flush: 'Flushes succeed',
  damage: 'No damage was found',
  compaction: 'Compaction succeeds',
};

export function overview(ctx) {
  const { live } = ctx;
  const box = h('div', { class: 'pane', 'aria-busy': 'true' }, state('loading', 'Loading'));
  let shown = null;
  const draw = () => {
    if (live.snapshot) {
      if (!shown) {
        shown = build(ctx);
        box.replaceChildren(shown.el);
        box.removeAttribute('aria-busy');
      }
      shown.update(live.snapshot);
    } else if (live.error) {
      box.removeAttribute('aria-busy');
      box.replaceChildren(failure(live.error));
    }
  };
  live.listeners.add(draw);
  ctx.signal.addEventListener('abort', () => live.listeners.delete(draw));
  queueMicrotask(draw);
  return [heading('Overview'), box];
}

function build(ctx) {
  const [into, out, connected, disk] = ['In', 'Out', 'Connections', 'Disk'].map((name) => figure(name));
  const health = healthCard();
  const chart = lines({ label: 'Throughput', names: ['In', 'Out'], format: byteRate, history: ctx.live.rates, base: 1024 });
  const link = (page) => ({ name }) => h('a', { href: `#/${page}/${encodeURIComponent(name)}` }, name);
  const topics = ranking('Busiest topics', 'No topic is being written or read.', {
    label: 'Busiest topics',
    key: (row) => row.name,
    columns: [
      { title: 'Topic', node: link('topics'), class: 'name' },
      { title: 'In', num: true, text: (row) => byteRate(row.bytes_in) },
      { title: 'Records', num: true, text: (row) => rate(row.records_in) },
      { title: 'Out', num: true, text: (row) => byteRate(row.bytes_out) },
    ],
  });
  const groups = ranking('Groups that are behind', 'No group is behind.', {
    label: 'Groups that are behind',
    key: (row) => row.name,
    columns: [
      { title: 'Group', node: link('groups'), class: 'name' },
      { title: 'Lag', num: true, text: (row) => whole(row.lag) },
      { title: 'Consumers', num: true, text: (row) => whole(row.consumers) },
    ],
  });
  const first = state('empty', 'No topics yet',
    'Create one here, or let a producer do it: hermitmq produce greetings.',
    h('button', { type: 'button', class: 'primary', on: { click: () => createTopic(ctx) } }, 'Create a topic'));
  const lists = h('div', { class: 'two' }, topics.el, groups.el);
  const el = h('div', { class: 'stack' }, health.el, h('div', { class: 'figures' }, into.el, out.el, connected.el, disk.el),
    first, h('div', { class: 'card' }, chart.el), lists);
  return {
    el,
    update(snapshot) {
      const { rates, connections, log } = snapshot;
      health.update(snapshot);
      into.set(byteRate(rates?.bytes_in), rates ? `${rate(rates.records_in).replace('/s', '')} records/s` : '');
      out.set(byteRate(rates?.bytes_out), `to ${count(connections.consumers, 'consumer')}`);
      connected.set(whole(connections.all), `${count(connections.producers, 'producer')}`);
      const { low, free_bytes: free } = snapshot.disk;
      // It is looked at once the log is recovered.
      if (log) disk.set(`${bytes(free)} free`, low ? 'Too little: no record is stored' : `${bytes(log.bytes)} of log`);
      disk.el.classList.toggle('bad', low);
      first.hidden = !log || log.topics > 0;
      lists.hidden = !first.hidden;
      topics.update(log?.busiest_topics ?? []);
      groups.update(log?.slowest_groups ?? []);
      chart.draw();
    },
  };
}

function healthCard() {
  const title = h('h2', {});
  const facts = h('p', { class: 'muted' });
  const reasons = h('ul', { class: 'reasons' });
  const checks = h('ul', { class: 'checks' });
  const all = h('details', {}, h('summary', {}, 'All checks'), checks);
  const el = h('section', { class: 'card health' }, h('div', { class: 'health-head' }, title, facts), reasons, all);
  return {
    el,
    update({ health, state: stage, uptime_seconds: uptime, version, log }) {
      const ill = health.checks.filter((check) => !check.ok);
      const [kind, words] = stage === 'starting' ? ['warn', 'Starting']
        : !health.ok ? ['bad', 'Not ready']
          : ill.length ? ['warn', 'Ready, with something to see to'] : ['good', 'Healthy'];
      el.dataset.health = kind;
      setText(title, words);
      const holds = log ? `, ${count(log.topics, 'topic')}, ${count(log.partitions, 'partition')}, ${count(log.groups, 'group')}` : '';
      setText(facts, `Version ${version}, up ${duration(uptime)}${holds}`);
      const lines = ill.map((check) => check.reason ?? CHECKS[check.name] ?? check.name);
      if (reasons.dataset.of !== JSON.stringify(lines)) {
        reasons.dataset.of = JSON.stringify(lines);
        reasons.replaceChildren(...lines.map((line) => h('li', {}, line)));
      }
      const now = health.checks.map(({ name, ok }) => `${name}${ok}`).join();
      if (checks.dataset.of !== now) {
        checks.dataset.of = now;
        checks.replaceChildren(...health.checks.map(({ name, ok, required }) => h('li', { 'data-ok': String(ok) },
          `${CHECKS[name] ?? name}: ${ok ? 'yes' : required ? 'no' : 'no, and it may wait'}`)));
      }
    },
  };
}

/** A short table under a title, or a line that says that there is nothing. */
function ranking(title, nothing, options) {
  const rows = table(options);
  const none = h('p', { class: 'muted' }, nothing);
  return {
    el: h('section', { class: 'card' }, h('h2', {}, title), none, rows.el),
    update(now) {
      none.hidden = now.length > 0;
      rows.el.hidden = now.length === 0;
      rows.update(now);
    },
  };
}
