/** Distance, made in the page: posenc/explore/views/distance.py with the pictures that it takes. */

import { addWave, angle, gain, GOLDEN, halves, QUARTER_TURN, radians } from "./columns.js";
import { dot, filled } from "./evaluator.js";
import { cells, fact, float32, float64, Grid, heading, indices, largest, logarithmic, make, present, prose, range, stops, under, values } from "./grammar.js";
import { tableOf } from "./local_stored.js";
import { number, plural, rint, signed, whole, widened } from "./numbers.js";
import { reduced, tileOf } from "./pixels.js";

const MATRIX = 256; // pixels along each side
const MOST_CELLS_OF_AXIS = 65_536;
const BLOCKS = 6; // pairs whose 2 x 2 blocks are shown
const ANCHORS = 64; // positions from which offsets of a table without whole pairs are measured
const PROBED = 256; // rows whose products tell how far a table is from knowing offsets alone
const LOOKED_AT = 16; // offsets under a pixel, where there are more
const MOST_PRODUCTS = 1 << 27;
const MOST_COLUMNS = 1 << 22;
const FARTHEST = 131_072;
const [POINTS, EACH] = [96, 64]; // of the curves of a rotation far away, and distances computed for each
const NAMES = { dot: "dot product", cosine: "cosine" };
const BANDS = { none: "", positions: "band: least to largest over positions", offsets: "band: least to largest under a pixel" };
const mean = (numbers) => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;

/** So many numbers evenly apart from the first to the last, cut to integers, each once. */
function evenly(first, end, count) {
  const step = count > 1 ? (end - first) / (count - 1) : 0;
  return [...new Set(range(count).map((n) => Math.trunc(n && n === count - 1 ? end : first + n * step)))];
}

/** Rows as they are multiplied: of length 1 for the cosine. */
const sized = (row, kind) => {
  const length = kind === "dot" ? 1 : Math.sqrt(dot(row, row)) || 1;
  return row.map((x) => x / length);
};

/** The steps of the pairs, null where a sine has no cosine of its frequency. */
function wholePairs(table) {
  if (table.stored) return null;
  const [sines, cosines] = [0, 1].map((what) => new Map(table.layout.map(([pair, cosine], c) => [pair, cosine === what ? c : null]).filter(([, c]) => c !== null)));
  const pairs = [...sines.keys()].sort((a, b) => a - b);
  if (sines.size !== cosines.size) return null;
  return pairs.every((pair) => table.steps[sines.get(pair)] === table.steps[cosines.get(pair)]) ? pairs.map((pair) => table.steps[sines.get(pair)]) : null;
}

/** How much of each wave is shown where a pixel stands for several offsets. */
const sharesOf = (steps, covered) => filled(steps.length, (n) => (covered <= 1 ? 1 : gain((2 * Math.PI) / Math.abs(radians(steps[n])) / covered)));

/** The sum over pairs of cos(frequency * offset), each by its share. */
function product(own, offset, shares) {
  let total = 0;
  for (let n = 0; n < own.length; n += 1) if (shares[n]) total += shares[n] * Math.cos(angle(offset, own[n]));
  return total;
}

/** The same at so many offsets from 0 on, which are `count / among` apart. */
function evenProducts(steps, among, count, shares) {
  const total = new Float64Array(among);
  steps.forEach((step, n) => { if (shares[n]) addWave(total, QUARTER_TURN, (step * BigInt(count)) / BigInt(among), shares[n]); });
  return total;
}

function shownOffsets(count, log, pixels) {
  if (log) {
    const [low, high] = [Math.log(1), Math.log(count - 1)];
    const step = (high - low) / (pixels - 1);
    return [...new Set(range(pixels).map((n) => Math.min(count - 1, Math.max(1, rint(Math.exp(n === pixels - 1 ? high : n * step))))))];
  }
  return range(count <= 4 * pixels ? count : pixels).map((n) => (count <= 4 * pixels ? n : Math.floor((n + 0.5) * (count / pixels))));
}

function ofPairs(steps, shown, factor, stop, log) {
  const gaps = shown.map((offset, n) => (shown[n + 1] ?? stop) - offset);
  const full = sharesOf(steps, 1);
  if (Math.max(...gaps) === 1) {
    const every = evenProducts(steps, stop, stop, full);
    const own = shown.map((offset) => every[offset] * factor);
    return { low: own, high: own, mean: own, band: "none" };
  }
  const several = shown.length * LOOKED_AT * steps.length <= MOST_PRODUCTS ? LOOKED_AT : 2;
  const [first, end] = [shown[0], shown.at(-1)];
  const between = Math.max(shown.length - 1, 1);
  const own = steps.map(halves);
  const even = sharesOf(steps, (end - first) / between);
  const sharesAt = (offset) => (log ? sharesOf(steps, offset * (end / first) ** (1 / between) - offset) : even);
  const middle = shown.map((offset) => product(own, offset, sharesAt(offset)) * factor);
  const places = gaps.map((gap) => [...new Set(range(several).map((k) => Math.floor(((k * GOLDEN) % 1) * gap)))]);
  const looked = shown.map((offset, n) => places[n].map((by) => product(own, offset + by, full) * factor));
  return {
    low: looked.map((each, n) => Math.min(...each, middle[n])),
    high: looked.map((each, n) => Math.max(...each, middle[n])),
    mean: middle,
    band: "offsets",
  };
}

