/** Stretch, made in the page: posenc/explore/views/stretch.py with the numbers of posenc/detect/extend/rules.py. */

import { columnsOf } from "./columns.js";
import { ladder, pythonFloat } from "./evaluator.js";
import { fact, float32, float64, heading, logarithmic, make, prose, stops, under } from "./grammar.js";
import { pairAxis } from "./local_waves.js";
import { count, general, number, plural, rint, signed, whole } from "./numbers.js";
import { refuse } from "./reading.js";

const FAST = 32; // turns within the trained length from which a pair counts as fast
const LOST = 1.01; // stretch from which a fast pair has lost its step
const [EVERY, MORE] = [4096, 4096]; // distances: every one up to the first, then so many as far again
const STYLES = ["yarn", "llama3", "ntk", "linear", "dynamic", "yarn_paper", "given", "none"];
const times = (x) => `×${number(x, 3)}`;
const lengthText = (x) => (Number.isFinite(x) ? number(x) : "endless");
const sum = (list) => list.reduce((total, x) => total + x, 0);

/** A rule as the evaluator has it. */
function scalingOf(name, factor, trained, length) {
  const own = { factor, originalLength: trained };
  const grown = Math.max(trained, length) / trained; // what dynamic NTK comes to at a length
  return {
    none: { rule: "none" },
    linear: { rule: "linear", factor },
    ntk: { rule: "ntk", factor },
    dynamic: { rule: "ntk", factor: grown },
    yarn: { rule: "yarn", ...own },
    yarn_paper: { rule: "yarn", ramp: "turns", ...own },
    llama3: { rule: "llama3", ...own },
  }[name];
}

function distancesOf(trained) {
  const near = Array.from({ length: Math.max(0, Math.min(trained, EVERY) - 1) }, (_, n) => n + 1);
  if (trained <= EVERY) return near;
  const step = (trained - 1 - EVERY) / (MORE - 1);
  return [...near, ...Array.from({ length: MORE }, (_, n) => Math.trunc(n === MORE - 1 ? trained - 1 : EVERY + n * step))];
}

/** The largest mean over the pairs of |g exp(i d after) - exp(i d before)|. */
function changeOf(before, after, factor, distances) {
  const gain = factor ** 2;
  const moved = before.map((f, n) => after[n] - f).filter(Boolean); // of the others the cosine is 1
  const still = (before.length - moved.length) * Math.abs(gain - 1);
  let largest = 0;
  for (const distance of moved.length ? distances : distances.slice(0, 1)) {
    let total = still;
    for (let n = 0; n < moved.length; n += 1) {
      const half = Math.abs(Math.sin((distance / 2) * moved[n]));
      total += gain === 1 ? 2 * half : Math.sqrt((gain - 1) ** 2 + 4 * gain * half * half);
    }
    largest = Math.max(largest, total / before.length);
  }
  return largest;
}

function effectOf(before, own, trained, length) {
  const after = own.frequencies;
  const turns = before.map((f) => f * (trained / (2 * Math.PI)));
  let [unseen, arc, lost] = [0, 0, 0];
  before.forEach((f, n) => {
    if (turns[n] < 1 && after[n] * length > f * trained * (1 + 1e-9)) {
      unseen += 1;
      arc = Math.max(arc, Math.min(after[n] * (length / (2 * Math.PI)), 1) - turns[n]);
    }
    if (turns[n] > FAST && f / after[n] > LOST) lost += 1;
  });
  return { unseen, arc, lost, factor: own.factor, change: changeOf(before, after, own.factor, distancesOf(trained)) };
}

let last = { key: "", data: null }; // the rules, which stay while the cursor moves

