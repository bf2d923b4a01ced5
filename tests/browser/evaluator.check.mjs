// The evaluator of the page against numbers of Python: node evaluator.check.mjs MODULES EXPECTED.json COSINES.bin

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, expected, cosines] = process.argv.slice(2);
const own = await import(pathToFileURL(`${folder}/evaluator.js`));
const python = JSON.parse(readFileSync(expected, "utf8"));

const wrong = { steps: 0, frequencies: 0, factors: 0, refusals: [], slopes: 0, buckets: 0, rotations: 0, sines: 0 };
const close = (a, b, bound) => Math.abs(a - b) <= bound * Math.max(1, Math.abs(b));
let compared = 0;

for (const { options, steps, frequencies, factor } of python.ladders) {
  const ladder = own.ladder(options);
  compared += steps.length;
  wrong.steps += steps.filter((step, j) => BigInt(step) !== ladder.steps[j]).length + Math.abs(steps.length - ladder.steps.length);
  wrong.frequencies += frequencies.filter((f, j) => f !== ladder.frequencies[j]).length;
  wrong.factors += close(ladder.factor, factor, 1e-15) ? 0 : 1;
}
const calls = {
  ladder: own.ladder,
  slopes: own.slopes,
  bucket: (options) => own.bucket(1, options),
  cosSin: (position) => own.cosSin(own.ladder({ dim: 4 }), 0, position),
};
for (const [call, argument, words] of python.refusals) {
  let came = "nothing was refused";
  try {
    calls[call](argument);
  } catch (error) {
    came = error instanceof RangeError ? error.message : String(error);
  }
  if (came !== words) wrong.refusals.push([came, words]);
}
for (const [heads, values] of python.slopes) {
  const slopes = own.slopes(heads);
  wrong.slopes += values.filter((value, h) => !close(slopes[h] / value, 1, 1e-15)).length;
}
for (const { options, offsets, buckets } of python.buckets) {
  wrong.buckets += offsets.filter((offset, n) => own.bucket(offset, options) !== buckets[n]).length;
}
for (const { options, pairing, position, x, turned } of python.rotations) {
  const values = own.rotate(own.ladder(options), x, position, pairing);
  wrong.rotations += turned.filter((value, n) => !close(values[n], value, 1e-14)).length;
}
const rows = own.table(own.ladder(python.table.options), python.table.positions);
wrong.sines += python.table.rows.flat().filter((value, n) => !close(rows[n], value, 4e-16)).length;

const { buffer } = Uint8Array.from(readFileSync(cosines));
const ladder = own.ladder(python.cosines);
const pairs = ladder.steps.length;
const count = buffer.byteLength / (8 + 16 * pairs);
const places = new BigInt64Array(buffer, 0, count);
const [cos, sin] = [0, 1].map((side) => new Float64Array(buffer, 8 * count * (1 + side * pairs), count * pairs));
let worst = 0;
for (let n = 0; n < count * pairs; n += 1) {
  const [c, s] = own.cosSin(ladder, n % pairs, places[Math.floor(n / pairs)]);
  worst = Math.max(worst, Math.abs(c - cos[n]), Math.abs(s - sin[n]));
}
const weights = own.softmax([1, 2, -Infinity]);
const sum = Math.abs(own.dot(weights, [1, 1, 1]) - 1);
console.log(JSON.stringify({ wrong, compared, cosines: count * pairs, worst, sum, unseen: weights[2] }));
