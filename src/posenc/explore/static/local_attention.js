/** Attention, made in the page: posenc/explore/views/attention.py with the pictures that it takes. */

import { columnsOf } from "./columns.js";
import { dot, ladder, pythonFloat, rotate, slopes, softmax } from "./evaluator.js";
import { cells, fact, float32, float64, Grid, heading, indices, largest, make, present, prose, shares, stops, under, values, wordAxis } from "./grammar.js";
import { product, randomContent, trainedContent } from "./heads.js";
import { number, plural, signed, widened, whole } from "./numbers.js";

const PLACES = ["e1", "e2", "enc", "e4"];
const [LEAST_WORDS, MOST_WORDS] = [2, 12];
const NUMBERS = 16; // of an output that are drawn
const LONGEST = 9; // letters of a word
const RANDOM_HEADS = 8;
const HEAD = 64; // width of a random head under a bias
const EQUAL = { float64: 1e-12, float32: 1e-5 };

const short = (word) => ([...word].length <= LONGEST ? word : `${[...word].slice(0, LONGEST - 1).join("")}…`);
const flat = (rows) => rows.flatMap((row) => [...row]);

// --- the words and what they bring -----------------------------------------------------------------

function contentOf(scene, words, heads) {
  const { qk, hd } = scene.values;
  if (qk !== "random") return trainedContent(words, qk, heads);
  const { entry, values: { d } } = scene.a;
  const wide = entry.kind === "bias" ? HEAD : d;
  const dim = entry.kind === "rotary" ? wide : Math.max(2, Math.min(wide - (wide % 2), HEAD));
  return randomContent(words, dim, wide, hd % RANDOM_HEADS);
}

function sentenceOf(scene, heads) {
  const problems = [];
  const { text, perm, qk, hd, qw, kw } = scene.values;
  const field = scene.shape.fields.find(({ key }) => key === "text");
  let words = text.split(/\s+/).filter(Boolean);
  const count = words.length;
  if (count < LEAST_WORDS) {
    problems.push(["text", `A sentence has at least ${LEAST_WORDS} words. Drawn with ‘${field.default}’.`]);
    words = field.default.split(" ");
  }
  if (words.length > MOST_WORDS) problems.push(["text", `The first ${MOST_WORDS} words of ${whole(count)} are drawn.`]);
  const typed = words.slice(0, MOST_WORDS);
  const last = typed.length - 1;
  let order = typed.map((_, n) => n);
  const plain = [...order.map(String)].sort().join(".");
  if (perm.split(".").sort().join(".") === plain) order = perm.split(".").map(Number);
  else if (perm) problems.push(["perm", `An order names each place from 0 to ${last} once, such as ${[...order].reverse().join(".")}.`]);
  const content = contentOf(scene, typed, heads);
  if (qk === "random" && hd >= RANDOM_HEADS) problems.push(["hd", `Head ${hd}: there are heads 0 to ${RANDOM_HEADS - 1}. Drawn with ${content.head}.`]);
  const stand = order.map((n) => typed[n]);
  const cell = [Math.min(qw, last), Math.min(kw, last)];
  return { typed, order, words: stand, cell, content, pair: `“${stand[cell[0]]}” looks at “${stand[cell[1]]}”`, problems };
}

// --- an encoding at work ---------------------------------------------------------------------------

/** One of the encodings, made for the sizes of the head. */
function chosenOf(scene, key, content, entries) {
  const entry = entries[scene.values[key]];
  if (!entry) return null;
  const own = Object.fromEntries(entry.fields.map((f) => [f.key, f.kind === "choice" ? f.default : Number(f.default)]));
  const set = key === "enc" ? scene.a.values : {};
  const convention = key === "enc" ? scene.a.convention : undefined;
  return { entry, convention, values: { ...own, ...set, d: entry.kind === "table" ? content.width : content.dim } };
}

