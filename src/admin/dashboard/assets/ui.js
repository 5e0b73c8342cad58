// What pages are made of: states, panes that keep themselves fresh, tables, dialogs, fields.

import { ApiError } from './api.js';
import { h, setText } from './dom.js';
import { whole } from './format.js';

const ROWS = 100;
let ids = 0;
const nextId = (name) => `${name}-${(ids += 1)}`;

/** A button. */
export function button(label, onClick, kind = '', attributes = {}) {
  return h('button', { type: 'button', class: kind, on: { click: onClick }, ...attributes }, label);
}

/** What a page says in place of its content: nothing there, not there yet, not allowed, not to be had. */
export function state(kind, title, text, ...actions) {
  return h('div', { class: `state ${kind}`, 'data-state': kind },
    h('p', { class: 'state-title' }, title),
    text ? h('p', {}, text) : null,
    actions.length ? h('p', { class: 'actions' }, actions) : null);
}

const loading = () => state('loading', 'Loading');

/** An error in place of content. */
export function failure(error, again) {
  if (error.status === 403) return state('forbidden', 'Not allowed', error.message);
  if (error.status === 404) return state('gone', error.title, error.message);
  if (error.type.endsWith(':starting')) return state('starting', 'The broker starts', 'It recovers its log. This page comes by itself.');
  const retry = again ? [button('Try again', again)] : [];
  return state('error', error.title, error.title === error.message ? '' : error.message, ...retry);
}

/** Tells what was done, to eyes and to screen readers. */
export function say(text, kind = 'done') {
  const said = document.getElementById('said');
  const line = h('p', { class: kind }, text);
  said.append(line);
  while (said.children.length > 3) said.firstChild.remove();
  setTimeout(() => line.remove(), 8000);
}

/**
 * A part of a page that loads itself, and again every so often while it is looked at. `build` makes it of the first answer and
 * gives `{ el, update }`; `empty` gives a state for an answer that holds nothing.
 */
export function pane(ctx, { every = 2000, fetch, build, empty }) {
  const el = h('div', { class: 'pane', 'aria-busy': 'true' }, loading());
  let shown = null;
  let timer;
  const load = async () => {
    clearTimeout(timer);
    const begun = performance.now();
    try {
      const data = await fetch(ctx.signal);
      if (ctx.signal.aborted) return;
      const nothing = empty?.(data);
      if (nothing) {
        // Left alone while it stays: a button in it may have the focus.
        if (shown !== 'empty') el.replaceChildren(nothing);
        shown = 'empty';
      } else {
        if (shown === null || shown === 'empty') {
          shown = build(data);
          el.replaceChildren(shown.el);
        }
        shown.update(data);
      }
    } catch (error) {
      if (ctx.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.wantsToken) return void ctx.signIn();
      // What is there stays, and the banner says that it is old.
      if (shown === null || !error.passes) {
        shown = null;
        el.replaceChildren(failure(error, load));
      }
    } finally {
      el.removeAttribute('aria-busy');
      // What costs the broker much is asked for less often.
      const wait = Math.max(every, 10 * (performance.now() - begun));
      if (every && !ctx.signal.aborted) timer = setTimeout(turn, wait);
    }
  };
  const turn = () => {
    if (document.hidden) timer = setTimeout(turn, every);
    else load();
  };
  ctx.signal.addEventListener('abort', () => clearTimeout(timer));
  load();
  return { el, load };
}

/**
 * A table whose rows stay the same nodes as long as their keys are there. Columns: `title`, `text(row)` or `node(row)`, `num`,
 * `sort(row)`.
 */
