/** The last scene: a text longer than those of training, with a learned table, RoPE and ALiBi. */

import { choice, line, option, slider, WIDE, WORDS } from "./blocks.js";
import { ladder, slopes } from "./evaluator.js";
import { cells, float32, Grid, indices, make, range, under, values } from "./grammar.js";
import { randomVector } from "./keccak.js";
import { count, number, rint, whole } from "./numbers.js";

const [TRAINED, HEADS, PIXELS] = [64, 8, 256];

/** The rows that a table has learned, and those that it has not. */
function ended(length) {
  const high = Math.min(length, PIXELS);
  const rows = range(high).map((k) => Math.floor(((k + 0.5) * length) / high)).map((p) => (p < TRAINED ? [...randomVector(`row ${p}`, WIDE, 0)] : Array(WIDE).fill(NaN)));
  const missing = rows.flat().map((x) => Number(Number.isNaN(x)));
  return {
    panels: [make("Heatmap", {
      id: "learned", title: "a learned table before training, a row a position",
        caption: `Rows to ${TRAINED - 1}: random until trained. Hatched: no row.`,
        tile: indices(rows.flat(), 1, [high, WIDE]), lut: "diverging",
        x: cells("dimension", 0, WIDE), y: cells("position", 0, length), low: "−1", high: "+1",
      mask: missing.includes(1) ? new Grid(Uint8Array.from(missing), [high, WIDE]) : null,
        lines: length > TRAINED ? [make("Mark", { axis: "y", at: TRAINED })] : [],
    })],
    say: length > TRAINED ? `Hatched: ${whole(length - TRAINED)} of ${whole(length)} positions have no row at all.`
      : "Every position of the training has its row.",
  };
}

const RULES = { rope: () => ({ rule: "none" }), linear: (factor) => ({ rule: "linear", factor }),
  yarn: (factor) => ({ rule: "yarn", factor, originalLength: TRAINED }) };

/** Angles between query and key at the largest distance of a longer text, over those that training showed. */
function angles(length, how, [chart], { small, tall }) {
  const times = length / TRAINED;
  const [before, after] = [RULES.rope(), RULES[how](times)].map((scaling) => ladder({ dim: WIDE, scaling }).frequencies);
  // Slow pairs only: the fast ones have been everywhere. An angle less than a step beyond the last one counts as known.
  const slow = range(WIDE / 2).filter((pair) => before[pair] * TRAINED < 2 * Math.PI);
  const isNew = (pair, distance) => slow.includes(pair)
    && (after[pair] * distance) % (2 * Math.PI) > before[pair] * TRAINED * (1 + 1e-9);
  const strange = slow.filter((pair) => range(length).some((distance) => isNew(pair, distance)));
  const dials = [0, 6, 12, 16].map((pair) => { // from fast to slow
    const [end, beyond] = [after[pair] * (length - 1), isNew(pair, length - 1)];
    const shown = range(TRAINED).flatMap((n) => [Math.cos(n * before[pair]), Math.sin(n * before[pair])]);
    return make("Dial", { label: `pair ${pair}`, hands: [[Math.cos(end), Math.sin(end), beyond ? 1 : 0, ""]],
      note: beyond ? "an angle that is new" : "as in training", trail: new Grid(Float32Array.from(shown), [TRAINED, 2]) });
  });
  // What is not stretched has no second line, and the name of one: the plot stays as wide.
  const [rules, stretched] = [chart.series.filter((one, n) => n === 0 || one.front), how !== "rope"];
  const series = rules.map((one, n) => ({ ...one, label: n ? "stretched" : "as trained", style: n ? 0 : 2,
    front: n > 0 || !stretched, y: n && !stretched ? float32(before.map(() => NaN)) : one.y }));
  const degrees = (frequencies) => number((frequencies[0] * 180) / Math.PI, 3);
  const price = { rope: "", linear: ` Interpolation divides every pace by ${number(times)}: one step turns the fastest by ${degrees(after)}°, not ${degrees(before)}°.`,
    yarn: ` YaRN divides the pace of the slow by ${number(times)}, of those between by less, and leaves the fastest.` };
  return {
    panels: [
      make("Dials", { id: "ends", title: small ? `q to k at distance ${whole(length - 1)}; dots: training`
        : `angle from query to key at distance ${whole(length - 1)}, for four of ${WIDE / 2} pairs; dots: distances of training`, dials }),
      ...(small ? [] : [{ ...under({ ...chart, x: { ...chart.x, label: "pair: fast → slow" } }), place: "full", series,
        title: "wavelength of each pair, positions (log)", marks: chart.marks.filter(({ style }) => style !== "point"),
        height: Math.min(260, Math.max(120, tall - 350)) }]),
    ],
    say: length > TRAINED ? `Beyond distance ${TRAINED - 1}, ${count(strange.length, slow.length)} slow pairs (a wave longer than ${TRAINED}) meet angles that training never showed.${price[how]}`
      : "As long as in training: no distance is new, and nothing is stretched.",
  };
}