class Working {
  constructor(chosen, content, prec) {
    Object.assign(this, { chosen, content, kind: chosen?.entry.kind ?? "none", Row: prec === "float32" ? Float32Array : Float64Array });
    this.scale = content.dim ** -0.5;
    if (this.kind === "rotary") this.ladder = ladder({ dim: content.dim, base: chosen.values.n });
    if (this.kind === "bias") this.slope = slopes(content.heads)[content.head % content.heads];
  }

  /** Queries, keys and values in their order, with what a table adds and a rotation turns. */
  sides(order, at) {
    const { q, k, v, weights } = this.content;
    const own = [q, k, v].map((side) => order.map((n) => side[n]));
    if (this.kind === "table") {
      const rows = at.map((position) => columnsOf(this.chosen).row(position));
      return own.map((side, n) => side.map((row, i) => {
        const added = product(rows[i], weights[n]);
        return row.map((x, c) => x + added[c]);
      }));
    }
    if (this.kind !== "rotary") return own;
    const turned = (side) => side.map((row, n) => rotate(this.ladder, row, at[n], this.chosen.values.pairing));
    return [turned(own[0]), turned(own[1]), own[2]];
  }

  /** What a bias adds to the score of two places. */
  added(i, j) {
    return this.kind === "bias" ? -this.slope * Math.abs(i - j) : 0;
  }

  attended(order, at, causal) {
    const [q, k, v] = this.sides(order, at).map((side) => side.map((row) => this.Row.from(row)));
    const score = (query, key, i, j) => (causal && j > i ? -Infinity : dot(query, key) * this.scale + this.added(i, j));
    const scores = q.map((query, i) => [...this.Row.from(k, (key, j) => score(query, key, i, j))]);
    const weights = scores.map(softmax);
    const outputs = weights.map((row) => product(row, v));
    return { scores, weights, outputs };
  }

  /** The score of one query and one key as a sum: the terms with their names, and those of pairs. */
  parts(order, [i, j], shift) {
    const { content, scale } = this;
    const at = order.map((_, n) => n + shift);
    const [q, k] = this.sides(order, at);
    const [ownQ, ownK] = [content.q[order[i]], content.k[order[j]]];
    const own = ["q · k", dot(ownQ, ownK) * scale];
    if (this.kind === "table") {
      const rest = (side, word) => side.map((x, c) => x - word[c]);
      const named = [["word", ownQ, ownK], ["place", rest(q[i], ownQ), rest(k[j], ownK)]];
      return { terms: named.flatMap(([x, query]) => named.map(([y, , key]) => [`${x} · ${y}`, dot(query, key) * scale])) };
    }
    if (this.kind === "rotary") {
      const products = q[i].map((x, c) => x * k[j][c] * scale);
      const half = this.chosen.values.pairing === "half";
      const size = content.dim / 2;
      const pairs = Float64Array.from({ length: size }, (_, n) => (half ? products[n] + products[n + size] : products[2 * n] + products[2 * n + 1]));
      return { terms: [["turned pairs", pairs.reduce((sum, x) => sum + x, 0)]], pairs };
    }
    if (this.kind === "bias") return { terms: [own, ["bias", this.added(i, j)]], slope: this.slope };
    return { terms: [own] };
  }
}

const apart = (a, b) => Math.max(...a.map((x, n) => (x === b[n] ? 0 : Math.abs(x - b[n]))));

function columnOf(scene, key, sentence, entries) {
  const { content, order, typed } = sentence;
  const chosen = chosenOf(scene, key, content, entries);
  const { shift, past, prec } = scene.values;
  const causal = past === "own" ? content.causal : past === "masked";
  const head = new Working(chosen, content, prec);
  const plain = typed.map((_, n) => n);
  const { scores, weights } = head.attended(order, plain.map((n) => n + shift), causal);
  const start = head.attended(order, plain, causal);
  const before = head.attended(plain, plain, causal).outputs;
  const outputs = plain.map((n) => start.outputs[order.indexOf(n)]);
  const far = outputs.map((row, n) => apart([...row], [...before[n]]));
  const most = EQUAL[prec] * largest(flat(before));
  const change = Math.max(...scores.map((row, i) => apart(row, start.scores[i])));
  return {
    key, chosen, scores, weights, outputs, before, change,
    label: chosen?.entry.label ?? "no positions",
    equal: far.map((x) => x <= most),
    most,
    moved: Math.max(...far),
    rounding: EQUAL[prec] * largest(flat(scores)),
    parts: head.parts(order, sentence.cell, shift),
  };
}

