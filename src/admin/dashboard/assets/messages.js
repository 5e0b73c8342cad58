// Looking at a topic's records, and storing one.

import { ApiError, request } from './api.js';
import { h, setText } from './dom.js';
import { bytes, count, nsOf, timeNs, whole } from './format.js';
import { topicPath } from './topics.js';
import { button, copy, failure, field, formDialog, say, state } from './ui.js';

const PREVIEW = 160;
const FORMS = [['auto', 'As it fits'], ['text', 'Text'], ['json', 'JSON'], ['hex', 'Hex']];

/** Records of one partition, from a place. Nothing is committed by looking. */
export function messages(ctx, about) {
  const { params } = ctx;
  const partition = field({ label: 'Partition', name: 'partition', options: about.partitions.map((one) => [String(one.partition), String(one.partition)]), value: params.get('partition') ?? String(about.partitions[0].partition) });
  if (partition.input.selectedIndex < 0) partition.input.selectedIndex = 0;
  const from = field({ label: 'From', name: 'from', options: [['latest', 'The last ones'], ['earliest', 'The first ones'], ['offset', 'An offset'], ['timestamp', 'A time']], value: params.get('offset') !== null ? 'offset' : 'latest' });
  const offset = field({ label: 'Offset', name: 'offset', inputmode: 'numeric', value: params.get('offset') ?? '' });
  const moment = field({ label: 'Local time', name: 'timestamp', type: 'datetime-local', step: '1' });
  const limit = field({ label: 'Records', name: 'limit', options: ['10', '25', '100', '500'].map((one) => [one, one]), value: '25' });
  const form = field({ label: 'Shown as', name: 'form', options: FORMS, value: 'auto' });
  const range = h('p', { class: 'muted', role: 'status' });
  const list = h('ol', { class: 'messages' });
  const box = h('div', { class: 'pane' }, list);
  const older = button('Older', () => load(Math.max(shown.start_offset, firstOf(shown) - Number(limit.value))));
  const newer = button('Newer', () => load(shown.next_offset));
  const places = () => {
    offset.el.hidden = from.value !== 'offset';
    moment.el.hidden = from.value !== 'timestamp';
  };
  let shown = null;
  let turn = 0;

  const firstOf = (data) => data.messages[0]?.offset ?? data.end_offset;

  function query() {
    const parts = new URLSearchParams({ limit: limit.value });
    if (from.value === 'offset') parts.set('offset', offset.value.trim());
    if (from.value === 'timestamp') parts.set('timestamp', String(nsOf(moment.value)));
    return parts;
  }

  /** From an offset, or from where the form says. */
  async function load(at) {
    const mine = (turn += 1);
    const where = topicPath(about.name, 'partitions', partition.value, 'messages');
    const parts = at === undefined ? query() : new URLSearchParams({ limit: limit.value, offset: String(at) });
    for (const one of [offset, moment]) one.error = '';
    if (at === undefined && from.value === 'timestamp' && !moment.value) return void (moment.error = 'Say which time.');
    box.setAttribute('aria-busy', 'true');
    try {
      if (at === undefined && from.value === 'earliest') {
        const { start_offset: start } = await request('GET', `${where}?limit=1`, undefined, ctx.signal);
        parts.set('offset', String(start));
      }
      const data = await request('GET', `${where}?${parts}`, undefined, ctx.signal);
      if (mine === turn) draw(data);
    } catch (error) {
      if (ctx.signal.aborted || mine !== turn) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.wantsToken) return void ctx.signIn();
      const wrong = { offset, timestamp: moment }[error.field];
      if (wrong && !wrong.el.hidden) wrong.error = error.message;
      else box.replaceChildren(failure(error, () => load(at)));
    } finally {
      if (mine === turn) box.removeAttribute('aria-busy');
    }
  }

  function draw(data) {
    shown = data;
    const last = data.messages[data.messages.length - 1];
    const held = `The partition holds ${whole(data.start_offset)} to ${whole(data.end_offset)}`;
    setText(range, last ? `Offsets ${whole(firstOf(data))} to ${whole(last.offset + last.record_count - 1)}. ${held}.` : `${held}.`);
    older.disabled = firstOf(data) <= data.start_offset;
    newer.disabled = data.next_offset >= data.end_offset;
    if (data.messages.length) {
      list.replaceChildren(...data.messages.map((message) => row(message, form.value)));
      box.replaceChildren(list);
    } else if (!data.damaged) {
      box.replaceChildren(state('empty', data.start_offset === data.end_offset ? 'No records' : 'No records there', 'Nothing is stored from this place on.'));
    } else {
      box.replaceChildren();
    }
    if (data.damaged) box.append(state('error', 'Damaged records', `What is at offset ${whole(data.next_offset)} is damaged on the disk, and not shown.`));
  }

  from.input.addEventListener('change', places);
  form.input.addEventListener('change', () => shown && draw(shown));
  const controls = h('form', { class: 'controls', novalidate: true, on: { submit: (event) => {
    event.preventDefault();
    load();
  } } }, [partition, from, offset, moment, limit, form].map((one) => one.el), h('button', { type: 'submit', class: 'primary' }, 'Look'));
  places();
  load();
  const el = h('div', { class: 'card' }, controls, h('div', { class: 'tools' }, range, h('span', { class: 'actions' }, older, newer)), box);
  return { el, update() {} };
}

/** The bytes of a key or a payload. */
function bytesOf({ encoding, data }) {
  if (encoding === 'text') return new TextEncoder().encode(data);
  return Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
}