export function table({ label, columns, key, sorted = null, descending = false }) {
  let rows = [];
  let first = 0;
  let order = columns.find((column) => column.title === sorted) ?? null;
  let down = descending;
  const lines = new Map();
  const heads = columns.map((column) => {
    const title = column.sort
      ? button(column.title, () => {
        down = order === column ? !down : Boolean(column.num);
        order = column;
        first = 0;
        draw();
      }, 'sort')
      : h('span', { class: column.title ? '' : 'hidden' }, column.title || 'Actions');
    return h('th', { scope: 'col', class: column.num ? 'num' : '' }, title);
  });
  const body = h('tbody');
  const range = h('span', { class: 'muted' });
  const turn = (by) => () => { first += by; draw(); };
  const back = button('Previous', turn(-ROWS));
  const on = button('Next', turn(ROWS));
  const pager = h('div', { class: 'pager' }, range, h('span', { class: 'actions' }, back, on));
  const el = h('div', { class: 'table' },
    h('table', {}, h('caption', { class: 'hidden' }, label), h('thead', {}, h('tr', {}, heads)), body), pager);

  const line = (row) => {
    const cells = columns.map((column) => {
      const cell = h('td', { 'data-label': column.title, class: [column.num ? 'num' : '', column.class ?? ''].join(' ').trim() });
      if (column.node) cell.append(column.node(row) ?? '');
      return cell;
    });
    return { el: h('tr', {}, cells), cells };
  };

  function draw() {
    const all = order ? [...rows].sort((a, b) => {
      const [x, y] = [order.sort(a), order.sort(b)];
      const by = x < y ? -1 : x > y ? 1 : 0;
      return down ? -by : by;
    }) : rows;
    heads.forEach((head, at) => {
      if (columns[at] === order) head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    first = Math.max(0, Math.min(first, Math.floor((all.length - 1) / ROWS) * ROWS));
    const some = all.slice(first, first + ROWS);
    const kept = new Set(some.map(key));
    for (const [name, { el: old }] of lines) {
      if (!kept.has(name)) {
        old.remove();
        lines.delete(name);
      }
    }
    some.forEach((row, at) => {
      const name = key(row);
      if (!lines.has(name)) lines.set(name, line(row));
      const { el: tr, cells } = lines.get(name);
      columns.forEach((column, number) => {
        if (column.text) setText(cells[number], column.text(row));
        column.refresh?.(cells[number], row);
      });
      // Moved only where it has to be: what has the focus keeps it.
      if (body.children[at] !== tr) body.insertBefore(tr, body.children[at] ?? null);
    });
    pager.hidden = all.length <= ROWS;
    setText(range, `${whole(first + 1)} to ${whole(first + some.length)} of ${whole(all.length)}`);
    back.disabled = first === 0;
    on.disabled = first + ROWS >= all.length;
  }

  return {
    el,
    update(now) {
      rows = now;
      draw();
    },
  };
}

/** A labelled field. `options` makes it a choice, `lines` a text of several. */
export function field({ label, name, hint, type = 'text', options, lines, value = '', ...rest }) {
  const id = nextId('field');
  const attributes = { id, name, 'aria-describedby': `${id}-hint ${id}-error`, ...rest };
  let input;
  if (options) {
    input = h('select', attributes, options.map(([key, text]) => h('option', { value: key }, text)));
    input.value = value;
  } else if (lines) {
    input = h('textarea', { ...attributes, rows: lines, spellcheck: 'false', value });
  } else {
    input = h('input', { ...attributes, type, autocomplete: 'off', spellcheck: 'false', value });
  }
  const error = h('span', { class: 'field-error', id: `${id}-error` });
  const el = h('div', { class: 'field', 'data-field': name }, h('label', { for: id }, label), input,
    h('span', { class: 'hint', id: `${id}-hint` }, hint ?? ''), error);
  return {
    el,
    input,
    name,
    get value() { return input.value; },
    set error(text) {
      setText(error, text ?? '');
      if (text) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    },
  };
}

/** A modal dialog, open. It takes itself away when it is closed; the focus goes back to where it was. */
export function dialog(ctx, title, content, kind = '') {
  const before = document.activeElement;
  const id = nextId('dialog');
  const close = button('Close', () => el.close(), 'quiet close', { 'aria-label': 'Close' });
  const el = h('dialog', { class: kind, 'aria-labelledby': id }, h('div', { class: 'dialog-head' }, h('h2', { id }, title), close), content);
  el.addEventListener('close', () => {
    el.remove();
    if (before?.isConnected) before.focus();
    else document.getElementById('main').focus();
  });
  ctx.signal.addEventListener('abort', () => el.close());
  document.body.append(el);
  el.showModal();
  return el;
}

/** What `submit` of a form answers that is to stay open. */
export const STAY = Symbol('stay');

/**
 * A form in a dialog. `submit` does it; while it does, the form waits; a problem is shown at the field it names, or above the
 * buttons. Closes when it is done.
 */
export function formDialog(ctx, { title, intro, fields = [], extra, action, danger = false, ready, submit }) {
  const wrong = h('p', { class: 'form-error', role: 'alert' });
  const done = h('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, action);
  const cancel = button('Cancel', () => el.close());
  let busy = false;
  const check = () => { done.disabled = busy || (ready ? !ready() : false); };
  const form = h('form', { novalidate: true, on: {
    input: check,
    change: check,
    keydown: (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !done.disabled) form.requestSubmit();
    },
    submit: async (event) => {
      event.preventDefault();
      if (done.disabled) return;
      fields.forEach((one) => { one.error = ''; });
      setText(wrong, '');
      busy = true;
      check();
      form.setAttribute('aria-busy', 'true');
      try {
        if (await submit() !== STAY) el.close();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.wantsToken) {
          el.close();
          return void ctx.signIn();
        }
        const at = fields.find((one) => one.name === error.field?.split('.')[0]);
        const text = error.status === 403 && !error.type.endsWith(':reserved') ? `Not allowed: ${error.message}` : error.message;
        if (at) {
          at.error = text;
          at.input.focus();
        } else {
          setText(wrong, text);
        }
      } finally {
        form.removeAttribute('aria-busy');
        busy = false;
        check();
      }
    },
  } },
  intro, fields.map((one) => one.el), extra, wrong,
  h('div', { class: 'dialog-foot' }, cancel, done));
  const el = dialog(ctx, title, form, danger ? 'danger' : '');
  (fields[0]?.input ?? cancel).focus();
  check();
  return el;
}

/** Asks before something is lost. With `phrase`, that has to be typed. */
export function confirm(ctx, { title, loses, phrase, action, submit }) {
  const typed = phrase ? field({ label: `Type ${phrase} to confirm`, name: 'confirm' }) : null;
  return formDialog(ctx, {
    title,
    intro: h('p', {}, loses),
    fields: typed ? [typed] : [],
    action,
    danger: true,
    ready: () => !typed || typed.value === phrase,
    submit,
  });
}

/** Does what a button is for, and tells what came in its way. */
export async function attempt(ctx, work) {
  try {
    await work();
  } catch (error) {
    if (ctx.signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    if (error.wantsToken) ctx.signIn();
    else say(error.message, 'failed');
  }
}

/** Puts a text on the clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied');
  } catch {
    say('The browser did not allow copying', 'failed');
  }
}

/** The head of a page. */
export function heading(title, ...actions) {
  return h('div', { class: 'heading' }, h('h1', { tabindex: '-1' }, title), h('div', { class: 'actions' }, actions));
}

/** A figure with its name. */
export function figure(name, attributes = {}) {
  const value = h('p', { class: 'value' }, '–');
  const detail = h('p', { class: 'muted' });
  const el = h('section', { class: 'figure', ...attributes }, h('h2', {}, name), value, detail);
  return {
    el,
    set(text, more = '') {
      setText(value, text);
      setText(detail, more);
    },
  };
}
