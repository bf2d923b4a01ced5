/** The seven scenes of the story: what each asks of the page that computes, which panels it shows, and what they say.
 *
 *  A scene has `first`, the values it opens with; `asks`, the state of the explorer that it needs; `controls`, by key
 *  or in full; `shows`, its panels and a sentence; `travel`, what scrolling through it changes, from 0 to 1. */

import { along, between, choice, line, option, slider, WIDE, WORDS } from "./blocks.js";
import { dot, ladder, rotate, table } from "./evaluator.js";
import { cells, float32, Grid, indices, largest, make, range, under, values, wordAxis } from "./grammar.js";
import { randomVector } from "./keccak.js";
import { longer } from "./longer.js";
import { count, number, plural, rint, widened, whole } from "./numbers.js";

const ORDERS = { "": "John likes Jane", "2.1.0": "Jane likes John", "0.2.1": "John Jane likes", "1.0.2": "likes John Jane",
  "1.2.0": "likes Jane John", "2.0.1": "Jane John likes" };
const NOWHERE = -9; // of a cursor: no cell is chosen

// --- 1: words in a bag -----------------------------------------------------------------------------

const bag = {
  first: { perm: "" },
  asks: (own) => ({ ...WORDS, ...own }),
  controls: () => [choice("perm", "Order", ...Object.entries(ORDERS).map((pair) => option(...pair)))],
  travel: (t) => ({ perm: t < 0.5 ? "" : "2.1.0" }),
  shows({ panels: [words, attention] }, _, arrays, { small }) {
    const [now] = attention.cells;
    const at = words.order.map((__, n) => words.order.indexOf(n));
    const [{ data, shape }, names] = [arrays[now.grid.tile], WORDS.text.split(" ")];
    const present = words.order.map((n) => names[n]);
    const sorted = (key) => { // rows of what words get, which come in the order of the alphabet
      const { data: rows, shape: [, wide] } = arrays[now[key]];
      return new Grid(Uint8Array.from(names.flatMap((name) => [...rows.slice(wide * now.words.indexOf(name), wide * (now.words.indexOf(name) + 1))])), arrays[now[key]].shape);
    };
    const grid = (title, order, more) => ({ ...now, key: "", note: "", outcome: "", ...more.cell,
      grid: { ...now.grid, title, label: `${title}: queries down, keys across`, ...more.grid,
        x: { ...wordAxis("key", order), at: NOWHERE }, y: { ...wordAxis("query", order), at: NOWHERE } } });
    const first = { cell: { words: [] }, grid: { numbers: at.map((i) => at.map((j) => now.grid.numbers[i][j])),
      tile: new Grid(Uint8Array.from(at.flatMap((i) => at.map((j) => data[i * shape[1] + j]))), shape) } };
    return {
      panels: [{ ...words, links: [] }, { ...attention, cells: [grid(WORDS.text, names, first),
        grid(small ? "now" : `now: ${present.join(" ")}`, present, { cell: { words: names, before: sorted("before"), after: sorted("after") } })],
        ends: [small ? "before" : WORDS.text, "now"], caption: small ? ""
        : "Drag a word above, or press ← and → on it. Each row: the share that one word takes of each word. Below: what it gets, number by number; there blue is below 0, red above." }],
      say: words.order.some((n, place) => n !== place) ? "The words have changed places, and rows and columns moved with them. What each word gets has not changed: lines join what is equal." : "Each word takes its share of all three. Now move one.",
    };
  },
};

// --- 2: the number of the place --------------------------------------------------------------------

const NUMBERS = 8; // of a word

