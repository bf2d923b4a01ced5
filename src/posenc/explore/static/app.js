/**
 * The explorer's page. The state goes to Python, a frame comes back, and the frame is drawn: all
 * numbers and all texts on screen are Python's. Nothing here knows an encoding.
 */

import { complaint, Controls } from "./controls.js";
import { copy, menu, saveItems, showHelp, showPython, showTable, toast } from "./dialogs.js";
import { byId, el, found, takesArrows, takesLetters } from "./dom.js";
import { host } from "./host.js";
import { applyPalette, banner, say, showTexts, showVersus, Tabs, Theme } from "./page.js";
import { Panels } from "./panels.js";
import { drawn } from "./play.js";
import { showReadout } from "./readout.js";
import { firstRoom, sized, unfit } from "./room.js";
import { Address, formatHash, Kept, parseHash, settled, withChanges } from "./state.js";
import { fetched, latest, NotStored, served, source } from "./transport.js";
import { showTour } from "./tour.js";

const address = new Address(host);

let state = host.read() ? parseHash(host.read()) : source.first;
let good = state; // what the picture on the screen was made of
let version = 0;
let frame = null;
let touched = new Set();
let preview = null;
let screen = null; // the device pixels that the main picture is asked for

// --- asking ---------------------------------------------------------------------------------------

function query(given) {
  return { k: "1", ...given, w: String(screen.w), h: String(screen.h), theme: theme.name };
}

function request(refit) {
  screen ??= firstRoom(byId("panels"));
  const asked = preview ? withChanges(state, preview) : state;
  ask({ query: query(asked), version, preview: preview !== null, screen, refit });
}

/** Changes of the state by a person; `push` makes them a step that Back undoes. */
function act(changes, push = false) {
  preview = null;
  for (const key of Object.keys(changes)) touched.add(key);
  state = withChanges(state, changes);
  version += 1;
  const hash = formatHash(state);
  if (push) address.push(hash);
  else address.replace(hash);
  request();
}

/** Changes that a link or a button of Python names: an empty text means the default. */
function follow(changes, push = true) {
  const plain = Object.entries(changes).map(([key, value]) => [key, value === "" ? null : value]);
  act(Object.fromEntries(plain), push);
}

/** Goes to a whole state, as the stops of the tour are. */
function jump(whole) {
  const dropped = Object.keys(state).map((key) => [key, null]);
  follow({ ...Object.fromEntries(dropped), ...whole });
}

/** The tour begins with its own picture, and what the reader had is kept for the end. */
function startTour() {
  if (!state.tour) own.keep(formatHash(state));
  jump({ tour: "1" });
}

/** Gives back what the reader had; without any, the picture of the last stop stays. */
function leave() {
  const kept = own.take();
  if (kept === null) follow({ tour: null, reveal: null });
  else jump(parseHash(kept));
}

const own = new Kept("posenc-before-tour");
const theme = new Theme(() => request());
const load = source.load ?? served(host.ask ?? fetched);
const ask = latest(load, { show, gone, back, failed, asking });

// --- showing --------------------------------------------------------------------------------------

/** What a person just typed cannot be drawn: the picture stays, the sentence stands at the field. */
function held(header, asked) {
  const problems = header.problems ?? [];
  if (!frame || !problems.length || asked.version !== version || asked.preview) return false;
  const known = new Set(frame.header.problems.map(({ field }) => field));
  return problems.some(({ field }) => touched.has(field))
    && problems.every(({ field }) => touched.has(field) || known.has(field));
}

function show(next, asked, isLast) {
  const { header } = next;
  if (held(header, asked)) {
    controls.hold(header.problems);
    say(header.problems.map((problem) => complaint(problem, true)).join(" "));
    for (const { field } of header.problems) {
      if (touched.has(field)) state = withChanges(state, { [field]: good[field] });
    }
    address.replace(formatHash(state));
    return;
  }
  frame = next;
  if (asked.version === version && !asked.preview) {
    state = settled(state, header);
    good = state;
    touched = new Set();
    if (!header.tour) own.forget();
    address.replace(formatHash(state));
  }
  draw(asked.preview);
  if (isLast) fit(asked);
}

function draw(quietly) {
  const { header } = frame;
  applyPalette(header.palette);
  tabs.show(header.views ?? [], header.view);
  showTexts(header);
  controls.show(header);
  showVersus(header, stopComparing);
  if (!quietly) showTour(byId("tour"), header.tour, { act: follow, jump, leave });
  showReadout(byId("readout"), frame, follow, move);
  found("compare")?.setAttribute("aria-pressed", String(Boolean(header.compare)));
  const does = {
    cursor: Object.values(header.cursor ?? {}).some(Boolean),
    find: header.controls?.some(({ section }) => section === "find"),
    compare: header.compares,
    table: header.data_table,
  };
  for (const one of host.root.querySelectorAll("[data-does]")) one.hidden = !does[one.dataset.does];
  const plot = panels.draw(frame);
  if (plot) room = { w: plot.w, h: plot.h ?? screen.h };
  if (!quietly && header.say) say(header.say);
  drawn();
  host.page.dataset.frames = String(Number(host.page.dataset.frames ?? 0) + 1);
}

