/** A table of waves in pixels that show what is there: posenc/plot/raster.py and response.py. */

import { centres, gain } from "./columns.js";

const FADE = 2; // pixels per wave up to which nothing is shown
const REACH = 8; // pixels to either side that a filtered pixel looks at
const FINE = 128; // points of the filter per pixel
const MOST_BOUNDARIES = 16;
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

/** Some rows, filtered and drawn in fewer pixels; beyond its ends the table is mirrored. */
export function reduced(rows, pixels) {
  const count = rows.length;
  const ratio = count / pixels;
  const table = filter();
  return Array.from({ length: pixels }, (_, pixel) => {
    const middle = (pixel + 0.5) * ratio - 0.5;
    const total = new Float64Array(rows[0].length);
    let weight = 0;
    for (let at = Math.max(-count, Math.ceil(middle - REACH * ratio)); at <= Math.min(2 * count - 1, middle + REACH * ratio); at += 1) {
      const place = (Math.abs(at - middle) / ratio) * FINE;
      const n = Math.floor(place);
      if (n >= table.length - 1) continue;
      const w = table[n] + (place - n) * (table[n + 1] - table[n]);
      const row = rows[at < 0 ? -1 - at : at < count ? at : 2 * count - 1 - at];
      weight += w;
      for (let c = 0; c < total.length; c += 1) total[c] += w * row[c];
    }
    return total.map((x) => x / weight);
  });
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
  const even = (x) => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
  const sizes = runs.map((run) => {
    end += run.length;
    const at = even(end * (columns / total));
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
  const order = wide ? "sin_cos" : "stored";
  const shown = arranged(table, order).slice(first, last);
  const [rows, columns] = [Math.min(height, stop - start), Math.min(width, shown.length)];
  const perPixel = (stop - start) / rows;
  const exact = rows === stop - start;
  const middles = exact ? null : centres(start, stop, rows);
  /** The values of a column at all rows. */
  const column = (c) => {
    if (exact) return Float64Array.from({ length: rows }, (_, k) => table.at(start + k, c));
    const share = gain(table.wavelengths[c] / perPixel);
    return Float64Array.from(middles, ([whole, part]) => (share ? share * table.at(whole, c, part) : 0));
  };
  const cut = shown.findIndex((c) => table.layout[c][1] === 1);
  const runs = wide && cut > 0 ? [shown.slice(0, cut), shown.slice(cut)] : [shown];
  const sizes = wide ? shared(runs, columns) : [columns];
  const drawn = [];
  const picked = [];
  runs.forEach((run, n) => {
    const size = sizes[n];
    drawn.push(...(size >= run.length ? run.map(column) : reduced(run.map(column), size)));
    picked.push(...(size >= run.length ? run : Array.from({ length: size }, (_, k) => run[Math.floor((k + 0.5) * (run.length / size))])));
  });
  const values = new Float64Array(rows * columns);
  drawn.forEach((one, c) => one.forEach((x, r) => { values[r * columns + c] = x; }));
  const hidden = (c) => table.wavelengths[c] / perPixel < FADE;
  const steps = picked.slice(1).flatMap((c, n) => (hidden(c) === hidden(picked[n]) ? [] : [n + 1]));
  return {
    values, order, exact, shape: [rows, columns], perPixel: [perPixel, shown.length / columns],
    positions: [start, stop], dims: [first, last],
    blank: exact ? 0 : shown.filter(hidden).length,
    boundaries: !exact && steps.length <= MOST_BOUNDARIES ? steps : [],
  };
}
