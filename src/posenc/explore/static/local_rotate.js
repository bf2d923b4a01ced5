/** Rotate, made in the page: posenc/explore/views/rotate.py with the picture that it takes. */

import { columnsOf, radians, someOf } from "./columns.js";
import { dot, rotate } from "./evaluator.js";
import { cells, fact, float32, float64, Grid, heading, make, prose, stops, under, values } from "./grammar.js";
import { randomVector } from "./keccak.js";
import { number, plural, rint, signed, whole, widened } from "./numbers.js";

const FARTHEST = 2 ** 31;
const [NEAR, FAR] = [64, 256]; // distances of a curve, and the most
const SHIFT = 1000; // by which both positions are moved to show that nothing changes
const TRAIL = 64; // points of a trail
const MOST_ARCS = 64; // channels that have an arc
const MOST_DIALS = 8;
const rounded = (x) => Number(x.toFixed(4));

/** The distances of the curve, which holds the one of query and key. */
function distances(k) {
  const [first, end] = Math.abs(k) >= FAR ? [k - FAR / 2, k + FAR / 2] : [Math.min(k, 0), Math.max(NEAR, k > 0 ? 2 ** k.toString(2).length : 1)];
  return Array.from({ length: end - first }, (_, n) => first + n);
}

/** The channels of a pair under a layout. */
const membersOf = (pairs, pairing, pair) => (pairing === "half" ? [pair, pair + pairs] : [2 * pair, 2 * pair + 1]);

function scoresOf(ladder, q, k, offsets, base, pairing) {
  const other = pairing === "half" ? "interleaved" : "half";
  const scores = (label, forQ, forK, at = base) => {
    const key = rotate(ladder, k, at, forK);
    return { label, values: offsets.map((by) => dot(rotate(ladder, q, at + by, forQ), key)) };
  };
  const mixed = `query ${pairing}, key ${other}`;
  return [
    scores(`pairs ${pairing}`, pairing, pairing),
    scores(`pairs ${other}`, other, other),
    scores(mixed, pairing, other),
    scores(`${mixed}, both ${whole(SHIFT)} later`, pairing, other, base + SHIFT),
  ];
}

function dataOf(scene) {
  const table = columnsOf(scene.a);
  const { ladder } = table;
  const { pairing, d } = scene.a.values;
  const { m, off, seed, j } = scene.values;
  const n = Math.min(Math.max(m - off, 0), FARTHEST);
  const [q, k] = ["query", "key"].map((word) => randomVector(word, d, seed));
  const pairs = d / 2;
  const members = Array.from({ length: pairs }, (_, pair) => membersOf(pairs, pairing, pair));
  const [query, key] = [rotate(ladder, q, m, pairing), rotate(ladder, k, n, pairing)];
  const terms = members.map(([a, b]) => query[a] * key[a] + query[b] * key[b]);
  const moved = dot(rotate(ladder, q, m + SHIFT, pairing), rotate(ladder, k, n + SHIFT, pairing));
  const score = terms.reduce((sum, term) => sum + term, 0);
  const far = m >= n ? m : n;
  const points = Math.min(far + 1, TRAIL);
  const way = [...new Set(Array.from({ length: points }, (_, at) => rint(points > 1 ? (at === points - 1 ? far : at * (far / (points - 1))) : 0)))];
  const [pair] = table.layout[j];
  const turned = way.map((at) => rotate(ladder, q, at, pairing));
  const dials = someOf(pairs, MOST_DIALS, pair).map((own) => {
    const [a, b] = members[own];
    return {
      pair: own,
      wavelength: (2 * Math.PI) / ladder.frequencies[own],
      query: [query[a], query[b]],
      key: [key[a], key[b]],
      trail: turned.map((row) => [row[a], row[b]]),
      term: terms[own],
      between: radians(ladder.steps[own] * BigInt(m - n)),
    };
  });
  const offsets = distances(m - n);
  const stays = Math.abs(score - moved) <= 1e-9 * terms.reduce((sum, term) => sum + Math.abs(term), 0);
  return { m, n, pair, members, terms, score, moved, stays, dials, offsets, scores: scoresOf(ladder, q, k, offsets, n, pairing), channels: table.channels, pairing };
}

// --- panels ----------------------------------------------------------------------------------------

function dialOf(own, { m, n, channels, pair }, reach, most) {
  const [q, k] = [own.query, own.key].map((hand) => hand.map((x) => x / reach));
  const along = dot(q, k) / (dot(k, k) || 1);
  return make("Dial", {
    label: `pair ${own.pair}`,
    hands: [[...q, 0, `q at ${whole(m)}`], [...k, 1, `k at ${whole(n)}`]],
    note: `λ = ${number(own.wavelength, 3)}; adds ${number(own.term, 3)}`,
    trail: new Grid(Float32Array.from(own.trail.flat(), (x) => x / reach), [own.trail.length, 2]),
    key: "j",
    value: String(channels[own.pair]),
    chosen: own.pair === pair,
    shadow: k.map((x) => rounded(x * along)),
    bar: rounded(own.term / most),
    turn: (2 * Math.PI) / own.wavelength,
  });
}

