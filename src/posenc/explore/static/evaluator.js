/** Frequencies, cosines, sines, slopes and buckets as Python's posenc has them, for pages without Python.
 *
 *  A frequency has 256 bits after the point, a phase is an integer of 64 bits, 2 ** 64 to the turn:
 *
 *      step = round(2 ** 64 * frequency / (2 pi))        phase = position * step  mod 2 ** 64
 *
 *  The product wraps around as the circle does, so no position loses a digit. What posenc refuses is a
 *  RangeError in posenc's words. Nothing here needs a document, a package or a network. */

import { exact, exp, float, floor, integral, least, ln, logarithm, most, ONE, over, parts, PI, times } from "./fixed.js";

const LARGEST = 2 ** 40; // radians per position; beyond it no integer position tells frequencies apart
const APART = 0.001; // between bounds of YaRN's ramp that fall together: it becomes a step

function refuse(what, expected, received, advice = "") {
  throw new RangeError(`${what}: expected ${expected}, got ${received}${advice ? `. ${advice}` : ""}`);
}

/** A float as Python writes it. */
export const pythonFloat = (x) => (Number.isInteger(x) && Math.abs(x) < 1e16 ? `${x}.0` : String(x).replace("Infinity", "inf").replace("NaN", "nan").replace(/e([+-])(\d)$/, "e$10$2"));

function integer(what, x) {
  if (!Number.isSafeInteger(x)) refuse(what, "an integer", typeof x === "number" ? pythonFloat(x) : `'${x}'`);
}

function finite(what, x) {
  if (typeof x !== "number") refuse(what, "a number", `'${x}'`);
  if (!Number.isFinite(x)) refuse(what, "a finite number", pythonFloat(x));
}

/** A share, from 0 to 1. */
const within = (t) => least(most(t, 0n), ONE);

// --- ladders ---------------------------------------------------------------------------------------

function stretches(rule, { factor, originalLength }, advised = "It is the length of training before any scaling.") {
  finite(`${rule}: factor`, factor);
  const faster = ` To turn faster, as this asks for, multiply all frequencies: ladder=posenc.Ladder(first=${Number((1 / factor).toPrecision(6))}).`;
  const advice = `The factor is the new length over the old one.${factor > 0 ? faster : ""}`;
  if (factor < 1) refuse(`${rule}: factor`, "a number of at least 1", pythonFloat(factor), advice);
  if (rule === "Linear" || rule === "NTK") return;
  integer(`${rule}: original_length`, originalLength);
  if (originalLength < 1) refuse(`${rule}: original_length`, "at least 1 position", originalLength, advised);
}

/** How far each rung is interpolated by YaRN, from 0 to 1. */
function rampOf(rungs, logBase, width, { originalLength, fast = 32, slow = 1, truncate = true, ramp = "index" }) {
  if (!(slow > 0 && (slow < fast || (slow === fast && ramp === "index")))) {
    refuse("YaRN", "0 < beta_slow < beta_fast, or equal with the ramp of the index", `${pythonFloat(slow)} and ${pythonFloat(fast)}`);
  }
  if (ramp === "turns") {
    const turns = (f) => over(BigInt(originalLength) * f, 2n * PI);
    return rungs.map((f) => ONE - within(over(turns(f) - exact(slow), exact(fast) - exact(slow))));
  }
  const index = (turns) => BigInt(width) * over(ln(over(integral(originalLength), times(exact(turns), 2n * PI))), 2n * logBase);
  let [low, high] = [index(fast), index(slow)];
  if (truncate) [low, high] = [floor(low), -floor(-high)];
  [low, high] = [most(low, 0n), least(high, integral(width - 1))];
  const expected = "a length in which some pair completes more than beta_slow turns";
  if (low > high) refuse("YaRN: original_length", expected, originalLength);
  if (low === high) high += exact(APART);
  return rungs.map((_, j) => within(over(integral(j) - low, high - low)));
}