const integers = {
  first: { n: "4", by: "0" },
  asks: () => WORDS,
  controls: () => [
    slider("n", "Words", 4, 4096, { scale: "log" }),
    choice("by", "What is added", option("0", "the place"), option("1", "place ÷ length")),
  ],
  travel: (t) => ({ n: along(4, 1000, Math.min(1, 1.6 * t)), by: t < 0.8 ? "0" : "1" }),
  shows(_, { n, by }, __, { small }) {
    const length = Number(n);
    const gap = length > 4 ? ["⋮"] : [];
    const places = [0, 1, 2, ...gap.map(() => NaN), length - 1].map((place) => (by === "1" ? place / length : place));
    const names = ["John", "likes", "Jane", ...gap, "John"];
    const alone = names.map((name) => (name === "⋮" ? Array(NUMBERS).fill(NaN) : [...randomVector(name, NUMBERS, 0)]));
    const mark = (x) => (Number.isNaN(x) ? "⋮" : `+${number(x, x < 0.1 ? 1 : 4)}`);
    const sum = alone.map((row, k) => row.map((x) => x + places[k]));
    const limit = largest([...alone, ...sum].flat());
    const side = (id, title, rows, labels) => make("Heatmap", {
      id, title, tile: indices(rows.flat(), limit, [names.length, NUMBERS]), lut: "diverging",
        x: cells("component", 0, NUMBERS), y: wordAxis("word", labels),
      low: number(-limit, 3), high: number(limit, 3), label: `${title}: ${labels.join(", ")}`,
    });
    const said = by === "1"
      ? `One step is ${number(places[1], 2)} here, and something else in a text of another length.`
      : `The last place adds ${whole(length - 1)} to components that are never above 1 in size.`;
    return {
      panels: [make("Matrix", { id: "sum", title: `The first three of ${whole(length)} words, and the last`,
        across: small ? 1 : 2, cells: [side("alone", "the word alone", alone, names),
        side("sum", "with its place", sum, places.map(mark))],
        caption: small ? "" : "Both grids have one scale: beside large sums the words grow pale, though they are what they were." })],
      say: said,
    };
  },
};

// --- 3: bits ---------------------------------------------------------------------------------------

const COUNTED = 64;
const BINARY = { v: "waves", ladder: "halves", n: "2", d: "16", L: String(COUNTED), counter: "1" };
const position = slider("p", "Position", 0, COUNTED - 1);
const flips = (p) => range(7).filter((bit) => ((p ^ (p + 1)) >> bit) & 1).length;

const bits = {
  first: { p: "31" },
  asks: (own) => ({ ...BINARY, ...own }),
  controls: () => [position],
  travel: (t) => ({ p: between(31, 40, t) }),
  shows({ panels: [, counter] }, { p }, _, { tall }) {
    const at = Number(p);
    const chart = make("Chart", {
      id: "flips", title: "bits that flip on the way to the next position",
        x: cells("position", 0, COUNTED - 1, { key: "p" }), y: values("", 0, 6, 3),
      series: [line("", range(COUNTED - 1).map((n) => n + 0.5), range(COUNTED - 1).map(flips), 0, { draw: "bars" })],
        height: Math.min(240, Math.max(60, tall - 330)), label: "How many bits flip at each step",
    });
    return {
      panels: [{ ...counter, strips: counter.strips.filter(({ label }) => label.startsWith("bit")), caption: "" },
        under(chart, Math.min(at, COUNTED - 2), null, flips(Math.min(at, COUNTED - 2)))],
      say: at < COUNTED - 1 ? `From ${at} to ${at + 1}, ${plural(flips(at), "bit")} of 6 flip${flips(at) === 1 ? "s" : ""}.`
        : "The last position that six bits can count.",
    };
  },
};

// --- 4: sines and cosines --------------------------------------------------------------------------

const TURN = 16; // positions of the hand
const TALL = { v: "table", d: "50", L: "45000" };
const KEPT = { sin: ["sine"], cos: ["cosine"], both: ["sine", "cosine"] };
const TITLES = { sine: "sine, the height of the hand", cosine: "cosine, its sideways reach" };
const height = { sine: Math.sin, cosine: Math.cos };

