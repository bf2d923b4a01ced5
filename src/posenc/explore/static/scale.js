/** Axes: from data to pixels and back. */

import { textWidth } from "./dom.js";

/**
 * The scale of an axis laid over pixels `from` … `to`. On an axis of cells the integer n has the
 * room from n to n + 1: `at` is a place in data units, `middle` the one where a cursor on n stands.
 */
export function scaleOf(axis, from, to) {
  const log = axis.scale === "log";
  const [start, end] = axis.domain;
  const zero = log && start === 0 ? 1 : 0; // a logarithmic scale from 0 is one of n + 1
  const value = log ? (at) => Math.log(Math.max(at + zero, Number.MIN_VALUE)) : (at) => at;
  const [lo, hi] = [value(start), value(end)];
  const span = hi - lo || 1;
  const at = (data) => from + ((value(data) - lo) / span) * (to - from);
  const half = axis.cells ? 0.5 : 0;
  return {
    at,
    middle: (data) => at(data + half),
    invert: (pixel) => {
      const data = lo + ((pixel - from) / (to - from || 1)) * span;
      return log ? Math.exp(data) - zero : data;
    },
    holds: (data) => data >= Math.min(start, end) && data <= Math.max(start, end),
  };
}

/** What a click at a pixel sets the key of an axis to: the cell under it, or the nearest integer. */
export function picked(axis, scale, pixel, arrays) {
  const [start, end] = axis.domain;
  const data = scale.invert(pixel);
  const low = Math.ceil(Math.min(start, end));
  const high = axis.cells ? Math.ceil(Math.max(start, end)) - 1 : Math.floor(Math.max(start, end));
  const near = axis.cells ? Math.floor(data) : Math.round(data);
  const whole = Math.min(high, Math.max(low, near));
  const to = arrays[axis.to]?.data;
  return to ? to[Math.min(to.length - 1, Math.max(0, whole - Math.ceil(start)))] : whole;
}

/** The least stride at which no two labels come nearer than `gap`; `size` is a label's extent. */
export function stride(places, sizes, gap) {
  for (let step = 1; step < places.length; step += 1) {
    let free = true;
    for (let index = step; index < places.length && free; index += step) {
      const room = Math.abs(places[index] - places[index - step]);
      free = room >= (sizes[index] + sizes[index - step]) / 2 + gap;
    }
    if (free) return step;
  }
  return Math.max(1, places.length);
}

/** The ticks of an axis that can be read, each with its place in pixels. */
export function readable(axis, scale, along) {
  const ticks = (axis.ticks ?? []).filter((tick) => scale.holds(tick.at));
  const places = ticks.map((tick) => scale.at(tick.at));
  const sizes = ticks.map((tick) => (along === "x" ? textWidth(tick.text) : 11));
  const step = stride(places, sizes, along === "x" ? 8 : 5);
  return ticks
    .map((tick, index) => ({ text: tick.text, place: places[index], kept: index % step === 0 }))
    .filter((tick) => tick.kept);
}

/** The width of the widest label of an axis. */
export function labelWidth(axis) {
  return Math.max(0, ...(axis?.ticks ?? []).map((tick) => textWidth(tick.text)));
}

/** Moves labels apart to at least `gap`, in place of `at`, within lo … hi; order is kept. */
export function spread(labels, gap, lo, hi) {
  const order = [...labels].sort((first, second) => first.at - second.at);
  order.forEach((label, index) => {
    label.at = Math.max(label.at, index ? order[index - 1].at + gap : lo);
  });
  for (let index = order.length - 1; index >= 0; index -= 1) {
    const limit = index === order.length - 1 ? hi : order[index + 1].at - gap;
    order[index].at = Math.min(order[index].at, limit);
  }
  return order;
}

function slider(control) {
  return scaleOf({ domain: [control.min, control.max], scale: control.scale }, 0, 1000);
}

/** A slider's place, 0 … 1000, for a value; logarithmic where the control says so. */
export function sliderPlace(control, value) {
  return Math.round(slider(control).at(Math.min(Math.max(value, control.min), control.max)));
}

/** The value for a slider's place. */
export function sliderValue(control, at) {
  const raw = slider(control).invert(at);
  return onStep(control, control.scale === "log" ? Number(raw.toPrecision(2)) : raw);
}

/** The nearest value that a control can take; step 0 stands for any number. */
export function onStep(control, value) {
  const { min, max, step } = control;
  const near = step ? min + Math.round((value - min) / step) * step : value;
  return Number(Math.min(max, Math.max(min, near)).toPrecision(step ? 12 : 4));
}

/** The value that Play goes to: the next step, or on a logarithmic scale the next place that differs. */
export function nextValue(control, value) {
  if (control.scale !== "log") return onStep(control, value + (control.step || (control.max - control.min) / 100));
  const from = sliderPlace(control, value);
  for (let place = from + 5; place <= 1005; place += 5) {
    const after = sliderValue(control, Math.min(place, 1000));
    if (after > value) return after;
  }
  return value;
}