/** ALiBi's lines: what each head subtracts, and what that leaves of attention. */
function biases(length, head, { small, tall }) {
  const all = slopes(HEADS);
  const far = range(Math.min(length, PIXELS)).map((n, _, { length: many }) => (n * (length - 1)) / Math.max(1, many - 1));
  // From the last head, as lines end from top to bottom. A small figure has room for few names.
  const shown = range(HEADS).reverse().filter((n) => !small || n === head || n % 3 === 1);
  const least = -32; // for every head and length: lines can be compared
  const chart = (id, title, of, low, marks) => make("Chart", {
    id, title, x: values(marks.length ? "distance; the line: trained length" : "distance", 0, length - 1, 5), y: values("", low, low ? 0 : 1, 4),
      marks: [...marks, ...cut(low)], place: "half",
      height: small ? Math.max(90, tall / 2 - 70) : 320, label: `${title}, for ${HEADS} heads`,
    series: shown.map((n) => line(leaves(n, low) ? "" : `head ${n}`, far, far.map((k) => (of(all[n], k) < low ? NaN : of(all[n], k))), n,
      { front: n === head })),
  });
  const marks = length > TRAINED ? [make("Mark", { axis: "x", at: TRAINED, style: "solid" })] : [];
  // Lines that leave at the bottom have their names where they do.
  const leaves = (n, low) => low < 0 && all[n] * (length - 1) > -low;
  const cut = (low) => shown.filter((n) => leaves(n, low)).map((n) => make("Mark", { axis: "point", style: "point",
    at: (-low * (0.95 - 0.1 * n)) / all[n], to: low * (0.95 - 0.1 * n), text: `head ${n}` }));
  return {
    panels: [chart("bias", small ? "added: −slope × distance" : "added to a score: −slope × distance",
      (slope, k) => -slope * k, least, marks),
      chart("left", small ? "what it leaves of a share" : "what it leaves of a share: exp(−slope × distance)",
      (slope, k) => Math.exp(-slope * k), 0, marks)],
    say: `Head ${head} subtracts ${number(all[head], 3)} for every step: ${number(Math.LN2 / all[head], 3)} words back, a share is halved before the softmax divides by the sum. At distance ${TRAINED}, ${number(Math.exp(-all[head] * TRAINED), 3)} of it is left.`,
  };
}

export const longer = {
  first: { how: "learned", f: "8", head: "3" },
  asks: ({ how, f }) => (how in RULES ? { v: "stretch", d: String(WIDE), Lt: String(TRAINED), f,
    rule: how === "linear" ? how : "yarn", j: "16" } : WORDS),
  controls: ({ how }) => [
    choice("how", "Positions from", option("learned", "a learned table"), option("rope", "RoPE as trained"),
      option("linear", "RoPE, interpolated"), option("yarn", "RoPE, stretched by YaRN"), option("alibi", "ALiBi")),
    slider("f", "Trained length ×", 1, 16),
    ...(how === "alibi" ? [slider("head", "Head", 0, HEADS - 1, { plays: false })] : []),
  ],
  travel: (t) => ({ how: ["learned", ...Object.keys(RULES), "alibi"][Math.min(4, Math.floor(5 * t))] }),
  shows({ panels }, { how, f, head }, _, room) {
    const length = rint(TRAINED * Number(f));
    if (how === "learned") return ended(length);
    return how === "alibi" ? biases(length, Number(head), room) : angles(length, how, panels, room);
  },
};
