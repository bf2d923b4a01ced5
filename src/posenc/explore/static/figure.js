/**
 * A figure: one main picture, and the charts at its right and below it that share its axes.
 *
 * Three layers lie on each other: canvas (the tile), SVG (axes and curves), SVG (the cursor). A
 * cursor that moves inside the same picture redraws all of it; frames are cheap, and one rule
 * keeps them consistent.
 */

import { chartScales, drawChart, endRoom, legendRoom } from "./chart.js";
import { el, place, put, resize, svg, textWidth } from "./dom.js";
import { axisX, axisY, bandsOf, barLabels, marksOf } from "./marks.js";
import { Pointer } from "./pointer.js";
import { drawTile, paintBar } from "./raster.js";
import { labelWidth } from "./scale.js";

const GAP = 22;
const BELOW = 70;
const BAR = 128;
const SQUARE = 560;

/** The margin at the left: room for labels, in steps of 8 so that it seldom moves. */
function leftMargin(panel) {
  const turned = panel.kind === "heatmap";
  const axis = panel.orient === "v" ? panel.x : panel.y;
  const needed = labelWidth(axis) + 14 + (turned && axis?.label ? 16 : 0);
  return Math.max(turned ? 56 : 40, Math.ceil(needed / 8) * 8);
}

/** The left margin that a figure needs; figures below each other share the largest. */
export function leftOf({ main, below }) {
  return Math.max(leftMargin(main), below ? leftMargin(below) : 0);
}

/** A picture of positions by positions has square cells. */
function isSquare({ x, y, place: where }) {
  return where === "half" && x.cells && y.cells && x.domain[0] === y.domain[0] && x.domain[1] === y.domain[1];
}

export class Figure {
  /** `deeds` are what a pointer can do: `set`, `preview`, `zoom`. */
  constructor(deeds) {
    this.canvas = el("canvas", { class: "tile", role: "img", tabindex: 0 });
    this.bar = el("canvas", { class: "bar", "aria-hidden": "true" });
    this.under = svg("svg", { class: "axes", "aria-hidden": "true" });
    this.over = svg("svg", { class: "axes cursor-layer", "aria-hidden": "true" });
    this.stage = el("div", { class: "stage" }, this.canvas, this.bar, this.under, this.over);
    this.heading = el("h2", { class: "figure-title" });
    this.caption = el("p", { class: "caption" });
    this.root = el("figure", { class: "figure" }, this.heading, this.stage, this.caption);
    this.areas = [];
    this.plot = null;
    this.pointer = new Pointer(this.stage, () => this.areas, deeds);
  }

  /** Draws the panels into `room` = {width, height} CSS pixels. */
  draw(parts, frame, room) {
    this.areas = [];
    this.under.replaceChildren();
    this.over.replaceChildren();
    const heat = parts.main.kind === "heatmap";
    const margins = this.margins(parts, room, frame.arrays);
    if (heat) this.drawHeat(parts, frame, room, margins);
    else this.drawChartAlone(parts.main, frame, room, margins);
    this.captions(parts, heat);
    this.name(parts.main, frame.header);
  }

  margins(parts, room, arrays) {
    const { main, right, below } = parts;
    const heat = main.kind === "heatmap";
    const side = right ? (room.width < 520 ? 76 : room.width < 760 ? 104 : 132) : 0;
    const left = Math.max(room.left ?? 0, leftOf(parts));
    const ends = heat ? 14 : Math.max(14, endRoom(main, room.width - left - 14, arrays));
    return {
      left,
      top: heat ? 40 : 26,
      right: right ? side + GAP : ends,
      side,
      bottom: (below ? BELOW + 20 + 26 : heat ? 28 : main.x.label ? 42 : 24) + (this.crowded(parts, room) ? 18 : 0),
    };
  }

  /** Whether the title of the chart below and the colour bar need a line each. */
  crowded({ main, below }, room) {
    if (!below || !main.low) return false;
    return textWidth(below.title) + textWidth(`${main.low}${main.high}`) + BAR + 60 > room.width - 200;
  }

  captions(parts, heat) {
    const { main } = parts;
    const texts = [main, parts.right, parts.below].filter(Boolean).map((panel) => panel.caption);
    const shrunk = this.canvas.classList.contains("shrunk");
    if (shrunk) texts.push("Drawn smaller than it was stored: fine patterns may be false.");
    put(this.caption, texts.filter(Boolean).join(" "));
    put(this.heading, heat ? main.title : "");
  }

  name(panel, header) {
    const say = [panel.label || panel.title, header.say].filter(Boolean).join(". ");
    const target = panel.kind === "heatmap" ? this.canvas : this.under;
    if (panel.kind !== "heatmap") {
      this.under.removeAttribute("aria-hidden");
      this.under.setAttribute("role", "img");
    }
    target.setAttribute("aria-label", say || "picture");
  }

