/** Table, made in the page: posenc/explore/views/table.py with the pictures that it takes. */

import { again, arcsOf, countHits } from "./arcs.js";
import { curveOf, radians } from "./columns.js";
import { around, cells, fact, float32, float64, Grid, heading, indices, largest, make, present, prose, stops, under, values } from "./grammar.js";
import { nearby, tableOf } from "./local_stored.js";
import { count, number, plural, signed, whole } from "./numbers.js";
import { arranged, reduced, tileOf } from "./pixels.js";
import { refuse } from "./reading.js";

const DIGITS = 6;
const NEAR = 0.005; // values that agree to two digits, and the distance of two points of the unit circle
const MOST_COUNTED = 2 ** 24; // numbers of a stored table that are looked through
const COLUMNS = { stored: "dimension", sin_cos: "dimension, sines before cosines" };

/** A series of a curve, with its band where pixels cannot show all of it. */
export function seriesOf(curve) {
  const band = curve.band ? { lo: float32(curve.low), hi: float32(curve.high) } : {};
  return make("Series", { label: curve.label, x: float64(curve.x), y: float32(curve.mean), ...band });
}

export const unresolved = (curve) => (curve.band ? "Line: what pixels can show. Band: from the least to the largest value." : "");

/** Where the arrows go. */
export const tableCursor = ({ values: { s, L, p, j } }, table) => ({ x: stops("j", j, 0, table.d - 1), y: stops("p", p, s, s + L - 1) });

// --- the picture -----------------------------------------------------------------------------------

function caption(tile, table) {
  const [start, stop] = tile.positions;
  const total = tile.dims[1] - tile.dims[0];
  const each = stop - start > 1 ? `Each of the ${whole(stop - start)} positions has a row of its own.` : `One position, ${whole(start)}.`;
  return present(
    tile.perPixel[0] === 1 ? each : `A pixel covers ${number(tile.perPixel[0])} positions.`,
    !tile.exact && table.stored && "Rows are filtered: waves below 2 pixels are blank, 8 are full.",
    !tile.exact && !table.stored && `${whole(tile.blank)} of ${plural(total, "column")} are blank: below 2 pixels per wave; waves are shown in full from 8.`,
    tile.perPixel[1] > 1 && `A pixel covers ${number(total / tile.shape[1])} ${table.stored ? "dimensions" : "pairs, sines and cosines apart"}.`,
    table.sides && `Positions are the cells of a grid of ${table.sides[0]} (h) by ${table.sides[1]} (w), the last fastest.`,
    table.turns && "Columns are the channels: a sine where the first of a pair stands, a cosine where the second does.",
    tile.limit !== 1 && `Colours end at ±${number(tile.limit)}.`,
  ).join(" ");
}

function heatmap(tile, drawn, table, label) {
  const [first, last] = tile.dims;
  const plain = drawn.every((c, n) => c === n);
  const names = { key: "j", to: new Grid(Int32Array.from(drawn.slice(first, last))), names: drawn };
  const scale = (last - first) / tile.shape[1];
  return make("Heatmap", {
    id: "table",
    title: "",
    tile: tile.indices,
    lut: "diverging",
    x: plain ? cells(COLUMNS.stored, first, last, { key: "j" }) : cells(COLUMNS[tile.order], first, last, names),
    y: cells("position", ...tile.positions, { key: "p" }),
    low: number(-tile.limit),
    high: `+${number(tile.limit)}`,
    caption: caption(tile, table),
    lines: tile.boundaries.map((at, n) => make("Mark", { axis: "x", at: first + at * scale, text: n ? "" : "2 px per wave" })),
    label,
  });
}

/** The column of the cursor, over the positions of the table. */
function beside(curve, limit, y, p, value) {
  return make("Chart", {
    id: "column",
    title: `dimension ${curve.column}`,
    x: y,
    y: values("", -limit, limit, 2),
    series: [seriesOf(curve)],
    marks: y.at === null ? [] : [make("Mark", { axis: "point", at: p + 0.5, to: value, style: "point" })],
    caption: unresolved(curve),
    place: "right",
    orient: "v",
    label: `${curve.label} over the positions`,
  });
}

