// Lines over the last minutes, drawn as SVG.

import { h, setText, svg } from './dom.js';
import { time } from './format.js';

const LEFT = 68;
const BOTTOM = 22;
const TOP = 8;
const RIGHT = 8;
const HEIGHT = 200;
const GAP_MS = 15000;

/** Points of the last `spanMs`, each `{ at, values }`. */
export class History {
  constructor(spanMs = 5 * 60 * 1000) {
    this.spanMs = spanMs;
    this.points = [];
  }

  add(at, values) {
    this.points.push({ at, values });
    while (this.points.length && this.points[0].at < at - this.spanMs) this.points.shift();
  }
}

/** A round number at or above `value`, and what a grid of it goes up by. */
function scale(value, base) {
  const least = Math.max(value, base === 1024 ? 1024 : 2);
  if (base === 1024 && least >= 1024) {
    const unit = 1024 ** Math.floor(Math.log(least) / Math.log(1024));
    return round(least / unit) * unit;
  }
  return round(least);
}

function round(least) {
  const magnitude = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * magnitude).find((top) => top >= least) ?? 10 * magnitude;
}

/** `names` are those of the lines; `format` writes a value; `base` 1024 for bytes. */
export function lines({ label, names, format, history, base = 10 }) {
  const canvas = svg('svg', { role: 'img', class: 'chart', height: HEIGHT });
  const legend = h('ul', { class: 'legend' });
  const keys = [];
  const readout = h('p', { class: 'readout muted' });
  const el = h('figure', { class: 'lines' }, h('figcaption', {}, h('h2', {}, label), readout, legend), canvas);
  let hovered = null;
  let labels = names;

  function name(now) {
    labels = now;
    while (keys.length < labels.length) {
      const key = h('li', { class: `line-${keys.length}` });
      keys.push(key);
      legend.append(key);
    }
    keys.forEach((key, at) => {
      key.hidden = at >= labels.length;
      if (!key.hidden) setText(key, labels[at]);
    });
  }

  function draw() {
    const width = Math.max(240, Math.floor(canvas.getBoundingClientRect().width || el.clientWidth || 600));
    const { points, spanMs } = history;
    const end = points.length ? points[points.length - 1].at : Date.now();
    const top = scale(Math.max(0, ...points.flatMap((point) => point.values.slice(0, labels.length))), base);
    const x = (at) => LEFT + ((at - (end - spanMs)) / spanMs) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const marks = [];
    for (const part of [0, 0.5, 1]) {
      const at = y(top * part);
      marks.push(svg('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      marks.push(svg('text', { x: LEFT - 8, y: at + 4, 'text-anchor': 'end' }, format(top * part)));
    }
    const minutes = spanMs / 60000;
    marks.push(svg('text', { x: LEFT, y: HEIGHT - 4 }, `${minutes} min ago`));
    marks.push(svg('text', { x: width - RIGHT, y: HEIGHT - 4, 'text-anchor': 'end' }, 'now'));
    for (const run of runs(points)) {
      labels.forEach((_, line) => marks.push(...drawn(run, line, x, y, labels.length <= 2)));
    }
    if (points.length < 2) marks.push(svg('text', { x: (LEFT + width) / 2, y: HEIGHT / 3, 'text-anchor': 'middle' }, 'The first points come in a moment'));
    const shown = hovered === null ? null : nearest(points, hovered, x);
    if (shown) marks.push(svg('line', { class: 'cursor', x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: HEIGHT - BOTTOM }));
    canvas.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    canvas.replaceChildren(...marks);
    const said = shown ?? points[points.length - 1];
    const values = said ? labels.map((one, at) => `${one} ${format(said.values[at] ?? 0)}`).join(', ') : 'no points yet';
    canvas.setAttribute('aria-label', `${label}, last ${minutes} minutes. Now: ${values}`);
    setText(readout, shown ? `${time(shown.at).slice(11, 19)}  ${values}` : '');
  }

  canvas.addEventListener('pointermove', (event) => {
    hovered = event.offsetX;
    draw();
  });
  canvas.addEventListener('pointerleave', () => {
    hovered = null;
    draw();
  });
  const sized = new ResizeObserver(() => draw());
  sized.observe(el);
  name(names);
  return { el, draw, name };
}

/** The points without the gaps between them: nobody was looking then. */
function runs(points) {
  const all = [];
  points.forEach((point, at) => {
    if (at === 0 || point.at - points[at - 1].at > GAP_MS) all.push([]);
    all[all.length - 1].push(point);
  });
  return all.filter((run) => run.length > 1);
}

/** One line of a run, and the area below it where few enough lines leave room for that. */
function drawn(run, line, x, y, filled) {
  const place = (at, value) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  const path = `M${run.map((point) => place(point.at, point.values[line] ?? 0)).join('L')}`;
  const marks = [svg('path', { class: `line line-${line}`, d: path })];
  if (filled) {
    marks.push(svg('path', { class: `area line-${line}`, d: `${path}L${place(run[run.length - 1].at, 0)}L${place(run[0].at, 0)}Z` }));
  }
  return marks;
}

function nearest(points, at, x) {
  let best = null;
  for (const point of points) {
    if (best === null || Math.abs(x(point.at) - at) < Math.abs(x(best.at) - at)) best = point;
  }
  return best;
}
