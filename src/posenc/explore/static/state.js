/** The state is a flat dictionary of texts: what was set. The address bar holds all of it. */

/** What is told to the server but is no part of the state: it belongs to the reader's screen. */
export const SCREEN = new Set(["w", "h", "theme"]);

/** The state written in a hash such as `#k=1&v=table&d=64`. */
export function parseHash(hash) {
  const state = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  for (const key of SCREEN) delete state[key];
  delete state.k;
  return state;
}

/** The hash of a state: version and view first, then whatever was set, be it a default or not. */
export function formatHash(state) {
  const { v, ...rest } = state;
  const parts = [["k", "1"], ["v", v ?? "table"]];
  for (const key of Object.keys(rest).sort()) {
    if (!SCREEN.has(key) && key !== "k") parts.push([key, rest[key]]);
  }
  return `#${new URLSearchParams(parts)}`;
}

/** A state with changes made; a change to null takes the key back to its default. */
export function withChanges(state, changes) {
  const next = { ...state };
  for (const [key, value] of Object.entries(changes ?? {})) {
    if (value === null || value === undefined) delete next[key];
    else next[key] = String(value);
  }
  return next;
}

/** A state with what Python has to say of it; nothing that was set is lost by being a default. */
export function settled(state, header) {
  return { ...state, ...header.address, v: header.view };
}

/**
 * The hash of the page, kept up with the state where `place` says: `read`, `replace`, `push`. Browsers refuse writes that come too fast, so
 * what a drag writes is held back a little; a step that Back should undo is written at once.
 */
export class Address {
  constructor(place, wait = 150) {
    this.place = place;
    this.wait = wait;
    this.timer = 0;
    this.due = null;
  }

  replace(hash) {
    this.due = hash;
    if (!this.timer) this.timer = setTimeout(() => this.flush(), this.wait);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.due !== null && this.due !== this.place.read()) this.place.replace(this.due);
    this.due = null;
  }

  push(hash) {
    this.flush();
    if (hash !== this.place.read()) this.place.push(hash);
  }
}

/** One text that outlives a reload of the page, where the page may store anything. */
export class Kept {
  constructor(name) {
    this.name = name;
    this.text = null;
    try {
      this.text = sessionStorage.getItem(name);
    } catch {
      // A page from a file may have no storage; the text then lasts as long as the page.
    }
  }

  keep(text) {
    this.text = text;
    try {
      sessionStorage.setItem(this.name, text);
    } catch {
      // As above.
    }
  }

  take() {
    const { text } = this;
    this.forget();
    return text;
  }

  forget() {
    this.text = null;
    try {
      sessionStorage.removeItem(this.name);
    } catch {
      // As above.
    }
  }
}
