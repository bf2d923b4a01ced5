/** Rows of coloured cells on one scale, with numbers where there is room. */

import { el, place, put, resize, svg, textWidth } from "./dom.js";
import { barLabels, label } from "./marks.js";
import { cellEdges, paint, paintBar, settle } from "./raster.js";
import { stride } from "./scale.js";

const TALL = 24;
const LOW = 18;
const MANY = 8;
const TOP = 24;
const BAR = 128;
const ROUND = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 200, 500];

/** A curve from -1 to 1 in place of the cells of a row; the first and the last cell hold its ends. */
function curveOf(data, box, cells, tall) {
  const cell = box.width / cells;
  const step = (box.width - cell) / Math.max(1, data.length - 1);
  const at = (value, index) => {
    const x = box.left + cell / 2 + index * step;
    return `${x.toFixed(1)},${(box.top + (tall / 2) * (1 - 0.85 * value)).toFixed(1)}`;
  };
  const d = data.every(Number.isFinite) ? `M${Array.from(data, at).join("L")}` : "";
  return svg("path", { d, class: "line k0" });
}

export class Strips {
  constructor(deeds) {
    this.deeds = deeds;
    this.stage = el("div", { class: "stage", onclick: (event) => this.click(event) });
    this.heading = el("h2", { class: "figure-title" });
    this.caption = el("p", { class: "caption" });
    this.root = el("figure", { class: "figure" }, this.heading, this.stage, this.caption);
    this.canvases = [];
    this.rows = [];
  }

  draw({ main }, frame, room) {
    const ratio = devicePixelRatio || 1;
    const lut = frame.arrays[frame.header.palette[main.lut]];
    const tiles = main.strips.map((strip) => frame.arrays[strip.tile]);
    const widest = Math.max(0, ...main.strips.map((strip) => textWidth(strip.label)));
    const left = Math.min(Math.ceil(widest) + 16, Math.floor(room.width * 0.4));
    const free = Math.max(40, room.width - left - 8);
    const layer = svg("svg", { class: "axes", role: "img", "aria-label": this.says(main) });
    const top = main.columns.length ? TOP : 4;
    this.tall = main.strips.length > MANY ? LOW : TALL;
    this.rows = [];
    this.reserve(main.strips.length);
    this.stage.replaceChildren(...this.canvases.slice(0, main.strips.length), this.bar, layer);
    let y = top;
    main.strips.forEach((strip, index) => {
      const cells = tiles[index].data.length;
      const columns = cellEdges(cells, Math.floor(free * ratio));
      const canvas = this.canvases[index];
      paint(canvas, tiles[index].data, lut, columns, Int32Array.of(0, Math.round(this.tall * ratio)));
      const size = settle(canvas, left, y, ratio, free);
      canvas.hidden = Boolean(strip.curve);
      if (strip.curve) layer.append(curveOf(frame.arrays[strip.curve].data, { left, top: y, ...size }, cells, this.tall));
      this.rows.push({ strip, top: y, left, width: size.width, cells });
      this.letter(layer, strip, { left, top: y, ...size, cells }, main, index === 0);
      y += this.tall + 10;
    });
    const bottom = this.colours(main, lut, layer, left, y, this.rows[0]?.width ?? free);
    resize(this.stage, [layer], room.width, bottom);
    this.first = main.first;
    put(this.heading, main.title);
    put(this.caption, main.caption);
  }

  says(panel) {
    const rows = panel.strips.map((strip) => {
      const number = strip.at === null ? "" : strip.numbers[strip.at] ?? "";
      return `${strip.label} ${number}`.trim();
    });
    return `${panel.title}: ${rows.join(", ")}`;
  }

  reserve(count) {
    this.bar ??= el("canvas", { class: "bar", "aria-hidden": "true" });
    while (this.canvases.length < count) {
      this.canvases.push(el("canvas", { class: "tile", "aria-hidden": "true" }));
    }
  }

  letter(layer, strip, box, panel, first) {
    const middle = box.top + this.tall / 2 + 4;
    const cell = box.width / box.cells;
    const centre = (index) => box.left + (index + 0.5) * cell;
    // What would be cut lies over its row.
    const cut = textWidth(strip.label) > box.left - 8;
    layer.append(label(cut ? 0 : box.left - 8, middle, strip.label, cut ? "over" : "strong", cut ? "start" : "end"));
    if (first && panel.columns.length) {
      const places = panel.columns.map((_, index) => centre(index));
      const step = ROUND.find((round) => round >= stride(places, panel.columns.map(textWidth), 6)) ?? 1000;
      const start = (step - ((panel.first ?? 0) % step)) % step;
      for (let index = start; index < panel.columns.length; index += step) {
        layer.append(label(centre(index), box.top - 8, panel.columns[index], "", "middle"));
      }
    }
    const widest = Math.max(0, ...strip.numbers.map(textWidth));
    if (strip.numbers.length === box.cells && widest + 4 <= cell) {
      strip.numbers.forEach((text, index) => layer.append(label(centre(index), middle, text, "over", "middle")));
    }
    if (strip.at === null || strip.at === undefined) return;
    const width = Math.max(6, cell);
    const shape = { x: centre(strip.at) - width / 2, y: box.top, width, height: this.tall };
    layer.append(svg("rect", { ...shape, class: "cell-back" }), svg("rect", { ...shape, class: "cell" }));
  }

  colours(panel, lut, layer, left, y, width) {
    this.bar.hidden = !(panel.low || panel.high);
    if (this.bar.hidden) return y;
    paintBar(this.bar, lut);
    const start = left + Math.max(textWidth(panel.low) + 6, width - BAR - textWidth(panel.high) - 6);
    place(this.bar, { left: start, top: y + 2, width: BAR, height: 9 });
    layer.append(...barLabels(panel, start, y + 2, BAR));
    return y + 20;
  }

  click(event) {
    const rect = this.stage.getBoundingClientRect();
    const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
    const row = this.rows.find(({ top }) => y >= top && y < top + this.tall);
    if (!row?.strip.key || x < row.left || x >= row.left + row.width) return;
    const cell = Math.floor(((x - row.left) / row.width) * row.cells);
    this.deeds.set({ [row.strip.key]: row.strip.value || String((this.first ?? 0) + cell) });
  }
}
