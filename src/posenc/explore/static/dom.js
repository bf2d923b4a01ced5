/** Elements, texts and focus: the few lines that stand for a framework. */

import { host } from "./host.js";

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with an id, or null. */
export function found(id) {
  return host.root.getElementById(id);
}

/** The element of the page with an id; a missing one is a mistake in index.html. */
export function byId(id) {
  const node = found(id);
  if (!node) throw new Error(`the page has no element #${id}`);
  return node;
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; attributes whose value is a function are listeners (`onclick`). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Sizes and places go through the object model: the page's policy forbids style attributes. */
export function place(node, box) {
  for (const [name, value] of Object.entries(box)) {
    node.style[name] = typeof value === "number" ? `${value}px` : value;
  }
  return node;
}

/** Sizes a stage and the layers of SVG that lie on it, in CSS pixels. */
export function resize(stage, layers, width, height) {
  place(stage, { width, height });
  for (const layer of layers) {
    layer.setAttribute("width", width);
    layer.setAttribute("height", height);
  }
}

/** Whether letters typed here are text: in a field of a number they would mean nothing. */
export function takesLetters(node) {
  if (node instanceof HTMLInputElement) return !["checkbox", "number", "range"].includes(node.type);
  return node instanceof HTMLTextAreaElement || node instanceof HTMLSelectElement;
}

/** Whether the arrow keys have a meaning of their own here. */
export function takesArrows(node) {
  return takesLetters(node) || (node instanceof HTMLInputElement && node.type !== "checkbox");
}

/** A colour of curves with its word. */
export function named(text, style) {
  return el("span", { class: "named" }, el("i", { class: `swatch k${style}` }), text);
}

/** A text in an element, which is not there where there is none. */
export function put(node, text) {
  node.textContent = text;
  node.hidden = !text;
}

/** Fills a select with options under the headings of their groups. */
export function fillSelect(select, options) {
  const groups = new Map();
  for (const { value, label, group } of options) {
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(el("option", { value }, label));
  }
  select.replaceChildren(...[...groups].flatMap(([label, own]) => (label ? [el("optgroup", { label }, ...own)] : own)));
}

/** Rebuilds the children of `root` and gives the focus back to the element in the same place. */
export function rebuild(root, children) {
  const focusable = () => [...root.querySelectorAll("a[href], button, input, select, [tabindex]")];
  const active = host.root.activeElement;
  const index = root.contains(active) ? focusable().indexOf(active) : -1;
  root.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  if (index >= 0) focusable()[Math.min(index, focusable().length - 1)]?.focus();
}

/** Runs `make` only when what it depends on has changed since the last time for this node. */
export function whenChanged(node, value, make) {
  const text = JSON.stringify(value) ?? "";
  if (node.posencShown === text) return;
  node.posencShown = text;
  make();
}

let ruler = null;

/** Width in CSS pixels of a text in the small font of axes. */
export function textWidth(text) {
  if (!ruler) {
    ruler = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(host.page);
    ruler.font = `${style.getPropertyValue("--tick").trim()} ${style.fontFamily}`;
  }
  return ruler.measureText(text).width;
}