/** One hand of the clock, and where in its turns it is read as it is now. */
function hand(at, kept, { tall, small }) {
  const angle = (n) => (2 * Math.PI * n) / TURN;
  const read = (n) => KEPT[kept].map((name) => height[name](angle(n)));
  const here = read(at);
  const alike = range(COUNTED).filter((n) => read(n).every((x, k) => Math.abs(x - here[k]) < 1e-9));
  const fine = range(8 * COUNTED + 1).map((n) => n / 8);
  const dial = make("Dial", {
    label: `a turn in ${TURN} positions`, hands: [[Math.cos(angle(at)), Math.sin(angle(at)), 0, ""]], turn: 2 * Math.PI / TURN,
    note: KEPT[kept].map((name, k) => `${name} ${number(here[k], 2)}`).join("; "),
      trail: new Grid(Float32Array.from(range(TURN).flatMap((n) => [Math.cos(angle(n)), Math.sin(angle(n))])), [TURN, 2]),
  });
  const drawn = (names, id) => make("Chart", {
    id, title: names.map((name) => TITLES[name]).join("; "), x: { ...values(id === KEPT[kept].at(-1) || small ? "position"
      : "", 0, COUNTED, 5), key: "p", at }, y: values("", -1, 1, 3), place: "half",
    height: small ? Math.max(70, tall - 250) : Math.min(200, Math.max(70, tall / 2 - 70)),
      label: `The ${names.join(" and ")} over the positions`,
    series: names.flatMap((name, k) => [line("", fine, fine.map((n) => height[name](angle(n))), 2 * k),
      line("", alike, alike.map((n) => height[name](angle(n))), 1, { draw: "points" })]),
  });
  const names = KEPT[kept].join(" and ");
  return {
    panels: [make("Dials", { id: "hand", title: "one hand of the clock", dials: [dial], place: "half" }),
      ...(small ? [drawn(KEPT[kept], "both")] : KEPT[kept].map((name) => drawn([name], name)))],
    say: `Position ${at}: ${count(alike.length, COUNTED)} positions have this ${names}, ${alike.length * TURN > COUNTED ? "two" : "one"} in each turn.${kept === "both" ? " Slower hands tell the turns apart." : ""}`,
  };
}

/** Six hands at once, each at half the pace of the one below, and where they are read. */
function clock(at, { tall, small }) {
  const fine = range(8 * (COUNTED - 1) + 1).map((n) => n / 8);
  const six = range(6).map((k) => ({ level: 3 * k, value: (n) => 3 * k + Math.sin(Math.PI * n / 2 ** k) }));
  const chart = make("Chart", {
    id: "six", title: small ? "the height of each hand" : "the height of each hand; green: period 2 at whole positions; red: all at this position",
      x: { ...values("position", 0, COUNTED - 1, 7), key: "p", at },
    y: make("Axis", { label: "", domain: [-1.5, 16.5], ticks: six.map(({ level }, k) => ({ at: level, text: `period ${2 ** (k + 1)}` })) }),
    height: Math.min(420, tall - 70), label: "The heights of six hands over the positions",
    series: [...six.map(({ value }) => line("", fine, fine.map(value))),
      ...(small ? [] : [line("", range(COUNTED), range(COUNTED).map(six[0].value), 2, { draw: "points" })]),
      line("", six.map(() => at), six.map(({ value }) => value(at)), 1, { draw: "points" })],
  });
  return { panels: [chart],
    say: "One step turns the hand of period 4 by 90°, that of period 64 by 6°: fast hands separate neighbours, slow hands far places. A sine of period 2 is 0 at every whole position: its cosine is needed." };
}

/** The picture of a long table as rows that happen to fall on pixels, beside the one with what pixels can show. */
function pictures([true_], arrays) {
  const [high, wide] = arrays[true_.tile].shape;
  const { frequencies } = ladder({ dim: wide });
  const waves = range(wide).map((c) => ({ f: frequencies[c >> 1], shift: c % 2 ? Math.PI / 2 : 0 }));
  const sampled = range(high).map((k) => Math.floor(((k + 0.5) * 45000) / high)).flatMap((p) => waves.map(({ f, shift }) => Math.sin(p * f + shift)));
  const false_ = { ...true_, tile: indices(sampled, 1, [high, wide]), lines: [] };
  const named = (panel, title) => ({ ...panel, id: title, title, label: `Table of 45,000 rows, ${title}`,
    x: { ...panel.x, label: "column", at: null, key: "" }, y: { ...panel.y, at: null, key: "" } });
  const fast = waves.filter(({ f }) => (2 * Math.PI) / f < (2 * 45000) / high).length;
  return {
    panels: [make("Matrix", { id: "rows", title: "45,000 rows and 50 columns, drawn twice", across: 2,
      cells: [named(false_, `one row in ${rint(45000 / high)} is drawn`), named(true_, "each pixel is a mean of the rows there")] })],
    say: `In ${count(fast, wide)} columns a wave is shorter than two pixels. Left, every stripe there is false. Right, they are grey: the mean of many turns is 0. Where a wave has few pixels, it is pale.`,
  };
}