/** The row of the cursor, over the dimensions of the table. */
function below(row, x, tile, title) {
  const [first, last] = tile.dims;
  const part = [...row.slice(first, last)];
  const pixels = tile.shape[1];
  let series = { x: part.map((_, n) => first + n + 0.5), y: part, draw: "bars" };
  if (part.length > pixels) {
    const ends = Array.from({ length: pixels + 1 }, (_, n) => Math.floor(n * (part.length / pixels)));
    const runs = ends.slice(0, -1).map((end, n) => part.slice(end, Math.max(ends[n + 1], end + 1)));
    series = {
      x: ends.slice(0, -1).map((end, n) => first + (end + ends[n + 1]) / 2),
      y: reduced((n) => [part[n]], part.length, pixels).map(([value]) => value),
      lo: float32(nearby(runs.map((run) => Math.min(...run)), Math.min)),
      hi: float32(nearby(runs.map((run) => Math.max(...run)), Math.max)),
    };
  }
  const limit = Math.max(tile.limit, largest(part));
  return make("Chart", {
    id: "row",
    title,
    x,
    y: values("", -limit, limit, 2),
    series: [make("Series", { label: "this position", style: 1, ...series, x: float64(series.x), y: float32(series.y) })],
    place: "below",
    height: 84,
    label: `${title[0].toUpperCase()}${title.slice(1)}, over the dimensions`,
  });
}

function lead(table, tile) {
  const total = tile.dims[1] - tile.dims[0];
  if (tile.perPixel[0] > 1 && !table.stored) {
    const end = tile.blank ? "; they fade out here instead of showing a false pattern." : ".";
    return `Each pixel covers ${number(tile.perPixel[0])} positions. ${count(tile.blank, total)} columns turn too fast for this scale${end}`;
  }
  if (table.sides) return `One row for each cell of a grid of ${table.sides.map(whole).join(" × ")}, one column per dimension.`;
  const [fast, slow] = [Math.min(...table.wavelengths), Math.max(...table.wavelengths)];
  return `One row per position, one column per dimension. The fastest column repeats every ${number(fast)} positions, the slowest every ${number(slow)}; together they make rows different.`;
}

// --- one cell --------------------------------------------------------------------------------------

const mn = (text) => `<mn>${text}</mn>`;
const mo = (text) => `<mo>${text}</mo>`;
const mrow = (...parts) => `<mrow>${parts.join("")}</mrow>`;

/** The formula of the papers where the ladder is theirs, else the frequency. */
function formula(scene, table, { p, name, pair, frequency, value }) {
  const { d, n } = scene.a.values;
  let steps = [`= ${name}(${number(frequency * p)} rad)`];
  let inner = mrow(mn(whole(p)), mo("·"), mn(number(frequency, 6)));
  let text = `${name}(${whole(p)} · ${number(frequency, 6)})`;
  if (scene.a.values.ladder === "exponent 2i/d") {
    const [top, base] = [String(2 * pair), number(n)];
    inner = `<mfrac>${mn(whole(p))}<msup>${mn(base)}${mrow(mn(top), mo("/"), mn(String(d)))}</msup></mfrac>`;
    text = `${name}(${whole(p)} / ${base}^(${top}/${d}))`;
    steps = [`= ${name}(${whole(p)} / ${number(1 / frequency, 5)})`, ...steps];
  }
  const written = mrow(`<mi>${name}</mi>`, mo("("), inner, mo(")"));
  return make("Math", { mathml: `<math display="block">${written}</math>`, text, steps, value: signed(value, DIGITS) });
}

/** The pair as a point of the circle, where a sine has its cosine. */
function dial(table, pair, step, p, signedFrequency) {
  if (!table.layout.some(([own, cosine]) => own === pair && cosine)) return [];
  const angle = radians(step * BigInt(p));
  const past = angle < 0 ? (angle % (2 * Math.PI)) + 2 * Math.PI : angle % (2 * Math.PI);
  const name = `pair ${pair}`;
  const hands = [[Math.cos(angle), Math.sin(angle), 1, name]];
  const note = `sin is the height, cos the width; ${signed(past)} rad past whole turns`;
  return [make("DialBlock", { dial: make("Dial", { label: name, hands, note, turn: signedFrequency }) })];
}

