/** Waves, made in the page: posenc/explore/views/waves.py with the pictures that it takes. */

import { columnsOf, curveOf } from "./columns.js";
import { cells, fact, float32, float64, Grid, heading, indices, logarithmic, make, present, under, values } from "./grammar.js";
import { count, number, plural, rint, signed, whole } from "./numbers.js";
import { seriesOf, tableCursor, unresolved } from "./local_table.js";

const MOST_COUNTED = 64; // positions of the counter
const CURVES = 5;
const FINE = 8; // points of a wave to a position
const NEAR = 0.5; // octaves between the period of a bit and the wavelength of its partner
const BIT = 0.55; // of the colours: a bit that is set, beside one that is not

const BITS = { enc: "sinusoidal", ladder: "halves", n: "2", d: "16" }; // a table that counts in binary

const lengthText = (wavelength) => (Number.isFinite(wavelength) ? `${number(wavelength)} positions` : "endless");

/** The axis of pairs; a click puts the cursor on the first channel of one. */
export const pairAxis = (table, pair, label = "pair: fast → slow") => cells(label, 0, table.ladder.steps.length, { key: "j", at: pair, to: new Grid(table.channels) });

function lead(lengths, scene, table) {
  const longest = Math.max(...lengths);
  const said = longest >= 100 && longest < 1e15 ? whole(longest) : number(longest);
  const often = 2 * Math.PI * scene.a.values.n;
  const not = table.usual && longest < often * (1 - 1e-9) ? `, not 2π times the base, ${whole(often)}` : "";
  const done = lengths.filter((x) => x <= scene.values.L).length;
  return `The longest wavelength is ${said} positions${not}; ${whole(done)} of ${plural(lengths.length, "pair")} finish a turn within ${whole(scene.values.L)}.`;
}

function wavelengthChart(lengths, scene, table, pair) {
  const mark = scene.values.L;
  const [low, high] = [Math.min(mark, ...lengths), Math.max(mark, ...lengths)];
  const own = make("Series", { label: scene.a.entry.label, x: float64(lengths.map((_, n) => n + 0.5)), y: float32(lengths) });
  const chart = make("Chart", {
    id: "wavelengths",
    title: "wavelength of each pair, in positions (log)",
    x: pairAxis(table, pair),
    y: logarithmic("", low / 1.3, high * 1.3),
    series: [own],
    marks: [make("Mark", { axis: "y", at: mark, text: plural(mark, "position"), style: "solid" })],
    height: 220,
    label: "Wavelength of each pair against the number of positions",
  });
  return under(chart, pair, null, lengths[pair]);
}

/** Small multiples: the dimension of the cursor, then five from fast to slow. */
function curves(scene, table, [start, stop]) {
  const { j, p } = scene.values;
  const sines = table.layout.map(([pair, cosine], column) => ({ pair, cosine, column })).filter(({ cosine }) => !cosine)
    .sort((a, b) => table.wavelengths[a.column] - table.wavelengths[b.column]).map(({ column }) => column);
  const places = new Set(Array.from({ length: CURVES }, (_, n) => rint((n * (sines.length - 1)) / (CURVES - 1))));
  const chosen = [j, ...[...places].sort((a, b) => a - b).map((n) => sines[n]).filter((column) => column !== j)];
  return chosen.map((column, n) => {
    const curve = curveOf(table, column, start, stop, scene.width);
    const chart = make("Chart", {
      id: `wave-${n}`,
      title: `dimension ${column}: ${curve.label}, λ = ${lengthText(curve.wavelength).split(" ")[0]}`,
      x: cells(n === chosen.length - 1 ? "position" : "", start, stop, { key: "p" }),
      y: values("value", -1, 1, 3),
      series: [seriesOf(curve)],
      caption: unresolved(curve),
      place: "half",
      height: 72,
      label: `Dimension ${column} over the positions`,
    });
    return under(chart, p, null, table.at(p, column));
  });
}

// --- the counter -----------------------------------------------------------------------------------

/** The wave whose wavelength is nearest to the period of a bit, or why there is none. */
function partner(bit, { wavelengths: lengths, layout }) {
  const period = 2 ** (bit + 1);
  const octaves = lengths.map((length) => Math.abs(Math.log2(length / period)));
  const best = octaves.indexOf(Math.min(...octaves));
  if (octaves[best] <= NEAR) return { bit, period, pair: layout[best][0], wavelength: lengths[best] };
  const [least, most] = [Math.min(...lengths), Math.max(...lengths)];
  const which = period < least ? "shortest" : period > most ? "longest" : "nearest";
  return { bit, period, pair: null, why: `the ${which} wavelength is ${number(lengths[best])}` };
}

