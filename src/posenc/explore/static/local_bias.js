/** Bias, made in the page for ALiBi: posenc/explore/views/bias.py with the picture that it takes. */

import { someOf } from "./columns.js";
import { slopes as slopesOf } from "./evaluator.js";
import { cells, float32, float64, Grid, indices, largest, make, present, shares, stops, under, values } from "./grammar.js";
import { number, plural, signed, whole, widened } from "./numbers.js";
import { reduced } from "./pixels.js";

const SHOWN = 8; // heads at a time
const PIXELS = 160;
const fact = (label, value, note = "") => make("Datum", { label, value, note });
const range = (n) => Array.from({ length: n }, (_, k) => k);

function transposed(rows) {
  return range(rows[0].length).map((c) => {
    const column = new Float64Array(rows.length);
    for (let r = 0; r < rows.length; r += 1) column[r] = rows[r][c];
    return column;
  });
}

/** What a head adds to the score of a query and each of some keys; NaN is masked. */
function rowOf(slope, query, count, { mask, softmax: share }) {
  const seen = mask ? query + 1 : count;
  const row = new Float64Array(count).fill(NaN);
  let total = 0;
  for (let key = 0; key < seen; key += 1) {
    row[key] = -slope * Math.abs(query - key);
    if (share) total += row[key] = Math.exp(row[key]);
  }
  return share ? row.map((x) => x / total) : row;
}

function headOf(slope, count, how) {
  const side = Math.min(PIXELS, count);
  const edge = (k) => k * (count / side);
  const masked = range(side).flatMap((q) => range(side).map((k) => (how.mask && edge(k) >= edge(q + 1) ? 1 : 0)));
  const rows = range(count).map((query) => rowOf(slope, query, count, how));
  let drawn = rows;
  if (count > PIXELS) {
    const numbers = transposed(rows.map((row) => row.map((x) => (Number.isNaN(x) ? 0 : x))));
    drawn = reduced(transposed(reduced(numbers, PIXELS)), PIXELS).map((row, q) => row.map((x, k) => (masked[q * side + k] ? NaN : x)));
  }
  const curve = [...rows[count - 1], ...rows[0].slice(1)]; // of the last query to its past, of the first to its future
  return { slope, matrix: drawn.flatMap((row) => [...row]), lastRow: [...drawn[side - 1]], masked, curve };
}

let last = { key: "", data: null }; // the pictures, which stay while the cursor moves

function dataOf(scene, head) {
  const { L, mask, softmax: share } = scene.values;
  const { heads } = scene.a.values;
  const shown = someOf(heads, SHOWN, head);
  const key = JSON.stringify([heads, shown, L, mask, share]);
  if (last.key !== key) {
    const all = slopesOf(heads);
    // Without a softmax all heads are one picture, times their slopes.
    const one = share ? null : headOf(1, L, { mask });
    const scaled = (slope) => ({ ...one, slope, matrix: one.matrix.map((x) => slope * x), curve: one.curve.map((x) => slope * x) });
    last = { key, data: { shown, heads: shown.map((n) => (one ? scaled(all[n]) : headOf(all[n], L, { mask, softmax: share }))) } };
  }
  return last.data;
}

function captionOf(data, scene, limit) {
  const { softmax: share, mask, L } = scene.values;
  const { heads } = scene.a.values;
  return present(
    data.shown.length < heads && `${data.shown.length} of ${plural(heads, "head")}.`,
    share
      ? `One scale for all heads: the attention that the bias alone gives, from 0 to ${number(limit)}, the most of the last query; others may go beyond.`
      : `Biases up to ±${number(limit)}; each head has a scale of its own.`,
    `Slopes: ${data.heads.map(({ slope }) => number(slope, 3)).join(", ")}.`,
    L > PIXELS && `A pixel covers ${number(L / PIXELS)} positions of each side.`,
    data.heads.some(({ matrix }) => matrix.some(Number.isNaN)) && `Hatched: ${mask ? "masked" : "minus infinity"}.`,
  ).join(" ");
}

function curves(data, scene, head, offset) {
  const { L, softmax: share } = scene.values;
  const offsets = range(2 * L - 1).map((n) => n - (L - 1));
  const finite = data.heads.flatMap(({ curve }) => curve.filter(Number.isFinite));
  const [low, high] = widened(Math.min(0, ...[Math.min(...finite)]), Math.max(0, ...[Math.max(...finite)]));
  const ahead = data.heads.some(({ curve }) => curve.slice(L).some(Number.isFinite));
  const chart = make("Chart", {
    id: "offset",
    title: `${share ? "attention of the bias alone" : "bias"} against the offset, head ${head} in front`,
    x: values("key − query", Math.min(offsets[0], -1), ahead ? offsets.at(-1) : 0, 8),
    y: values(share ? "attention" : "bias", low, high),
    series: data.heads.map(({ curve }, style) => make("Series", { label: `head ${data.shown[style]}`, x: float64(offsets), y: float32(curve), style, front: data.shown[style] === head })),
    caption: share ? "Curves of the first and the last query." : "",
    height: 170,
    label: "Bias of each head against key minus query",
  });
  return under(chart, offset, null, data.heads[data.shown.indexOf(head)].curve[offset + L - 1]);
}

