/** Panels into figures, and figures into the page. */

import { Attention, Chips } from "./attention.js";
import { Arcs, Dials } from "./dials.js";
import { byId, el, put, rebuild, whenChanged } from "./dom.js";
import { Figure, leftOf } from "./figure.js";
import { host } from "./host.js";
import { Matrix } from "./matrix.js";
import { Strips } from "./strips.js";
import { textTable } from "./readout.js";

export function arrange(panels) {
  const groups = [];
  for (const panel of panels) {
    const last = groups.filter((group) => group.main.place === "main").at(-1);
    if ((panel.place === "right" || panel.place === "below") && last) last[panel.place] = panel;
    else groups.push({ main: panel, id: `${panel.kind}-${panel.id}` });
  }
  return groups;
}

class Words {
  constructor() {
    this.root = el("div", { class: "words" });
  }

  draw({ main }) {
    whenChanged(this.root, main, () => {
      const title = main.title ? [el("h2", {}, main.title)] : [];
      this.root.replaceChildren(...title, ...main.paragraphs.map((text) => el("p", {}, text)));
    });
  }
}

class TextTable {
  constructor() {
    this.scroll = el("div", { class: "scroll", tabindex: 0, role: "region" });
    this.note = el("p", { class: "caption" });
    this.root = el("div", { class: "figure" }, this.scroll, this.note);
  }

  draw({ main }) {
    whenChanged(this.root, main, () => {
      this.scroll.setAttribute("aria-label", main.title || main.caption || "Table");
      const { caption, ...table } = main;
      const title = main.title ? [el("h2", { class: "figure-title" }, main.title)] : [];
      rebuild(this.scroll, [...title, textTable(table)]);
      put(this.note, caption);
    });
  }
}

const KINDS = {
  heatmap: Figure,
  chart: Figure,
  strips: Strips,
  dials: Dials,
  arcs: Arcs,
  matrix: Matrix,
  table: TextTable,
  words: Words,
  chips: Chips,
  attention: Attention,
};

const TWO = 700; // pixels from which on the page has two columns

function isHalf({ main }, mains) {
  return main.place === "half" || (mains > 1 && main.place === "main");
}

export class Panels {
  constructor(host, deeds) {
    this.host = host;
    this.deeds = deeds;
    this.view = null;
    this.made = new Map();
  }

  /** Draws the panels of a frame; returns the device pixels that a main picture has. */
  draw(frame) {
    const { header } = frame;
    const groups = arrange(header.panels ?? []);
    const mains = groups.filter((group) => group.main.place === "main").length;
    const room = this.room(Math.max(1, mains), groups);
    this.host.classList.toggle("two", this.host.clientWidth >= TWO);
    const shown = groups.map((group) => {
      const part = this.part(header.view, group);
      part.root.classList.toggle("half", isHalf(group, mains));
      return part;
    });
    this.mount(shown.map((part) => part.root), header.view);
    shown.forEach((part, index) => part.draw(groups[index], frame, room(groups[index])));
    const plots = shown.map((part) => part.plot).filter(Boolean);
    return plots.find((plot) => plot.h !== null) ?? plots[0] ?? null;
  }

  part(view, group) {
    const key = `${view}/${group.id}`;
    if (!this.made.has(key)) this.made.set(key, new (KINDS[group.main.kind] ?? Words)(this.deeds));
    return this.made.get(key);
  }

  /** Changes the page only when the figures differ, so that focus and pointers stay. */
  mount(roots, view) {
    const same = roots.length === this.host.children.length
      && roots.every((root, index) => this.host.children[index] === root);
    if (!same) this.host.replaceChildren(...roots);
    if (this.view !== null && this.view !== view) {
      for (const key of this.made.keys()) if (!key.startsWith(`${view}/`)) this.made.delete(key);
    }
    this.view = view;
  }

  /** The room of a group: half or all of the width, and the height of the window. */
  room(mains, groups) {
    const width = Math.floor(this.host.clientWidth);
    const half = width >= TWO ? Math.floor((width - 20) / 2) : width;
    const others = groups.length - mains;
    const left = Math.max(0, ...groups.filter(({ main }) => KINDS[main.kind] === Figure).map(leftOf));
    // Open settings lie below the picture of a narrow page, which then has less room.
    const open = host.page.matches(".narrow.settings-open") ? byId("settings").offsetHeight : 0;
    const above = byId("tour").offsetHeight + (open ? 130 : others ? 330 : 240);
    const height = Math.max(open ? 180 : 360, Math.min(host.height() - open - above, 2000));
    return (group) => ({ width: isHalf(group, mains) ? half : width, height, left });
  }
}
