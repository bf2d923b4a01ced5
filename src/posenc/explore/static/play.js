/** Motion on request: a button moves one control, value by value, and anything else stops it. */

import { el } from "./dom.js";
import { host } from "./host.js";

const PAUSE = 60;
const still = matchMedia("(prefers-reduced-motion: reduce)");

let run = null; // what moves at present: its button, and what takes it to the next value

function show(button) {
  const word = still.matches ? "Step" : run?.button === button ? "Stop" : "Play";
  button.textContent = { Play: "▶", Stop: "■", Step: "▸" }[word];
  button.setAttribute("aria-label", `${word}: ${button.dataset.of}`);
}

export function stopPlaying() {
  const last = run;
  run = null;
  clearTimeout(last?.timer);
  if (last) show(last.button);
}

function advance() {
  if (run && !run.next()) stopPlaying();
}

/** A picture has been drawn: what plays goes on to its next value. */
export function drawn() {
  if (!run) return;
  clearTimeout(run.timer);
  run.timer = setTimeout(advance, PAUSE);
}

/** A button that plays a control; `next` sets its next value, and returns false at the last one. */
export function playButton(label, next) {
  const button = el("button", { type: "button", class: "play", "data-of": label });
  button.addEventListener("click", () => {
    const mine = run?.button === button;
    stopPlaying();
    if (mine) return;
    if (still.matches) {
      next();
      return;
    }
    run = { button, next, timer: 0 };
    show(button);
    advance();
  });
  still.addEventListener("change", () => {
    stopPlaying();
    show(button);
  });
  show(button);
  return button;
}

for (const kind of ["pointerdown", "keydown", "wheel", "input"]) {
  host.page.addEventListener(kind, (event) => {
    // A press of the button itself is seen by the button.
    const press = kind === "pointerdown" || [" ", "Enter"].includes(event.key);
    if (run && !(press && run.button.contains(event.target))) stopPlaying();
  }, { capture: true, passive: true });
}
