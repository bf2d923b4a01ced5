/** What stands in the columns of a table or a rotation: waves of known frequency, as posenc/plot/columns.py has
 *  them, and how they are drawn in pixels (posenc/plot/response.py and raster.py). */

import { filled, ladder } from "./evaluator.js";
import { rint } from "./numbers.js";

const TURN = 2 ** -64 * 2 * Math.PI; // radians in one unit of phase
const HALF = 2 ** 32;
const QUARTER = 2 ** 30; // of a turn, in the upper half of a phase
export const QUARTER_TURN = 1n << 62n;
const [FADE, FULL] = [2, 8]; // pixels per wave: nothing is shown up to the first, all from the second on
const LOOKED_AT = 1 << 14; // positions of a wave whose extremes are looked for
export const GOLDEN = 0.6180339887498949; // multiples of it, without their whole parts, spread evenly

/** A phase of 64 bits as radians, from minus to plus half a turn. */
export const radians = (phase) => Number(BigInt.asIntN(64, phase)) * TURN;

/** A step of 64 bits as two of 32, with which numbers are ten times as fast as BigInt. */
export const halves = (step) => [Number(step >> 32n), Number(BigInt.asUintN(32, step))];

/** Radians, from minus to plus half a turn, of a position times a step, which wraps around as the circle does; `top` and
 *  `part` of a step are added. */
export function angle(position, step, top = 0, part = 0) {
  const [high, low] = [step[0], step[1]];
  if (!part && position >= 0 && position < 2 ** 21) { // float64 holds the product with the lower half
    const product = position * low;
    const carry = Math.floor(product / HALF);
    return (((Math.imul(position, high) + carry + top) | 0) * HALF + (product - carry * HALF)) * TURN;
  }
  const [a, b] = [position & 0xffff, (position >>> 16) & 0xffff];
  const [c, d] = [low & 0xffff, low >>> 16];
  const middle = b * c + a * d;
  const more = part ? rint(part * (high * HALF + low)) : 0;
  const upper = Math.floor(more / HALF);
  const rest = a * c + (middle % 65536) * 65536 + (more - upper * HALF);
  const product = Math.imul(position >>> 0, high) + Math.imul(Math.floor(position / HALF), low) + b * d;
  return (((product + Math.floor(middle / 65536) + upper + top + Math.floor(rest / HALF)) | 0) * HALF + (rest % HALF)) * TURN;
}

/** Adds to each number the sine of a phase, times a share; the phase grows by a step from one to the next. */
export function addWave(numbers, phase, step, share = 1) {
  let [top, rest] = halves(BigInt.asIntN(64, phase));
  const [high, low] = halves(step);
  for (let n = 0; n < numbers.length; n += 1) {
    numbers[n] += share * Math.sin((top * HALF + rest) * TURN);
    rest += low;
    top = (top + high + Number(rest >= HALF)) | 0;
    if (rest >= HALF) rest -= HALF;
  }
  return numbers;
}

/** The pair of each column, and whether it is the sine (0) or the cosine (1). */
function layout({ entry, values: { d, order, pairing } }) {
  const pairs = Math.ceil(d / 2);
  const columns = Array.from({ length: d }, (_, c) => c);
  if (entry.kind === "rotary" ? pairing === "interleaved" : order === "interleaved") return columns.map((c) => [c >> 1, c & 1]);
  const first = order === "cos_sin" ? Math.floor(d / 2) : pairs;
  const own = order === "cos_sin" ? 1 : 0;
  return columns.map((c) => (c < first ? [c, own] : [c - first, 1 - own]));
}

/** A table of sines and cosines, or those of a rotation. */
export class Columns {
  constructor(chosen) {
    const { entry, values: { d, n } } = chosen;
    Object.assign(this, { d, turns: entry.kind === "rotary", label: entry.label, layout: layout(chosen) });
    const { first = 1, start = 0, cos_shift: shift = 0, divisor: [c, byWidth, byPairs] = [0, 0.5, 0] } = chosen.convention ?? {};
    const own = { dim: d, base: n, of: this.turns ? "RoPE" : "Sinusoidal", first, divisor: c + byWidth * d + byPairs * Math.ceil(d / 2) };
    this.ladder = ladder({ ...own, start });
    const cosines = shift ? ladder({ ...own, start: start + shift }) : this.ladder;
    this.usual = first === 1;
    this.steps = this.layout.map(([pair, cosine]) => (cosine ? cosines : this.ladder).steps[pair]);
    this.halves = this.steps.map(halves);
    this.wavelengths = this.steps.map((step) => (2 * Math.PI) / Math.abs(radians(step))); // as whole positions show them
  }

