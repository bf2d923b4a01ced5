/** From the texts of a state to values that can be drawn, by the rules of posenc/explore/state: a wrong text is
 *  replaced and named; what this page cannot make is refused. */

import { number, plural, short, whole } from "./numbers.js";
import { NotStored } from "./transport.js";

const FARTHEST = 1e15; // places of a cursor
export const ASKED = new Set(["k", "w", "h", "theme", "since", "numbers"]); // of one request, no part of the state
const WHOLE = /^[+-]?[0-9]{1,19}$/;
const DECIMAL = /^[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?$/;
const SIZE = { kind: "integer", gently: true, low: 16, high: 8192 };
const MOST_CELLS = 4_000_000;

export function refuse(what) {
  throw new NotStored(`This page does not compute ${what}.`);
}

/** A text of somebody else, fit for a message. */
function shown(text) {
  const letters = [...text];
  const visible = letters.slice(0, 40).map((c) => (/[\p{C}\p{Z}]/u.test(c) && c !== " " ? "?" : c)).join("");
  return `‘${visible}’${letters.length > 40 ? "…" : ""}`;
}

function ofNumber(field, text) {
  const plain = text.replace(/^[ \t]+|[ \t]+$/g, "").replace(/\u2212/g, "-").replace(/[\u202f ]/g, "");
  const integral = field.kind === "integer";
  const value = WHOLE.test(plain) || DECIMAL.test(plain) ? Number(plain) : NaN;
  if (Number.isNaN(value) || (integral && Number.isFinite(value) && !Number.isInteger(value))) {
    const drawn = ofNumber(field, field.default);
    const came = text.trim() ? shown(text) : "nothing";
    return { ...drawn, problem: `${field.label}: expected ${integral ? "a whole number" : "a number"}, got ${came}. Drawn with ${drawn.text}.` };
  }
  const kept = Math.min(Math.max(value, field.low), field.high);
  const written = integral ? String(kept) : short(kept);
  if (kept === value || field.gently) return { value: kept, text: written };
  const say = integral ? whole : number;
  const came = Math.abs(value) < FARTHEST ? say(value) : shown(text);
  const bound = `${field.label} must be ${value < field.low ? "at least" : "at most"} ${say(kept)}`;
  return { value: kept, text: written, problem: `${bound}; ${came} came. Drawn with it.` };
}

function ofChoice(field, text) {
  const option = field.options.find(({ value }) => value === text || value.toLowerCase() === text.trim().toLowerCase());
  if (!option) refuse(`${field.label} ${shown(text)}`);
  return { value: option.value, text: option.value };
}

function ofSwitch(field, text) {
  const value = { 1: true, on: true, true: true, 0: false, off: false, false: false }[text.trim().toLowerCase()];
  const drawn = value ?? field.default === "1";
  const problem = value === undefined ? `${field.label}: expected 1 or 0, got ${shown(text)}.` : undefined;
  return { value: drawn, text: drawn ? "1" : "0", problem };
}

function ofText(field, text) {
  const letters = [...text];
  const cut = letters.slice(0, field.high).join("");
  const problem = cut === text ? undefined : `${field.label}: only the first ${plural(field.high, "character")} are used.`;
  return { value: cut, text: cut, problem };
}

const PARSERS = { integer: ofNumber, real: ofNumber, choice: ofChoice, switch: ofSwitch, text: ofText };

/** What a text means for a field; undefined stands for a key that is absent. */
const parse = (field, text) => PARSERS[field.kind](field, text ?? field.default);

/** A state that has been understood: `scene.values` by key, with what was wrong. */
class Scene {
  constructor(raw, shape, entries) {
    Object.assign(this, { raw, shape, entries, values: {}, fields: [], problems: [], notes: [], asked: {} });
    this.used = new Set(["v"]);
    this.width = parse(SIZE, raw.w ?? "640").value;
    this.height = Math.min(parse(SIZE, raw.h ?? "400").value, Math.floor(MOST_CELLS / this.width));
    this.theme = raw.theme === "dark" ? "dark" : "light";
  }

  take(field) {
    const { key } = field;
    const text = this.raw[key];
    const answer = parse(field, text);
    this.used.add(key);
    if (answer.problem) {
      this.problems.push([key, answer.problem]);
    } else if (field.section === "cursor" && text !== undefined) {
      const place = parse({ ...field, low: -FARTHEST, high: FARTHEST }, text).value;
      if (Math.abs(place) < FARTHEST) this.asked[key] = place;
      else this.problems.push([key, `${field.label} ${shown(text)} is farther than anything that is drawn.`]);
    }
    this.values[key] = answer.value;
    this.fields.push([field, answer.text]);
    return answer.value;
  }

  retake(key, value) {
    this.values[key] = value;
    this.fields = this.fields.map(([field, text]) => [field, field.key === key ? String(value) : text]);
  }
}

const GRID = "preset:mae"; // whose positions are the cells of a grid
const MOST_LEARNED = 2 ** 22;

/** Why posenc makes no encoding of some numbers; empty where it does. */
function whyNot({ entry: { id, label, kind }, values: { d }, end }) {
  if (kind === "rotary" && d % 2) return `RoPE: dim: expected an even width of at least 2, got ${d}. \`dim\` is the rotated width; a wider head passes its other channels through.`;
  if (id === GRID && d % 4) return `Sinusoidal: expected a width that odd='error' allows for ${2 * Math.floor(d / 4)} pairs, got dim=${d}. odd='zero_pad' fills with zeros, odd='cut' cuts to the width.`;
  if (id === "learned" && end * d > MOST_LEARNED) return `${label} would learn ${end * d} numbers, more than the ${whole(MOST_LEARNED)} that are drawn. Choose fewer positions or a smaller width.`;
  return "";
}

const fieldsOf = (entry, shape) => entry.fields.filter(({ key }) => key !== "L" && key !== "s").map((f) => ({
  ...f,
  default: shape.defaults[f.key] ?? f.default,
  high: Math.min(f.high, shape.most[f.key] ?? f.high),
  section: "encoding",
}));

/** What some fields begin with. */
const startOf = (fields) => Object.fromEntries(fields.map((f) => [f.key, parse(f).value]));

/** The encoding of a state: its entry, and the values of its controls. */
function encoding(scene, { ladders, seed }) {
  const { shape, entries, values: { s = 0, L = 0 } } = scene;
  const offered = Object.values(entries).filter((entry) => entry.views.includes(shape.id));
  const options = offered.map(({ id, label, group }) => ({ value: id, label, group }));
  const field = { key: "enc", label: "Encoding", kind: "choice", default: shape.encoding, low: 0, high: 0, scale: "linear", options, section: "encoding", hint: "", step: 1, plays: false };
  const name = scene.raw.enc ?? shape.encoding;
  const entry = offered.find(({ id }) => id === name.toLowerCase());
  if (!entry) refuse(`the encoding ${shown(name)} here`);
  scene.used.add("enc");
  scene.values.enc = entry.id;
  scene.fields.push([field, entry.id]);
  const own = fieldsOf(entry, shape);
  let chosen = { entry, values: Object.fromEntries(own.map((f) => [f.key, scene.take(f)])), end: s + L, sides: null };
  const why = whyNot(chosen);
  if (why) {
    scene.problems.push(["d", why]);
    chosen.values = startOf(own);
    for (const f of own) {
      scene.retake(f.key, f.default);
      scene.values[f.key] = chosen.values[f.key];
    }
    if (whyNot(chosen)) chosen = { ...chosen, entry: entries[shape.encoding], values: startOf(fieldsOf(entries[shape.encoding], shape)) };
  }
  if (entry.id === "learned") chosen.seed = seed;
  if (entry.id === GRID) {
    const side = Math.floor(Math.sqrt(L));
    Object.assign(chosen, { sides: [side, side], end: side * side });
    scene.retake("s", 0);
    scene.retake("L", side * side);
  }
  if (chosen.values.ladder) chosen.convention = ladders[chosen.values.ladder];
  return chosen;
}

const width = ({ entry, values }) => (entry.kind === "bias" ? 1 : values.d);

function cursor(scene, fields) {
  const { shape, values } = scene;
  const first = values.s ?? 0;
  const narrowed = (key, low, high) => {
    const [begin, end] = [["0", "from", low], ["1", "to", high]].map(([n, what, usual]) => ({ ...fields.p, key: key + n, label: `Shown ${what}`, default: String(usual), low, high, section: "zoom", plays: false }));
    if (scene.take(begin) >= scene.take(end)) {
      scene.retake(begin.key, low);
      scene.retake(end.key, high);
    }
  };
  if (shape.cursor.includes("p")) {
    const last = values.L === undefined ? 2 ** 40 : first + values.L - 1;
    const usual = Math.min(Math.max(40, first), last);
    scene.take({ ...fields.p, label: shape.defaults["p label"] ?? fields.p.label, low: first, high: last, default: String(usual) });
    if (shape.zoom.includes("p")) narrowed("p", first, last + 1);
  }
  if (shape.cursor.includes("j")) {
    const wide = width(scene.a);
    const usual = Math.min(Number(shape.defaults.j ?? fields.j.default), wide - 1);
    scene.take({ ...fields.j, low: 0, high: wide - 1, default: String(usual) });
    if (shape.zoom.includes("j")) narrowed("j", 0, wide);
  }
}

/** Understands a state of texts, by what `data` says of the views; a NotStored is what is refused. */
export function read(raw, data) {
  const shape = data.shapes[raw.v ?? Object.keys(data.shapes)[0]];
  if (!shape) refuse(`the view ${shown(raw.v)}`);
  if (Object.keys(raw).some((key) => key.startsWith("b."))) refuse("a second encoding");
  const scene = new Scene(raw, shape, data.entries);
  if ((raw.k ?? "1") !== "1") scene.notes.push(`The address is of version ${shown(raw.k)}; this page knows version 1.`);
  const views = Object.values(data.shapes).map(({ id, label }) => ({ value: id, label, group: "" }));
  scene.values.v = shape.id;
  scene.fields.push([{ key: "v", label: "View", kind: "choice", default: views[0].value, options: views, section: "view" }, shape.id]);
  const lengths = shape.fields.filter(({ key }) => key === "s" || key === "L");
  for (const field of lengths) scene.take(field);
  scene.a = encoding(scene, data);
  const some = Object.values(data.entries).filter(({ views: own }) => own.includes(shape.id));
  for (const field of shape.fields) {
    if (lengths.includes(field)) continue;
    const any = [{ value: "none", label: data.none, group: "" }, ...some.map(({ id, label, group }) => ({ value: id, label, group }))];
    scene.take(field.kind === "choice" && !field.options.length ? { ...field, options: any } : field);
  }
  cursor(scene, data.fields);
  for (const key of ["find", "tour", "reveal"]) scene.take(data.fields[key]);
  const known = new Set(data.known);
  const unknown = Object.keys(raw).filter((key) => !scene.used.has(key) && !ASKED.has(key) && !known.has(key));
  if (unknown.length) {
    const more = unknown.length > 3 ? ` and ${plural(unknown.length - 3, "other")}` : "";
    scene.notes.push(`Ignored in the address: ${unknown.slice(0, 3).map(shown).join(", ")}${more}.`);
  }
  return scene;
}
