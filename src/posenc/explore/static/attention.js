/** Attention: words that can be moved, and encodings side by side with what each word gets. */

import { el, fillSelect, place, rebuild, resize, svg, textWidth, whenChanged } from "./dom.js";
import { Pointer } from "./pointer.js";
import { Legend, cellEdges, drawTile, paint, settle, strong } from "./raster.js";

const SLOP = 5;
const GAP = 22;
const [LOW, TALL] = [15, 24]; // of a row of outputs, where columns are narrow and where they are wide
const WIDE = 620;
const [MOST, ALONE] = [300, 420]; // of four columns, and of two

/** A list with the entry at one place moved to another. */
export function movedTo(list, from, to) {
  const rest = list.filter((_, index) => index !== from);
  return [...rest.slice(0, to), list[from], ...rest.slice(to)];
}

export class Chips {
  constructor(deeds) {
    this.deeds = deeds;
    this.label = el("span", { class: "hint" });
    this.row = el("div", { class: "chips", role: "group" });
    this.links = el("span", { class: "links" });
    this.root = el("div", { class: "figure" }, this.row, el("p", { class: "chip-links" }, this.label, " ", this.links));
    this.start = null;
    this.row.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) this.row.addEventListener(end, () => this.drop());
  }

  draw({ main }) {
    this.main = main;
    this.label.textContent = main.title;
    // Without Python words stay where they are.
    this.label.parentElement.hidden = !main.key;
    this.row.setAttribute("aria-label", main.key ? main.title : "The words");
    whenChanged(this.row, [main.words, main.order, main.key], () => rebuild(this.row, main.words.map((word, index) => this.chip(word, index))));
    whenChanged(this.links, main.links, () => rebuild(this.links, main.links.flatMap((link) => [
      el("button", { type: "button", class: "link", onclick: () => this.deeds.set(link.state) }, link.text),
      " ",
    ])));
    if (this.carried) this.row.children[this.carried.at]?.classList.add("carried");
  }

  chip(word, index) {
    if (!this.main.key) return el("span", { class: "chip still" }, word);
    const label = `${word}, place ${index + 1} of ${this.main.words.length}; the left and right arrows move it`;
    return el("button", {
      type: "button",
      class: "chip",
      "aria-label": label,
      onpointerdown: (event) => this.lift(event, index),
      onkeydown: (event) => this.key(event, index),
    }, word);
  }

  put(from, to) {
    if (to < 0 || to >= this.main.order.length || to === from) return false;
    this.deeds.set({ [this.main.key]: movedTo(this.main.order, from, to).join(".") });
    return true;
  }

  key(event, index) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    // The word keeps the focus at its new place.
    if (this.put(index, index + by)) this.row.children[index + by]?.focus();
  }

  lift(event, index) {
    if (event.button !== 0) return;
    this.carried = { at: index, x: event.clientX, y: event.clientY, moved: false };
    this.row.setPointerCapture(event.pointerId);
  }

  drag(event) {
    const { carried } = this;
    if (!carried) return;
    carried.moved ||= Math.hypot(event.clientX - carried.x, event.clientY - carried.y) > SLOP;
    if (!carried.moved) return;
    const to = [...this.row.children].findIndex((chip) => {
      const box = chip.getBoundingClientRect();
      const within = event.clientY >= box.top - SLOP && event.clientY <= box.bottom + SLOP;
      return within && event.clientX >= box.left && event.clientX <= box.right;
    });
    if (to >= 0 && this.put(carried.at, to)) carried.at = to;
  }

  drop() {
    const at = this.carried?.at;
    this.carried = null;
    this.row.children[at]?.classList.remove("carried");
  }
}

/** The numbers of a grid in its cells, in the ink that is farther from each in lightness. */
function cellNumbers(panel, frame, { left, top, side }) {
  const texts = panel.numbers.flat();
  if (Math.max(0, ...texts.map(textWidth)) + 3 > side) return [];
  const [lut, tile] = [frame.arrays[frame.header.palette[panel.lut]], frame.arrays[panel.tile]];
  return texts.map((text, index) => {
    const [row, column] = [Math.floor(index / panel.numbers.length), index % panel.numbers.length];
    const place = { x: left + (column + 0.5) * side, y: top + (row + 0.5) * side + 4 };
    const kind = strong(lut, tile.data[index]) ? "number on" : "number";
    return svg("text", { ...place, class: kind, "text-anchor": "middle" }, text);
  });
}

class Column {
  constructor(deeds) {
    this.deeds = deeds;
    this.name = el("h2", { class: "figure-title" });
    this.select = el("select", {});
    this.select.addEventListener("change", () => deeds.set({ [this.key]: this.select.value }));
    this.canvas = el("canvas", { class: "tile", role: "img", tabindex: 0 });
    this.before = el("canvas", { class: "tile", "aria-hidden": "true" });
    this.after = el("canvas", { class: "tile", "aria-hidden": "true" });
    this.over = svg("svg", { class: "axes", "aria-hidden": "true" });
    this.under = svg("svg", { class: "axes", "aria-hidden": "true" });
    this.stage = el("div", { class: "stage" }, this.canvas, this.over);
    this.outputs = el("div", { class: "stage" }, this.before, this.after, this.under);
    this.note = el("p", { class: "change" });
    this.outcome = el("p", { class: "change" });
    this.root = el("section", { class: "column" }, this.name, this.select, this.stage, this.note, this.outputs, this.outcome);
    this.areas = [];
    this.pointer = new Pointer(this.stage, () => this.areas, deeds);
  }