  /** The first column of each pair. */
  get channels() {
    const first = new Int32Array(this.ladder.steps.length);
    this.layout.forEach(([pair], column) => { first[pair] = column; });
    [...this.layout.entries()].reverse().forEach(([column, [pair]]) => { first[pair] = column; });
    return first;
  }

  name(column) {
    const [pair, cosine] = this.layout[column];
    return `${cosine ? "cos" : "sin"} of pair ${pair}`;
  }

  /** The value of a column at a position, or at a place between: a whole number and a part. */
  at(position, column, part = 0) {
    return Math.sin(angle(position, this.halves[column], this.layout[column][1] * QUARTER, part));
  }

  /** A column at consecutive positions. */
  run(start, count, column) {
    const [, cosine] = this.layout[column];
    return addWave(new Float64Array(count), this.steps[column] * BigInt(start) + (cosine ? QUARTER_TURN : 0n), this.steps[column]);
  }

  row(position, columns = null) {
    return filled(this.d, (n) => this.at(position, columns ? columns[n] : n));
  }
}

const kept = new Map();

/** The columns of an encoding, made once. */
export function columnsOf(chosen) {
  const key = JSON.stringify([chosen.entry.id, chosen.values]);
  if (!kept.has(key)) {
    if (kept.size > 32) kept.clear();
    kept.set(key, new Columns(chosen));
  }
  return kept.get(key);
}

/** The share of a wave that is shown, from its length in pixels. */
export function gain(pixelsPerWave) {
  const u = Math.min(Math.log(Math.max(pixelsPerWave, FADE) / FADE) / Math.log(FULL / FADE), 1);
  return u * u * (3 - 2 * u);
}

/** The position at the middle of each pixel, as an integer and a fraction of at most 1/2. */
export function centres(start, stop, pixels) {
  return Array.from({ length: pixels }, (_, k) => {
    const top = (2 * k + 1) * (stop - start) - pixels;
    const whole = Math.floor((top + pixels) / (2 * pixels));
    return [start + whole, (top - whole * 2 * pixels) / (2 * pixels)];
  });
}

/** Where pixels begin and end: position p covers p to p + 1. */
const edges = (start, stop, pixels) => Array.from({ length: pixels + 1 }, (_, k) => start + k * ((stop - start) / pixels));

/** One column over positions, a point for each pixel: `x` in the middles, the mean, and a band where pixels
 *  cannot show all of the wave. */
export function curveOf(table, column, start, stop, most) {
  const pixels = Math.min(most, stop - start);
  const limits = edges(start, stop, pixels);
  const x = Float64Array.from({ length: pixels }, (_, k) => (limits[k] + limits[k + 1]) / 2);
  const wavelength = table.wavelengths[column];
  const curve = { column, label: table.name(column), x, wavelength, perPixel: (stop - start) / pixels, band: false };
  if (pixels === stop - start) return { ...curve, mean: table.run(start, pixels, column) };
  const share = gain((wavelength * pixels) / (stop - start));
  const mean = Float64Array.from(centres(start, stop, pixels), ([whole, part]) => (share ? share * table.at(whole, column, part) : 0));
  if (share === 1) return { ...curve, mean };
  const count = stop - start;
  let [low, high] = [Infinity, -Infinity];
  for (let n = 0; n < Math.min(count, LOOKED_AT); n += 1) {
    const value = table.at(start + (count <= LOOKED_AT ? n : Math.floor(((n * GOLDEN) % 1) * count)), column);
    [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  return { ...curve, mean, band: high > low, low: new Float64Array(pixels).fill(low), high: new Float64Array(pixels).fill(high) };
}

/** All of so many where they are few, else some from the first to the last and one's own. */
export function someOf(count, most, own) {
  const few = Array.from({ length: count }, (_, n) => n);
  if (count <= most) return few;
  const places = Array.from({ length: most - 1 }, (_, n) => Math.floor(n === most - 2 ? count - 1 : n * ((count - 1) / (most - 2))));
  return [...new Set([...places, own])].sort((a, b) => a - b);
}