function dataOf(scene, table, labels) {
  const { Lt: trained, f: factor } = scene.values;
  const { d, n } = scene.a.values;
  const key = JSON.stringify([d, n, trained, factor]);
  if (last.key === key) return last.data;
  const length = rint(trained * factor);
  const before = table.ladder.frequencies;
  const [rules, leftOut, made] = [[], {}, new Map()];
  for (const [name, label] of Object.entries(labels)) {
    if (name === "given") continue;
    try {
      const scaling = scalingOf(name, factor, trained, length);
      const same = JSON.stringify(scaling);
      if (!made.has(same)) {
        const own = ladder({ dim: d, base: n, scaling });
        const wavelengths = Array.from(own.frequencies, (f) => (2 * Math.PI) / f);
        const stretch = wavelengths.map((x, pair) => x / ((2 * Math.PI) / before[pair]));
        made.set(same, { wavelengths, stretch, effect: effectOf(before, own, trained, length) });
      }
      rules.push({ name, label, ...made.get(same) });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      leftOut[name] = name === "dynamic" ? error.message.replace(/^NTK/, "DynamicNTK") : error.message;
    }
  }
  const slow = rules[0].wavelengths.map((x) => x > trained);
  const fast = sum(Array.from(before, (f) => Number(f * (trained / (2 * Math.PI)) > FAST)));
  last = { key, data: { rules, leftOut, trained, factor, length, slow: sum(slow.map(Number)), firstSlow: slow.indexOf(true), fast } };
  return last.data;
}

// --- panels ----------------------------------------------------------------------------------------

function charts(data, table, pair, chosen) {
  const pairs = data.rules[0].stretch.length;
  const series = (what) => data.rules.map((rule) => make("Series", {
    label: rule.label,
    x: float64(rule[what].map((_, n) => n + 0.5)),
    y: float32(rule[what].map((y) => (Number.isFinite(y) ? y : NaN))),
    style: STYLES.indexOf(rule.name),
    front: rule.name === chosen.name,
  }));
  const every = (what) => data.rules.flatMap((rule) => rule[what]).filter(Number.isFinite);
  const band = data.slow ? [make("Mark", { axis: "x", at: data.firstSlow, text: plural(data.slow, "slow pair"), to: pairs, style: "band" })] : [];
  const [lengths, stretches] = [every("wavelengths"), every("stretch")];
  const wavelengths = make("Chart", {
    id: "wavelengths",
    title: "wavelength, positions (log)",
    x: pairAxis(table, pair, ""),
    y: logarithmic("", Math.min(6, ...lengths, data.trained) / 1.2, Math.max(10, ...lengths, data.length) * 4),
    series: series("wavelengths"),
    marks: [
      ...band,
      make("Mark", { axis: "y", at: data.trained, text: `trained length ${whole(data.trained)}`, style: "solid" }),
      make("Mark", { axis: "y", at: data.length, text: `new length ${whole(data.length)}` }),
    ],
    place: "half",
    height: 220,
    label: "Wavelength of each pair under each rule",
  });
  const stretch = make("Chart", {
    id: "stretch",
    title: "stretch of each pair, × (log)",
    x: pairAxis(table, pair),
    y: logarithmic("", Math.min(1, ...stretches) * 0.92, Math.max(1.1, ...stretches, data.factor) * 1.35, 2),
    series: series("stretch"),
    marks: band,
    place: "half",
    height: 220,
    label: "Stretch of each pair under each rule",
  });
  return [wavelengths, stretch].map((chart) => under(chart, pair, null, chosen[chart.id][pair]));
}

function costs(data, labels) {
  const row = ({ label, effect }) => [label, count(effect.unseen, data.slow), count(effect.lost, data.fast), number(effect.factor, 5), number(effect.arc, 2), number(effect.change, 2)];
  const out = Object.entries(data.leftOut).map(([name, why]) => `${labels[name]}: ${why}`).join(" ");
  return make("TableOfText", {
    id: "counts",
    title: "what each rule costs",
    columns: ["rule", "slow pairs that meet unseen angles", "fast pairs that lose their step", "attention factor", "new share of a circle", "change in short texts"],
    rows: data.rules.map(row),
    caption: `Slow: no full turn within the trained length. Fast: 32 turns or more. Lost: changed by over 1 %. New: the most that a slow pair meets for the first time. Short texts: the largest change of a score within the trained length, over the largest score. ${out}`,
  });
}

// --- the readout -----------------------------------------------------------------------------------

