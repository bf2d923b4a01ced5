/** Controls as the header describes them: native inputs, a number field beside every slider. */

import { el, fillSelect, found, put, textWidth, whenChanged } from "./dom.js";
import { host } from "./host.js";
import { playButton } from "./play.js";
import { nextValue, onStep, sliderPlace, sliderValue } from "./scale.js";

const ARROWS = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 };
const WAIT = 250;
const NARROW = 125;
const MANY = 16; // options, from which on they can be searched

/** How far an arrow key moves a control without steps: one hundredth of its range, or of itself. */
function stepOf(control, value) {
  if (control.step) return control.step;
  if (control.scale === "log") return Math.abs(value) / 100 || control.min;
  return (control.max - control.min) / 100;
}

class NumberControl {
  constructor(control, set) {
    this.control = control;
    const id = `control-${control.key}`;
    this.field = el("input", { type: "number", id, inputmode: "decimal" });
    this.slider = el("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": control.label });
    this.field.addEventListener("change", () => set(this.field.value));
    this.slider.addEventListener("input", () => {
      this.field.value = String(sliderValue(this.control, Number(this.slider.value)));
      set(this.field.value);
    });
    this.slider.addEventListener("keydown", (event) => this.key(event, set));
    const name = el("label", { for: id }, control.label);
    const play = control.plays ? playButton(control.label, () => this.next(set)) : null;
    this.nodes = [el("div", { class: "line" }, name, this.field), el("div", { class: "slide" }, play, this.slider)];
    this.focusable = this.field;
  }

  /** Sets the value after the present one; false where there is none. */
  next(set) {
    const value = Number(this.field.value);
    const after = nextValue(this.control, value);
    if (after === value) return false;
    this.field.value = String(after);
    set(this.field.value);
    return true;
  }

  key(event, set) {
    const steps = ARROWS[event.key];
    if (!steps) return;
    event.preventDefault();
    const value = Number(this.field.value);
    const by = steps * (event.shiftKey ? 10 : 1) * stepOf(this.control, value);
    this.field.value = String(onStep(this.control, value + by));
    set(this.field.value);
  }

  show(control, problem) {
    this.control = control;
    for (const name of ["min", "max"]) this.field.setAttribute(name, control[name]);
    this.field.setAttribute("step", control.step || "any");
    // What is being typed stays.
    if (!problem || host.root.activeElement !== this.field) this.field.value = control.value;
    this.slider.value = String(sliderPlace(control, Number(control.value)));
    this.slider.setAttribute("aria-valuetext", control.value);
    this.slider.hidden = !(control.max > control.min);
  }
}

class ChoiceControl {
  constructor(control, set) {
    const id = `control-${control.key}`;
    this.select = el("select", { id });
    this.select.addEventListener("change", () => set(this.select.value));
    this.line = el("div", { class: "line" }, el("label", { for: id }, control.label), this.select);
    const about = { "aria-label": `Search: ${control.label}`, placeholder: "Search", autocomplete: "off" };
    this.search = el("input", { type: "search", id: `search-${control.key}`, list: `list-${control.key}`, ...about });
    this.list = el("datalist", { id: `list-${control.key}` });
    this.search.addEventListener("change", () => this.seek(set));
    this.nodes = [this.line, this.search, this.list];
    this.focusable = this.select;
  }

  /** Chooses what was typed, or the first whose name, key or heading has all of its words. */
  seek(set) {
    const typed = this.search.value.trim().toLowerCase();
    const words = typed.split(/\s+/);
    const named = ({ value, label, group }) => `${label} ${value} ${group}`.toLowerCase();
    const chosen = this.options.find(({ value, label }) => [value.toLowerCase(), label.toLowerCase()].includes(typed))
      ?? this.options.find((option) => words.every((word) => named(option).includes(word)));
    this.search.toggleAttribute("aria-invalid", Boolean(typed) && !chosen);
    if (!typed || !chosen) return;
    this.search.value = "";
    set(chosen.value);
  }

  show(control) {
    this.options = control.options;
    this.search.hidden = control.options.length < MANY;
    whenChanged(this.select, control.options, () => {
      fillSelect(this.select, control.options);
      this.list.replaceChildren(...control.options.map(({ label }) => el("option", { value: label })));
      const widest = Math.max(0, ...control.options.map((option) => textWidth(option.label)));
      this.line.classList.toggle("stacked", widest + textWidth(control.label) > NARROW);
    });
    this.select.value = control.value;
  }
}

