/** The state is a flat dictionary of texts; the address bar holds what differs from the defaults. */

/** Its presence in the state is what turns Compare on, whatever its value. */
const PIN = "b.enc";

/** What is told to the server but is no part of the state: it belongs to the reader's screen. */
export const SCREEN = new Set(["w", "h", "theme"]);

/** The state written in a hash such as `#k=1&v=table&d=64`. */
export function parseHash(hash) {
  const state = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  for (const key of SCREEN) delete state[key];
  delete state.k;
  return state;
}

/** The hash of a state: version and view first, then whatever is not as Python would choose. */
export function formatHash(state, defaults) {
  const { v, ...rest } = state;
  const parts = [["k", "1"], ["v", v ?? defaults.v ?? "table"]];
  for (const key of Object.keys(rest).sort()) {
    const tells = rest[key] !== defaults[key] || key === PIN;
    if (!SCREEN.has(key) && key !== "k" && tells) parts.push([key, rest[key]]);
  }
  return `#${new URLSearchParams(parts)}`;
}

/** The name under which a frozen page stores a state. */
export function canonicalQuery(state, defaults, theme) {
  const encode = encodeURIComponent;
  const parts = Object.keys(state)
    .filter((key) => !SCREEN.has(key) && key !== "k" && state[key] !== defaults[key])
    .sort()
    .map((key) => `${encode(key)}=${encode(state[key])}`);
  if (theme === "dark") parts.push("theme=dark");
  return parts.join("&");
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

/** What Python made of a state: its texts, without those that are defaults; unknown keys stay. */
export function settled(state, header) {
  const next = { ...state };
  for (const [key, value] of Object.entries(header.state ?? {})) {
    if (SCREEN.has(key) || key === "k") continue;
    if (value === header.defaults?.[key] && !(header.compare && key === PIN)) delete next[key];
    else next[key] = value;
  }
  next.v = header.view;
  return next;
}

/**
 * The hash of the page, kept up with the state. Browsers refuse writes that come too fast, so
 * what a drag writes is held back a little; a step that Back should undo is written at once.
 */
export class Address {
  constructor(wait = 150) {
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
    if (this.due !== null && this.due !== location.hash) history.replaceState(null, "", this.due);
    this.due = null;
  }

  push(hash) {
    this.flush();
    if (hash !== location.hash) history.pushState(null, "", hash);
  }
}
