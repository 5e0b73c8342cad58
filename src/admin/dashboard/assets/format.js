// Numbers, sizes and times for people.

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** 12,345 */
export const whole = (number) => (number === null || number === undefined ? '–' : WHOLE.format(number));

/** "1 topic", "2 topics" */
export const count = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;

/** 1.2 GiB */
export function bytes(number) {
  if (number === null || number === undefined) return '–';
  let unit = 0;
  let value = number;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** 1.2 MiB/s */
export const byteRate = (number) => (number === null || number === undefined ? '–' : `${bytes(number)}/s`);

/** 1,234/s, 12.3k/s */
export function rate(number) {
  if (number === null || number === undefined) return '–';
  return `${short(number)}/s`;
}

/** 1,234, 12.3k, 4.5M */
export function short(number) {
  for (const [size, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (number >= size * 10 || (number >= size && size > 1e3)) return `${(number / size).toFixed(number >= size * 100 ? 0 : 1)}${letter}`;
  }
  return WHOLE.format(number);
}

/** 3 d 4 h */
export function duration(seconds) {
  const parts = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  if (first < 0) return '0 s';
  let rest = Math.floor(seconds);
  const out = [];
  for (const [unit, size] of parts.slice(first, first + 2)) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount > 0 || out.length === 0) out.push(`${amount} ${unit}`);
  }
  return out.join(' ');
}

const two = (number) => String(number).padStart(2, '0');

/** 2026-01-31 13:05:09.123, in the browser's time zone. */
export function time(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return '–';
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${clock}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

/** The time of a number of ns since the Unix epoch. */
export const timeNs = (ns) => (ns === null || ns === undefined ? '–' : time(Math.floor(ns / 1e6)));

/** "4 s ago" */
export function ago(ns) {
  if (ns === null || ns === undefined) return '–';
  const seconds = (Date.now() - ns / 1e6) / 1000;
  return seconds < 1 ? 'just now' : `${duration(seconds)} ago`;
}

/** A point of time from a field of type datetime-local, in ns since the Unix epoch. */
export const nsOf = (local) => new Date(local).getTime() * 1e6;