// --- panels ----------------------------------------------------------------------------------------

function chips({ typed, order, words }) {
  const plain = typed.map((_, n) => n);
  let names = plain.filter((n) => /^\p{Lu}/u.test(typed[n]));
  if (names.length > 2 && names[0] === 0) names = names.slice(1);
  const [a, b] = names.length > 1 ? [names[0], names.at(-1)] : [0, typed.length - 1];
  const swapped = plain.map((n) => (n === a ? b : n === b ? a : n));
  const links = [[plain, null], [swapped, swapped.join(".")]].filter(([own]) => own.join() !== order.join())
    .map(([own, perm]) => make("Link", { text: own.map((n) => typed[n]).join(" "), state: { perm } }));
  return make("Chips", { id: "words", title: "Drag a word to another place, or take", words, order, key: "perm", links });
}

function grid(scene, column, sentence, limit, say) {
  const { softmax: share } = scene.values;
  const shape = [sentence.words.length, sentence.words.length];
  const numbers = flat(column.scores.map((row, i) => row.map((score, j) => (Number.isFinite(score) ? (share ? column.weights[i][j] : score) : NaN))));
  const missing = numbers.map((x) => (Number.isNaN(x) ? 1 : 0));
  const names = sentence.words.map(short);
  const heatmap = make("Heatmap", {
    id: `${column.key}-${column.label}`,
    title: column.label,
    tile: share ? shares(numbers, limit, shape) : indices(numbers, limit, shape),
    lut: share ? "sequential" : "diverging",
    x: wordAxis("key", names, "kw"),
    y: wordAxis("query", names, "qw"),
    low: share ? "0" : number(-limit, 3),
    high: number(limit, 3),
    mask: missing.includes(1) ? new Grid(Uint8Array.from(missing), shape) : null,
    numbers: names.map((_, i) => names.map((__, j) => { const x = numbers[i * names.length + j]; return Number.isNaN(x) ? "" : signed(x, 2); })),
    label: `${column.label}, queries down, keys across. ${say}`,
  });
  return under(heatmap, sentence.cell[1], sentence.cell[0]);
}

/** What the shift did to the scores; of what rounding did, the last digits are luck: a bound is said. */
function changed(shift, { change, rounding }) {
  const what = shift ? `After the shift by ${whole(shift)}` : "Not shifted";
  if (!change) return `${what}: scores keep the same bits.`;
  return `${what}: scores change by ${change > rounding ? `up to ${number(change, 2)}.` : `≤ ${number(rounding, 2)}, rounding.`}`;
}

/** What moving words did to the outputs. */
function outcome({ chosen, equal, moved, most }, { order, content }) {
  if (order.every((n, place) => n === place)) return "No word has moved.";
  const same = [content.q, content.k, content.v].every((side) => order.every((n, place) => side[n].every((x, c) => x === side[place][c])));
  if (same) return "Equal words have changed places: the sentence is the same.";
  if (equal.every(Boolean)) return `The same outputs${chosen ? "" : ", a bag of words"} (largest difference ≤ ${number(most, 2)}, rounding).`;
  return `${whole(equal.filter(Boolean).length)} of ${equal.length} words get the same (largest difference ${number(moved, 2)}).`;
}

