/** Series over an axis: lines, bars, points, steps and bands; lying, or upright beside a heatmap. */

import { svg, textWidth } from "./dom.js";
import { axisX, axisY, bandsOf, label, marksOf } from "./marks.js";
import { scaleOf, spread } from "./scale.js";

const LINES = ["line", "step"];
const MOST_FOR_ENDS = 0.3;
const LEGEND_ROW = 16;
const LEADER = 20;

/** The points of a series, in pixels. In an upright chart `x` runs down and `y` to the right. */
function pointsOf(series, panel, arrays, scales) {
  const upright = panel.orient === "v";
  const along = arrays[series.x]?.data;
  const across = arrays[series.y]?.data;
  if (!across) return null;
  return {
    count: across.length,
    data: across,
    low: arrays[series.lo]?.data,
    high: arrays[series.hi]?.data,
    at: (index, value) => {
      const free = scales.free.at(along ? along[index] : index);
      return upright ? [scales.value.at(value), free] : [free, scales.value.at(value)];
    },
  };
}

const round = (value) => Math.round(value * 10) / 10;

/** A path through the points; a value that is not a number breaks it. */
function linePath(points, steps) {
  let path = "";
  let pen = false;
  for (let index = 0; index < points.count; index += 1) {
    const value = points.data[index];
    if (!Number.isFinite(value)) {
      pen = false;
      continue;
    }
    const [x, y] = points.at(index, value);
    if (pen && steps) path += `H${round(x)}`;
    path += `${pen ? "L" : "M"}${round(x)},${round(y)}`;
    pen = true;
  }
  return path;
}

/** The outline of low … high, one closed piece for each run of numbers. */
function bandPath(points) {
  let path = "";
  let run = [];
  const close = () => {
    const there = run.map((index) => points.at(index, points.high[index]));
    const back = run.reverse().map((index) => points.at(index, points.low[index]));
    const all = there.concat(back).map(([x, y]) => `${round(x)},${round(y)}`);
    if (all.length) path += `M${all.join("L")}Z`;
    run = [];
  };
  for (let index = 0; index < points.count; index += 1) {
    if (Number.isFinite(points.low[index]) && Number.isFinite(points.high[index])) run.push(index);
    else close();
  }
  close();
  return path;
}

function bars(points, panel, scales, box, style) {
  let path = "";
  const lowest = scales.value.holds(0) ? 0 : panel.y.domain[0];
  for (let index = 0; index < points.count; index += 1) {
    if (!Number.isFinite(points.data[index])) continue;
    const [x0, y0] = points.at(index, lowest);
    const [x, y] = points.at(index, points.data[index]);
    path += `M${round(x0)},${round(y0)}L${round(x)},${round(y)}`;
  }
  const length = panel.orient === "v" ? box.height : box.width;
  const width = Math.max(0.6, (length / Math.max(1, points.count)) * 0.62);
  return [svg("path", { d: path, class: `bars k${style}`, "stroke-width": Math.min(width, 24) })];
}

function dots(points, style) {
  const parts = [];
  for (let index = 0; index < points.count; index += 1) {
    if (!Number.isFinite(points.data[index])) continue;
    const [cx, cy] = points.at(index, points.data[index]);
    parts.push(svg("circle", { cx: round(cx), cy: round(cy), r: 3, class: `dot k${style}` }));
  }
  return parts;
}

function dashOf(series, header) {
  return header.palette?.series?.[series.style]?.dash?.join(" ") || null;
}

function seriesParts(series, panel, frame, scales, box) {
  const points = pointsOf(series, panel, frame.arrays, scales);
  if (!points) return [];
  const style = series.style;
  const parts = [];
  if (points.low && points.high) parts.push(svg("path", { d: bandPath(points), class: `spread k${style}` }));
  if (series.draw === "bars") return parts.concat(bars(points, panel, scales, box, style));
  if (series.draw === "points") return parts.concat(dots(points, style));
  const d = linePath(points, series.draw === "step");
  parts.push(svg("path", { d, class: `line k${style}${series.front ? " front" : ""}`, "stroke-dasharray": dashOf(series, frame.header) }));
  return parts;
}

/** The series named at the ends of their lines: colour is never the only cue. */
function ended(panel) {
  const named = (panel.series ?? []).filter((series) => series.label && LINES.includes(series.draw));
  const shown = panel.orient !== "v" && panel.place !== "below" && named.length > 1;
  return shown ? named : [];
}

function endLabels(panel, frame, scales, box, width) {
  if (!endRoom(panel, width)) return [];
  const ends = ended(panel).flatMap((series) => {
    const points = pointsOf(series, panel, frame.arrays, scales);
    if (!points) return [];
    const index = points.data.findLastIndex(Number.isFinite);
    if (index < 0) return [];
    const at = points.at(index, points.data[index])[1];
    const place = Number.isFinite(at) ? at : box.top;
    // Lines that meet at their ends are named in the order in which they come there.
    const first = points.data.findIndex(Number.isFinite);
    const before = (points.at(first, points.data[first])[1] || 0) / 1000;
    return [{ text: series.label, style: series.style, line: place, at: place + 4 + before }];
  });
  const right = box.left + box.width;
  return spread(ends, 14, box.top + 8, box.top + box.height + 4).flatMap((end) => {
    const moved = Math.abs(end.at - 4 - end.line) > 3;
    const d = `M${right + 1},${round(end.line)}L${right + LEADER - 4},${round(end.at - 4)}`;
    return [
      ...(moved ? [svg("path", { d, class: `leader k${end.style}` })] : []),
      label(right + LEADER, end.at, end.text, `end k${end.style}`),
    ];
  });
}

