/** What a pointer does on a figure: hover previews, click sets, drag scrubs or pans, wheel zooms. */

import { picked } from "./scale.js";

const SLOP = 4;
const LINE = 33;

/** The area under a point of the stage, with the point in its pixels. */
function areaAt(areas, stage, event) {
  const rect = stage.getBoundingClientRect();
  const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
  const inside = ({ box }) =>
    x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height;
  const area = areas.find(inside);
  return area ? { area, x, y } : null;
}

/** The state changes that a point of an area stands for. */
function changesAt({ area, x, y }) {
  const changes = {};
  if (area.x?.key) changes[area.x.key] = String(picked(area.x, area.scales.x, x, area.arrays));
  if (area.y?.key) changes[area.y.key] = String(picked(area.y, area.scales.y, y, area.arrays));
  return changes;
}

/** A notch of a wheel zooms by a quarter, a touchpad's small steps by as much less. */
function zoomFactor(delta, mode) {
  const pixels = mode === WheelEvent.DOM_DELTA_LINE ? delta * LINE : delta;
  return Math.exp(Math.max(-0.25, Math.min(0.25, pixels / 400)));
}

export class Pointer {
  constructor(stage, areas, deeds) {
    this.stage = stage;
    this.areas = areas;
    this.deeds = deeds;
    this.start = null;
    this.panning = false;
    stage.addEventListener("pointermove", (event) => this.move(event));
    stage.addEventListener("pointerleave", () => this.deeds.preview(null));
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointerup", (event) => this.up(event));
    stage.addEventListener("pointercancel", () => this.stop());
    stage.addEventListener("dblclick", (event) => this.reset(event));
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  at(event) {
    return areaAt(this.areas(), this.stage, event);
  }

  move(event) {
    if (this.start) {
      this.drag(event);
      return;
    }
    if (event.pointerType !== "mouse") return;
    const point = this.at(event);
    const changes = point ? changesAt(point) : {};
    this.stage.classList.toggle("live", Object.keys(changes).length > 0);
    this.deeds.preview(Object.keys(changes).length ? changes : null);
  }

  down(event) {
    const point = this.at(event);
    if (event.button !== 0 || !point) return;
    this.start = { ...point, clientX: event.clientX, clientY: event.clientY };
    this.panning = false;
    if (event.pointerType === "mouse") this.stage.setPointerCapture(event.pointerId);
  }

  drag(event) {
    const { start } = this;
    const moved = Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY);
    if (!this.panning && moved < SLOP) return;
    this.panning = true;
    if (start.area.zooms && this.deeds.zoomed()) {
      const [dx, dy] = [event.clientX - start.clientX, event.clientY - start.clientY];
      const { box } = start.area;
      if (this.deeds.pan(dx / box.width, dy / box.height)) {
        start.clientX = event.clientX;
        start.clientY = event.clientY;
      }
      return;
    }
    const point = this.at(event);
    if (point && point.area.panel.id === start.area.panel.id) this.deeds.set(changesAt(point));
  }

  up(event) {
    const { start, panning } = this;
    this.stop();
    if (!start || panning) return;
    const point = this.at(event);
    if (point) this.deeds.set(changesAt(point));
  }

  stop() {
    this.start = null;
    this.panning = false;
  }

  reset(event) {
    if (this.at(event)?.area.zooms) this.deeds.unzoom();
  }

  wheel(event) {
    const point = this.at(event);
    const delta = event.deltaY || event.deltaX;
    if (!point?.area.zooms || event.ctrlKey || !delta || !this.deeds.canZoom()) return;
    event.preventDefault();
    const { box } = point.area;
    const share = { x: (point.x - box.left) / box.width, y: (point.y - box.top) / box.height };
    this.deeds.zoom(zoomFactor(delta, event.deltaMode), share, event.shiftKey ? "x" : event.altKey ? "y" : "both");
  }
}