/** The base by which the slowest pair is stretched by a factor, rounded up to six digits. */
function enlarged({ d, n }, factor) {
  const base = n * factor ** (d / (d - 2));
  const digits = 10 ** (Math.floor(Math.log10(base)) - 5);
  return Number((Math.ceil(base / digits) * digits).toPrecision(6));
}

/** What engines are told for the rule: lines of Python with the numbers of this state in their places. */
function lines({ heading: title, none, rules }, name, data, values) {
  if (!rules[name]) return [heading(title), prose(none)];
  const base = name === "ntk" ? enlarged(values, data.factor) : 0;
  const numbers = { n: pythonFloat(values.n), f: pythonFloat(data.factor), g: general(data.factor, 9), base: pythonFloat(base), baseG: general(base, 9), trained: data.trained, length: data.length };
  const filled = (text) => text.replace(/⟨(\w+)⟩/g, (_, key) => numbers[key]);
  const [written, remarks] = rules[name];
  return [heading(title), ...Object.entries(written).map(([label, text]) => fact(label, filled(text))), ...remarks.map(prose)];
}

/** What YaRN multiplies, and where its two ramps are farthest apart. */
function ramps(data) {
  const [code, paper] = ["yarn", "yarn_paper"].map((name) => data.rules.find((rule) => rule.name === name)?.stretch);
  const first = prose("0.1 ln s + 1. It multiplies cos and sin, so scores grow by its square.");
  if (!code || !paper || data.factor === 1) return [first];
  const apart = code.map((x, n) => Math.abs(Math.log(x / paper[n])));
  const at = apart.indexOf(Math.max(...apart));
  return [first, prose(`YaRN's ramp is linear in turns in the paper, in the index of the pair in the code: at pair ${at} they stretch ${times(paper[at])} and ${times(code[at])}.`)];
}

function lead(data) {
  if (!data.slow) return `Every pair finished a turn within ${whole(data.trained)} positions, so longer contexts bring no angle that training did not show.`;
  if (data.factor === 1) return "The new length is the trained one, so no pair meets a new angle.";
  return `${plural(data.slow, "slow pair")} never finished a turn in training. To meet only angles they know, they must stretch by the full ×${number(data.factor)}. Fast pairs should stay at ×1, so that neighbours keep their step.`;
}

export function stretchFrame(scene, { stretching }) {
  const { rule, loss, j } = scene.values;
  if (loss) refuse("the loss of trained models");
  const labels = stretching.labels;
  const table = columnsOf(scene.a);
  const data = dataOf(scene, table, labels);
  const [pair] = table.layout[j];
  const chosen = data.rules.find(({ name }) => name === rule) ?? data.rules[0];
  const [before, after] = [data.rules[0], chosen].map(({ wavelengths }) => lengthText(wavelengths[pair]));
  const stretched = times(chosen.stretch[pair]);
  const problems = data.leftOut[rule] ? [["rule", data.leftOut[rule]]] : rule === "given" ? [["rule", "This encoding has no rule of its own; a config.json may have."]] : [];
  const pairs = chosen.stretch.length;
  const some = [...new Set(Array.from({ length: Math.min(20, pairs) }, (_, n, most = Math.min(20, pairs)) => Math.trunc(n === most - 1 ? pairs - 1 : n * ((pairs - 1) / (most - 1)))))];
  return {
    lead: lead(data),
    panels: [...charts(data, table, pair, chosen), costs(data, labels)],
    readout: [
      heading(`${chosen.label}, pair ${pair}`),
      fact("Stretch", stretched),
      fact("Wavelength before", before),
      fact("Wavelength after", after),
      ...(chosen.name === "none" ? [] : lines(stretching.lines, chosen.name, data, scene.a.values)),
      ...(chosen.name.startsWith("yarn") ? ramps(data) : []),
    ],
    say: `Pair ${pair}: ${chosen.label} stretches it ${stretched}, from ${before} positions to ${after}`,
    cursor: { x: stops("j", j, 0, table.d - 1) },
    table: {
      caption: "the stretch of some pairs",
      columns: ["pair", ...data.rules.map(({ label }) => label)],
      rows: some.map((i) => [String(i), ...data.rules.map(({ stretch }) => signed(stretch[i], 4))]),
    },
    problems,
    dead: ["loss"],
  };
}