/** Over positions evenly apart that have a partner at each distance. */
function ofRows(table, shown, kind) {
  const end = table.end ?? Math.max(...shown) + 4 * ANCHORS;
  const kept = new Map();
  const row = (position) => {
    if (!kept.has(position)) kept.set(position, sized(table.row(position), kind));
    return kept.get(position);
  };
  const each = shown.map((offset) => evenly(0, end - offset - 1, Math.min(ANCHORS, end - offset)).map((at) => dot(row(at), row(at + offset))));
  return { low: each.map((own) => Math.min(...own)), high: each.map((own) => Math.max(...own)), mean: each.map(mean), band: "positions" };
}

/** How far products of rows are from depending on the distance alone, from 0 to 1. */
function defectOf(table, kind) {
  const count = Math.min(table.end ?? PROBED, PROBED);
  const rows = range(count).map((at) => sized(table.row(at), kind));
  const s = [];
  rows.forEach((row, a) => s.push(rows.map((other, b) => (b < a ? s[b][a] : dot(row, other)))));
  const apart = (numbers) => { const middle = mean(numbers); return numbers.reduce((sum, x) => sum + (x - middle) ** 2, 0); };
  const diagonals = range(count).map((k) => apart(range(count - k).map((n) => s[n][n + k])));
  let left = 0;
  for (let k = 1 - count; k < count; k += 1) left += diagonals[Math.abs(k)];
  const total = apart(s.flat());
  return total > 0 ? Math.sqrt(left / total) : 0;
}

function offsetData(table, pairs, count, kind, log, pixels) {
  const shown = shownOffsets(count, log, pixels);
  const own = pairs ? ofPairs(pairs, shown, kind === "cosine" ? 1 / pairs.length : 1, count, log) : ofRows(table, shown, kind);
  const least = 1e-12 * Math.max(largest(own.mean), 1e-300);
  const up = own.mean.slice(1).map((x, n) => x - own.mean[n] > least);
  const consecutive = !log && own.band === "none" && up.length > 0;
  return {
    ...own, shown, kind, log,
    defect: pairs ? 0 : defectOf(table, kind),
    rises: consecutive ? up.filter(Boolean).length / up.length : null,
    firstRise: consecutive && up.includes(true) ? shown[up.indexOf(true)] : null,
  };
}

// --- panels ----------------------------------------------------------------------------------------

function caption(data, table) {
  const explained = `${number(100 * (1 - data.defect ** 2), 3)} % of the variance of products.`;
  const same = data.defect === 0 && data.band !== "positions";
  return present(
    same ? "The product depends on the distance alone, at every position." : `Shift-invariance defect ${number(data.defect, 2)}: the distance explains ${explained}`,
    !same && `Band: the least to the largest over at most ${ANCHORS} positions; line: their mean.`,
    data.band === "offsets" && !data.log && `Line: each wave as far as a pixel can show it. Band: the least to the largest of ${LOOKED_AT} offsets under each pixel.`,
    data.firstRise !== null && `It first rises at distance ${whole(data.firstRise)}; ${number(100 * data.rises, 2)} % of the steps go up.`,
    table.turns && "Rows are the sines and cosines that turn the pairs.",
  ).join(" ");
}

function offsetChart(data, table, k, value) {
  const name = NAMES[data.kind];
  const least = Math.min(...data.low);
  const [wide, high] = widened(Math.min(least, 0), Math.max(...data.high));
  const [first, last] = [data.shown[0], data.shown.at(-1)];
  const band = BANDS[data.band];
  const x = data.log ? logarithmic("distance, positions (log)", Math.max(first, 1), Math.max(last, 2)) : values("distance, positions", Math.min(first, last - 1), Math.max(last, 1), 8);
  const sides = band ? { lo: float32(data.low), hi: float32(data.high) } : {};
  return under(make("Chart", {
    id: "offset",
    title: band ? `${name}; ${band}` : `${name} of two rows`,
    x: { ...x, key: "off" },
    y: values("", least < 0 ? wide : 0, high),
    series: [make("Series", { label: table.label, x: float64(data.shown), y: float32(data.mean), ...sides })],
    caption: caption(data, table),
    place: "half",
    height: 230,
    label: `The ${name} of two rows against their distance`,
  }), data.log ? Math.max(k, 1) : k, null, value);
}