/** Offset, sixteen bytes, and what of them can be read. */
function hex(raw) {
  const rows = [];
  for (let at = 0; at < raw.length; at += 16) {
    const some = [...raw.slice(at, at + 16)];
    const digits = some.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const letters = some.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    rows.push(`${at.toString(16).padStart(8, '0')}  ${digits.padEnd(47)}  ${letters}`);
  }
  return rows.join('\n');
}

/** Whether it is JSON that is worth setting out: an object or a list. */
function isJson(text) {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON set out in lines. Done on the text: numbers keep every digit, which those of JavaScript would not. */
export function indent(json) {
  let out = '';
  let depth = 0;
  let quoted = false;
  const line = () => `\n${'  '.repeat(depth)}`;
  for (let at = 0; at < json.length; at += 1) {
    const letter = json[at];
    if (quoted) {
      out += letter;
      if (letter === '\\') out += json[(at += 1)];
      else if (letter === '"') quoted = false;
    } else if (letter === '"') {
      quoted = true;
      out += letter;
    } else if (letter === '{' || letter === '[') {
      const rest = json.slice(at + 1).match(/^\s*([}\]])/);
      if (rest) {
        out += letter + rest[1];
        at += rest[0].length;
      } else {
        depth += 1;
        out += letter + line();
      }
    } else if (letter === '}' || letter === ']') {
      depth -= 1;
      out += line() + letter;
    } else if (letter === ',') out += letter + line();
    else if (letter === ':') out += ': ';
    else if (!/\s/.test(letter)) out += letter;
  }
  return out;
}

/** A payload in one of the forms; the form that fits if it is left to us. */
function shownAs(data, form) {
  const text = data.encoding === 'text' ? data.data : null;
  if (form === 'hex' || (form === 'auto' && text === null)) return hex(bytesOf(data));
  const readable = text ?? new TextDecoder().decode(bytesOf(data));
  return (form === 'auto' || form === 'json') && !data.cut && isJson(readable) ? indent(readable) : readable;
}

function preview(data, form) {
  const whole_ = data.encoding === 'text' && form !== 'hex' ? data.data : [...bytesOf(data).slice(0, 48)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  const line = whole_.slice(0, PREVIEW).replace(/\s+/g, ' ');
  return line === '' ? '(empty)' : line;
}

function row(message, form) {
  const { key, payload } = message;
  const body = h('div', { class: 'message-body' });
  const el = h('details', { 'data-offset': message.offset }, h('summary', {},
    h('span', { class: 'offset' }, whole(message.offset)),
    h('span', { class: 'when' }, timeNs(message.timestamp_ns)),
    h('span', { class: 'key' }, key ? preview(key, form) : ''),
    h('span', { class: 'preview' }, preview(payload, form)),
    h('span', { class: 'size muted' }, bytes(payload.bytes))), body);
  el.addEventListener('toggle', () => {
    if (!el.open || body.children.length) return;
    const facts = [`Offset ${message.offset}`, timeNs(message.timestamp_ns)];
    if (message.record_count > 1) facts.push(`a batch of ${count(message.record_count, 'record')}`);
    body.append(h('p', { class: 'muted' }, facts.join(', ')));
    if (key) body.append(part('Key', key, form));
    body.append(part('Payload', payload, form));
  });
  return h('li', {}, el);
}

function part(title, data, form) {
  const content = h('pre', { tabindex: '0', 'aria-label': title });
  const buttons = FORMS.slice(1).map(([name, label]) => button(label, () => draw(name), 'quiet', { 'aria-pressed': 'false', 'data-form': name }));
  const draw = (name) => {
    setText(content, shownAs(data, name));
    const fits = data.encoding !== 'text' ? 'hex' : isJson(data.data) ? 'json' : 'text';
    for (const one of buttons) one.setAttribute('aria-pressed', String(one.dataset.form === (name === 'auto' ? fits : name)));
  };
  draw(form);
  const cut = data.cut ? h('p', { class: 'muted' }, `Cut: this is the beginning of ${bytes(data.bytes)}.`) : null;
  return h('section', { class: 'part' }, h('div', { class: 'part-head' }, h('h3', {}, title), h('span', { class: 'muted' }, bytes(data.bytes)),
    h('span', { class: 'actions' }, buttons, button('Copy', () => copy(content.textContent), 'quiet'))), content, cut);
}

/** A dialog that stores one record. */
export function produce(ctx, about, then) {
  const partition = field({ label: 'Partition', name: 'partition', options: about.partitions.map((one) => [String(one.partition), String(one.partition)]), value: String(about.partitions[0].partition) });
  const key = field({ label: 'Key', name: 'key', hint: 'Empty for none' });
  const payload = field({ label: 'Payload', name: 'payload', lines: 8 });
  const encoding = field({ label: 'They are written as', name: 'encoding', options: [['text', 'Text'], ['base64', 'Base64']], value: 'text' });
  return formDialog(ctx, {
    title: `Produce to ${about.name}`,
    fields: [partition, key, payload, encoding],
    action: 'Produce',
    submit: async () => {
      const body = { payload: { encoding: encoding.value, data: payload.value } };
      if (key.value !== '') body.key = { encoding: encoding.value, data: key.value };
      const stored = await request('POST', topicPath(about.name, 'partitions', partition.value, 'messages'), body);
      say(`Stored at offset ${whole(stored.offset)} of partition ${partition.value}`);
      const messagesPage = `#/topics/${encodeURIComponent(about.name)}/messages`;
      if (location.hash.startsWith(messagesPage)) location.hash = `${messagesPage}?partition=${partition.value}&offset=${stored.offset}`;
      else then?.();
    },
  });
}

