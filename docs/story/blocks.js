/** What several scenes are made of: controls, lines of charts, and what scrolling changes. */

import { float32, float64, make } from "./grammar.js";
import { rint } from "./numbers.js";

export const option = (value, label) => ({ value, label, group: "" });
export const choice = (key, label, ...options) => ({ key, label, kind: "choice", options });
export const slider = (key, label, min, max, more = {}) => ({ key, label, kind: "number", min, max, step: 1, scale: "linear",
  plays: true, ...more });
export const between = (from, to, t) => String(rint(from + (to - from) * t));
export const along = (from, to, t) => String(Number((from * (to / from) ** t).toPrecision(2)));
export const line = (label, x, y, style = 0, more = {}) => make("Series", { label, x: float64(x), y: float32(y), style, ...more });
export const WORDS = { v: "attention", qk: "random", text: "John likes Jane", shift: "0", softmax: "1" };
export const WIDE = 64; // channels
