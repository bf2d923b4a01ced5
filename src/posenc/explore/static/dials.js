/** Dials: hands on the unit circle. The points come from Python; here they are only scaled. */

import { el, put, svg, whenChanged } from "./dom.js";
import { host } from "./host.js";

const R = 44;
const STEP = 8;

/** One dial as SVG. */
export function dialPicture(dial, frame, radius = R, lettered = true) {
  const middle = radius + 10;
  const size = middle * 2;
  const [x, y] = [(value) => middle + radius * value, (value) => middle - radius * value];
  const layer = svg("svg", { class: "dial-face", width: size, height: size, viewBox: `0 0 ${size} ${size}` });
  layer.append(
    svg("circle", { cx: middle, cy: middle, r: radius, class: "frame" }),
    svg("line", { x1: x(-1), x2: x(1), y1: middle, y2: middle, class: "grid" }),
    svg("line", { x1: middle, x2: middle, y1: y(-1), y2: y(1), class: "grid" }),
  );
  const trail = frame.arrays[dial.trail];
  if (trail) {
    for (let index = 0; index < trail.shape[0]; index += 1) {
      const [cx, cy] = [x(trail.data[2 * index]), y(trail.data[2 * index + 1])];
      layer.append(svg("circle", { cx, cy, r: 1.5, class: "trail" }));
    }
  }
  for (const [hx, hy, style, text] of dial.hands) {
    layer.append(
      svg("line", { x1: middle, y1: middle, x2: x(hx), y2: y(hy), class: `hand k${style}` }),
      svg("circle", { cx: x(hx), cy: y(hy), r: 3, class: `dot k${style}` }),
    );
    if (text && lettered) {
      const anchor = hx < -0.2 ? "end" : hx > 0.2 ? "start" : "middle";
      const spot = { x: x(hx * 0.72), y: y(hy * 0.72) + (hy > 0 ? -3 : 11), "text-anchor": anchor };
      layer.append(svg("text", { ...spot, class: `end k${style}` }, text));
    }
  }
  return layer;
}

function says(dial) {
  return [dial.label, dial.note].filter(Boolean).join(", ");
}

/** A dial of the readout, with its note beside it. */
export function dialBlock(dial, frame) {
  const face = dialPicture(dial, frame, R, dial.hands.length > 1);
  face.setAttribute("role", "img");
  face.setAttribute("aria-label", says(dial));
  const lines = dial.note.split(";").map((text) => el("span", {}, text.trim()));
  return el("div", { class: "dial-block" }, face, el("div", {}, el("strong", {}, dial.label), ...lines));
}

/** The hands of the first dial, if all dials name theirs alike: then one legend serves them all. */
function sharedHands(dials) {
  const names = dials.map(({ hands }) => JSON.stringify(hands.map(([, , style, text]) => [style, text])));
  const alike = dials.length > 1 && names.every((name) => name === names[0]);
  return alike ? dials[0].hands.filter(([, , , text]) => text) : [];
}

/** Lets a drag to the side, begun where `holds` says so, move the cursor that many steps. */
export function draggable(node, holds, move) {
  let start = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && holds(event.target)) start = event.clientX;
  });
  node.addEventListener("pointermove", (event) => {
    if (start === null || !event.buttons) return;
    const steps = Math.trunc((event.clientX - start) / STEP);
    if (!steps) return;
    start += steps * STEP;
    // From here on it is a drag: its end is no click on the dial where it began.
    node.setPointerCapture(event.pointerId);
    move("y", steps);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    node.addEventListener(end, () => {
      start = null;
    });
  }
}

export class Dials {
  constructor(deeds) {
    this.deeds = deeds;
    this.heading = el("h2", { class: "figure-title" });
    this.legend = el("p", { class: "legend" });
    this.grid = el("div", { class: "dials" });
    this.caption = el("p", { class: "caption" });
    this.root = el("figure", { class: "figure" }, this.heading, this.legend, this.grid, this.caption);
    this.moves = false;
    draggable(this.grid, () => this.moves, (along, steps) => this.deeds.move(along, steps));
  }

  draw({ main }, frame) {
    const few = main.dials.length <= 4;
    this.moves = Boolean(frame.header.cursor?.y);
    this.grid.classList.toggle("drag", this.moves);
    const value = [main.dials, main.dials.map((dial) => Array.from(frame.arrays[dial.trail]?.data ?? []))];
    whenChanged(this.grid, value, () => {
      const kept = this.grid.contains(host.root.activeElement)
        ? [...this.grid.children].indexOf(host.root.activeElement)
        : -1;
      const shared = sharedHands(main.dials);
      this.legend.replaceChildren(...shared.map(([, , style, text]) => el("span", { class: "named" }, el("i", { class: `swatch k${style}` }), text)));
      this.legend.hidden = !shared.length;
      const radius = few ? 62 : R;
      this.grid.replaceChildren(...main.dials.map((dial) => this.one(dial, frame, radius, !shared.length)));
      this.grid.children[kept]?.focus();
    });
    put(this.heading, main.title);
    put(this.caption, main.caption);
  }

  one(dial, frame, radius, lettered) {
    const face = dialPicture(dial, frame, radius, lettered);
    face.setAttribute("aria-hidden", "true");
    const notes = dial.note.split(";").map((part) => el("span", {}, part.trim()));
    const text = el("span", { class: "dial-label" }, el("strong", {}, dial.label), ...notes);
    if (!dial.key) return el("div", { class: "dial", role: "img", "aria-label": says(dial) }, face, text);
    const set = () => this.deeds.set({ [dial.key]: dial.value });
    const pressed = dial.chosen ? "true" : "false";
    return el("button", { type: "button", class: "dial", "aria-pressed": pressed, onclick: set }, face, text);
  }
}

