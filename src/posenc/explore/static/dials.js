/** Dials: hands on the unit circle. The points come from Python; here they are only scaled. */

import { el, named, put, resize, svg, whenChanged } from "./dom.js";
import { host } from "./host.js";
import { label } from "./marks.js";

const R = 44;

function headOf(from, x, y) {
  const length = Math.hypot(x - from, y - from) || 1;
  const [dx, dy] = [(x - from) / length, (y - from) / length];
  const corner = (side) => `${x - 8 * dx - 3.5 * side * dy},${y - 8 * dy + 3.5 * side * dx}`;
  return `M${x},${y}L${corner(1)}L${corner(-1)}Z`;
}

function barOf(dial, middle, radius, top) {
  const end = middle + radius * dial.bar;
  return [
    svg("line", { x1: middle - radius, x2: middle + radius, y1: top, y2: top, class: "grid" }),
    svg("line", { x1: middle, x2: end, y1: top, y2: top, class: "adds" }),
  ];
}

export function dialPicture(dial, frame, radius = R, lettered = true) {
  const middle = radius + 10;
  const size = middle * 2;
  const high = size + (Number.isFinite(dial.bar) ? 8 : 0);
  const [x, y] = [(value) => middle + radius * value, (value) => middle - radius * value];
  const layer = svg("svg", { class: "dial-face", width: size, height: high, viewBox: `0 0 ${size} ${high}`, "data-turn": dial.turn });
  layer.append(
    svg("circle", { cx: middle, cy: middle, r: radius, class: "frame" }),
    svg("line", { x1: x(-1), x2: x(1), y1: middle, y2: middle, class: "grid" }),
    svg("line", { x1: middle, x2: middle, y1: y(-1), y2: y(1), class: "grid" }),
  );
  if (high > size) layer.append(...barOf(dial, middle, radius, size + 2));
  const trail = frame.arrays[dial.trail];
  if (trail) {
    for (let index = 0; index < trail.shape[0]; index += 1) {
      const [cx, cy] = [x(trail.data[2 * index]), y(trail.data[2 * index + 1])];
      layer.append(svg("circle", { cx, cy, r: 1.5, class: "trail" }));
    }
  }
  if (dial.shadow) {
    const [[hx, hy, style]] = dial.hands;
    const [fx, fy] = [x(dial.shadow[0]), y(dial.shadow[1])];
    layer.append(
      svg("line", { x1: middle, y1: middle, x2: fx, y2: fy, class: `shadow k${style}` }),
      svg("line", { x1: x(hx), y1: y(hy), x2: fx, y2: fy, class: "plumb" }),
    );
  }
  for (const [hx, hy, style, text] of dial.hands) {
    layer.append(
      svg("line", { x1: middle, y1: middle, x2: x(hx), y2: y(hy), class: `hand k${style}` }),
      svg("path", { d: headOf(middle, x(hx), y(hy)), class: `dot k${style}` }),
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
  return names.every((name) => name === names[0]) ? dials[0].hands.filter(([, , , text]) => text) : [];
}

/** Lets the tip of an arrow be led around its dial, and the cursor move as far as that turns. */
export function draggable(node, move) {
  let drag = null; // centre, radians of a position, the last place, what is left of a step
  const place = (event) => [event.clientX - drag.x, drag.y - event.clientY];
  node.addEventListener("pointerdown", (event) => {
    const face = event.target.closest(".dial-face");
    const turn = Number(face?.dataset.turn);
    if (event.button !== 0 || !turn) return;
    const { left, top, width } = face.getBoundingClientRect();
    drag = { x: left + width / 2, y: top + width / 2, turn, left: 0 };
    drag.at = place(event);
  });
  node.addEventListener("pointermove", (event) => {
    if (drag === null || !event.buttons) return;
    const [[a, b], [c, d]] = [drag.at, place(event)];
    drag.at = [c, d];
    drag.left += (a * d - b * c) / (Math.hypot(a, b) * Math.hypot(c, d) || 1);
    const steps = Math.trunc(drag.left / drag.turn);
    if (!steps) return;
    drag.left -= steps * drag.turn;
    // Its end is no click on the dial where it began.
    node.setPointerCapture(event.pointerId);
    move(steps);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    node.addEventListener(end, () => {
      drag = null;
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
    draggable(this.grid, (steps) => this.deeds.move("y", steps));
  }

  draw({ main }, frame) {
    const few = main.dials.length <= 4;
    const value = [main.dials, main.dials.map((dial) => Array.from(frame.arrays[dial.trail]?.data ?? []))];
    whenChanged(this.grid, value, () => {
      const kept = this.grid.contains(host.root.activeElement)
        ? [...this.grid.children].indexOf(host.root.activeElement)
        : -1;
      const shared = sharedHands(main.dials);
      this.legend.replaceChildren(...shared.map(([, , style, text]) => named(text, style)));
      this.legend.hidden = !shared.length;
      const radius = few ? 62 : main.dials.length > 6 ? 33 : R;
      this.grid.style.setProperty("--dial", `${Math.max(90, 2 * radius + 28)}px`);
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


/** Channels in a row, with an arc over each two that form a pair. */
export class Arcs {
  constructor() {
    this.heading = el("h2", { class: "figure-title" });
    this.stage = el("div", { class: "stage" });
    this.root = el("figure", { class: "figure" }, this.heading, this.stage);
  }

  draw({ main }, frame, room) {
    const last = 2 * main.pairs.length - 1;
    const step = Math.max(1, Math.min(34, (room.width - 24) / last)); // also before there is room
    const at = (channel) => 12 + channel * step;
    const far = Math.max(...main.pairs.map(([a, b]) => Math.abs(b - a)));
    const layer = svg("svg", { class: "axes", role: "img", "aria-label": `${main.title}: ${main.pairs.join("; ")}` });
    main.pairs.forEach(([a, b], index) => {
      const top = 74 - Math.max(14, (80 * Math.abs(b - a)) / far);
      const d = `M${at(a)},74C${at(a)},${top} ${at(b)},${top} ${at(b)},74`;
      layer.append(svg("path", { d, class: index === main.chosen ? "arc chosen" : "arc" }));
    });
    const every = Math.ceil(22 / step);
    for (let channel = 0; channel <= last; channel += every) {
      const own = main.pairs[main.chosen].includes(channel);
      layer.append(label(at(channel), 90, String(channel), own ? "strong" : "", "middle"));
    }
    this.stage.replaceChildren(layer);
    resize(this.stage, [layer], room.width, 96);
    put(this.heading, main.title);
  }
}
