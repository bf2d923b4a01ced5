/** The frame of the page: tabs, title, theme, banner, notes, the live region. */

import { byId, el, put, whenChanged } from "./dom.js";
import { host } from "./host.js";

const QUIET = 500;

/** Tabs with the arrow-key pattern: one is in the tab order, arrows move and choose. */
export class Tabs {
  constructor(host, choose) {
    this.host = host;
    this.choose = choose;
    host.addEventListener("keydown", (event) => this.key(event));
  }

  show(views, current) {
    whenChanged(this.host, views, () => {
      this.host.replaceChildren(...views.map((view) => el("button", {
        type: "button",
        role: "tab",
        id: `tab-${view.id}`,
        "aria-controls": "view",
        title: view.title,
        onclick: () => this.choose(view.id),
      }, view.label)));
    });
    for (const tab of this.host.children) {
      const chosen = tab.id === `tab-${current}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen && this.host.scrollWidth > this.host.clientWidth) {
        this.host.scrollLeft = tab.offsetLeft - (this.host.clientWidth - tab.offsetWidth) / 2;
      }
    }
    byId("view").setAttribute("aria-labelledby", `tab-${current}`);
  }

  /** Chooses the view that many places further; the last is followed by the first. */
  step(by, focus) {
    const tabs = [...this.host.children];
    const present = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const next = tabs[(present + by + tabs.length) % tabs.length];
    if (!next) return;
    this.choose(next.id.slice(4));
    if (focus) next.focus();
  }

  key(event) {
    const last = this.host.children.length - 1;
    const present = [...this.host.children].indexOf(host.root.activeElement);
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -present, End: last - present }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.step(by, true);
  }
}

/** The theme: the system's, until the switch is pressed. */
export class Theme {
  constructor(changed) {
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.chosen = read();
    this.system.addEventListener("change", () => {
      if (this.chosen) return;
      this.apply();
      changed();
    });
    this.changed = changed;
    this.apply();
  }

  get name() {
    return this.chosen ?? (this.system.matches ? "dark" : "light");
  }

  toggle() {
    this.chosen = this.name === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("posenc-theme", this.chosen);
    } catch {
      // A page from a file may have no storage; the choice then lasts as long as the page.
    }
    this.apply();
    this.changed();
  }

  apply() {
    host.shell.dataset.theme = this.name;
    const other = this.name === "dark" ? "light" : "dark";
    byId("theme").setAttribute("aria-label", `Switch to the ${other} theme`);
  }
}

function read() {
  try {
    const stored = localStorage.getItem("posenc-theme");
    return stored === "dark" || stored === "light" ? stored : null;
  } catch {
    return null;
  }
}

/** The colours of series come with the frame, so that plots and page agree. */
export function applyPalette(palette) {
  whenChanged(host.shell, palette?.series, () => {
    (palette?.series ?? []).forEach((series, index) => {
      host.shell.style.setProperty(`--k${index}`, series.color);
    });
  });
}

let sayTimer = 0;
let said = 0;

/** Tells listeners what the cursor stands on: politely, and at most twice a second. */
export function say(text) {
  clearTimeout(sayTimer);
  const speak = () => {
    said = performance.now();
    const node = byId("say");
    if (node.textContent !== text) node.textContent = text;
  };
  sayTimer = setTimeout(speak, Math.max(0, QUIET - (performance.now() - said)));
}

/** The banner across the page, or none. */
export function banner(text) {
  put(byId("banner"), text);
  host.page.classList.toggle("gone", Boolean(text));
}

/** Title, lead and notes of a frame. */
export function showTexts(header) {
  const view = (header.views ?? []).find(({ id }) => id === header.view);
  if (host.alone) document.title = `${view?.label ?? "posenc"} · posenc explore`;
  byId("title").textContent = header.title ?? "";
  byId("lead").textContent = header.lead ?? "";
  const shown = (header.controls ?? []).filter(({ section }) => section !== "page");
  const controls = new Set(shown.map(({ key }) => key));
  const loose = (header.problems ?? []).filter(({ field }) => !controls.has(field));
  const texts = [...loose.map(({ message }) => message), ...(header.notes ?? [])];
  const notes = byId("notes");
  whenChanged(notes, texts, () => notes.replaceChildren(...texts.map((text) => el("li", {}, text))));
  notes.hidden = !texts.length;
}

/** The line that names what is compared. */
export function showVersus({ compare, lead }, stop) {
  const node = byId("versus");
  node.hidden = !compare;
  whenChanged(node, [compare, lead], () => {
    if (!compare) return;
    const side = (letter, text) => el("span", {}, el("strong", {}, letter), ` ${text}`);
    const told = lead.includes(compare.a) && lead.includes(compare.b);
    node.replaceChildren(
      ...(told ? [] : [side("A", compare.a), side("B", compare.b)]),
      el("button", { type: "button", class: "quiet", onclick: stop }, "Stop comparing"),
    );
  });
}