const waves = {
  first: { p: "2", keep: "sin", look: "one" },
  asks: ({ p, look }) => (look === "rows" ? TALL : { ...BINARY, p }),
  controls: ({ look }) => [
    choice("look", "Look at", option("one", "one hand"), option("all", "six hands"), option("rows", "45,000 rows")),
    ...(look === "rows" ? [] : [position]),
    ...(look === "one" ? [choice("keep", "Keep", option("sin", "the sine alone"), option("cos", "the cosine alone"),
      option("both", "sine and cosine"))] : []),
  ],
  travel: (t) => ({ p: between(2, 14, Math.min(1, 1.6 * t)), keep: t < 0.7 ? "sin" : "both", look: "one" }),
  shows({ panels }, { p, keep, look }, arrays, room) {
    if (look === "rows") return pictures(panels, arrays);
    if (look === "one") return hand(Number(p), keep, room);
    return clock(Number(p), room);
  },
};

// --- 5: a product that knows the distance ----------------------------------------------------------

const LONG = 64;
const SPAN = [-16, 32]; // of products, for every base from 4 to a million: curves can be compared
let kept = { key: "", data: null }; // products, which stay while the cursor moves

/** Products of all rows of a table, and the least, mean and largest at each distance. */
function products(which, base) {
  const key = `${which} ${base}`;
  if (kept.key === key) return kept.data;
  const { frequencies } = ladder({ dim: WIDE, base });
  const row = which === "sin" ? (p) => Array.from(frequencies, (f) => Math.sin(p * f)) : (p) => [...randomVector(`row ${p}`, WIDE, 0)];
  const rows = range(LONG).map(row);
  const all = rows.map((a) => rows.map((b) => dot(a, b)));
  const apart = range(LONG).map((k) => range(LONG - k).map((p) => all[p][p + k]));
  const mean = apart.map((own) => own.reduce((sum, x) => sum + x, 0) / own.length);
  kept = { key, data: { all, mean, low: apart.map((own) => Math.min(...own)), high: apart.map((own) => Math.max(...own)) } };
  return kept.data;
}

const distance = {
  first: { n: "10000", rows: "both", p: "20", off: "10" },
  asks: ({ n, p, off }) => ({ v: "distance", d: String(WIDE), L: String(LONG), n, p, off }),
  controls: ({ rows }) => [
    choice("rows", "Rows of", option("both", "sines and cosines"), option("sin", "sines alone"),
      option("learned", "an untrained table")),
    ...(rows === "learned" ? [] : [slider("n", "Base", 4, 1e6, { scale: "log", step: 0 })]),
    slider("off", "Distance", 0, LONG - 1),
  ],
  travel: (t) => ({ n: along(10000, 10, t), rows: "both" }),
  shows({ panels: [matrix, chart], say }, { n, rows, p, off }, _, { tall, small }) {
    const [square, curve] = [{ ...matrix, caption: small ? "" : "The lines cross at the two positions. Click to choose others.", title: "products of all rows" },
      { ...chart, caption: "", title: "product against the distance", height: Math.min(300, tall - 120), y: values("", ...SPAN, 6) }];
    const waves_ = [...ladder({ dim: WIDE, base: Number(n) }).frequencies].map((f) => (2 * Math.PI) / f);
    const round = waves_.filter((wave) => wave <= LONG).length;
    if (rows === "both") return { panels: small ? [square] : [square, curve],
      say: `${say.replace(": ", ": product ")}, wherever they stand. A turn takes the hands ${number(waves_[0], 3)} to ${number(waves_.at(-1), 3)} positions; ${count(round, WIDE / 2)} go round within these ${LONG}.` };
    const { all, mean, low, high } = products(rows, Number(n));
    const limit = largest(all.flat());
    const [k, at] = [Number(off), Math.min(Number(p), LONG - 1 - Number(off))];
    const drawn = { ...curve, title: "product against the distance: mean and range", marks: [],
      series: [line("", range(LONG), mean, 0, { lo: float32(low), hi: float32(high) })] };
    return {
      panels: [{ ...square, tile: indices(all.flat(), limit, [LONG, LONG]), low: number(-limit), high: number(limit) },
        ...(small ? [] : [under(drawn, k, null, all[at][at + k])])],
      say: `Positions ${at} and ${at + k}: product ${number(all[at][at + k], 3)}.${k < LONG - 1 ? ` All at this distance: from ${number(low[k], 3)} to ${number(high[k], 3)}.` : ""}${rows === "learned" ? " Before training, rows are random numbers." : ""}`,
    };
  },
};

