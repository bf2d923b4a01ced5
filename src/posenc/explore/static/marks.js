/** What lies on a plot beside its data: axes, marks, labels. All of it is SVG. */

import { svg, textWidth } from "./dom.js";
import { readable } from "./scale.js";

const ROOM = 18; // pixels of a name

/** A text with the page's colour behind it, to be read over a picture. */
export function label(x, y, text, kind = "", anchor = "start") {
  return svg("text", { x, y, class: kind, "text-anchor": anchor }, text);
}

/** Ticks and the name of a horizontal axis above or below a box. */
export function axisX(axis, scale, box, side, grid) {
  const parts = [];
  if (!axis) return parts;
  const above = side === "top";
  const y = above ? box.top - 8 : box.top + box.height + 15;
  for (const tick of readable(axis, scale, "x")) {
    if (grid) {
      const bottom = box.top + box.height;
      parts.push(svg("line", { x1: tick.place, x2: tick.place, y1: box.top, y2: bottom, class: "grid" }));
    }
    parts.push(label(tick.place, y, tick.text, "", "middle"));
  }
  if (axis.label) {
    const middle = box.left + box.width / 2;
    parts.push(label(middle, above ? box.top - 23 : y + 16, axis.label, "strong", "middle"));
  }
  return parts;
}

/** Ticks of a vertical axis at the left of a box, its name turned or, over charts, above it. */
export function axisY(axis, scale, box, { grid = false, turned = true } = {}) {
  const parts = [];
  if (!axis) return parts;
  for (const tick of readable(axis, scale, "y")) {
    if (grid) {
      const right = box.left + box.width;
      parts.push(svg("line", { x1: box.left, x2: right, y1: tick.place, y2: tick.place, class: "grid" }));
    }
    parts.push(label(box.left - 8, tick.place + 4, tick.text, "", "end"));
  }
  if (axis.label && turned) {
    const middle = box.top + box.height / 2;
    const turn = `translate(11,${middle}) rotate(-90)`;
    parts.push(svg("text", { transform: turn, "text-anchor": "middle", class: "strong" }, axis.label));
  }
  return parts;
}

/** Whether another line is so close above that the name has to stand below its own. */
function crowded(mark, scale, marks) {
  const lines = marks.filter(({ axis, text, style }) => axis === "y" && text && style !== "band").sort((a, b) => a.at - b.at);
  const next = lines[lines.indexOf(mark) + 1];
  return next && scale.at(mark.at) - scale.at(next.at) < ROOM;
}

function markLine(mark, scales, box, marks) {
  const upright = mark.axis === "x";
  const scale = upright ? scales.x : scales.y;
  if (!scale.holds(mark.at)) return [];
  const at = scale.at(mark.at);
  const [right, bottom] = [box.left + box.width, box.top + box.height];
  const ends = upright
    ? { x1: at, x2: at, y1: box.top, y2: bottom }
    : { x1: box.left, x2: right, y1: at, y2: at };
  const dash = mark.style === "dashed" ? "4 3" : null;
  const kind = mark.style === "faint" ? "grid" : mark.style === "cursor" ? "mark cursor" : "mark";
  const line = svg("line", { ...ends, class: kind, "stroke-dasharray": dash });
  if (!mark.text) return [line];
  if (!upright) return [line, label(box.left + 8, at < box.top + ROOM || crowded(mark, scale, marks) ? at + 13 : at - 6, mark.text, "over")];
  const fits = right - at > textWidth(mark.text) + 8 || at - box.left < textWidth(mark.text);
  return [line, label(fits ? at + 6 : at - 6, bottom - 8, mark.text, "over", fits ? "start" : "end")];
}

function markBand(mark, scales, box) {
  const upright = mark.axis === "x";
  const scale = upright ? scales.x : scales.y;
  const [low, high] = upright
    ? [box.left, box.left + box.width]
    : [box.top, box.top + box.height];
  const clip = (value) => Math.min(high, Math.max(low, scale.at(value)));
  const [one, two] = [clip(mark.at), clip(mark.to)].sort((first, second) => first - second);
  const shape = upright
    ? { x: one, width: two - one, y: box.top, height: box.height }
    : { x: box.left, width: box.width, y: one, height: two - one };
  const half = textWidth(mark.text) / 2 + 4;
  const middle = Math.min(shape.x + shape.width / 2, box.left + box.width - half);
  const text = label(Math.max(box.left + half, middle), shape.y + 14, mark.text, "over", "middle");
  return { shape, text: [text] };
}

function markPoint(mark, scales) {
  if (!scales.x.holds(mark.at) || !scales.y.holds(mark.to)) return [];
  const [cx, cy] = [scales.x.at(mark.at), scales.y.at(mark.to)];
  const parts = [svg("circle", { cx, cy, r: 4, class: "dot cursor" })];
  if (mark.text) parts.push(label(cx + 7, cy - 6, mark.text, "over"));
  return parts;
}

/** The shaded bands of a panel, which lie under its data. */
export function bandsOf(marks, scales, box) {
  return (marks ?? [])
    .filter(({ style }) => style === "band")
    .map((mark) => svg("rect", { ...markBand(mark, scales, box).shape, class: "band" }));
}

/** The lines and points of a panel and the names of its bands, which lie over its data. */
export function marksOf(marks, scales, box) {
  return (marks ?? []).flatMap((mark) => {
    if (mark.style === "band") return mark.text ? markBand(mark, scales, box).text : [];
    return mark.style === "point" ? markPoint(mark, scales) : markLine(mark, scales, box, marks);
  });
}

/** The labels at the ends of a colour bar and its place, for the bar itself is a canvas. */
export function barLabels(panel, left, top, width) {
  return [
    label(left - 6, top + 9, panel.low, "", "end"),
    label(left + width + 6, top + 9, panel.high),
  ];
}