/** What each rule makes of the frequencies of a ladder. */
const RULES = {
  none: (rungs) => rungs,
  ntk: (rungs) => rungs, // it acts on the base
  linear(rungs, scaling) {
    stretches("Linear", scaling);
    return rungs.map((f) => over(f, exact(scaling.factor)));
  },
  proportional(rungs, { fraction }, width) {
    finite("Proportional: fraction", fraction);
    if (fraction < 0 || fraction > 1) refuse("Proportional: fraction", "from 0 to 1", pythonFloat(fraction));
    return rungs.map((f, j) => (j < Math.floor((fraction * width) / 2) ? f : 0n));
  },
  llama3(rungs, scaling) {
    const { factor, originalLength, low = 1, high = 4 } = scaling;
    stretches("Llama3", scaling);
    if (!(low > 0 && low <= high)) refuse("Llama3", "0 < low_freq_factor <= high_freq_factor", `${pythonFloat(low)} and ${pythonFloat(high)}`);
    const [from, to] = [exact(low), exact(high)];
    return rungs.map((f) => {
      const turns = over(BigInt(originalLength) * f, 2n * PI);
      const t = from === to ? BigInt(turns >= from) * ONE : within(over(turns - from, to - from));
      return times(f, t + over(ONE - t, exact(factor)));
    });
  },
  longrope(rungs, { divisors, factor = 1, originalLength }) {
    stretches("LongRoPE", { factor, originalLength });
    const smallest = Math.min(...divisors, 1);
    if (!(smallest > 0)) refuse("LongRoPE", "positive divisors", pythonFloat(smallest));
    if (factor > 1 && originalLength < 2) refuse("LongRoPE: original_length", "at least 2 positions", originalLength);
    if (divisors.length !== rungs.length) refuse("LongRoPE", `${rungs.length} numbers, one for each frequency`, divisors.length);
    return rungs.map((f, j) => over(f, exact(divisors[j])));
  },
  yarn(rungs, scaling, width, logBase) {
    stretches("YaRN", scaling);
    const shares = rampOf(rungs, logBase, width, scaling);
    return rungs.map((f, j) => times(f, ONE - shares[j]) + times(over(f, exact(scaling.factor)), shares[j]));
  },
};

/** What the paper of a rule multiplies cosines and sines by. */
function sharper({ rule, factor = 1, originalLength }) {
  if (rule === "yarn" && factor > 1) return 0.1 * Math.log(factor) + 1;
  return rule === "longrope" && factor > 1 ? Math.sqrt(1 + Math.log(factor) / Math.log(originalLength)) : 1;
}

/**
 * The frequencies first * base ** (-(j + start) / divisor), divisor d/2, after a rule: `steps` (BigInt, 2 ** 64 to the turn, per position),
 * `frequencies` (float64, radians per position) and `factor`, which cosines and sines are multiplied by.
 * `of` names the encoding: a RoPE has an even width, a Sinusoidal any.
 */
export function ladder({ dim, base = 10000, scaling = { rule: "none" }, of = "RoPE", first = 1, start = 0, divisor = dim / 2 }) {
  integer(`${of}: dim`, dim);
  const rotary = of === "RoPE";
  const advice = "`dim` is the rotated width; a wider head passes its other channels through.";
  if (dim < 1 || (rotary && dim % 2)) {
    refuse(`${of}: dim`, rotary ? "an even width of at least 2" : "a width of at least 1", dim, rotary ? advice : "");
  }
  if (typeof base !== "number") refuse(`${of}: base`, "a number or a tuple of a number", `'${base}'`);
  finite(`${of}: base`, base);
  if (base <= 0) refuse(`${of}: base`, "a positive number", pythonFloat(base));
  const count = Math.ceil(dim / 2);
  if (count > 2 ** 18) refuse("Arrangement", "at most 262144 pairs", count);
  const { rule } = scaling;
  if (!Object.hasOwn(RULES, rule)) refuse("scaling", `one of ${Object.keys(RULES).join(", ")}`, `'${rule}'`);
  let logBase = logarithm(parts(base));
  if (rule === "ntk") {
    stretches("NTK", scaling);
    const expected = "at least 2 pairs to an axis, as the first keeps its frequency";
    if (dim <= 2) refuse("NTK", expected, `a width of ${dim}`);
    logBase += (ln(exact(scaling.factor)) * BigInt(dim)) / BigInt(dim - 2);
  }
  const exponent = (x) => (divisor ? over(-times(logBase, exact(x)), exact(divisor)) : 0n); // one rung needs no ratio
  const last = float(exponent(start + count - 1));
  const fastest = first * Math.exp(Math.max(last, float(exponent(start))));
  if (fastest > LARGEST) refuse("Ladder", "frequencies up to 2**40 rad/position", fastest.toPrecision(3));
  const ratio = exp(exponent(1));
  const plain = [times(exact(first), exp(exponent(start)))];
  while (plain.length < count) plain.push(times(plain.at(-1), ratio));
  const rungs = RULES[rule](plain, scaling, dim, logBase);
  const unit = over(ONE << 63n, PI); // 2 ** 64 / (2 pi)
  const steps = rungs.map((f) => BigInt.asIntN(64, (times(f, unit) + ONE / 2n) / ONE));
  // Below 2 ** -196 digits are lost; such a pair stands still at every position, and its size comes from floats.
  const inFloats = (j) => first * Math.exp((-float(logBase) * (j + start)) / divisor);
  const frequencies = Float64Array.from(rungs, (f, j) => (f >> 60n || rule !== "none" ? float(f) : inFloats(j)));
  return { steps, frequencies, factor: sharper(scaling) };
}