  draw(cell, ends, frame, width) {
    this.key = cell.key;
    this.options(frame.header.controls.find(({ key }) => key === cell.key), cell.grid.title);
    this.name.textContent = cell.grid.title;
    this.name.hidden = Boolean(cell.key);
    this.select.hidden = !cell.key;
    place(this.root, { width });
    this.grid(cell.grid, frame, width);
    this.note.textContent = cell.note;
    this.outcome.textContent = cell.outcome;
    this.outputs.hidden = !cell.words.length;
    if (cell.words.length) this.strips(cell, ends, frame, width);
  }

  options(control, title) {
    this.select.setAttribute("aria-label", `Encoding: ${title}`);
    whenChanged(this.select, control?.options, () => fillSelect(this.select, control?.options ?? []));
    if (control) this.select.value = control.value;
  }

  grid(panel, frame, width) {
    const ratio = devicePixelRatio || 1;
    const count = panel.x.ticks.length;
    const names = panel.x.ticks.map(({ text }) => textWidth(text));
    const left = Math.ceil(Math.max(...names)) + 6;
    const top = Math.ceil(Math.max(...names) * 0.8) + 12;
    const each = Math.floor(((width - left - 2) * ratio) / count);
    const { box, scales } = drawTile(this.canvas, panel, frame, [each * count, each * count], left, top);
    this.canvas.setAttribute("aria-label", panel.label);
    resize(this.stage, [this.over], width, top + box.height + 1);
    const across = panel.x.ticks.map(({ at, text }) => {
      const turn = `translate(${scales.x.at(at) + 3},${top - 5}) rotate(-52)`;
      return svg("text", { transform: turn, class: at === panel.x.at + 0.5 ? "strong" : "" }, text);
    });
    const down = panel.y.ticks.map(({ at, text }) =>
      svg("text", { x: left - 5, y: scales.y.at(at) + 4, "text-anchor": "end", class: at === panel.y.at + 0.5 ? "strong" : "" }, text));
    const side = box.width / count;
    const cell = { x: scales.x.at(panel.x.at), y: scales.y.at(panel.y.at), width: side, height: side };
    this.over.replaceChildren(
      svg("rect", { x: left - 0.5, y: top - 0.5, width: box.width + 1, height: box.height + 1, class: "frame" }),
      ...across,
      ...down,
      ...cellNumbers(panel, frame, { left, top, side }),
      svg("rect", { ...cell, class: "cell-back" }),
      svg("rect", { ...cell, class: "cell" }),
    );
    this.areas = [{ panel, box, scales, x: panel.x, y: panel.y, arrays: frame.arrays, zooms: false }];
  }

  /** Outputs of the words in two orders; a line joins those that are equal. */
  strips({ words, before, after, equal }, ends, frame, width) {
    const ratio = devicePixelRatio || 1;
    const left = Math.ceil(Math.max(...words.map(textWidth))) + 6;
    const [rows, numbers] = frame.arrays[before].shape;
    const lut = frame.arrays[frame.header.palette.diverging];
    const each = Math.max(1, Math.floor(((width - left - GAP - 2) * ratio) / 2 / numbers));
    const columns = cellEdges(numbers, each * numbers);
    const lines = cellEdges(rows, Math.round((width > MOST ? TALL : LOW) * ratio) * rows);
    paint(this.before, frame.arrays[before].data, lut, columns, lines);
    paint(this.after, frame.arrays[after].data, lut, columns, lines);
    const size = settle(this.before, left, LOW + 1, ratio);
    const second = left + size.width + GAP;
    settle(this.after, second, LOW + 1, ratio);
    resize(this.outputs, [this.under], width, LOW + 2 + size.height);
    const parts = [left, second].map((x, index) => svg("text", { x, y: LOW - 4 }, ends[index]));
    const low = size.height / rows;
    words.forEach((word, index) => {
      const y = LOW + 1 + (index + 0.5) * low;
      parts.push(svg("text", { x: left - 5, y: y + 4, "text-anchor": "end" }, word));
      if (equal[index]) parts.push(svg("line", { x1: left + size.width, x2: second, y1: y, y2: y, class: "join" }));
      if (index) parts.push(svg("line", { x1: left, x2: second + size.width, y1: y - low / 2, y2: y - low / 2, class: "between" }));
    });
    this.under.replaceChildren(...parts);
  }
}

export class Attention {
  constructor(deeds) {
    this.deeds = deeds;
    this.grid = el("div", { class: "columns" });
    this.legend = new Legend();
    this.caption = el("p", { class: "caption" });
    this.root = el("figure", { class: "figure" }, this.grid, this.legend.root, this.caption);
    this.columns = [];
  }

  draw({ main }, frame, room) {
    while (this.columns.length < main.cells.length) this.columns.push(new Column(this.deeds));
    const across = room.width >= WIDE ? main.cells.length : 2;
    const width = Math.max(60, Math.min(main.cells.length > 2 ? MOST : ALONE, Math.floor((room.width - 16 * (across - 1)) / across)));
    whenChanged(this.grid, main.cells.length, () => rebuild(this.grid, this.columns.map((column) => column.root)));
    main.cells.forEach((cell, index) => this.columns[index].draw(cell, main.ends, frame, width));
    this.legend.draw("→ key   ↓ query", main.cells[0].grid, frame);
    this.caption.textContent = main.caption;
  }
}