function grids(scene, sentence, columns, say) {
  const { softmax: share, prec, shift } = scene.values;
  const limit = Math.max(...columns.map(({ scores }) => largest(flat(scores)))) || 1;
  const cut = (rows) => rows.map((row) => row.subarray(0, NUMBERS));
  const most = Math.max(...columns.flatMap(({ before, outputs }) => [before, outputs].map((rows) => largest(flat(cut(rows)))))) || 1;
  const words = sentence.typed.map((word) => word.toLowerCase());
  const byWord = words.map((_, n) => n).sort((a, b) => (words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b));
  const strip = (rows) => indices(flat(byWord.map((n) => rows[n].subarray(0, NUMBERS))), most, [byWord.length, Math.min(NUMBERS, rows[0].length)]);
  const hatched = columns.some(({ scores }) => flat(scores).some((x) => !Number.isFinite(x))) ? " Hatched: words that are not seen." : "";
  const scale = share ? "One scale for all, from 0 to 1: each row adds up to 1." : `Scores before the softmax on one scale, up to ±${number(limit, 3)}.`;
  return make("AttentionPanel", {
    id: "attention",
    title: "",
    cells: columns.map((column) => make("AttentionCell", {
      key: column.key,
      grid: grid(scene, column, sentence, share ? 1 : limit, say),
      note: changed(shift, column),
      words: byWord.map((n) => short(sentence.typed[n])),
      before: strip(column.before),
      after: strip(column.outputs),
      equal: byWord.map((n) => column.equal[n]),
      outcome: outcome(column, sentence),
    })),
    ends: ["as typed", "now"],
    caption: `${scale}${hatched} Below is what each word gets, sorted by word, ${NUMBERS} numbers at most: at the left in the order typed, at the right in the present one, both from position 0. A line joins equal ones (to ${number(EQUAL[prec], 1)} of the largest).`,
  });
}

/** What each pair adds to the score under the cursor, of the first rotation. */
function terms(columns, sentence) {
  const column = columns.find(({ parts }) => parts.pairs);
  if (!column) return [];
  const { pairs } = column.parts;
  const [low, high] = widened(Math.min(...pairs, 0), Math.max(...pairs, 0));
  const title = `${sentence.pair}: what each pair of ${column.label} adds to ${number(pairs.reduce((sum, x) => sum + x, 0))}`;
  const bars = make("Series", { label: "term", x: float64(pairs.map((_, n) => n + 0.5)), y: float32(pairs), draw: "bars" });
  return [make("Chart", { id: "terms", title, x: cells("pair, from fast to slow", 0, pairs.length), y: values("", low, high), series: [bars], height: 110, label: title })];
}

/** Embedding + position = input under the first table, and that adding is appending. */
function inputs(scene, columns, sentence) {
  const tables = columns.filter(({ chosen }) => chosen?.entry.kind === "table");
  const column = tables.find(({ key }) => key === "enc") ?? tables[0];
  if (!column) return [];
  const { content, order } = sentence;
  const { shift } = scene.values;
  const embedding = order.map((n) => content.inputs[n]);
  const encoding = order.map((_, n) => columnsOf(column.chosen).row(n + shift));
  const total = embedding.map((row, n) => row.map((x, c) => x + encoding[n][c]));
  const limit = Math.max(...[embedding, encoding, total].map((rows) => largest(flat(rows)))) || 1;
  const mean = (rows) => Math.sqrt(flat(rows).reduce((sum, x) => sum + x * x, 0) / flat(rows).length);
  const tokens = sentence.words.map((word, n) => `${[...word].slice(0, 10).join("")} ${n + shift}`);
  const parts = Object.entries({ embedding, "+ encoding": encoding, "= input": total }).map(([title, rows]) => make("Heatmap", {
    id: title,
    title,
    tile: indices(flat(rows), limit, [rows.length, rows[0].length]),
    lut: "diverging",
    x: cells("dimension", 0, rows[0].length),
    y: wordAxis("", tokens),
    low: number(-limit),
    high: number(limit),
  }));
  const { d, n, order: columnOrder } = column.chosen.values;
  const base = n === 10000 ? "" : `, base=${pythonFloat(n)}`;
  const exponent = column.chosen.convention?.text ? `, ${column.chosen.convention.text}` : "";
  const written = `Sinusoidal(${d}${base}${exponent}${columnOrder === "interleaved" ? "" : `, order='${columnOrder}'`})`;
  const caption = `The encodings are ${number(mean(encoding) / mean(embedding), 3)} times as long as what they are added to.`;
  return [make("Matrix", { id: "sum", title: `${column.label}: ${written.length > 90 ? `${written.slice(0, 89)}…` : written}`, cells: parts, across: 1, caption }), tied(scene, column, sentence)];
}

