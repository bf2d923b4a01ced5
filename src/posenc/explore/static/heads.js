/** What the words of a sentence bring to a head: random vectors, or a small model that posenc trained; as in
 *  posenc/plot/content.py. Matrices are rows of Float64Array. */

import { dot, ladder, rotate } from "./evaluator.js";
import { randomVector } from "./keccak.js";

const UNIT = Math.sqrt(3); // makes numbers that are uniform in [-1, 1) of variance 1
const MARKS = { "[": 1, "→": 2, "]": 3 };
const FIRST = 4; // tokens of the trained model; its symbols follow
const SIDES = ["query", "key", "value"];

/** A row times a matrix (width, dim). */
export function product(row, matrix) {
  const total = new Float64Array(matrix[0].length);
  row.forEach((x, n) => { for (let c = 0; c < total.length; c += 1) total[c] += x * matrix[n][c]; });
  return total;
}

const projections = new Map();

/** Random matrices (width, dim) that keep variances: of queries, keys and values. */
function projected(width, dim, name) {
  const key = `${width} ${dim} ${name}`;
  if (!projections.has(key)) {
    if (projections.size > 3) projections.clear();
    const scale = UNIT / Math.sqrt(width);
    const rows = (side) => Array.from({ length: width }, (_, row) => randomVector(`${name} ${side} ${row}`, dim, 0).map((x) => x * scale));
    projections.set(key, SIDES.map(rows));
  }
  return projections.get(key);
}

export function randomContent(words, dim, width, head) {
  const inputs = words.map((word) => randomVector(word, width, 0).map((x) => x * UNIT));
  const weights = projected(width, dim, `head ${head}`);
  const [q, k, v] = weights.map((matrix) => inputs.map((row) => product(row, matrix)));
  const origin = "Queries and keys are random vectors of seed 0, the same for the same word.";
  return { words, inputs, q, k, v, weights, origin, head, heads: 8, causal: false, dim, width };
}

// --- the trained model -----------------------------------------------------------------------------

/** The error function, by a sum of positive terms. */
function erf(x) {
  let [term, total] = [Math.abs(x), 0];
  for (let n = 1; term > 1e-18 * total; n += 1) {
    total += term;
    term *= (2 * x * x) / (2 * n + 1);
  }
  return Math.sign(x) * Math.min(1, (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total);
}

/** Rows of a stored array. */
function rowsOf({ data, shape: [count, width] }) {
  return Array.from({ length: count }, (_, n) => Float64Array.from(data.subarray(n * width, (n + 1) * width)));
}

export function trainedContent(words, name, { about, weights }) {
  const chosen = about.chosen.find((row) => row.name === name);
  const { dim, width, heads } = about;
  const vector = (key) => Float64Array.from(weights[key].data);
  const linear = (row, key) => Float64Array.from(rowsOf(weights[`${key}.weight`]), (w, n) => dot(w, row) + weights[`${key}.bias`].data[n]);
  const norm = (row, key) => {
    const mean = row.reduce((sum, x) => sum + x, 0) / row.length;
    const centred = row.map((x) => x - mean);
    const size = Math.sqrt(dot(centred, centred) / row.length + 1e-5);
    const [gain, bias] = ["weight", "bias"].map((part) => vector(`${key}.norm.${part}`));
    return centred.map((x, n) => (x / size) * gain[n] + bias[n]);
  };
  const turning = ladder({ dim, base: about.base });
  /** A layer of the model, with its own rotation and mask. */
  const layer = (x, n) => {
    const y = x.map((row) => norm(row, `${n}.self`));
    const [q, k, v] = ["q", "k", "v"].map((side) => y.map((row) => linear(row, `${n}.${side}`)));
    const own = (row, head) => row.subarray(head * dim, (head + 1) * dim);
    const mixed = x.map(() => new Float64Array(width));
    for (let head = 0; head < heads; head += 1) {
      const [tq, tk] = [q, k].map((side) => side.map((row, at) => rotate(turning, own(row, head), at, about.pairing)));
      tq.forEach((query, i) => {
        const scores = tk.map((key) => dot(query, key) * dim ** -0.5);
        const top = Math.max(...scores);
        const powers = scores.map((score, j) => (j <= i ? Math.exp(score - top) : 0));
        const total = powers.reduce((sum, power) => sum + power, 0);
        powers.forEach((power, j) => own(v[j], head).forEach((value, c) => { mixed[i][head * dim + c] += (power / total) * value; }));
      });
    }
    const seen = x.map((row, i) => linear(mixed[i], `${n}.o`).map((value, c) => row[c] + value));
    return seen.map((row) => {
      const hidden = linear(norm(row, `${n}.mlp`), `${n}.up`).map((h) => (h * (1 + erf(h * Math.SQRT1_2))) / 2);
      return linear(hidden, `${n}.down`).map((value, c) => row[c] + value);
    });
  };
  const symbols = [...new Set(words.filter((word) => !(word in MARKS)))];
  const tokens = [1, ...words.map((word) => MARKS[word] ?? FIRST + symbols.indexOf(word))];
  const embedding = rowsOf(weights.embedding);
  let x = tokens.map((token) => embedding[token].map((value) => value * Math.sqrt(width)));
  for (let below = 0; below < chosen.layer; below += 1) x = layer(x, below);
  const inputs = x.map((row) => norm(row, `${chosen.layer}.self`)).slice(1);
  const [first, end] = [chosen.head * dim, (chosen.head + 1) * dim];
  const [q, k, v] = ["q", "k", "v"].map((side) => inputs.map((row) => linear(row, `${chosen.layer}.${side}`).slice(first, end)));
  const transposed = (side) => {
    const own = rowsOf(weights[`${chosen.layer}.${side}.weight`]).slice(first, end);
    return Array.from({ length: width }, (_, row) => Float64Array.from(own, (w) => w[row]));
  };
  const origin = `Queries and keys are those of ${chosen.label} of a small model, which posenc trained with RoPE to copy lists: ${chosen.weight.toFixed(2)} of its attention is on ${chosen.measured}. Words stand for its symbols.`;
  return { words, inputs, q, k, v, weights: ["q", "k", "v"].map(transposed), origin, head: chosen.head, heads, causal: true, dim, width };
}
