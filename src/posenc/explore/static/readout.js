/** The readout: facts, formulas and links beside the picture. All texts come in the header. */

import { dialBlock, draggable } from "./dials.js";
import { el, rebuild, whenChanged } from "./dom.js";

/** MathML from Python, parsed as XML: what is not MathML is shown as plain text instead. */
function formula(mathml, text) {
  const parsed = new DOMParser().parseFromString(mathml, "application/xml");
  const root = parsed.documentElement;
  if (parsed.querySelector("parsererror") || root.localName !== "math") return el("p", { class: "num" }, text);
  return el("div", { class: "formula", role: "math", "aria-label": text }, mathNode(root));
}

const MATHML = "http://www.w3.org/1998/Math/MathML";

/** A copy with MathML's names only: an element of another language would be no formula. */
function mathNode(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  const copy = document.createElementNS(MATHML, node.localName);
  for (const { name, value } of node.attributes) {
    if (["display", "mathvariant", "stretchy", "fence", "alttext"].includes(name)) copy.setAttribute(name, value);
  }
  copy.append(...[...node.childNodes].map(mathNode));
  return copy;
}

/** A real table of texts. */
export function textTable({ columns, rows, caption }) {
  const numeric = (text) => /^[−+-]?[\d.,\u2009\u202f ]+(e[−+-]?\d+)?$/.test(text) && /\d/.test(text);
  const right = columns.map((_, index) => rows.length > 0 && rows.every((row) => numeric(row[index] ?? "")));
  const cell = (text, index) => (index === 0
    ? el("th", { scope: "row" }, text)
    : el("td", { class: right[index] ? "num" : null }, text));
  return el(
    "table",
    {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...columns.map((text, index) =>
      el("th", { scope: "col", class: right[index] ? "num" : null }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))),
  );
}

/** Links that change the state; buttons, because they go nowhere. */
export function linkButtons(links, act) {
  return el("p", { class: "links" }, ...links.flatMap((link, index) => [
    index ? " " : "",
    el("button", { type: "button", class: "link", onclick: () => act(link.state) }, link.text),
  ]));
}

const BLOCKS = {
  heading: (block) => [el("h2", {}, block.text)],
  math: (block) => [
    block.mathml ? formula(block.mathml, block.text) : null,
    ...block.steps.map((step) => el("p", { class: "num step" }, step)),
    ...(block.value ? [el("p", { class: "big" }, block.value)] : []),
  ],
  fact: (block) => [
    el("dl", {}, el("div", {}, el("dt", {}, block.label), el("dd", { class: "num" }, block.value))),
    ...(block.note ? [el("p", { class: "hint" }, block.note)] : []),
  ],
  prose: (block) => [el("p", { class: "hint" }, block.text)],
  dial: (block, frame) => [dialBlock(block.dial, frame)],
  links: (block, frame, act) => [
    ...(block.label ? [el("p", { class: "hint" }, block.label)] : []),
    linkButtons(block.links, act),
  ],
};

/** What Find found: the story, and the places as links. */
function findBlock({ find }, act) {
  if (!find) return [];
  const [first, ...others] = find.hits;
  const told = [...find.story.map((line) => el("p", {}, line)), ...(others.length ? [linkButtons(others, act)] : [])];
  const story = [
    el("p", { class: "answered" }, find.answer),
    ...(first ? [linkButtons([{ ...first, text: "Show it" }], act)] : []),
    ...(told.length ? [el("details", {}, el("summary", {}, "What this rests on, and other places"), ...told)] : []),
  ];
  const close = el("button", { type: "button", class: "quiet", onclick: () => act({ find: null }) }, "Close Find");
  return [el("section", { class: "found", id: "found", "aria-label": "Find" }, el("h2", {}, `Find ${find.query}`), ...story, close)];
}

/** Fills the readout; `move` is what dragging a dial does. */
export function showReadout(host, frame, act, move) {
  const { header } = frame;
  if (!host.posencDrags) draggable(host, (steps) => move("y", steps));
  host.posencDrags = true;
  const dials = (header.readout ?? [])
    .filter((block) => block.kind === "dial")
    .map((block) => Array.from(frame.arrays[block.dial.trail]?.data ?? []));
  whenChanged(host, [header.find, header.readout, dials], () => {
    const blocks = (header.readout ?? []).flatMap((block) => BLOCKS[block.kind]?.(block, frame, act) ?? []);
    const open = host.querySelector("#found details")?.open ?? false;
    rebuild(host, [...findBlock(header, act), ...blocks]);
    if (open) host.querySelector("#found details")?.toggleAttribute("open", true);
    for (const node of host.querySelectorAll(".formula")) {
      if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
    }
  });
}
