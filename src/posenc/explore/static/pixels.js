/** A table of waves in pixels that show what is there: posenc/plot/raster.py and response.py. */

import { rint, whole } from "./numbers.js";
import { centres, gain } from "./columns.js";
import { filled } from "./evaluator.js";
import { largest } from "./grammar.js";

const FADE = 2; // pixels per wave up to which nothing is shown
const REACH = 8; // pixels to either side that a filtered pixel looks at
const FINE = 128; // points of the filter per pixel
const MOST_BOUNDARIES = 16;
const MOST_NUMBERS = 2 ** 28; // of real rows that are filtered for one picture
const POINTS = 1024;
let kernel = null;

/** The filter at distances 0 to REACH pixels: its Fourier transform is the gain. */
function filter() {
  if (kernel) return kernel;
  const frequency = Array.from({ length: POINTS }, (_, n) => (n + 0.5) * (0.5 / POINTS));
  const passed = frequency.map((f) => gain(1 / f));
  kernel = Float64Array.from({ length: REACH * FINE + 1 }, (_, n) => {
    const x = n / FINE;
    const sum = frequency.reduce((total, f, k) => total + passed[k] * Math.cos(2 * Math.PI * f * x), 0);
    return (sum / POINTS) * (x > REACH - 2 ? Math.cos((Math.PI / 4) * (x - REACH + 2)) ** 2 : 1);
  });
  return kernel;
}

/** Rows 0 to count - 1, filtered and drawn in fewer pixels; each is fetched once. Beyond its ends the table is
 *  mirrored, unless there are rows before and after it. */
export function reduced(fetch, count, pixels, before = 0, after = 0) {
  const ratio = count / pixels;
  const table = filter();
  const reach = Math.floor(REACH * ratio) + 1;
  const [start, end] = [-Math.min(before, reach), count + Math.min(after, reach)];
  const totals = Array.from({ length: pixels }, () => null);
  const weights = new Float64Array(pixels);
  for (let at = start; at < end; at += 1) {
    const row = fetch(at);
    for (const image of [at, 2 * start - 1 - at, 2 * end - 1 - at]) {
      const place = (image + 0.5) / ratio - 0.5; // in pixels
      const last = Math.min(pixels - 1, Math.floor(place + REACH));
      for (let pixel = Math.max(0, Math.ceil(place - REACH)); pixel <= last; pixel += 1) {
        const far = (Math.abs(image - (pixel + 0.5) * ratio + 0.5) / ratio) * FINE;
        const n = Math.floor(far);
        if (n >= table.length - 1) continue;
        const w = table[n] + (far - n) * (table[n + 1] - table[n]);
        const total = (totals[pixel] ??= new Float64Array(row.length));
        weights[pixel] += w;
        for (let c = 0; c < total.length; c += 1) total[c] += w * row[c];
      }
    }
  }
  return totals.map((total, pixel) => total.map((x) => x / weights[pixel]));
}

/** The columns in the order in which they are drawn: as stored, or sines before cosines. */
export function arranged(table, order) {
  const columns = [...table.layout.keys()];
  if (order === "stored") return columns;
  const [pair, cosine] = [0, 1].map((part) => (c) => table.layout[c][part]);
  return columns.sort((a, b) => cosine(a) - cosine(b) || pair(a) - pair(b) || a - b);
}

/** Pixels for runs of columns, in proportion, at least one each. */
function shared(runs, columns) {
  let end = 0;
  let before = 0;
  const total = runs.reduce((sum, run) => sum + run.length, 0);
  const sizes = runs.map((run) => {
    end += run.length;
    const at = rint(end * (columns / total));
    const size = Math.max(at - before, 1);
    before = at;
    return size;
  });
  while (sizes.reduce((sum, size) => sum + size, 0) > columns) sizes[sizes.indexOf(Math.max(...sizes))] -= 1;
  return sizes;
}

/** A table drawn in at most `height` x `width` pixels: rows of values, with what a caption says of them. */
export function tileOf(table, [start, stop], [first, last], [height, width]) {
  const wide = last - first > width;
  const order = wide && !table.stored ? "sin_cos" : "stored";
  const shown = arranged(table, order).slice(first, last);
  const [rows, columns] = [Math.min(height, stop - start), Math.min(width, shown.length)];
  const perPixel = (stop - start) / rows;
  const exact = rows === stop - start;
  const middles = exact ? null : centres(start, stop, rows);
  const numbers = (stop - start) * table.d;
  if (table.stored && numbers > MOST_NUMBERS) {
    throw new RangeError(`plot: expected at most ${whole(MOST_NUMBERS)} numbers of a table without known waves, got ${whole(numbers)}. Draw fewer positions, or some of the rows: sample.`);
  }
  const filtered = table.stored && !exact ? table.filtered(start, stop, rows) : null;
  /** The values of a column at all rows. */
  const column = (c) => {
    if (exact) return table.run(start, rows, c);
    if (filtered) return filled(rows, (k) => filtered[k][c]);
    const share = gain(table.wavelengths[c] / perPixel);
    return filled(rows, (k) => (share ? share * table.at(middles[k][0], c, middles[k][1]) : 0));
  };
  const cut = shown.findIndex((c) => table.layout[c][1] === 1);
  const runs = wide && cut > 0 ? [shown.slice(0, cut), shown.slice(cut)] : [shown];
  const sizes = wide ? shared(runs, columns) : [columns];
  const drawn = [];
  const picked = [];
  runs.forEach((run, n) => {
    const size = sizes[n];
    drawn.push(...(size >= run.length ? run.map(column) : reduced((k) => column(run[k]), run.length, size)));
    picked.push(...(size >= run.length ? run : Array.from({ length: size }, (_, k) => run[Math.floor((k + 0.5) * (run.length / size))])));
  });
  const values = new Float64Array(rows * columns);
  drawn.forEach((one, c) => one.forEach((x, r) => { values[r * columns + c] = x; }));
  const hidden = (c) => table.wavelengths[c] / perPixel < FADE;
  const steps = picked.slice(1).flatMap((c, n) => (hidden(c) === hidden(picked[n]) ? [] : [n + 1]));
  return {
    values, order, exact, limit: (table.stored && largest(values)) || 1, shape: [rows, columns], perPixel: [perPixel, shown.length / columns],
    positions: [start, stop], dims: [first, last],
    blank: exact ? 0 : shown.filter(hidden).length,
    boundaries: !exact && steps.length <= MOST_BOUNDARIES ? steps : [],
  };
}