/** The series whose names stand in a legend: what has no end, or all where the ends need much room. */
function keyed(panel, width) {
  if (panel.orient === "v" || panel.place === "below") return [];
  const named = (panel.series ?? []).filter((series) => series.label);
  if (named.length < 2) return [];
  return endsNeed(panel) > width * MOST_FOR_ENDS ? named : named.filter((series) => !ended(panel).includes(series));
}

/** The legend in rows no wider than the chart; each entry has its place. */
function legendRows(panel, width) {
  const entries = [];
  let [x, row] = [0, 0];
  for (const series of keyed(panel, width)) {
    const needed = textWidth(series.label) + 46;
    if (x > 0 && x + needed > width) [x, row] = [0, row + 1];
    entries.push({ series, x, row });
    x += needed;
  }
  return entries;
}

/** The height of the legend, which stands between the title and the chart. */
export function legendRoom(panel, width) {
  const entries = legendRows(panel, width);
  return entries.length ? (entries.at(-1).row + 1) * LEGEND_ROW + 4 : 0;
}

function legend(panel, frame, box, width) {
  const entries = legendRows(panel, width);
  const height = legendRoom(panel, width);
  return entries.flatMap(({ series, x, row }) => {
    const [left, y] = [box.left + x, box.top - height + row * LEGEND_ROW + 6];
    const kind = LINES.includes(series.draw) ? "line" : "bars";
    const dash = kind === "line" ? dashOf(series, frame.header) : null;
    const sample = { x1: left, x2: left + 22, y1: y, y2: y, class: `${kind} k${series.style}`, "stroke-dasharray": dash };
    return [
      svg("line", { ...sample, "stroke-width": kind === "bars" ? 8 : null }),
      label(left + 28, y + 4, series.label),
    ];
  });
}

function endsNeed(panel) {
  return Math.max(0, ...ended(panel).map((series) => textWidth(series.label) * 1.1 + LEADER + 6));
}

/** Room that a chart needs at the right of its box for the labels of its lines. */
export function endRoom(panel, width) {
  const need = endsNeed(panel);
  return need > width * MOST_FOR_ENDS ? 0 : need;
}

/** The scales of a chart in a box; `shared` replaces the one of the axis it shares. */
export function chartScales(panel, box, shared = null) {
  const [right, bottom] = [box.left + box.width, box.top + box.height];
  if (panel.orient === "v") {
    const free = shared ?? scaleOf(panel.x, box.top, bottom);
    return { free, value: scaleOf(panel.y, box.left, right) };
  }
  return {
    free: shared ?? scaleOf(panel.x, box.left, right),
    value: scaleOf(panel.y, bottom, box.top),
  };
}

function axes(panel, scales, box) {
  if (panel.place === "right") return axisX({ ...panel.y, label: "" }, scales.value, box, "bottom", true);
  const upright = axisY(panel.y, scales.value, box, { grid: true, turned: false });
  if (panel.place === "below") return upright;
  return upright.concat(axisX(panel.x, scales.free, box, "bottom", false));
}

function titles(panel, box, room) {
  const { left, top, height } = box;
  if (panel.place === "right") return [label(left + box.width / 2, top - 8, panel.title, "", "middle")];
  if (panel.place === "below") return [label(left, top + height + 16, panel.title)];
  const axis = panel.y.label && panel.y.label !== panel.title ? panel.y.label : "";
  const long = textWidth(`${panel.title}  ${axis}`);
  const words = svg("text", { x: Math.max(0, Math.min(left, left + room - long)), y: top - 10 });
  words.append(svg("tspan", { class: "strong" }, panel.title || axis));
  if (panel.title && axis) words.append(svg("tspan", {}, `  ${axis}`));
  return [words];
}

/** A mark of an upright chart, told in the axes of the screen. */
function turned(mark) {
  if (mark.style === "point") return { ...mark, at: mark.to, to: mark.at };
  return { ...mark, axis: mark.axis === "x" ? "y" : "x" };
}

/** Draws a chart into a box of an SVG layer. */
export function drawChart(layer, panel, frame, box, scales, room = box.width) {
  const drawn = panel.orient === "v" ? { x: scales.value, y: scales.free } : { x: scales.free, y: scales.value };
  const { left, top, width, height } = box;
  const marks = panel.orient === "v" ? (panel.marks ?? []).map(turned) : panel.marks;
  const clip = `clip-${panel.id}`;
  const inside = svg("rect", { x: left - 1, y: top - 3, width: width + 2, height: height + 6 });
  layer.append(
    svg("clipPath", { id: clip }, inside),
    ...bandsOf(marks, drawn, box),
    svg("rect", { x: left, y: top, width, height, class: "frame" }),
    ...axes(panel, scales, box),
  );
  const lines = (panel.series ?? []).flatMap((series) => seriesParts(series, panel, frame, scales, box));
  layer.append(
    svg("g", { "clip-path": `url(#${clip})` }, ...lines),
    ...marksOf(marks, drawn, box),
    ...endLabels(panel, frame, scales, box, room),
    ...legend(panel, frame, box, room),
    ...titles(panel, { ...box, top: box.top - legendRoom(panel, room) }, room),
  );
}