// --- phases ----------------------------------------------------------------------------------------

/** Cosine and sine of a phase of 64 bits: the nearest quadrant is taken off, at most 1/8 turn is left. */
function onCircle(turn) {
  const quadrant = Number((((turn >> 61n) + 1n) >> 1n) & 3n);
  const angle = Number(BigInt.asIntN(62, turn)) * 2 ** -61 * (Math.PI / 4);
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return [[cos, sin], [-sin, cos], [-cos, -sin], [sin, -cos]][quadrant];
}

/** [cos, sin] of a pair at a position, an integer of any size; without the factor of a rule. */
export function cosSin({ steps }, pair, position) {
  const advice = "Keep integers: a float merges neighbouring positions (bfloat16 beyond 256). Fractions are for posenc.Timestep and posenc.Fourier; interpolation is posenc.scaling.Linear(2).";
  if (typeof position !== "bigint" && !Number.isSafeInteger(position)) {
    refuse("cos_sin(RoPE): positions", "integer positions", "float64", advice);
  }
  return onCircle(BigInt.asIntN(64, BigInt(position) * steps[pair]));
}

/** Rows of sin, cos, sin, cos, … of some positions: one Float64Array, positions x 2 pairs. */
export function table(own, positions) {
  const width = 2 * own.steps.length;
  const rows = new Float64Array(positions.length * width);
  positions.forEach((position, row) => own.steps.forEach((_, pair) => {
    const [cos, sin] = cosSin(own, pair, position);
    rows.set([sin, cos], row * width + 2 * pair);
  }));
  return rows;
}

/** A vector turned as queries and keys are, by pairs "half" (j, j + d/2) or "interleaved" (2j, 2j + 1). */
export function rotate(own, x, position, pairing) {
  const pairs = own.steps.length;
  const turned = Float64Array.from(x);
  for (let j = 0; j < pairs; j += 1) {
    const [a, b] = pairing === "half" ? [j, j + pairs] : [2 * j, 2 * j + 1];
    const [cos, sin] = cosSin(own, j, position).map((part) => part * own.factor);
    [turned[a], turned[b]] = [x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos];
  }
  return turned;
}

// --- biases and scores -----------------------------------------------------------------------------

/** ALiBi's slopes: 2 ** (-8 (h + 1) / H); no power of two takes every other one of the power above. */
export function slopes(heads) {
  integer("ALiBi: heads", heads);
  if (heads < 1) refuse("ALiBi: heads", "at least 1", heads);
  if (heads > 2 ** 16) refuse("slopes", "at most 65536 heads", heads);
  const power = 2 ** Math.floor(Math.log2(heads));
  return Array.from({ length: heads }, (_, h) => 2 ** (h < power ? (-8 * (h + 1)) / power : (-8 * (2 * (h - power) + 1)) / (2 * power)));
}

/** T5's bucket of an offset key - query: beyond `exact` distances, the thresholds are those of integers. */
export function bucket(offset, { buckets = 32, maxDistance = 128, causal = false } = {}) {
  integer("T5: buckets", buckets);
  integer("T5: max_distance", maxDistance);
  const directions = causal ? 1 : 2;
  const words = causal ? "one direction" : "both directions";
  if (buckets < 2 * directions || buckets > 2048) refuse("T5: buckets", `${2 * directions} to 2048 for ${words}`, buckets);
  const side = Math.floor(buckets / directions);
  const first = Math.floor(side / 2);
  const expected = `more than the ${first} distances that have a bucket each, less than 2**31 - 1`;
  if (!(first < maxDistance && maxDistance < 2 ** 31 - 1)) refuse("T5: max_distance", expected, maxDistance);
  const distance = causal ? Math.max(-offset, 0) : Math.abs(offset);
  const later = !causal && offset > 0 ? side : 0;
  if (distance < first) return later + distance;
  const count = side - first;
  // The bucket first + j begins at the least n with n ** count >= limit ** j * first ** (count - j).
  const reached = (j) => BigInt(distance) ** BigInt(count) >= BigInt(maxDistance) ** BigInt(j) * BigInt(first) ** BigInt(count - j);
  let j = 0;
  while (j + 1 < count && reached(j + 1)) j += 1;
  return later + first + j;
}

/** Weights of scores; a score of -Infinity is not seen. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const shares = scores.map((score) => Math.exp(score - top));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}

/** Numbers made one by one; `Float64Array.from` takes ten times as long. */
export function filled(count, value, Type = Float64Array) {
  const made = new Type(count);
  for (let n = 0; n < count; n += 1) made[n] = value(n);
  return made;
}

export function dot(a, b) {
  let total = 0;
  for (let n = 0; n < a.length; n += 1) total += a[n] * b[n];
  return total;
}
