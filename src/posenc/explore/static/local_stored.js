/** Tables whose rows are all that is known of them, as posenc/plot/columns.py has them: a learned table as it
 *  begins, and the cells of a grid, one after another. */

import { columnsOf, GOLDEN } from "./columns.js";
import { filled } from "./evaluator.js";
import { range } from "./grammar.js";
import { reduced } from "./pixels.js";

const [DENSE, DRAWN] = [1 << 21, 256]; // numbers of a curve that are all looked at, and places under a pixel of a longer one
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n; // of PCG64 (O'Neill 2014)
const [LAYERS, TAIL, AREA] = [256, 3.6541528853610088, 0.00492867323399]; // of the ziggurat (Marsaglia and Tsang 2000)
const float = Math.fround;

// --- random numbers, as NumPy draws a normal distribution of 32 bits --------------------------------

const density = (x) => Math.exp(-0.5 * x * x);

/** The layers of the ziggurat: how many multiples of a scale lie inside of each, the scale, and the height. */
const ziggurat = (() => {
  const ends = new Float64Array(LAYERS);
  ends[LAYERS - 1] = TAIL;
  for (let n = LAYERS - 2; n > 0; n -= 1) ends[n] = Math.sqrt(-2 * Math.log(AREA / ends[n + 1] + density(ends[n + 1])));
  const width = (n) => (n ? ends[n] : AREA / density(TAIL));
  return {
    inside: filled(LAYERS, (n) => Math.floor((2 ** 23 * (n ? ends[n - 1] : TAIL)) / width(n))),
    scale: filled(LAYERS, (n) => width(n) / 2 ** 23, Float32Array),
    height: filled(LAYERS, (n) => density(ends[n]), Float32Array),
  };
})();

/** Words of 32 bits of PCG64, the lower half of each 64 first. */
function wordsOf({ state, increment }) {
  let [now, upper] = [BigInt(state), null];
  const more = BigInt(increment);
  return () => {
    if (upper !== null) {
      const own = upper;
      upper = null;
      return own;
    }
    now = BigInt.asUintN(128, now * MULTIPLIER + more);
    const [mixed, by] = [BigInt.asUintN(64, (now >> 64n) ^ now), now >> 122n];
    const turned = (mixed >> by) | (mixed << (64n - by));
    upper = Number((turned >> 32n) & 0xffffffffn);
    return Number(turned & 0xffffffffn);
  };
}

/** One number. A logarithm of 32 bits is the C library's in Python, so of the numbers beyond the last layer some 7 %
 *  may differ in the last bit. */
function normal(word) {
  const share = () => float((word() >>> 8) / 2 ** 24);
  const { inside, scale, height } = ziggurat;
  for (;;) {
    const bits = word();
    const [layer, size] = [bits & 255, bits >>> 9];
    const x = float(size * scale[layer]) * (bits & 256 ? -1 : 1);
    if (size < inside[layer]) return x;
    if (layer && float(float(float(height[layer - 1] - height[layer]) * share()) + height[layer]) < density(x)) return x;
    while (!layer) {
      const beyond = float(float(-1 / TAIL) * float(Math.log1p(-share())));
      const high = -float(Math.log1p(-share()));
      if (high + high > float(beyond * beyond)) return float(TAIL + beyond) * (size & 256 ? -1 : 1);
    }
  }
}

const drawn = { word: null, count: 0, numbers: new Float32Array(0) }; // tables of every size begin with the same numbers

function initial(count, seed) {
  drawn.word ??= wordsOf(seed);
  if (drawn.numbers.length < count) {
    const longer = new Float32Array(count);
    longer.set(drawn.numbers);
    drawn.numbers = longer;
  }
  for (; drawn.count < count; drawn.count += 1) drawn.numbers[drawn.count] = normal(drawn.word);
  return drawn.numbers;
}

// --- tables ----------------------------------------------------------------------------------------

class Stored {
  /** A table of `end` positions by its entries. */
  constructor({ entry, values: { d }, end, sides }, at) {
    const layout = new Array(d).fill([-1, 0]); // no pairs, and so no wave fades
    Object.assign(this, { stored: true, turns: false, label: entry.label, d, end, sides, at, layout, wavelengths: filled(d, () => Infinity) });
  }

  name(column) {
    return `dimension ${column}`;
  }

  row(position, columns = null) {
    return filled(this.d, (n) => this.at(position, columns ? columns[n] : n));
  }

  run(start, count, column) {
    return filled(count, (n) => this.at(start + n, column));
  }

  /** Rows filtered to fewer pixels, with those beside them that there are. */
  filtered(start, stop, pixels, row = (position) => this.row(position)) {
    return reduced((n) => row(start + n), stop - start, pixels, start, this.end - stop);
  }

  /** A column over positions, filtered, with the extremes around each pixel. */
  curve(column, start, stop, most) {
    const count = stop - start;
    const pixels = Math.min(most, count);
    const by = count / pixels;
    const curve = { column, label: this.name(column), x: filled(pixels, (k) => start + (k + 0.5) * by), band: false };
    if (by === 1) return { ...curve, mean: this.run(start, count, column) };
    const dense = count <= Math.max(DENSE / this.d, DRAWN * 4);
    const places = (k) => {
      if (!dense) return range(DRAWN).map((n) => Math.floor((k + (n > 1 ? (n * GOLDEN) % 1 : n * (1 - 1e-9))) * by));
      const [first, end] = [k, k + 1].map((edge) => Math.ceil(edge * by - 1e-9));
      return range(end - first).map((n) => first + n);
    };
    const seen = range(pixels).map((k) => places(k).map((at) => this.at(start + at, column)));
    const middle = dense
      ? this.filtered(start, stop, pixels, (position) => [this.at(position, column)]).map(([x]) => x)
      : seen.map((own) => own.reduce((sum, x) => sum + x, 0) / own.length);
    const [low, high] = [Math.min, Math.max].map((choose) => nearby(seen.map((own) => choose(...own)), choose).map((x, k) => choose(x, middle[k])));
    return { ...curve, mean: middle, low, high, band: high.some((x, k) => x > low[k]) };
  }
}

/** The least or largest of each pixel and two to either side. */
export const nearby = (own, choose) => own.map((_, n) => choose(...[-2, -1, 0, 1, 2].map((by) => own[Math.min(own.length - 1, Math.max(0, n + by))])));

/** The table of an encoding, or the sines and cosines that turn. */
export function tableOf(chosen) {
  const { entry, values: { d }, end, sides, seed } = chosen;
  if (entry.id === "learned") {
    const numbers = initial(end * d, seed);
    return new Stored(chosen, (position, column) => numbers[position * d + column]);
  }
  if (!sides) return columnsOf(chosen);
  const [half, across] = [d / 2, sides[1]]; // sinusoids of the column, then of the row
  const own = columnsOf({ entry: { ...entry, id: "half" }, values: { d: half, n: 10_000, order: "sin_cos" } });
  own.rows ??= [];
  const row = (at) => (own.rows[at] ??= own.row(at));
  return new Stored(chosen, (position, column) => (column < half ? row(position % across)[column] : row(Math.floor(position / across))[column - half]));
}
