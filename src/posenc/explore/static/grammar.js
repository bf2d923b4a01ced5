/** Panels of a frame, made here: fields, defaults and ticks are those of posenc/plot/panels/grammar.py.
 *
 *  `shapes` are what Python says of its classes: which fields each sends, and with which defaults. */

import { filled } from "./evaluator.js";
import { logTicks, namedTicks, number, rint, ticks, whole } from "./numbers.js";

let shapes = {};
export const describe = (python) => { shapes = python; };

/** An array of a frame: numbers with their shape. */
export class Grid {
  constructor(data, shape = [data.length]) {
    Object.assign(this, { data, shape, name: null });
  }
}

export const float32 = (values) => new Grid(Float32Array.from(values));
export const float64 = (values) => new Grid(Float64Array.from(values));

/** A thing of the grammar, such as a Chart, with what is not given as Python has it. */
export function make(name, fields) {
  const strange = Object.keys(fields).filter((key) => !(key in shapes[name]));
  if (strange.length) throw new Error(`${name} has no ${strange.join(", ")}`);
  return { ...shapes[name], ...fields };
}

/** Items without those that are null or empty. */
export const present = (...items) => items.filter(Boolean);

export const range = (n) => Array.from({ length: n }, (_, k) => k);

// Blocks of a readout.
export const fact = (label, value, note = "") => make("Datum", { label, value, note });
export const heading = (text) => make("Heading", { text });
export const prose = (text) => make("Prose", { text });

/** So many integers around one, within those from a first to a last. */
export function around(centre, low, high, count = 20) {
  const first = Math.max(low, Math.min(centre - count / 2, high - count));
  return range(Math.min(first + count, high) - first).map((n) => first + n);
}

// --- axes ------------------------------------------------------------------------------------------

function cellTicks(start, stop, most, names) {
  if (names) {
    const marks = namedTicks(names, start, stop, most);
    return marks.length ? marks : [{ at: start + 0.5, text: whole(names[start]) }];
  }
  const marks = ticks(start, stop - 1, most).filter(({ at }) => Number.isInteger(at)).map(({ at }) => ({ at: at + 0.5, text: whole(at) }));
  return marks.length ? marks : [{ at: start + 0.5, text: whole(start) }];
}

/** An axis of integers, each with room of its own; `names` are what they are called. */
export function cells(label, start, stop, { key = "", at = null, most = 7, to = null, names = null } = {}) {
  return make("Axis", { label, domain: [start, stop], cells: true, key, at, to, ticks: cellTicks(start, stop, most, names) });
}

/** An axis of words, each with a cell of its own. */
export function wordAxis(label, names, key = "") {
  const marks = names.map((text, n) => ({ at: n + 0.5, text }));
  return make("Axis", { label, domain: [0, names.length], cells: true, key, ticks: marks });
}

/** An axis of numbers, from the least to the largest. */
export function values(label, low, high, most = 4) {
  const inner = ticks(low, high, most);
  const ends = new Map([[low, number(low)], ...inner.map(({ at, text }) => [at, text]), [high, number(high)]]);
  const all = inner.length > 1 ? inner : [...ends].map(([at, text]) => ({ at, text }));
  return make("Axis", { label, domain: [low, high], ticks: all });
}

/** A logarithmic axis of positive numbers. */
export function logarithmic(label, low, high, base = 10) {
  return make("Axis", { label, domain: [low, high], scale: "log", ticks: logTicks(low, high, 7, base) });
}

/** An axis of the cursor: its key, and the integers where it can stand. */
export const stops = (key, value, min, max) => ({ key, value, min, max, step: 1 });

/** A panel with the cursor at places of its axes; `to` puts a point there on a curve. */
export function under(panel, x = null, y = null, to = null) {
  const moved = { ...panel, x: { ...panel.x, at: x } };
  if (panel.kind === "heatmap") moved.y = { ...panel.y, at: y };
  if (panel.kind === "chart" && x !== null && to !== null && Number.isFinite(to)) {
    moved.marks = [...panel.marks, make("Mark", { axis: "point", at: x + 0.5 * panel.x.cells, to, style: "point" })];
  }
  return moved;
}

// --- colours ---------------------------------------------------------------------------------------

const ZERO = 128;

/** The entries of a diverging map for values from -limit to limit; 0 for what is no number. */
export function indices(numbers, limit, shape) {
  const entry = (x) => {
    if (!Number.isFinite(x)) return 0;
    const scaled = Math.min(127, Math.max(-127, x * (127 / limit)));
    return ZERO + Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5);
  };
  return new Grid(filled(numbers.length, (n) => entry(numbers[n]), Uint8Array), shape);
}

/** The entries of a sequential map for values from 0 to limit. */
export function shares(numbers, limit, shape) {
  const entry = (x) => (Number.isNaN(x) ? 0 : rint(Math.min(255, Math.max(0, x * (255 / limit)))));
  return new Grid(filled(numbers.length, (n) => entry(numbers[n]), Uint8Array), shape);
}

/** The largest size of the finite values; 0 where there are none. */
export function largest(numbers) {
  let most = 0;
  for (const x of numbers) if (Number.isFinite(x)) most = Math.max(most, Math.abs(x));
  return most;
}

// --- arrays ----------------------------------------------------------------------------------------

/** A name that follows from the content, so that what is equal is not drawn anew. */
function nameOf({ data, shape }) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let [a, b] = [0x811c9dc5, 0x2f0b4a67];
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x5bd1e995) ^ (b >>> 15);
  }
  return `@${(a >>> 0).toString(36)}${(b >>> 0).toString(36)}${data.constructor.name[0]}${shape.join("x")}`;
}

/** A header whose arrays have names, and the arrays by these. */
export function withNames(header) {
  const arrays = {};
  const walk = (node) => {
    if (node instanceof Grid) {
      const name = (node.name ??= nameOf(node));
      arrays[name] = { data: node.data, shape: node.shape };
      return name;
    }
    if (Array.isArray(node)) return node.map(walk);
    if (node === null || typeof node !== "object") return typeof node === "number" && !Number.isFinite(node) ? null : node;
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, walk(value)]));
  };
  return { header: walk(header), arrays };
}
