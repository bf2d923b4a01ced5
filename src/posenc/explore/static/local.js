/** Frames made in the page, without Python: a third source beside the server and the notebook. A frame has the
 *  contract of posenc/explore/frame.py; what cannot be made is refused, never replaced by a neighbour. */

import { describe, Grid, make, present, withNames } from "./grammar.js";
import { attentionFrame } from "./local_attention.js";
import { biasFrame } from "./local_bias.js";
import { distanceFrame } from "./local_distance.js";
import { rotateFrame } from "./local_rotate.js";
import { stretchFrame } from "./local_stretch.js";
import { tableFrame } from "./local_table.js";
import { wavesFrame } from "./local_waves.js";
import { whole } from "./numbers.js";
import { ASKED, read } from "./reading.js";
import { unpacked } from "./transport.js";

const VIEWS = {
  attention: attentionFrame,
  table: tableFrame,
  waves: wavesFrame,
  distance: distanceFrame,
  rotate: rotateFrame,
  bias: biasFrame,
  stretch: stretchFrame,
};
const SECTIONS = ["encoding", "view", "cursor", "find", "page"]; // in the order of their controls
const LIGHT = new Set(["cursor", "zoom", "find"]); // what moves without changing the picture
const LONGEST_KEPT = 200; // characters of a key that belongs to another view
const ELSEWHERE = "The picture is not the one that this stop explains; its question waits.";

function array({ data, shape }, Type = Uint8Array) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return new Grid(new Type(bytes.buffer), shape);
}

/** A number of 16 bits, as the weights are stored. */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, (bits & 1023) / 1024];
  const size = exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}

/** What a control shows of a field, with its present text. */
function control([field, text], shape) {
  const { key, label, kind, low, high, step, scale, options, hint, section, plays } = field;
  const sent = kind === "integer" || kind === "real" ? "number" : kind;
  return { key, label, kind: sent, value: text, min: low, max: high, step, scale, options, hint, section, plays, more: !shape.first.includes(key) };
}

function controls(scene, dead) {
  const hidden = new Set(["v", "tour", "reveal", "find", ...dead]);
  const shown = scene.fields.filter(([{ key, kind, options }]) => !hidden.has(key) && !(kind === "choice" && options.length < 2));
  return SECTIONS.flatMap((section) => shown.filter(([field]) => field.section === section).map((pair) => control(pair, scene.shape)));
}

/** What the address should hold: all that was set, as it was set. */
function addressOf(scene) {
  const own = Object.fromEntries(scene.fields.map(([{ key }, text]) => [key, text]));
  const kept = Object.entries(scene.raw).filter(([key, text]) => key in own || text.length <= LONGEST_KEPT);
  return { ...Object.fromEntries(kept.filter(([key]) => !ASKED.has(key))), v: scene.shape.id };
}

function stateOf(scene, known) {
  const own = Object.fromEntries(scene.fields.map(([{ key }, text]) => [key, text]));
  const kept = Object.entries(addressOf(scene)).filter(([key]) => key in own || known.has(key));
  return { k: "1", ...Object.fromEntries(kept), ...own };
}

/** Where the cursor stands, if that is not where it was set. */
function moved(scene, cursor) {
  const labels = Object.fromEntries(scene.fields.map(([{ key, label }]) => [key, label]));
  return Object.values(cursor).filter((place) => place && place.key in scene.asked && scene.asked[place.key] !== place.value)
    .map(({ key, value, min, max }) => `${labels[key]} ${whole(scene.asked[key])} is not drawn here; the cursor stands at ${whole(value)}, of ${whole(min)} to ${whole(max)}.`);
}

/** Whether two states are one picture, wherever the cursor stands in it. */
function alike(scene, meant) {
  if (scene.shape !== meant.shape || JSON.stringify(scene.a) !== JSON.stringify(meant.a)) return false;
  return meant.fields.every(([{ key, section }]) => LIGHT.has(section) || scene.values[key] === meant.values[key]);
}

/** What a stop of the tour says of the present state. */
function stopOf(scene, data) {
  const { tour, reveal } = scene.values;
  if (!tour || !data.tour[tour - 1]) return null;
  const [hidden, answer] = data.tour[tour - 1];
  const here = { ...hidden, ...(reveal ? answer : {}) };
  const own = { ...hidden.state, ...(reveal ? hidden.reveal : {}) };
  const meant = read(own, data);
  if (!alike(scene, meant)) return { ...here, text: ELSEWHERE, question: "", choices: [], explanation: "", answered: false, here: own };
  let { text } = here;
  if (reveal && !alike(meant, read(hidden.state, data))) text = `Before the answer: ${text}`;
  const texts = Object.fromEntries(meant.fields.map(([{ key }, value]) => [key, value]));
  const away = scene.fields.filter(([{ key, section }, value]) => key in own && LIGHT.has(section) && value !== texts[key]);
  if (!away.length) return { ...here, text };
  return { ...here, text: `${text} Moved since: ${away.map(([{ label }, value]) => `${label} ${value}`).join(", ")}.`, here: own };
}

