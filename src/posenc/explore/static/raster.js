/** Tiles of colour indices, drawn in whole device pixels: nothing is resampled. */

import { el, named, place } from "./dom.js";
import { host } from "./host.js";
import { scaleOf } from "./scale.js";

const HATCH = 6;
const COARSE = 6;

/** How many device pixels each of `cells` gets in `room`: whole ones, uneven only where unseen. */
export function cellEdges(cells, room) {
  const whole = Math.floor(room / cells);
  const used = whole >= COARSE ? room : Math.max(1, whole) * cells;
  return Int32Array.from({ length: cells + 1 }, (_, index) => Math.round((index * used) / cells));
}

/** The colours of a lookup table as 32-bit pixels. */
function pixels(lut) {
  const colours = new Uint32Array(256);
  const { data } = lut;
  for (let index = 0; index < 256; index += 1) {
    const at = index * 3;
    colours[index] = 0xff000000 | (data[at + 2] << 16) | (data[at + 1] << 8) | data[at];
  }
  return colours;
}

function dark() {
  const probe = getComputedStyle(host.shell).colorScheme;
  return host.shell.dataset.theme
    ? host.shell.dataset.theme === "dark"
    : probe.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Whether the page's colour is farther in lightness from that of an entry than its ink is. */
export function strong({ data }, entry) {
  const at = entry * 3;
  const grey = 0.21 * data[at] + 0.72 * data[at + 1] + 0.07 * data[at + 2];
  return dark() ? grey > 127 : grey < 127;
}

function ink() {
  return dark() ? { line: 0xff8a857f, ground: 0xff1f1d1b } : { line: 0xffa5a09b, ground: 0xfff3f4f4 };
}

/**
 * Paints a tile at device resolution. `columns` and `rows` are the edges of its cells in device
 * pixels. Cells of the mask are hatched and never coloured: there is no value there.
 */
export function paint(canvas, tile, lut, columns, rows, mask = null) {
  const width = columns[columns.length - 1];
  const height = rows[rows.length - 1];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  const colours = pixels(lut);
  const across = columns.length - 1;
  const { line, ground } = ink();
  for (let row = 0; row < rows.length - 1; row += 1) {
    const top = rows[row];
    const start = row * across;
    for (let column = 0; column < across; column += 1) {
      out.fill(
        colours[tile[start + column]],
        top * width + columns[column],
        top * width + columns[column + 1],
      );
    }
    for (let y = top + 1; y < rows[row + 1]; y += 1) {
      out.copyWithin(y * width, top * width, (top + 1) * width);
    }
    if (!mask) continue;
    for (let column = 0; column < across; column += 1) {
      if (!mask[start + column]) continue;
      for (let y = top; y < rows[row + 1]; y += 1) {
        for (let x = columns[column]; x < columns[column + 1]; x += 1) {
          out[y * width + x] = (x + y) % HATCH === 0 ? line : ground;
        }
      }
    }
  }
  context.putImageData(image, 0, 0);
}

/** Puts a painted canvas on the grid of device pixels; returns its size in CSS pixels. */
export function settle(canvas, left, top, ratio, within = Infinity) {
  const host = canvas.offsetParent?.getBoundingClientRect() ?? { left: 0, top: 0 };
  const snap = (offset, origin) => Math.round((origin + offset) * ratio) / ratio - origin;
  const shrink = Math.min(1, (within * ratio) / canvas.width);
  const width = (canvas.width / ratio) * shrink;
  const height = (canvas.height / ratio) * shrink;
  place(canvas, { left: snap(left, host.left), top: snap(top, host.top), width, height });
  canvas.classList.toggle("shrunk", shrink < 1);
  return { width, height };
}

/** Paints a heatmap in so many device pixels at a place; its colours, its box and the scales of its axes. */
export function drawTile(canvas, panel, { header, arrays }, [across, down], left, top, within) {
  const { data, shape: [rows, columns] } = arrays[panel.tile];
  const lut = arrays[header.palette[panel.lut]];
  paint(canvas, data, lut, cellEdges(columns, across), cellEdges(rows, down), arrays[panel.mask]?.data ?? null);
  const box = { left, top, ...settle(canvas, left, top, devicePixelRatio || 1, within) };
  const scales = { x: scaleOf(panel.x, left, left + box.width), y: scaleOf(panel.y, top, top + box.height) };
  return { lut, box, scales };
}

/** A colour bar of 64 steps as a canvas. */
export function paintBar(canvas, lut) {
  const steps = 64;
  const tile = Uint8Array.from({ length: steps }, (_, index) => Math.round((index * 255) / (steps - 1)));
  const columns = Int32Array.from({ length: steps + 1 }, (_, index) => index * 2);
  paint(canvas, tile, lut, columns, Int32Array.of(0, 9));
}

/** Below pictures on one scale: their axes, and what colours mean. */
export class Legend {
  constructor() {
    this.axes = el("span", { class: "grow" });
    this.key = el("span", {});
    this.low = el("span", {});
    this.bar = el("canvas", { class: "bar still", "aria-hidden": "true" });
    this.high = el("span", {});
    this.root = el("p", { class: "legend" }, this.axes, this.key, this.low, this.bar, this.high);
  }

  draw(axes, { low, high, lut, scale }, frame, key = []) {
    this.axes.textContent = axes;
    this.key.replaceChildren(...key.map((one) => named(...one)));
    this.low.textContent = low;
    this.high.textContent = scale ? `${high}, ${scale}` : high;
    this.bar.hidden = !low;
    paintBar(this.bar, frame.arrays[frame.header.palette[lut]]);
  }
}