let room = null;

/** Asks again when the picture has another room than the one that was asked for. */
function fit(asked) {
  if (!room || asked.refit === version || !unfit(frame, asked.screen, room)) return;
  screen = room;
  request(version);
}

function asking(whether) {
  host.page.classList.toggle("asking", whether);
}

function gone() {
  banner("Python has stopped; this picture is frozen. Trying again every two seconds.");
}

function back() {
  banner("");
  toast("Python is back.");
}

function failed(error, asked) {
  if (error instanceof NotStored) {
    if (asked.preview) return;
    toast(`${error.message} Run posenc explore for all others.`);
    if (frame) unmoved();
    else if (JSON.stringify(state) !== JSON.stringify(source.first)) jump(source.first);
    return;
  }
  toast(`This picture could not be made: ${error.message}`);
}

/** The state goes back to what the page shows. */
function unmoved() {
  state = settled({}, frame.header);
  address.replace(formatHash(state));
  draw(true);
}

// --- what a person does ---------------------------------------------------------------------------

function chooseView(id) {
  if (id === frame?.header.view) return;
  const { state: own } = frame?.header.views.find((view) => view.id === id) ?? {};
  if (own) jump(own);
  else follow({ v: id });
}

/** Moves the cursor along an axis; a zoomed picture follows it. */
function move(along, by) {
  const cursor = frame?.header.cursor?.[along];
  if (!cursor) return;
  const within = (place) => Math.min(cursor.max, Math.max(cursor.min, place));
  const present = Number(state[cursor.key] ?? cursor.value);
  const from = within(Number.isFinite(present) ? present : cursor.value);
  const next = within(from + by * (cursor.step || 1));
  act({ [cursor.key]: String(next), ...followed(along, next) });
}

function followed(along, place) {
  const span = zoomSpan(along);
  if (!span || (place >= span.lo && place < span.hi)) return {};
  const shift = place < span.lo ? place - span.lo : place - span.hi + 1;
  return { [span.from]: String(span.lo + shift), [span.to]: String(span.hi + shift) };
}

/** The part of an axis on screen, or null where the view does not zoom. */
function zoomSpan(along) {
  const zoom = frame?.header.zoom?.[along];
  if (!zoom) return null;
  const read = (key, whole) => {
    const place = Number(state[key] || whole);
    return Number.isFinite(place) ? Math.min(zoom.max, Math.max(zoom.min, place)) : whole;
  };
  const [lo, hi] = [read(zoom.from, zoom.min), read(zoom.to, zoom.max)];
  return lo < hi ? { ...zoom, lo, hi } : { ...zoom, lo: zoom.min, hi: zoom.max };
}

function zoomTo(span, lo, hi) {
  const size = Math.min(Math.max(4, Math.round(hi - lo)), span.max - span.min);
  const start = Math.min(Math.max(span.min, Math.round(lo)), span.max - size);
  if (size >= span.max - span.min) return { [span.from]: null, [span.to]: null };
  return { [span.from]: String(start), [span.to]: String(start + size) };
}

const deeds = {
  set: (changes) => {
    if (Object.keys(changes).length) act(changes);
  },
  preview: (changes) => {
    if (JSON.stringify(changes) === JSON.stringify(preview)) return;
    preview = changes;
    request();
  },
  move,
  canZoom: () => Boolean(zoomSpan("x") ?? zoomSpan("y")),
  zoomed: () => ["x", "y"].some((along) => {
    const span = zoomSpan(along);
    return span && span.hi - span.lo < span.max - span.min;
  }),
  zoom: (factor, share, which) => {
    const changes = {};
    for (const along of ["x", "y"]) {
      const span = zoomSpan(along);
      if (!span || (which !== "both" && which !== along)) continue;
      const size = span.hi - span.lo;
      const held = span.lo + share[along] * size;
      const wanted = factor < 1 ? Math.min(size - 1, size * factor) : Math.max(size + 1, size * factor);
      Object.assign(changes, zoomTo(span, held - share[along] * wanted, held + (1 - share[along]) * wanted));
    }
    act(changes);
  },
  pan: (dx, dy) => {
    const changes = {};
    for (const [along, part] of [["x", dx], ["y", dy]]) {
      const span = zoomSpan(along);
      if (!span) continue;
      const by = Math.round(-part * (span.hi - span.lo));
      if (by) Object.assign(changes, zoomTo(span, span.lo + by, span.hi + by));
    }
    if (!Object.keys(changes).length) return false;
    act(changes);
    return true;
  },
  unzoom: () => {
    const keys = ["x", "y"].flatMap((along) => {
      const span = zoomSpan(along);
      return span ? [span.from, span.to] : [];
    });
    if (keys.length) act(Object.fromEntries(keys.map((key) => [key, null])));
  },
};