class SwitchControl {
  constructor(control, set) {
    const id = `control-${control.key}`;
    this.box = el("input", { type: "checkbox", id });
    this.box.addEventListener("change", () => set(this.box.checked ? "1" : "0"));
    this.nodes = [el("div", { class: "line switch" }, this.box, el("label", { for: id }, control.label))];
    this.focusable = this.box;
  }

  show(control) {
    this.box.checked = control.value === "1";
  }
}

class TextControl {
  constructor(control, set) {
    const id = `control-${control.key}`;
    const find = control.section === "find";
    this.field = el("input", {
      type: find ? "search" : "text",
      id,
      maxlength: control.max || null,
      autocomplete: "off",
      spellcheck: "false",
    });
    let timer = 0;
    const send = () => {
      clearTimeout(timer);
      if (this.field.value !== this.sent) set((this.sent = this.field.value));
    };
    this.field.addEventListener("change", send);
    this.field.addEventListener("search", send);
    this.field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(send, WAIT);
    });
    this.nodes = [el("label", { for: id }, control.label), this.field];
    this.focusable = this.field;
  }

  show(control) {
    if (host.root.activeElement === this.field) return;
    this.field.value = control.value;
    this.sent = control.value;
  }
}

// What Python says that it drew instead, which is not so while the last picture stays.
const INSTEAD = /\s*Drawn with .*$/;

export function complaint({ message }, held) {
  return held ? message.replace(INSTEAD, "") : message;
}

const KINDS = { number: NumberControl, choice: ChoiceControl, switch: SwitchControl, text: TextControl };

/** The drawer of settings. `set(key, text)` is called with whatever a person chose. */
export class Controls {
  constructor(host, set) {
    this.host = host;
    this.set = set;
    this.parts = new Map();
    this.more = el("details", { class: "more" });
  }

  show(header) {
    // What stands in the picture itself has no place here.
    const controls = (header.controls ?? []).filter(({ section }) => section !== "page");
    const layout = controls.map(({ key, label, kind, more }) => [key, label, kind, more]);
    whenChanged(this.host, layout, () => this.build(controls));
    const problems = new Map((header.problems ?? []).map((problem) => [problem.field, problem]));
    for (const control of controls) this.update(control, problems.get(control.key));
  }

  build(controls) {
    const focused = this.host.contains(host.root.activeElement) ? host.root.activeElement.id : "";
    const kept = new Map(this.parts);
    this.parts.clear();
    const [first, rest] = [[], []];
    for (const control of controls) {
      const old = kept.get(control.key);
      const same = old && old.kind === control.kind && old.label === control.label;
      const part = same ? old : this.make(control);
      this.parts.set(control.key, part);
      (control.more ? rest : first).push(part.root);
    }
    this.more.replaceChildren(el("summary", {}, "More"), ...rest);
    this.more.hidden = !rest.length;
    this.host.replaceChildren(...first, this.more);
    if (focused) found(focused)?.focus();
  }

  make(control) {
    const Kind = KINDS[control.kind] ?? TextControl;
    const widget = new Kind(control, (text) => this.set(control.key, text));
    const problem = el("p", { class: "problem", id: `problem-${control.key}`, hidden: true });
    const hint = control.hint
      ? [el("p", { class: "hint", id: `hint-${control.key}` }, control.hint)]
      : [];
    const root = el("div", { class: `control ${control.kind}` }, ...widget.nodes, problem, ...hint);
    return { widget, problem, root, kind: control.kind, label: control.label };
  }

  update(control, problem) {
    const part = this.parts.get(control.key);
    part.control = control;
    part.widget.show(control, problem);
    this.complain(part, problem);
  }

  /** One sentence at the field that it is about, and told to whoever listens to the page. */
  complain(part, problem) {
    const { control } = part;
    const text = problem ? complaint(problem, problem.held) : "";
    put(part.problem, text);
    const field = part.widget.focusable;
    const described = [text && `problem-${control.key}`, control.hint && `hint-${control.key}`];
    const ids = described.filter(Boolean).join(" ");
    if (ids) field.setAttribute("aria-describedby", ids);
    else field.removeAttribute("aria-describedby");
    if (text && this.more.contains(field)) this.more.open = true;
    if (text) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }

  /** Shows problems while the last picture stays. */
  hold(problems) {
    for (const problem of problems) {
      const part = this.parts.get(problem.field);
      if (part) this.complain(part, { ...problem, held: true });
    }
  }
}
