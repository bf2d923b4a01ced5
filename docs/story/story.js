/** The story: seven scenes beside one figure. Scrolling chooses the scene and moves its figure, until a control does. */

import { Controls } from "./controls.js";
import { byId, takesArrows } from "./dom.js";
import { withNames } from "./grammar.js";
import { local } from "./local.js";
import { applyPalette, say, Theme } from "./page.js";
import { Panels } from "./panels.js";
import { drawn } from "./play.js";
import { SCENES } from "./scenes.js";
import { latest } from "./transport.js";

const [NARROW, SMALL] = [900, 600]; // pixels of the window: the figure stands above the text; it shows less
const TWO = 700; // pixels of the figure from which on it has two columns
const MOVES = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", -1], ArrowDown: ["y", 1] };
const still = matchMedia("(prefers-reduced-motion: reduce)");
const frames = local(JSON.parse(byId("computes").textContent));
const own = SCENES.map(({ first }) => ({ ...first }));
const held = new Set(); // scenes that a control has moved, which scrolling leaves alone
const sections = [...document.querySelectorAll(".scene")];
const stacked = () => innerWidth < NARROW;
const small = () => innerWidth < SMALL;

let at = 0;
let frame = null;
let shown = null;
let preview = null;

// --- the figure ------------------------------------------------------------------------------------

/** The panels in the room of the figure: as high as the window leaves, and all of them seen at once. */
class Stage extends Panels {
  room() {
    const [whole, height] = [this.host.clientWidth, tall()];
    const half = whole >= TWO ? Math.floor((whole - 20) / 2) : whole;
    const widths = { attention: Math.min(whole, 2 * (height - (small() ? 205 : 240))) };
    const heights = { rows: height - 130, sum: half < whole ? height - 130 : (height - 190) / 2, matrix: height - 40 };
    return ({ main }) => ({ width: main.place === "half" ? half : widths[main.kind] ?? whole,
      height: Math.max(80, heights[main.id] ?? height - 60), left: 0 });
  }
}

/** The height that the panels have. */
function tall() {
  const others = ["steps", "controls", "outcome"].map((id) => byId(id).offsetHeight);
  return Math.max(170, others.reduce((left, taken) => left - taken, byId("stage").clientHeight - (stacked() ? 40 : 80)));
}

const panels = new Stage(byId("panels"), {
  set: change,
  move,
  preview(changes) {
    if (JSON.stringify(changes) === JSON.stringify(preview)) return;
    preview = changes;
    request();
  },
  canZoom: () => false,
  zoomed: () => false,
  unzoom() {},
});
const controls = new Controls(byId("controls"), (key, text) => change({ [key]: text }));
const theme = new Theme(request);
const ask = latest(load, { show, gone() {}, back() {}, asking, failed });

async function load({ scene, values, query }) {
  const { header, arrays } = await frames({ query });
  const made = SCENES[scene].shows(header, values, arrays, { small: small(), tall: tall() });
  const mine = withNames({ panels: made.panels });
  const given = SCENES[scene].controls(values, small()).map((one) => ({ hint: "", more: false, section: "view",
    value: values[one.key], ...one }));
  return { header: { ...header, view: `scene-${scene}`, panels: mine.header.panels, controls: given, say: made.say },
    arrays: { ...arrays, ...mine.arrays } };
}

/** The device pixels of a picture of many rows. */
function size() {
  const ratio = devicePixelRatio || 1;
  const high = Math.min(480, Math.max(80, tall() - 130));
  return { w: String(Math.floor(byId("panels").clientWidth * ratio)), h: String(Math.floor(high * ratio)) };
}

function request() {
  const values = { ...own[at], ...preview };
  ask({ scene: at, values, query: { ...SCENES[at].asks(values), ...size(), theme: theme.name } });
}

function show(next, { scene, query }, isLast) {
  if (scene !== at) return;
  frame = next;
  applyPalette(frame.header.palette);
  controls.show(frame.header);
  panels.draw(frame);
  byId("outcome").textContent = frame.header.say;
  say(`Scene ${scene + 1}. ${frame.header.say}`);
  document.body.dataset.scene = `Scene ${scene + 1}.`;
  if (shown !== scene && !still.matches) byId("panels").animate([{ opacity: 0 }, { opacity: 1 }], 260);
  shown = scene;
  drawn();
  if (isLast && size().h !== query.h) request(); // the controls have left another room than before
  document.body.dataset.frames = String(Number(document.body.dataset.frames ?? 0) + 1);
}

function asking(whether) {
  document.body.classList.toggle("asking", whether);
}

function failed(error) {
  byId("outcome").textContent = `This picture could not be made: ${error.message}`;
}

// --- what a reader does ----------------------------------------------------------------------------

function change(changes) {
  preview = null;
  held.add(at);
  const known = Object.entries(changes).filter(([key]) => key in own[at]);
  Object.assign(own[at], Object.fromEntries(known.map(([key, text]) => [key, text ?? ""])));
  request();
}

/** Moves the cursor of the figure along an axis. */
function move(axis, by) {
  const place = frame?.header.cursor?.[axis];
  if (!place || !(place.key in own[at])) return;
  change({ [place.key]: String(Math.min(place.max, Math.max(place.min, Number(own[at][place.key]) + by))) });
}

byId("stage").addEventListener("keydown", (event) => {
  const step = MOVES[event.key];
  if (!step || takesArrows(event.target) || event.target.closest("button")) return;
  event.preventDefault();
  move(step[0], step[1] * (event.shiftKey ? 10 : 1));
});

/** The height of the window at which a scene is read. */
function sight() {
  const top = stacked() ? byId("stage").getBoundingClientRect().bottom : 0;
  return top + (innerHeight - top) * (stacked() ? 0.3 : 0.5);
}

function scrolled() {
  const line = sight();
  const boxes = sections.map((section) => section.getBoundingClientRect());
  const next = Math.max(0, boxes.findLastIndex(({ top }) => top <= line));
  const share = (line - boxes[next].top) / boxes[next].height;
  const changes = held.has(next) || still.matches ? {} : SCENES[next].travel(Math.min(1, Math.max(0, (share - 0.4) / 0.5)));
  const moved = Object.entries(changes).some(([key, text]) => own[next][key] !== text);
  Object.assign(own[next], changes);
  if (next !== at) enter(next);
  else if (moved) request();
}

function enter(next) {
  at = next;
  preview = null;
  history.replaceState(null, "", `#scene=${at + 1}`);
  mark();
  request();
}

function mark() {
  [...byId("steps").children].forEach((link, n) => {
    if (n === at) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  });
  sections.forEach((section, n) => section.classList.toggle("now", n === at));
}

byId("theme").addEventListener("click", () => theme.toggle());
document.body.classList.remove("dead");
mark();
addEventListener("scroll", scrolled, { passive: true });
new ResizeObserver(() => frame && request()).observe(byId("stage"));
scrolled();
request();