// --- 6: turned, not added --------------------------------------------------------------------------

const [HEAD, WAY] = [16, 200];

/** The scores of a query and a key a distance apart, as both move: turned, and with rows of a table added. */
function moving(off, pairs, key) {
  const own = ladder({ dim: HEAD });
  const [q, k] = ["query", "key"].map((word) => [...randomVector(word, HEAD, 0)]);
  const rows = table(own, range(WAY + off + 1));
  const sum = (x, p) => x.map((value, c) => value + rows[p * HEAD + c]);
  return { turned: range(WAY + 1).map((n) => dot(rotate(own, q, n + off, pairs), rotate(own, k, n, key))),
    added: range(WAY + 1).map((n) => dot(sum(q, n + off), sum(k, n))) };
}

const turns = {
  first: { m: "3", off: "4", pairs: "half", j: "2" }, // m: of the key, which has a place at every distance
  asks: ({ m, off, pairs, j }) => ({ v: "rotate", d: String(HEAD), m: String(Number(m) + Number(off)), off, j, mix: "own",
    pairing: pairs === "mixed" ? "half" : pairs }),
  controls: (_, small) => [
    slider("m", "Key at", 0, WAY),
    ...(small ? [] : [slider("off", "Distance", 0, 32, { plays: false })]),
    choice("pairs", "Pairs of channels", option("half", "halves (j, j + 8)"),
      option("interleaved", "neighbours (2j, 2j + 1)"), option("mixed", "query halves, key neighbours")),
  ],
  travel: (t) => ({ m: between(3, 103, t), pairs: "half" }),
  shows({ panels: [dials, arcs] }, { m, off, pairs }, _, { small, tall }) {
    const mixed = pairs === "mixed";
    const { turned, added } = moving(Number(off), mixed ? "half" : pairs, pairs === "half" ? "half" : "interleaved");
    const at = Number(m);
    const spread = (scores) => `from ${number(Math.min(...scores), 3)} to ${number(Math.max(...scores), 3)}`;
    const [other, named] = pairs === "half" ? ["interleaved", "neighbours"] : ["half", "halves"];
    const [low, high] = widened(Math.min(...turned, ...added, -1), Math.max(...turned, ...added, 1));
    const chart = make("Chart", {
      id: "moving", title: "the score, as both move on", x: { ...values("position of the key", 0, WAY, 5),
        key: "m" }, y: values("", low, high, 3),
      series: [line("rows added", range(WAY + 1), added, 1), line("turned", range(WAY + 1), turned, 0, { front: true })],
        height: Math.min(240, Math.max(50, tall - (small ? (mixed ? 357 : 260) : mixed ? 300 : 485))),
        label: "The scores over the position of the key, at one distance",
    });
    const arcsOf = (id, first) => ({ ...arcs, id, title: `${id}: channels that turn together`, pairs: range(HEAD / 2).map(first), place: "half" });
    const shown = { ...dials, dials: dials.dials.slice(0, 4).map((dial) => ({ ...dial,
      note: small ? "" : `${dial.note.split(";")[0].replace("λ = ", "")} positions a turn`, shadow: null, bar: null })),
      title: small ? "q and k, turned to their places" : "q and k, turned to their places: the fastest four of eight pairs",
      caption: small ? "" : "Arrows: query and key. Dots: where the query has pointed. Click a circle: its pair is red below." };
    return {
      panels: [...(mixed ? [arcsOf("query", (k) => [k, k + HEAD / 2]), arcsOf("key", (k) => [2 * k, 2 * k + 1])] : [shown]),
        under(chart, at, null, turned[at]), ...(mixed || small ? [] : [{ ...arcs, place: "main",
        title: `which channels form a pair: ${pairs === "half" ? "halves" : "neighbours"}` }])],
      say: mixed ? `The same distance everywhere, yet the score goes ${spread(turned)}: query and key do not agree on what turns together.`
        : `Query at ${whole(at + Number(off))}, key at ${whole(at)}: the score is ${number(turned[at], 3)}, and stays as both move. Paired as ${named} it is ${number(moving(Number(off), other, other).turned[at], 3)}. With rows added it goes ${spread(added)}.`,
    };
  },
};

export const SCENES = [bag, integers, bits, waves, distance, turns, longer];
