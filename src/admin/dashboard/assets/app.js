// The frame around the pages: where one is, whether the broker answers, who one is.

import { token, watch } from './api.js';
import { History } from './chart.js';
import { config } from './config.js';
import { connections } from './connections.js';
import { h, setText } from './dom.js';
import { group, groups } from './groups.js';
import { overview } from './overview.js';
import { topic } from './topic.js';
import { topics } from './topics.js';
import { dialog, field, heading, say, state } from './ui.js';

const main = document.getElementById('main');
const banner = document.getElementById('banner');

const PAGES = [
  { path: '', title: 'Overview', view: overview },
  { path: 'topics', title: 'Topics', view: topics, one: topic },
  { path: 'groups', title: 'Groups', view: groups, one: group },
  { path: 'connections', title: 'Connections', view: connections },
  { path: 'config', title: 'Config', view: config },
];

/** What is known of the broker: the last snapshot, why there is none, and how it has been. */
const live = { snapshot: null, error: null, rates: new History(), listeners: new Set() };

let page = null;
let signedOut = false;

// Where one is.

/** `#/topics/a%2Fb/messages?partition=1` → the parts of the path, and the parameters. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const decode = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { parts: path.split('/').filter(Boolean).map(decode), params: new URLSearchParams(query ?? '') };
}

function show({ focus = true } = {}) {
  page?.abort();
  const { parts, params } = place();
  const found = PAGES.find(({ path }) => path === (parts[0] ?? ''));
  page = new AbortController();
  const ctx = { signal: page.signal, signIn, live, params };
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.path === (parts[0] ?? '')) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const view = parts.length > 1 ? found?.one : found?.view;
  main.replaceChildren(...(view ? view(ctx, ...parts.slice(1)) : [heading('Nothing here'), state('gone', 'There is no such page', location.hash)]));
  const name = parts[1] ?? found?.title ?? 'Nothing here';
  document.title = `${name} · HermitMQ`;
  if (focus) {
    (main.querySelector('h1') ?? main).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

// Who one is.

function signIn() {
  if (signedOut) return;
  signedOut = true;
  page?.abort();
  page = new AbortController();
  const was = token.get();
  token.forget();
  const input = field({ label: 'Token', name: 'token', type: 'password', hint: 'It is kept in this tab, and forgotten with it.' });
  input.error = was ? 'The broker does not accept this token.' : '';
  const form = h('form', { class: 'card sign-in', novalidate: true, on: { submit: (event) => {
    event.preventDefault();
    if (!input.value.trim()) return void (input.error = 'The token is empty.');
    token.set(input.value.trim());
    signedOut = false;
    document.getElementById('sign-out').hidden = false;
    show();
    connect();
  } } }, h('h1', { tabindex: '-1' }, 'Sign in'), h('p', {}, 'This broker wants to know who you are.'), input.el,
  h('div', { class: 'dialog-foot' }, h('button', { type: 'submit', class: 'primary' }, 'Sign in')));
  main.replaceChildren(h('div', { 'data-state': 'unauthorised' }, form));
  document.title = 'Sign in · HermitMQ';
  input.input.focus();
  stream?.abort();
  told(null, null);
}

// Whether the broker answers.

let stream = null;

function connect() {
  stream?.abort();
  stream = new AbortController();
  const { signal } = stream;
  watch((snapshot) => told(snapshot, null), (error) => {
    if (error.wantsToken) signIn();
    else if (!signal.aborted) told(live.snapshot, error);
  }, signal);
}

/** A page that nobody sees lets go of its stream: a browser has few connections for one address, all its tabs together. */
function seen() {
  if (document.hidden) stream?.abort();
  else if (!signedOut && stream?.signal.aborted) connect();
}

function told(snapshot, error) {
  const wasAway = live.error?.status === 0;
  Object.assign(live, { snapshot, error });
  if (!error && snapshot?.rates) {
    live.rates.add(snapshot.time_ms, [snapshot.rates.bytes_in, snapshot.rates.bytes_out]);
  }
  if (!error && wasAway) say('The broker answers again');
  drawLive();
  for (const listener of live.listeners) listener();
}

function drawLive() {
  const { snapshot, error } = live;
  const [kind, text, loud] = (() => {
    if (signedOut) return ['unauthorised', 'Signed out', ''];
    if (error?.status === 403) return ['forbidden', 'Not allowed to watch', ''];
    if (error?.type.endsWith(':shutting-down')) return ['away', 'Going down', 'The broker is going down.'];
    if (error?.status === 0) return ['away', 'No answer', 'The broker does not answer. What is shown is what was last known; trying again.'];
    if (error) return ['away', 'No events', error.message];
    if (!snapshot) return ['connecting', 'Connecting', ''];
    if (snapshot.state === 'starting') {
      const recovery = snapshot.health.checks.find((check) => check.name === 'recovery');
      return ['starting', 'Starting', `The broker starts: ${recovery?.reason ?? 'the log is being recovered'}.`];
    }
    if (snapshot.state === 'stopping') return ['away', 'Going down', 'The broker is going down.'];
    if (!snapshot.health.ok) return ['ill', 'Not ready', ''];
    return ['well', 'Live', ''];
  })();
  document.getElementById('live').dataset.state = kind;
  setText(document.getElementById('live-text'), text);
  if (banner.textContent !== loud) banner.textContent = loud;
  banner.dataset.state = kind;
  banner.hidden = loud === '';
  document.body.classList.toggle('stale', kind === 'away');
}

// The keyboard.

const SHORTCUTS = [
  ...PAGES.map(({ title }, at) => [String(at + 1), title]),
  ['/', 'To the filter of a list'],
  ['?', 'These shortcuts'],
  ['Esc', 'Close a dialog'],
  ['Ctrl Enter', 'Do what a dialog is for'],
];

function help() {
  if (document.querySelector('dialog')) return;
  const rows = SHORTCUTS.map(([keys, what]) => [h('dt', {}, keys.split(' ').map((key) => h('kbd', {}, key))), h('dd', {}, what)]);
  dialog({ signal: page.signal }, 'Shortcuts', h('div', { class: 'dialog-body' }, h('dl', { class: 'keys' }, rows)));
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest('input, textarea, select, dialog')) return;
  const at = Number(event.key) - 1;
  if (PAGES[at]) location.hash = `#/${PAGES[at].path}`;
  else if (event.key === '?') help();
  else if (event.key === '/') {
    const filter = main.querySelector('input[type=search]');
    if (!filter) return;
    filter.focus();
  } else return;
  event.preventDefault();
}

document.getElementById('nav').append(h('ul', {}, PAGES.map(({ path, title }) => h('li', {}, h('a', { href: `#/${path}`, 'data-path': path }, title)))));
document.getElementById('help').addEventListener('click', help);
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  (main.querySelector('h1') ?? main).focus();
});
const signOut = document.getElementById('sign-out');
signOut.hidden = !token.get();
signOut.addEventListener('click', () => {
  token.forget();
  signOut.hidden = true;
  signIn();
});
document.addEventListener('keydown', pressed);
document.addEventListener('visibilitychange', seen);
window.addEventListener('hashchange', () => { if (!signedOut) show(); });
show({ focus: false });
connect();
seen();