/** The answer to a search that a lesson or a stop asks; any other needs Python. */
function foundBy(scene, finds, problems) {
  const asked = { find: scene.values.find, ...Object.fromEntries(scene.fields.map(([{ key }, text]) => [key, text])) };
  if (!asked.find) return null;
  const known = finds.find((one) => ["find", "d", "n", "order", "ladder"].every((key) => one[key] === asked[key]));
  if (!known) problems.push({ field: "find", message: "This page does not search. Run posenc explore to do so." });
  return known?.answer ?? null;
}

/** The state that a request opens: that of its stop of the tour, where it says nothing itself. */
function opened(query, data) {
  const [hidden] = data.tour[Number(query.tour) - 1] ?? [];
  if (!hidden) return query;
  return { ...hidden.state, ...(query.reveal === "1" ? hidden.reveal : {}), ...query };
}

/** Links to the other states that were saved of a view. */
function linksTo(saved, { view, address }) {
  const own = saved.filter(({ state }) => state.v === view);
  const dropped = Object.fromEntries(Object.keys(address).map((key) => [key, ""]));
  const named = ({ v, ...rest }) => Object.entries(rest).map((pair) => pair.join("=")).join(", ") || "first settings";
  const links = own.map(({ state }) => make("Link", { text: named(state), state: { ...dropped, ...state } }));
  return links.length > 1 ? [make("Links", { label: "Saved in this file", links })] : [];
}

/** What a request asks for, of the state alone. */
const asked = (query) => JSON.stringify(Object.entries(query).filter(([key]) => !ASKED.has(key)).sort());

/**
 * A source of frames from what posenc/explore/server/local_data.py gives: a function of a request, as `served`
 * gives one. A state that was saved as a picture is that picture; for any other that the page cannot make it
 * raises NotStored.
 */
export function local(data) {
  describe(data.grammar);
  const known = new Set([...Object.values(data.shapes).flatMap(({ fields }) => fields.map(({ key }) => key)), "p", "j"]);
  const palettes = Object.fromEntries(Object.entries(data.palette).map(([theme, { series, ...maps }]) => [theme, { ...Object.fromEntries(Object.entries(maps).map(([name, map]) => [name, array(map)])), series }]));
  const weights = Object.fromEntries(Object.entries(data.heads.weights).map(([name, rows]) => [name, { data: Float32Array.from(array(rows, Uint16Array).data, half), shape: rows.shape }]));
  const heads = { about: data.heads.about, weights };
  const { saved = [], views: offered = [] } = data;
  const views = offered.map((view) => ({ ...view, state: saved.find(({ state }) => state.v === view.id)?.state }));
  const beside = (header, theme) => ({ ...header, views, palette: palettes[theme ?? "light"], readout: [...header.readout, ...linksTo(saved, header)] });
  return async ({ query }) => {
    const one = saved.find(({ state, frame }) => frame && asked(state) === asked(query));
    if (one) {
      const kept = await unpacked(one.frame);
      const { header, arrays } = withNames(beside(kept.header, query.theme));
      return { header, arrays: { ...kept.arrays, ...arrays } };
    }
    const draw = (wanted) => VIEWS[wanted.shape.id](wanted, { heads, entries: data.entries, stretching: data.stretching });
    let scene = read(opened(query, data), data);
    let page;
    try {
      page = draw(scene);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      // The encoding exists, but not at these numbers: draw what the view starts with.
      const { shape, raw, width, height, theme } = scene;
      scene = Object.assign(read({ v: shape.id, w: String(width), h: String(height), theme }, data), { raw });
      page = draw(scene);
      page.problems = [...(page.problems ?? []), ["enc", `${error.message} Drawn with the first settings of ${shape.label} instead.`]];
    }
    const problems = [...scene.problems, ...(page.problems ?? [])].map(([field, message]) => ({ field, message }));
    const answer = foundBy(scene, data.finds, problems);
    const cursor = { x: null, y: null, ...page.cursor };
    return withNames(beside({
      k: 1,
      view: scene.shape.id,
      state: stateOf(scene, known),
      address: addressOf(scene),
      defaults: Object.fromEntries(scene.fields.map(([field]) => [field.key, field.default])),
      title: scene.shape.title,
      lead: page.lead,
      controls: controls(scene, page.dead ?? []),
      panels: page.panels,
      readout: page.readout,
      problems,
      notes: [...scene.notes, ...present(scene.a.entry.note && `${scene.a.entry.label}: ${scene.a.entry.note}`), ...moved(scene, cursor)],
      say: page.say,
      cursor,
      zoom: page.zoom ?? null,
      python: "",
      command: "",
      find: answer,
      compares: false,
      compare: null,
      tour: stopOf(scene, data),
      save: [],
      data_table: query.numbers ? page.table : Boolean(page.table),
    }, scene.theme));
  };
}
