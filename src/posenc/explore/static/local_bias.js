/** Bias, made in the page for ALiBi: posenc/explore/views/bias.py with the picture that it takes. */

import { someOf } from "./columns.js";
import { filled, slopes as slopesOf } from "./evaluator.js";
import { around, cells, fact, float32, float64, Grid, heading, indices, largest, make, present, prose, range, shares, stops, under, values } from "./grammar.js";
import { number, plural, signed, whole, widened } from "./numbers.js";
import { reduced } from "./pixels.js";

const SHOWN = 8; // heads at a time
const PIXELS = 160;

function transposed(rows) {
  return range(rows[0].length).map((c) => filled(rows.length, (r) => rows[r][c]));
}

/** What a head adds to scores, or the shares it gives alone, in pixels and by the offset; NaN is masked. */
function headOf(slope, count, { mask, softmax: share }) {
  const side = Math.min(PIXELS, count);
  const by = filled(count, (apart) => (share ? Math.exp(-slope * apart) : -slope * apart));
  const upTo = Float64Array.from(by);
  for (let n = 1; n < count; n += 1) upTo[n] += upTo[n - 1];
  const totals = filled(count, (q) => (share ? upTo[q] + (mask ? 0 : upTo[count - 1 - q] - 1) : 1));
  const entry = (q, k, hidden) => (mask && k > q ? hidden : by[Math.abs(q - k)] / totals[q]);
  let rows = count;
  if (count > PIXELS) {
    const columns = range(count).map((k) => filled(count, (q) => entry(q, k, 0)));
    const across = transposed(reduced((k) => columns[k], count, PIXELS));
    rows = reduced((q) => across[q], count, PIXELS);
  }
  const drawn = (q, k) => (count > PIXELS ? rows[q][k] : entry(q, k, NaN));
  const matrix = filled(side * side, (n) => (mask && n % side > Math.floor(n / side) ? NaN : drawn(Math.floor(n / side), n % side)));
  // The curve is of the last query to its past, and of the first to its future.
  return { matrix, curve: filled(2 * count - 1, (n) => (n < count ? entry(count - 1, n, NaN) : entry(0, n - count + 1, NaN))) };
}

let last = { key: "", data: null }; // the pictures, which stay while the cursor moves

function dataOf(scene, head) {
  const { L, mask, softmax: share } = scene.values;
  const { heads } = scene.a.values;
  const shown = someOf(heads, SHOWN, head);
  const key = JSON.stringify([heads, shown, L, mask, share]);
  if (last.key === key) return last.data;
  const all = slopesOf(heads);
  // Without a softmax all heads are one picture, times their slopes.
  const one = share ? null : headOf(1, L, { mask });
  const side = Math.min(PIXELS, L);
  const own = shown.map((n) => {
    const { matrix, curve } = one ? { matrix: one.matrix.map((x) => all[n] * x), curve: one.curve.map((x) => all[n] * x) } : headOf(all[n], L, { mask, softmax: share });
    const limit = share ? largest(matrix.subarray(-side)) : Math.max(largest(matrix), largest(curve)) || 1;
    return { slope: all[n], matrix, curve, y: float32(curve), limit };
  });
  const limit = Math.max(...own.map((each) => each.limit)) || 1;
  for (const each of own) each.tile = share ? shares(each.matrix, limit, [side, side]) : indices(each.matrix, each.limit, [side, side]);
  const finite = own.flatMap(({ curve }) => [...curve.filter(Number.isFinite)]);
  last = {
    key,
    data: {
      shown, limit, heads: own,
      ends: widened(Math.min(0, ...finite), Math.max(0, ...finite)),
      x: float64(range(2 * L - 1).map((n) => n - (L - 1))),
      hidden: mask && L > 1 ? new Grid(filled(side * side, (n) => Number(n % side > Math.floor(n / side)), Uint8Array), [side, side]) : null,
    },
  };
  return last.data;
}

