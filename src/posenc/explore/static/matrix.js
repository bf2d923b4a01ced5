/** Small multiples: heatmaps side by side on one scale. */

import { el, place, put, rebuild, resize, svg, whenChanged } from "./dom.js";
import { axisX, axisY, marksOf } from "./marks.js";
import { Pointer } from "./pointer.js";
import { Legend, drawTile } from "./raster.js";
import { labelWidth } from "./scale.js";

const LEAST = 132;
const GAP = 18;
const WIDE = 190;
const LEFT = 38;

class Multiple {
  constructor(deeds) {
    this.canvas = el("canvas", { class: "tile", role: "img", tabindex: 0 });
    this.over = svg("svg", { class: "axes", "aria-hidden": "true" });
    this.stage = el("div", { class: "stage" }, this.canvas, this.over);
    this.title = el("figcaption", {});
    this.root = el("figure", { class: "multiple" }, this.title, this.stage);
    this.areas = [];
    this.pointer = new Pointer(this.stage, () => this.areas, deeds);
  }

  draw(panel, frame, { width, height, square }) {
    const ratio = devicePixelRatio || 1;
    const [rows, columns] = frame.arrays[panel.tile].shape;
    const words = square ? Math.ceil(labelWidth(panel.y)) + 9 : 0;
    const rim = width >= WIDE ? { left: Math.max(LEFT, words), bottom: 20 } : { left: 1, bottom: 1 };
    const free = { width: (width - rim.left) * ratio, height: height * ratio };
    const each = Math.min(free.width / columns, free.height / rows);
    const [across, down] = square
      ? [Math.floor(each * columns), Math.floor(each * rows)]
      : [Math.floor(free.width), Math.floor(free.height)];
    const { box, scales } = drawTile(this.canvas, panel, frame, [across, down], rim.left, 1, width - rim.left);
    resize(this.stage, [this.over], box.width + rim.left + 1, box.height + 1 + rim.bottom);
    const axes = rim.bottom > 1
      ? [...axisX({ ...panel.x, label: "" }, scales.x, box, "bottom"), ...axisY(panel.y, scales.y, box, { turned: false })]
      : [];
    this.over.replaceChildren(...axes, ...marksOf(panel.lines, scales, box), ...this.cursor(panel, scales, box));
    place(this.root, { width });
    this.title.textContent = panel.title;
    this.root.classList.toggle("chosen", Boolean(panel.chosen));
    this.canvas.setAttribute("aria-label", panel.label || panel.title);
    this.areas = [{ panel, box, scales, x: panel.x, y: panel.y, arrays: frame.arrays, zooms: !square }];
  }

  cursor(panel, scales, box) {
    const parts = [svg("rect", { x: box.left - 0.5, y: 0.5, width: box.width + 1, height: box.height + 1, class: "frame" })];
    const at = (axis, scale) => axis.at !== null && axis.at !== undefined && scale.holds(axis.at);
    const [right, bottom] = [box.left + box.width, box.top + box.height];
    if (at(panel.y, scales.y)) {
      const y = scales.y.middle(panel.y.at);
      parts.push(svg("line", { x1: box.left, x2: right, y1: y, y2: y, class: "cursor-y" }));
    }
    if (at(panel.x, scales.x)) {
      const x = scales.x.middle(panel.x.at);
      const y2 = panel.y.also.length ? scales.y.at(panel.y.also[0].at - 1) : bottom;
      parts.push(svg("line", { x1: x, x2: x, y1: box.top, y2, class: "cursor-x" }));
    }
    return parts;
  }
}

export class Matrix {
  constructor(deeds) {
    this.deeds = deeds;
    this.heading = el("h2", { class: "figure-title" });
    this.grid = el("div", { class: "multiples" });
    this.legend = new Legend();
    this.caption = el("p", { class: "caption" });
    this.root = el("figure", { class: "figure" }, this.heading, this.grid, this.legend.root, this.caption);
    this.multiples = [];
  }

  draw({ main }, frame, room) {
    const { cells } = main;
    while (this.multiples.length < cells.length) this.multiples.push(new Multiple(this.deeds));
    const most = Math.max(1, Math.floor((room.width + GAP) / (LEAST + GAP)));
    const side = cells.length > 4 && !main.key.length ? 8 : main.across;
    const across = Math.max(1, Math.min(cells.length, most, side));
    // What zooms is a table, and may fill its room; what does not is positions by positions.
    const square = !frame.header.zoom;
    // A window without width, as one has before the style sheet is there, draws the least.
    const share = Math.max(40, Math.floor((room.width - GAP * (across - 1)) / across) - 2);
    const size = { width: square ? Math.min(420, share) : share, height: Math.min(room.height, 480), square };
    whenChanged(this.grid, cells.length, () => {
      rebuild(this.grid, this.multiples.slice(0, cells.length).map((multiple) => multiple.root));
    });
    cells.forEach((cell, index) => this.multiples[index].draw(cell, frame, size));
    this.words(main, frame);
    const ratio = devicePixelRatio || 1;
    const inner = size.width - (size.width >= WIDE ? LEFT : 1);
    const whole = { w: Math.floor(inner * ratio) * across, h: Math.floor(size.height * ratio) };
    this.plot = square ? null : whole;
  }

  words(main, frame) {
    const [first] = main.cells;
    put(this.heading, main.title);
    put(this.caption, main.caption);
    this.legend.root.hidden = !first;
    if (first) this.legend.draw(`→ ${first.x.label}${first.y.label && `   ↓ ${first.y.label}`}`, first, frame, main.key);
  }
}