function counter(scene, table, stop) {
  const at = scene.values.p;
  const first = Math.max(0, Math.min(at - MOST_COUNTED / 2, stop - MOST_COUNTED));
  const last = Math.min(first + MOST_COUNTED, Math.max(stop, first + 1));
  const bits = Math.max(1, BigInt(Math.max(last - 1, at)).toString(2).replace(/^0$/, "").length);
  const partners = Array.from({ length: bits }, (_, n) => partner(bits - 1 - n, table));
  const places = Array.from({ length: last - first }, (_, n) => first + n);
  const isSet = (p, bit) => Math.floor(p / 2 ** bit) % 2;
  const here = at >= first && at < last ? at - first : null;
  const strips = partners.flatMap(({ bit, period, pair, wavelength, why }) => {
    const column = pair === null ? null : table.layout.findIndex(([own, cosine]) => own === pair && !cosine);
    const wave = Float64Array.from({ length: (last - first - 1) * FINE + 1 }, (_, n) => (pair === null ? NaN : table.at(first + Math.floor(n / FINE), column, (n % FINE) / FINE)));
    const row = places.map((p) => isSet(p, bit));
    const label = `period ${whole(period)}${pair === null ? `: ${why}` : `, pair ${pair}: ${number(wavelength)}`}`;
    return [
      make("Strip", { label: `bit ${bit}`, tile: indices(row.map((b) => b * BIT), 1), numbers: row.map(String), key: "p", at: here }),
      make("Strip", { label, tile: indices(wave.filter((_, n) => n % FINE === 0), 1), at: here, curve: float32(wave) }),
    ];
  });
  const digits = BigInt(at).toString(2).padStart(bits, "0");
  const right = partners.filter(({ bit, pair, wavelength }) => pair !== null && places.every((p) => Math.floor(2 * (p / wavelength) + 1e-9) % 2 === isSet(p, bit))).length;
  const without = partners.filter(({ pair }) => pair === null).map(({ period }) => String(period)).reverse();
  const caption = present(
    `${at} is ${digits} in binary.`,
    without.length && `Period${without.length === 1 ? "" : "s"} ${without.join(", ")}: no wave within half an octave.`,
    right && `${right} of ${partners.length} bits are set exactly in the second half of each turn of their pair.`,
    "A bit jumps and a wave glides: neighbours differ in a wave by little.",
  ).join(" ");
  return make("Strips", { id: "counter", title: `position ${whole(at)} in binary: ${digits}`, strips, lut: "diverging", columns: places.map(whole), caption, first, label: "position" });
}

// --- the page --------------------------------------------------------------------------------------

function readout(lengths, pair, scene) {
  const { j, L } = scene.values;
  const own = lengths[pair];
  return [
    heading(`Pair ${pair}, dimension ${j}`),
    fact("Wavelength", lengthText(own)),
    fact("Frequency", `${number((2 * Math.PI) / own)} rad`),
    fact(`Turns within ${whole(L)}`, number(L / own, 3)),
    heading("All pairs"),
    fact("Shortest", lengthText(Math.min(...lengths))),
    fact("Longest", lengthText(Math.max(...lengths))),
    fact("No full turn", count(lengths.filter((x) => x > L).length, lengths.length), "pairs longer than the positions shown"),
    fact("Under 8 positions", count(lengths.filter((x) => x < 8).length, lengths.length)),
    make("Prose", { text: `Fast pairs tell neighbours apart, slow pairs tell far places apart. The fast end is ${lengths[0] <= lengths.at(-1) ? "on the left." : "on the right."}` }),
    ...(scene.values.counter && scene.a.values.ladder !== "halves" ? [make("Links", { label: "With a wave for each bit", links: [make("Link", { text: "a table of halves", state: BITS })] })] : []),
  ];
}

export function wavesFrame(scene) {
  const { s, L, j } = scene.values;
  const table = columnsOf(scene.a);
  const lengths = Array.from(table.ladder.frequencies, (f) => (2 * Math.PI) / f);
  const [pair] = table.layout[j];
  const own = lengths[pair];
  const panels = [wavelengthChart(lengths, scene, table, pair)];
  panels.push(...(scene.values.counter ? [counter(scene, table, s + L)] : curves(scene, table, [s, s + L])));
  return {
    lead: lead(lengths, scene, table),
    panels,
    readout: readout(lengths, pair, scene),
    say: `Pair ${pair}: wavelength ${lengthText(own)}, ${number(L / own, 3)} turns within ${plural(L, "position")}`,
    cursor: tableCursor(scene, table),
    table: {
      caption: `${scene.a.entry.label}: the first ${Math.min(20, lengths.length)} of ${plural(lengths.length, "pair")}`,
      columns: ["pair", "turns per position", "wavelength"],
      rows: lengths.slice(0, 20).map((x, i) => [String(i), signed(1 / x, 6), lengthText(x)]),
    },
  };
}