let last = { key: "", data: null }; // the pictures, which stay while the cursor moves

function matrixOf(table, pairs, [start, stop], kind) {
  const count = stop - start;
  const rows = Math.min(MATRIX, count, Math.max(2, Math.floor(MOST_COLUMNS / table.d)));
  const own = new Float64Array(rows * rows);
  const fill = (value) => {
    for (let a = 0; a < rows; a += 1) for (let b = 0; b <= a; b += 1) own[a * rows + b] = own[b * rows + a] = value(a, b);
  };
  if (pairs) {
    // Rows of whole pairs, filtered or not, know the distance alone.
    const shares = sharesOf(pairs, count / rows).map((x) => x * x);
    const factor = kind === "cosine" ? 1 / pairs.length : 1;
    const apart = evenProducts(pairs, rows, count, shares).map((x) => x * factor);
    fill((a, b) => apart[a - b]);
  } else {
    const { values: drawn, exact } = tileOf(table, [start, stop], [0, table.d], [rows, table.d]);
    let shown = range(rows).map((n) => drawn.subarray(n * table.d, (n + 1) * table.d));
    if (kind === "cosine" && table.stored && !exact) {
      shown = reduced((n) => sized(table.row(start + n), kind), count, rows);
    } else if (kind === "cosine" && exact) {
      shown = shown.map((row) => sized(row, kind));
    } else if (kind === "cosine") {
      const length = mean(range(rows).map((n) => { const row = table.row(start + Math.floor((n + 0.5) * (count / rows))); return Math.sqrt(dot(row, row)); }));
      shown = shown.map((row) => row.map((x) => x / length));
    }
    fill((a, b) => dot(shown[a], shown[b]));
  }
  return { tile: indices(own, largest(own) || 1, [rows, rows]), limit: largest(own) || 1, perPixel: count / rows };
}

function heatmap(data, matrix, [start, stop], p, k, say) {
  const some = `A pixel covers ${number(matrix.perPixel)} positions of each side; waves below 2 pixels are left out of the products.`;
  const text = present(
    `Shift-invariance defect ${number(data.defect, 2)}: ${data.defect === 0 ? "each diagonal is one number." : "0 where the distance explains all."}`,
    matrix.perPixel > 1 && some,
    `Colours end at ±${number(matrix.limit)}.`,
  ).join(" ");
  const apart = stop - start <= MOST_CELLS_OF_AXIS ? { key: "off", to: new Grid(Int32Array.from({ length: stop - start }, (_, n) => Math.abs(start + n - p))) } : {};
  return under(make("Heatmap", {
    id: "matrix",
    title: `${NAMES[data.kind]} of rows`,
    tile: matrix.tile,
    lut: "diverging",
    x: cells("position", start, stop, apart),
    y: cells("position", start, stop, { key: "p" }),
    low: number(-matrix.limit),
    high: number(matrix.limit),
    caption: text,
    place: "half",
    label: say,
  }), p + k, p);
}

/** The 2 x 2 matrices that move a pair by k positions. */
function blocks(table, k) {
  const pairs = table.ladder.steps.length;
  const rows = evenly(0, pairs - 1, BLOCKS).map((pair) => {
    const turn = angle(k, table.halves[table.layout.findIndex(([own]) => own === pair)]);
    const [cos, sin, minus] = [Math.cos(turn), Math.sin(turn), -Math.sin(turn)].map((x) => signed(x, 3));
    return [String(pair), `${signed(turn, 4)} rad`, `[ ${cos}  ${sin} ]`, `[ ${minus}  ${cos} ]`];
  });
  const far = plural(k, "position");
  return make("TableOfText", {
    id: "blocks",
    title: `what moves a row by ${far}: one block for each pair`,
    columns: ["pair", "angle", "new sin", "new cos"],
    rows,
    place: "half",
    caption: `Each row: the factors of the old sin and cos. The same blocks work at every position, so a linear layer can learn to look ${far} away.`,
  });
}

