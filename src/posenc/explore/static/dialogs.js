/** Dialogs and menus: help, Python, the data table, Save, Compare. */

import { byId, el, found, place } from "./dom.js";
import { host } from "./host.js";
import { textTable } from "./readout.js";

/** A dialog that closes by Escape, by its button and by a click beside it. */
function dialog(title, ...content) {
  const close = el("button", { type: "button", class: "tool", onclick: () => node.close() }, "Close");
  const heading = el("h2", { id: "dialog-title" }, title);
  const node = el("dialog", { "aria-labelledby": "dialog-title" }, el("div", { class: "dialog-top" }, heading, close), ...content);
  node.addEventListener("close", () => {
    byId("foot").append(byId("toast"));
    node.remove();
  });
  node.addEventListener("click", (event) => {
    if (event.target === node) node.close();
  });
  host.page.append(node);
  node.showModal();
  return node;
}

/** Copies a text and says so. */
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = el("textarea", { class: "unseen" }, text);
    (host.root.querySelector("dialog[open]") ?? host.page).append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  toast(done);
}

let toastTimer = 0;

/** A short message at the foot of the page, read out as well. */
export function toast(text) {
  const node = byId("toast");
  (host.root.querySelector("dialog[open]") ?? byId("foot")).append(node);
  node.textContent = text;
  node.hidden = false;
  byId("say").textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    node.hidden = true;
    byId("foot").append(node);
  }, 2500);
}

function snippet(title, text, id) {
  const code = el("pre", { tabindex: 0, role: "region", "aria-label": title, id }, text);
  const button = el("button", { type: "button", class: "tool", onclick: () => copy(text, `${title}: copied`) }, "Copy");
  return el("section", { class: "snippet" }, el("div", { class: "dialog-top" }, el("h3", {}, title), button), code);
}

/** The code and the command that make what is on screen. */
export function showPython(header) {
  const parts = [snippet("Python", header.python ?? "", "python-code")];
  if (header.command) parts.push(snippet("In a terminal", header.command, "shell-code"));
  dialog("The same in Python", ...parts);
}

/** The numbers under the cursor as a table of text. */
export function showTable(header) {
  const table = header.data_table;
  const body = table ? textTable(table) : el("p", {}, "This view has no table.");
  dialog("Data table", el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Data table" }, body));
}

const KEYS = [
  ["← ↑ ↓ →", "move the cursor; with Shift by ten"],
  ["[  ]", "the view before, the view after"],
  ["f", "find the position that gave a value"],
  ["c", "compare with another encoding, or stop comparing"],
  ["t", "light or dark"],
  ["?", "this help"],
  ["Esc", "close a dialog or a menu; leave Find"],
];

const POINTER = [
  ["move", "shows what is under the pointer"],
  ["click", "sets the cursor"],
  ["wheel", "zooms at the pointer; with Shift only across, with Alt only down"],
  ["drag", "moves the picture when zoomed in, otherwise the cursor"],
  ["double click", "shows everything again"],
];

function keyList(rows) {
  return el("dl", { class: "keys" }, ...rows.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, text))));
}

/** The keys, and what a pointer does. */
export function showHelp() {
  dialog(
    "Keys and pointer",
    el("h3", {}, "Keys"),
    keyList(KEYS.filter(([key]) => found("compare") || !["f", "c"].includes(key))),
    el("h3", {}, "Pointer on a picture"),
    keyList(POINTER),
    el("p", { class: "hint" }, `Every number and text on this page was computed ${found("show-python") ? "by posenc in Python" : "in this page, with the numbers of posenc"}; nothing is sent elsewhere. The address holds the state: Copy link keeps it.`),
  );
}

/** A menu under a button; a second press, Escape or a click elsewhere closes it. */
export function menu(button, items) {
  const open = button.getAttribute("aria-expanded") === "true";
  host.root.querySelectorAll(".menu").forEach((node) => node.dispatchEvent(new Event("dismiss")));
  if (open) return;
  const node = el("div", { class: "menu", role: "group", "aria-label": button.textContent }, ...items);
  const dismiss = (back) => {
    node.remove();
    button.setAttribute("aria-expanded", "false");
    host.page.removeEventListener("pointerdown", outside);
    if (back) button.focus();
  };
  const outside = (event) => {
    if (!node.contains(event.target) && event.target !== button) dismiss(false);
  };
  node.addEventListener("dismiss", () => dismiss(false));
  node.addEventListener("click", (event) => {
    if (event.target.closest("a, button")) dismiss(true);
  });
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") dismiss(true);
  });
  button.after(node);
  button.setAttribute("aria-expanded", "true");
  host.page.addEventListener("pointerdown", outside);
  const box = button.getBoundingClientRect();
  const around = host.page.getBoundingClientRect();
  const left = Math.min(box.left - around.left, around.width - node.offsetWidth - 8);
  place(node, { top: box.bottom - around.top + 6, left: Math.max(8, left) });
  node.querySelector("a, button:not([disabled])")?.focus();
}

/** The formats in which Python writes the picture. */
export function saveItems(header, address) {
  return (header.save ?? []).map((format) => {
    const why = format.ok ? "" : format.why;
    if (why) return el("button", { type: "button", disabled: true }, format.label, el("small", {}, why));
    return el("a", { href: address(format.format), download: "" }, format.label);
  });
}
