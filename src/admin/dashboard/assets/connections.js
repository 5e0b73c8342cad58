// Who is connected; ending a connection.

import { path, request } from './api.js';
import { h } from './dom.js';
import { count, duration } from './format.js';
import { button, confirm, heading, pane, say, state, table } from './ui.js';

const LIMIT = 1000;

export function connections(ctx) {
  const filter = h('input', { type: 'search', 'aria-label': 'Filter connections', placeholder: 'Filter by client, topic, group, address', 'aria-keyshortcuts': '/' });
  const found = h('p', { class: 'muted', role: 'status' });
  const rows = table({
    label: 'Connections',
    key: (row) => row.id,
    columns: [
      { title: 'Client', text: client, sort: client, class: 'name' },
      { title: 'Role', text: (row) => row.role ?? 'Handshake', sort: (row) => row.role ?? '' },
      { title: 'Topic', text: place, sort: place, class: 'name' },
      { title: 'Group', text: (row) => row.group ?? '–', sort: (row) => row.group ?? '', class: 'name' },
      { title: 'Address', text: (row) => row.peer, sort: (row) => row.peer },
      { title: 'Age', num: true, text: (row) => duration(row.age_seconds), sort: (row) => row.age_seconds },
      { title: '', node: (row) => button('End', () => end(ctx, row, list.load), 'danger-text', { 'aria-label': `End the connection from ${row.peer}` }) },
    ],
  });
  const none = state('empty', 'No connection is like that', '');
  let last = null;
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    const has = (row) => [client(row), row.role, place(row), row.group, row.peer].some((text) => text?.toLowerCase().includes(wanted));
    const some = last.connections.filter(has);
    rows.update(some);
    rows.el.hidden = some.length === 0;
    none.hidden = some.length > 0;
    found.textContent = `${count(some.length, 'connection')}${last.complete ? '' : `; there are more than the ${LIMIT} listed`}`;
  };
  filter.addEventListener('input', () => last && draw());
  const list = pane(ctx, {
    fetch: (signal) => request('GET', `/connections?limit=${LIMIT}`, undefined, signal),
    empty: (data) => (data.connections.length === 0
      ? state('empty', 'Nobody is connected', 'Producers and consumers are listed here while they are.') : null),
    build: () => ({
      el: h('div', { class: 'card' }, h('div', { class: 'tools' }, filter, found), rows.el, none),
      update: (data) => {
        last = data;
        draw();
      },
    }),
  });
  return [heading('Connections'), list.el];
}

function client({ client_name: name, client_software: software }) {
  if (name && software) return `${name} (${software})`;
  return name ?? software ?? '–';
}

function place({ topic, partition }) {
  if (!topic) return '–';
  return partition === null ? topic : `${topic}/${partition}`;
}

function end(ctx, row, then) {
  const who = row.client_name ? `${row.client_name} at ${row.peer}` : row.peer;
  const loses = {
    producer: 'What it has sent and was not acked may be lost to it.',
    consumer: 'What it was sent and has not committed it gets again.',
  }[row.role] ?? '';
  confirm(ctx, {
    title: 'End a connection',
    loses: `The connection of ${who} ends. ${loses} The client may connect again.`,
    action: 'End the connection',
    submit: async () => {
      await request('DELETE', path('connections', row.id));
      say(`The connection of ${who} was ended`);
      then();
    },
  });
}