function tied(scene, { chosen, label }, { order, cell, typed, content }) {
  const [word, at] = [order[cell[0]], cell[0] + scene.values.shift];
  const [x, row, [weight]] = [content.inputs[word], columnsOf(chosen).row(at), content.weights];
  const both = [product(x.map((value, c) => value + row[c]), weight), product([...x, ...row], [...weight, ...weight])];
  const limit = Math.max(...both.map((values) => largest(values.subarray(0, NUMBERS)))) || 1;
  const strips = ["(x + p) W", "[x, p] with W over W"].map((name, n) => make("Strip", {
    label: name,
    tile: indices(both[n].subarray(0, NUMBERS), limit),
    numbers: [...both[n].subarray(0, NUMBERS)].map((value) => signed(value, 2)),
  }));
  return make("Strips", {
    id: "joined",
    title: `Adding = appending with tied weights: the query of “${typed[word]}” at ${whole(at)}`,
    strips,
    lut: "diverging",
    low: number(-limit, 3),
    high: number(limit, 3),
    caption: `${label}: x is what the word brings, p the row of the table, W the projection. Equal to rounding, in float64. Appended with weights of its own, a table can be read apart from the words: “sinusoidal, appended” draws that, with random weights.`,
  });
}

// --- the page --------------------------------------------------------------------------------------

function readout(columns, sentence) {
  const [i, j] = sentence.cell;
  const own = ({ label, parts: { terms: sum, pairs, slope }, weights, scores }) => present(
    heading(label),
    ...(sum.length > 1 ? sum.map(([name, x]) => fact(name, signed(x, 4))) : []),
    slope !== undefined && fact("slope × distance", `${signed(-slope, 4)} × ${whole(Math.abs(j - i))}`),
    pairs && fact("sum over", plural(pairs.length, "pair")),
    fact("score", signed(sum.reduce((total, [, x]) => total + x, 0), 4)),
    fact("attention", Number.isFinite(scores[i][j]) ? number(weights[i][j], 3) : "not seen"),
  );
  return [
    heading(sentence.pair),
    fact("Key − query", `${whole(j)} − ${whole(i)} = ${whole(j - i)}`),
    ...columns.flatMap(own),
    prose("Scores are as they enter the softmax: over the root of the head's width."),
  ];
}

/** The controls that would change nothing here. */
function dead(scene, columns) {
  const { qk } = scene.values;
  const table = columns.some(({ chosen }) => chosen?.entry.kind === "table");
  return present("heads", qk !== "random" && "d", qk !== "random" && "hd", !table && "sum", scene.a.entry.kind === "rotary" && "");
}

export function attentionFrame(scene, { heads, entries }) {
  const sentence = sentenceOf(scene, heads);
  const columns = PLACES.map((key) => columnOf(scene, key, sentence, entries));
  const [i, j] = sentence.cell;
  const say = `${sentence.pair}: ${columns.map(({ label, scores }) => `${label} ${number(scores[i][j], 3)}`).join(", ")}`;
  const last = sentence.typed.length - 1;
  const { sum, prec } = scene.values;
  return {
    lead: `${sentence.content.origin} A head of ${sentence.content.dim} numbers, computed in ${prec}.`,
    panels: [chips(sentence), ...(sum ? inputs(scene, columns, sentence) : []), grids(scene, sentence, columns, say), ...(sum ? terms(columns, sentence) : [])],
    readout: readout(columns, sentence),
    say,
    cursor: { x: stops("kw", j, 0, last), y: stops("qw", i, 0, last) },
    table: {
      caption: `scores of the query “${sentence.words[i]}”`,
      columns: ["key", ...columns.map(({ label }) => label)],
      rows: sentence.words.map((word, n) => [word, ...columns.map(({ scores }) => signed(scores[i][n]))]),
    },
    problems: sentence.problems,
    dead: dead(scene, columns),
  };
}