const ofB = () => Object.keys(state).filter((key) => key.startsWith("b."));

function stopComparing() {
  act(Object.fromEntries(ofB().map((key) => [key, null])), true);
}

/** Pins the present encoding as B; from then on the settings change A alone. */
function compare() {
  if (!frame?.header.compares) return;
  if (frame?.header.compare) {
    stopComparing();
    return;
  }
  const mine = (frame?.header.controls ?? []).filter(({ section }) => section === "encoding");
  act(Object.fromEntries(mine.map(({ key, value }) => [`b.${key}`, value])), true);
  toast("Pinned as B. Now change A in the settings.");
}

function find() {
  const control = (frame?.header.controls ?? []).find(({ section }) => section === "find");
  if (!control) {
    toast("This view has no Find.");
    return;
  }
  openSettings(true);
  controls.more.open = true;
  byId(`control-${control.key}`).focus();
}

function openSettings(open) {
  host.page.classList.toggle("settings-open", open);
  byId("settings-toggle").setAttribute("aria-expanded", String(open));
  if (!frame || !host.page.classList.contains("narrow")) return;
  draw(true);
  if (open) byId("panels").scrollIntoView({ block: "start" });
}

function saveAddress(format) {
  return `api/save?${new URLSearchParams({ format, ...query(state) })}`;
}

// --- wiring ---------------------------------------------------------------------------------------

const tabs = new Tabs(byId("tabs"), chooseView);
const controls = new Controls(byId("settings"), (key, text) => act({ [key]: text }, key === "find"));
const panels = new Panels(byId("panels"), deeds);

byId("theme").addEventListener("click", () => theme.toggle());
byId("help").addEventListener("click", showHelp);
found("compare")?.addEventListener("click", compare);
found("show-python")?.addEventListener("click", () => frame && showPython(frame.header));
found("data-table")?.addEventListener("click", () => {
  load({ query: { ...query(state), numbers: "1" } }).then(
    (next) => showTable(next.header),
    () => toast("The numbers cannot be had: Python has stopped."),
  );
});
found("tour-start")?.addEventListener("click", startTour);
byId("settings-toggle").addEventListener("click", () => openSettings(!host.page.classList.contains("settings-open")));
found("copy-link")?.addEventListener("click", () => {
  address.flush();
  const link = () => copy(location.href, "Link copied.");
  if (!source.load) {
    link();
    return;
  }
  const line = `<iframe src="${location.href.replaceAll("&", "&amp;")}" title="${document.title}" width="100%" height="700"></iframe>`;
  menu(byId("copy-link"), [["Address", link], ["Line for a web page: iframe", () => copy(line, "Line copied.")]].map(([text, onclick]) => el("button", { type: "button", onclick }, text)));
});
found("save")?.addEventListener("click", () => {
  if (frame) menu(byId("save"), saveItems(frame.header, saveAddress));
});

const MOVES = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", -1], ArrowDown: ["y", 1] };
const COMMANDS = {
  "[": () => tabs.step(-1, false),
  "]": () => tabs.step(1, false),
  ...(source.load ? {} : { f: find, c: compare }),
  t: () => theme.toggle(),
  "?": showHelp,
};

function escape() {
  openSettings(false);
  if (frame?.header.find) follow({ find: "" });
}

host.page.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (host.root.querySelector("dialog[open], .menu")) return;
  if (event.key === "Escape") {
    escape();
    return;
  }
  const step = MOVES[event.key];
  if (step ? takesArrows(event.target) : takesLetters(event.target)) return;
  if (step) {
    event.preventDefault();
    move(step[0], step[1] * (event.shiftKey ? 10 : 1));
  } else if (COMMANDS[event.key]) {
    event.preventDefault();
    COMMANDS[event.key]();
  }
});

/** Shows the state of a hash, as Back does, or whoever holds the page. */
export function go(hash) {
  preview = null;
  state = parseHash(hash);
  version += 1;
  address.due = null;
  request();
}

if (host.alone) addEventListener("popstate", () => go(host.read()));

let seen = "";
new ResizeObserver(() => {
  sized();
  const size = `${byId("panels").clientWidth} ${host.height()}`;
  if (!frame || size === seen) return;
  if (seen) draw(true);
  seen = size;
  fit({ screen });
}).observe(byId("panels"));
addEventListener("resize", () => {
  if (frame) draw(true);
  if (room) fit({ screen });
});

sized();
host.page.classList.remove("dead");
if (source.load) {
  host.page.classList.toggle("inset", parent !== window);
  const height = () => parent.postMessage({ posencHeight: host.page.getBoundingClientRect().height }, "*");
  if (parent !== window) new ResizeObserver(height).observe(host.page);
}
request();