function captionOf({ limit, ...data }, scene) {
  const { softmax: share, L } = scene.values;
  const { heads } = scene.a.values;
  return present(
    data.shown.length < heads && `${data.shown.length} of ${plural(heads, "head")}.`,
    share
      ? `One scale for all heads: the attention that the bias alone gives, from 0 to ${number(limit)}, the most of the last query; others may go beyond.`
      : `Biases up to ${number(limit)} in size; each head has a scale of its own.`,
    `Slopes: ${data.heads.map(({ slope }) => number(slope, 3)).join(", ")}.`,
    L > PIXELS && `A pixel covers ${number(L / PIXELS)} positions of each side.`,
    data.hidden && "Hatched: masked.",
  ).join(" ");
}

function curves(data, scene, head, offset) {
  const { L, mask, softmax: share } = scene.values;
  const chart = make("Chart", {
    id: "offset",
    title: `${share ? "attention of the bias alone" : "bias"} against the offset, head ${head} in front`,
    x: values("key − query", Math.min(1 - L, -1), mask ? 0 : L - 1, 8),
    y: values(share ? "attention" : "bias", ...data.ends),
    series: data.heads.map(({ y }, style) => make("Series", { label: `head ${data.shown[style]}`, x: data.x, y, style, front: data.shown[style] === head })),
    caption: share ? "Curves of the first and the last query." : "",
    height: 170,
    label: "Bias of each head against key minus query",
  });
  return under(chart, offset, null, data.heads[data.shown.indexOf(head)].curve[offset + L - 1]);
}

function heatmap(own, head, scene, data, [front, p, kp], say) {
  const { softmax: share, L } = scene.values;
  const limit = share ? data.limit : own.limit;
  return under(make("Heatmap", {
    id: `head-${head}`,
    title: `head ${head}${share ? "" : `\n|b|≤${number(limit, limit >= 1 ? 3 : 2)}`}`,
    tile: own.tile,
    lut: share ? "sequential" : "diverging",
    x: cells("key", 0, L, { key: "kp", most: 3 }),
    y: cells("query", 0, L, { key: "p", most: 3 }),
    low: share ? "0" : "−1",
    high: share ? number(limit) : "1",
    mask: data.hidden,
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
  const far = own.curve[L - 1 - 100];
  const example = L > 100 && Number.isFinite(far) ? ` A key 100 positions back gets ${number(far)} in head ${head}.` : "";
  const how = share ? "With nothing else in the scores, this is what a query would attend to." : "It depends on the distance alone.";
  const entryOf = (q, k) => (mask && k > q ? "masked" : signed(-own.slope * Math.abs(q - k), 4));
  const [queries, keys] = [p, kp].map((centre) => around(centre, 0, L));
  return {
    lead: `${label} in ${plural(heads, "head")}. ${how}${example}`,
    panels: [
      curves(data, scene, head, kp - p),
      make("Matrix", {
        id: "matrices",
        title: "each head: queries down, keys across",
        cells: data.heads.map((one, n) => heatmap(one, data.shown[n], scene, data, [head, p, kp], say)),
        caption: captionOf(data, scene),
      }),
    ],
    readout: present(
      heading(`Head ${head}, query at ${whole(p)}, key at ${whole(kp)}`),
      fact("Bias", masked ? "masked" : number(entry, 6)),
      fact("Key − query", whole(kp - p)),
      fact("Slope", number(own.slope, 6)),
      !masked && fact("Factor on attention", number(Math.exp(entry), 3), "exp(bias)"),
      mask && prose("Hatched: keys after the query, which a causal mask takes away."),
    ),
    say,
    cursor: { x: stops("kp", kp, 0, L - 1), y: stops("p", p, 0, L - 1) },
    problems,
    table: {
      caption: `${label}, head ${head}: queries down, keys across`,
      columns: ["query", ...keys.map(whole)],
      rows: queries.map((q) => [whole(q), ...keys.map((k) => entryOf(q, k))]),
    },
  };
}