/** How often the value and the pair come again, and where. */
function equal(table, j, value, p, [start, stop]) {
  const note = prose("To two digits. One dimension cannot name a position; the whole row can.");
  if (table.stored) {
    if ((stop - start) * table.d > MOST_COUNTED) return [];
    const same = table.run(start, stop - start, j).filter((x) => Math.abs(x - value) <= NEAR).length;
    return [fact("Same value at", count(same, stop - start)), note];
  }
  const [step, cosine] = [table.steps[j], table.layout[j][1]];
  const near = countHits(step, arcsOf(cosine, value - NEAR, value + NEAR, stop), start, stop);
  const wide = BigInt(Math.round((2 * Math.asin(NEAR / 2)) / (2 ** -64 * 2 * Math.PI)));
  const pairs = countHits(step, [[step * BigInt(p) - wide, 2n * wide]], start, stop);
  const places = again(step, wide, p, start, stop);
  const nearest = pairs > 1 + places.length ? ", nearest first" : "";
  return [
    ...present(
      fact("Same value at", count(near, stop - start)),
      fact("Same pair at", count(pairs, stop - start)),
      places.length && make("Links", { label: `The pair again at${nearest}`, links: places.map((at) => make("Link", { text: whole(at), state: { p: String(at) } })) }),
    ),
    note,
  ];
}

function readout(scene, table, value) {
  const { s, L, p, j } = scene.values;
  const title = heading(`Position ${whole(p)}, dimension ${j}`);
  if (table.stored) return [title, make("Math", { mathml: "", text: "", steps: ["A stored number."], value: signed(value, DIGITS) }), ...equal(table, j, value, p, [s, s + L])];
  const [pair, cosine] = table.layout[j];
  const step = table.steps[j];
  const signedFrequency = radians(step);
  const frequency = Math.abs(signedFrequency);
  const name = cosine ? "cos" : "sin";
  return [
    title,
    formula(scene, table, { p, name, pair, frequency, value }),
    ...dial(table, pair, step, p, signedFrequency),
    fact("Wavelength", number(table.wavelengths[j])),
    fact("Turns so far", number((p * signedFrequency) / (2 * Math.PI))),
    ...equal(table, j, value, p, [s, s + L]),
  ];
}

// --- the page --------------------------------------------------------------------------------------

let last = { key: "", tile: null }; // the picture, which stays while the cursor moves

function pictureOf(scene, table, rows, dims) {
  const key = JSON.stringify([scene.a, rows, dims, scene.height, scene.width]);
  if (last.key === key) return last.tile;
  const tile = tileOf(table, rows, dims, [scene.height, scene.width]);
  last = { key, tile: { ...tile, indices: indices(tile.values, tile.limit, tile.shape) } };
  return last.tile;
}

export function tableFrame(scene) {
  const { s, L, p, j, p0, p1, j0, j1, parts } = scene.values;
  if (parts) refuse("what a table is made of");
  const table = tableOf(scene.a);
  const tile = pictureOf(scene, table, [p0, p1], [j0, j1]);
  const drawn = arranged(table, tile.order);
  const place = drawn.indexOf(j);
  const value = table.at(p, j);
  const say = `Position ${whole(p)}, dimension ${j}: ${table.stored ? "" : `${table.name(j)}, `}${signed(value, DIGITS)}`;
  const main = under(heatmap(tile, drawn, table, say), j0 <= place && place < j1 ? place : null, p0 <= p && p < p1 ? p : null);
  const what = table.turns ? "the sines and cosines that turn" : "the vector added at";
  return {
    lead: lead(table, tile),
    panels: [
      main,
      beside(table.stored ? table.curve(j, p0, p1, tile.shape[0]) : curveOf(table, j, p0, p1, tile.shape[0]), tile.limit, main.y, p, value),
      below(table.row(p, drawn), main.x, tile, `${what} position ${whole(p)}`),
    ],
    readout: readout(scene, table, value),
    say,
    cursor: tableCursor(scene, table),
    zoom: { x: { from: "j0", to: "j1", min: 0, max: table.d }, y: { from: "p0", to: "p1", min: s, max: s + L } },
    table: numbersOf(scene, table),
    dead: table.sides ? ["parts", "s"] : ["parts"],
  };
}

/** A window of 20 x 20 numbers around the cursor. */
function numbersOf(scene, table) {
  const { s, L, p, j } = scene.values;
  const [rows, dims] = [around(p, s, s + L), around(j, 0, table.d)];
  return {
    caption: `${table.label}: positions ${whole(rows[0])} to ${whole(rows.at(-1))}, dimensions ${dims[0]} to ${dims.at(-1)}`,
    columns: ["position", ...dims.map(String)],
    rows: rows.map((at) => [whole(at), ...dims.map((c) => signed(table.at(at, c)))]),
  };
}