/** What remains of a score of a rotation far away: the curves of posenc/plot/views/offset.py, `decay`. */
function decay(frequencies) {
  const pairs = frequencies.length;
  const step = Math.log10(FARTHEST + 1) / POINTS;
  const ends = [...new Set(range(POINTS + 1).map((n) => rint(n === POINTS ? FARTHEST + 1 : 10 ** (n * step))))];
  const curves = ends.slice(0, -1).map((first, n) => {
    const end = ends[n + 1];
    const each = evenly(first, end - 1, EACH).map((m) => {
      let [re, im, bound, squares] = [0, 0, 0, 0];
      for (const f of frequencies) {
        const [cos, sin] = [Math.cos(m * f), Math.sin(m * f)];
        re += cos;
        im += sin;
        squares += cos * cos;
        bound += Math.sqrt(re * re + im * im);
      }
      return { same: re / pairs, spread: squares / pairs ** 2, bound: bound / ((pairs * (pairs + 1)) / 2) };
    });
    const same = mean(each.map((one) => one.same));
    const varied = mean(each.map((one) => (one.same - same) ** 2));
    return { at: (first + end - 1) / 2, same, spread: Math.sqrt(mean(each.map((one) => one.spread)) + varied), bound: mean(each.map((one) => one.bound)) };
  });
  const x = float64(curves.map(({ at }) => at));
  const other = (2 * pairs) ** -0.5;
  const series = (label, style, y, by) => make("Series", { label, x, y: float32(y), style, ...(by ? { lo: float32(y.map((v, n) => v - by[n])), hi: float32(y.map((v, n) => v + by[n])) } : {}) });
  return make("Chart", {
    id: "decay",
    title: "what remains of a score with distance",
    x: logarithmic("distance, positions (log)", 1, FARTHEST),
    y: values("", ...widened(-0.35, 1)),
    series: [
      series("a key like the query", 0, curves.map(({ same }) => same), curves.map(({ spread }) => spread)),
      series("an independent key", 2, curves.map(() => 0), curves.map(() => other)),
      series("bound (own scale)", 1, curves.map(({ bound }) => bound)),
    ],
    caption: "Over random queries and keys: the mean and a band of one standard deviation, over the mean at distance 0 of a key that is the query. The bound is a factor of what a score can be at most (Su et al. 2021), over its own value at distance 0: it falls, but scores of independent vectors do not.",
    place: "half",
    height: 210,
    label: "The expected score of a rotation against distance, beside a bound",
  });
}

// --- the page --------------------------------------------------------------------------------------

function lead(data) {
  const rise = data.firstRise !== null ? ` It does not fall all the way: it first rises at distance ${whole(data.firstRise)}.` : "";
  if (!data.defect) return `The product depends on the distance alone, wherever the two positions are.${rise}`;
  return `The product depends on where the two positions are: distance explains ${number(100 * (1 - data.defect ** 2), 3)} % of it.${rise}`;
}

export function distanceFrame(scene) {
  const { s, L, metric, log: asked } = scene.values;
  const table = tableOf(scene.a);
  const log = asked && L > 3;
  const k = Math.min(scene.values.off, L - 1);
  const p = Math.min(scene.values.p, s + L - 1 - k);
  const key = JSON.stringify([scene.a, s, L, metric, log, scene.width]);
  if (last.key !== key) {
    const pairs = wholePairs(table);
    const data = offsetData(table, pairs, L, metric, log, Math.min(scene.width, 512));
    last = { key, data, matrix: matrixOf(table, pairs, [s, s + L], metric), far: table.turns ? [(table.far ??= decay(table.ladder.frequencies))] : [] };
  }
  const { data, matrix, far } = last;
  const ofRowsAt = (a, b) => dot(sized(table.row(a), metric), sized(table.row(b), metric));
  const value = ofRowsAt(p, p + k);
  const say = `Positions ${whole(p)} and ${whole(p + k)}, ${plural(k, "position")} apart: ${number(value)}`;
  const rise = data.firstRise;
  return {
    lead: lead(data),
    panels: [heatmap(data, matrix, [s, s + L], p, k, say), offsetChart(data, table, k, value), ...far, ...(table.stored ? [] : [blocks(table, k)])],
    readout: present(
      heading(`Positions ${whole(p)} and ${whole(p + k)}`),
      fact(metric === "cosine" ? "Cosine" : "Dot product", number(value, 6)),
      fact("With itself", number(ofRowsAt(p, p), 6)),
      fact("Distance", whole(k)),
      rise !== null && fact("First rises at", whole(rise)),
      rise !== null && fact("Steps that go up", `${number(100 * data.rises, 2)} %`),
      fact("Shift-invariance defect", number(data.defect, 3), "0: distance explains everything"),
      data.defect && prose("The band runs over positions: the same distance, other places."),
    ),
    say,
    cursor: { x: stops("off", k, 0, L - 1), y: stops("p", p, s, s + L - 1) },
    table: {
      caption: `${table.label}: the product at the first distances shown`,
      columns: ["distance", "mean", "least", "largest"],
      rows: data.shown.slice(0, 20).map((offset, n) => [whole(offset), ...[data.mean, data.low, data.high].map((y) => number(y[n], 6))]),
    },
    dead: ["order", "pairing"],
  };
}