function heatmap(own, head, scene, limits, [front, p, kp], say) {
  const { softmax: share, L } = scene.values;
  const side = Math.min(PIXELS, L);
  const limit = share ? limits : Math.max(largest(own.matrix), largest(own.curve)) || 1;
  const missing = own.matrix.map((x, n) => (own.masked[n] || !Number.isFinite(x) ? 1 : 0));
  return under(make("Heatmap", {
    id: `head-${head}`,
    title: `head ${head}${share ? "" : `\n±${number(limit, limit >= 1 ? 3 : 2)}`}`,
    tile: share ? shares(own.matrix, limit, [side, side]) : indices(own.matrix, limit, [side, side]),
    lut: share ? "sequential" : "diverging",
    x: cells("key", 0, L, { key: "kp", most: 3 }),
    y: cells("query", 0, L, { key: "p", most: 3 }),
    low: share ? "0" : "−1",
    high: share ? number(limit) : "1",
    mask: missing.includes(1) ? new Grid(Uint8Array.from(missing), [side, side]) : null,
    label: head === front ? say : `Head ${head}`,
    place: "full",
  }), kp, p);
}

export function biasFrame(scene) {
  const { L, mask, softmax: share } = scene.values;
  const { heads } = scene.a.values;
  const { label } = scene.a.entry;
  const head = Math.min(scene.values.head, heads - 1);
  const problems = head < scene.values.head ? [["head", `Head must be at most ${head}; ${scene.values.head} came. Drawn with it.`]] : [];
  const [p, kp] = [Math.min(scene.values.p, L - 1), Math.min(scene.values.kp, L - 1)];
  const data = dataOf(scene, head);
  const own = data.heads[data.shown.indexOf(head)];
  const entry = -own.slope * Math.abs(p - kp);
  const masked = mask && kp > p;
  const say = `Head ${head}, query at ${whole(p)}, key at ${whole(kp)}: ${masked ? "masked" : number(entry)}`;
  const limit = Math.max(...data.heads.map(({ lastRow, matrix, curve }) => (share ? largest(lastRow) : Math.max(largest(matrix), largest(curve))))) || 1;
  const far = own.curve[L - 1 - 100];
  const example = L > 100 && Number.isFinite(far) ? ` A key 100 positions back gets ${number(far)} in head ${head}.` : "";
  const how = share ? "With nothing else in the scores, this is what a query would attend to." : "It depends on the distance alone.";
  const entryOf = (q, k) => (mask && k > q ? "masked" : signed(-own.slope * Math.abs(q - k), 4));
  const window20 = (centre) => {
    const first = Math.max(0, Math.min(centre - 10, L - 20));
    return range(Math.min(first + 20, L) - first).map((n) => first + n);
  };
  return {
    lead: `${label} in ${plural(heads, "head")}. ${how}${example}`,
    panels: [
      curves(data, scene, head, kp - p),
      make("Matrix", {
        id: "matrices",
        title: "each head: queries down, keys across",
        cells: data.heads.map((one, n) => heatmap(one, data.shown[n], scene, limit, [head, p, kp], say)),
        caption: captionOf(data, scene, limit),
      }),
    ],
    readout: present(
      make("Heading", { text: `Head ${head}, query at ${whole(p)}, key at ${whole(kp)}` }),
      fact("Bias", masked ? "masked" : number(entry, 6)),
      fact("Key − query", whole(kp - p)),
      fact("Slope", number(own.slope, 6)),
      !masked && fact("Factor on attention", number(Math.exp(entry), 3), "exp(bias)"),
      mask && make("Prose", { text: "Hatched: keys after the query, which a causal mask takes away." }),
    ),
    say,
    cursor: { x: stops("kp", kp, 0, L - 1), y: stops("p", p, 0, L - 1) },
    problems,
    table: {
      caption: `${label}, head ${head}: queries down, keys across`,
      columns: ["query", ...window20(kp).map(whole)],
      rows: window20(p).map((q) => [whole(q), ...window20(kp).map((k) => entryOf(q, k))]),
    },
  };
}