function dialPanel(data) {
  const reach = Math.max(...data.dials.flatMap(({ query, key }) => [Math.hypot(...query), Math.hypot(...key)])) || 1;
  const most = Math.max(...data.dials.map(({ term }) => Math.abs(term))) || 1;
  return make("Dials", {
    id: "dials",
    title: `q and k, pair by pair${data.dials.length < data.terms.length ? `, ${data.dials.length} of ${data.terms.length}` : ""}, turned to their positions ${whole(data.m)} and ${whole(data.n)}`,
    dials: data.dials.map((own) => dialOf(own, data, reach, most)),
    caption: "Arrows: the two channels of each pair of q and of k, all on one scale. Dots: the way of q from position 0. λ: the wavelength. Pale: the shadow of q on k; times the length of k it is what the pair adds, the bar. Move both, and the angle between them stays.",
  });
}

function termsChart({ terms, score, channels, pair }) {
  const [low, high] = widened(Math.min(...terms, 0), Math.max(...terms, 0));
  return under(make("Chart", {
    id: "terms",
    title: `q · k = ${number(score)}: what each pair adds`,
    x: cells("pair", 0, terms.length, { key: "j", to: new Grid(channels) }),
    y: values("term", low, high),
    series: [make("Series", { label: "term", x: float64(terms.map((_, n) => n + 0.5)), y: float32(terms), draw: "bars" })],
    place: "half",
    height: 130,
    label: "What each pair adds to the product of query and key",
  }), pair);
}

function scoreChart({ m, n, members, offsets, score, scores }, alone) {
  const drawn = alone ? scores.slice(0, 1) : scores;
  const all = drawn.flatMap((one) => one.values);
  const [low, high] = widened(Math.min(...all), Math.max(...all));
  const apart = Math.max(...scores[2].values.map((x, at) => Math.abs(x - scores[3].values[at])));
  const chart = make("Chart", {
    id: "scores",
    title: "the score against the distance",
    x: { ...values("query − key", offsets[0], offsets.at(-1), 8), key: "off" },
    y: values("score", low, high),
    series: drawn.map((one, style) => make("Series", { label: one.label, x: float64(offsets), y: float32(one.values), style, front: style === 0 })),
    caption: alone ? "" : members.length === 1 ? "Of one pair both layouts are the same." : `Layouts mixed: the score depends on the position too, by up to ${number(apart, 3)} at one distance.`,
    place: "half",
    height: 210,
    label: "The score of one query and one key against their distance",
  });
  const k = m - n;
  return offsets[0] <= k && k <= offsets.at(-1) ? under(chart, k, null, score) : chart;
}

function arcs({ members, pair, pairing }) {
  if (2 * members.length > MOST_ARCS) return [];
  return [make("Arcs", { id: "arcs", title: `which channels form a pair: ${pairing}`, pairs: members, chosen: pair, place: "half" })];
}

export function rotateFrame(scene) {
  const data = dataOf(scene);
  const { m, n, pair, score, moved, terms, members } = data;
  const own = data.dials.find((dial) => dial.pair === pair);
  const after = data.stays ? "the same score, as only the distance counts" : `${number(moved)}; the place counts too`;
  return {
    lead: `A query at ${whole(m)} and a key at ${whole(n)}: their product is a sum over ${plural(terms.length, "pair")}. Both moved by ${whole(SHIFT)}: ${after}.`,
    panels: [dialPanel(data), ...arcs(data), termsChart(data), scoreChart(data, scene.values.mix === "own")],
    readout: [
      heading(`Query at ${whole(m)}, key at ${whole(n)}`),
      fact("q · k", signed(score, 6)),
      fact(`both ${whole(SHIFT)} later`, signed(moved, 6)),
      fact("Distance", whole(m - n)),
      heading(`Pair ${pair}`),
      fact("Channels", members[pair].join(" and ")),
      fact("Adds", signed(terms[pair], 6)),
      fact("The distance turns q from k by", `${signed(own.between, 4)} rad`),
      fact("In turns", signed(own.between / (2 * Math.PI), 4)),
      prose("Query and key are random numbers of the seed. A model trained with one layout of pairs and run with the other gets the mixed curves."),
    ],
    say: `Query at ${whole(m)}, key at ${whole(n)}: score ${number(score)}; pair ${pair} adds ${number(terms[pair])}`,
    cursor: { x: stops("j", scene.values.j, 0, 2 * terms.length - 1), y: stops("m", m, 0, FARTHEST) },
    table: { caption: "what the first pairs add", columns: ["pair", "term"], rows: terms.slice(0, 20).map((x, i) => [String(i), signed(x, 6)]) },
  };
}