  drawHeat(parts, frame, room, margins) {
    const { main } = parts;
    const ratio = devicePixelRatio || 1;
    const free = {
      width: Math.max(40, room.width - margins.left - margins.right),
      height: Math.max(80, room.height - margins.top - margins.bottom),
    };
    if (isSquare(main)) free.width = free.height = Math.min(free.width, free.height, SQUARE);
    this.plot = { w: Math.floor(free.width * ratio), h: Math.floor(free.height * ratio) };
    this.canvas.hidden = false;
    const { w, h } = this.plot;
    const { lut, box, scales } = drawTile(this.canvas, main, frame, [w, h], margins.left, margins.top, free.width);
    const depth = box.top + box.height + margins.bottom;
    this.resize(parts.right ? room.width : box.left + box.width + margins.right, depth);
    this.under.append(
      ...axisX(main.x, scales.x, box, "top"),
      ...axisY(main.y, scales.y, box),
    );
    const rims = { right: box.left + box.width, bottom: box.top + box.height };
    if (parts.right) rims.right = this.drawRight(parts.right, frame, box, scales, margins);
    if (parts.below) rims.bottom = this.drawBelow(parts.below, frame, box, scales);
    this.colourBar(main, lut, box, depth);
    this.over.append(...bandsOf(main.lines, scales, box), ...marksOf(main.lines, scales, box));
    this.cross(main, scales, box, rims);
    this.areas.unshift({ panel: main, box, scales, x: main.x, y: main.y, arrays: frame.arrays, zooms: true });
  }

  drawRight(panel, frame, box, scales, margins) {
    const left = box.left + box.width + GAP;
    const side = { left, top: box.top, width: margins.side, height: box.height };
    const own = chartScales(panel, side, scales.y);
    drawChart(this.under, panel, frame, side, own);
    const drawn = { x: own.value, y: own.free };
    this.areas.push({ panel, box: side, scales: drawn, x: panel.y, y: panel.x, arrays: frame.arrays });
    return left + margins.side;
  }

  drawBelow(panel, frame, box, scales) {
    const under = { left: box.left, top: box.top + box.height + 20, width: box.width, height: BELOW };
    const own = chartScales(panel, under, scales.x);
    drawChart(this.under, panel, frame, under, own);
    const drawn = { x: own.free, y: own.value };
    this.areas.push({ panel, box: under, scales: drawn, x: panel.x, y: panel.y, arrays: frame.arrays });
    return under.top + BELOW;
  }

  drawChartAlone(panel, frame, room, margins) {
    const width = room.width - margins.left - 14;
    margins.top += legendRoom(panel, width);
    this.canvas.hidden = true;
    this.bar.hidden = true;
    const height = panel.place === "main" ? Math.max(panel.height ?? 180, room.height) : panel.height ?? 180;
    const box = {
      left: margins.left,
      top: margins.top,
      width: Math.max(60, room.width - margins.left - margins.right),
      height: Math.max(60, height - 26),
    };
    this.resize(room.width, box.top + box.height + margins.bottom);
    this.plot = { w: Math.floor(box.width * (devicePixelRatio || 1)), h: null };
    const own = chartScales(panel, box);
    drawChart(this.under, panel, frame, box, own, width);
    const upright = panel.orient === "v";
    const scales = upright ? { x: own.value, y: own.free } : { x: own.free, y: own.value };
    const axes = upright ? { x: panel.y, y: panel.x } : { x: panel.x, y: panel.y };
    const rims = { right: box.left + box.width, bottom: box.top + box.height };
    this.cross(axes, scales, box, rims);
    this.areas.push({ panel, box, scales, ...axes, arrays: frame.arrays });
  }

  resize(width, height) {
    resize(this.stage, [this.under, this.over], Math.ceil(width), Math.ceil(height));
  }

  /** The cursor: a line along each axis that has one, running through the charts that share it. */
  cross(axes, scales, box, rims) {
    const has = (axis, scale) => axis?.at !== null && axis?.at !== undefined && scale.holds(axis.at);
    const [onX, onY] = [has(axes.x, scales.x), has(axes.y, scales.y)];
    const x = onX ? scales.x.middle(axes.x.at) : 0;
    const y = onY ? scales.y.middle(axes.y.at) : 0;
    if (onY) this.over.append(svg("line", { x1: box.left, x2: rims.right, y1: y, y2: y, class: "cursor-y" }));
    if (onX) this.over.append(svg("line", { x1: x, x2: x, y1: box.top, y2: rims.bottom, class: "cursor-x" }));
    if (!onX || !onY) return;
    const cell = (axis, extent) => Math.max(8, extent / Math.abs(axis.domain[1] - axis.domain[0] || 1));
    const [width, height] = [cell(axes.x, box.width), cell(axes.y, box.height)];
    const shape = { x: x - width / 2, y: y - height / 2, width, height };
    this.over.append(svg("rect", { ...shape, class: "cell-back" }), svg("rect", { ...shape, class: "cell" }));
  }

  colourBar(panel, lut, box, depth) {
    this.bar.hidden = !(panel.low || panel.high);
    if (this.bar.hidden) return;
    paintBar(this.bar, lut);
    const left = box.left + Math.max(textWidth(panel.low) + 6, box.width - BAR - textWidth(panel.high) - 6);
    const width = Math.max(24, Math.min(BAR, box.left + box.width - left - textWidth(panel.high) - 6));
    place(this.bar, { left, top: depth - 18, width, height: 9 });
    this.under.append(...barLabels(panel, left, depth - 18, width));
  }
}

