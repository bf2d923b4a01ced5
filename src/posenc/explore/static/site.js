/** The entry of a page without Python: its source of frames is there before the page begins. */

import { computes } from "./computed.js";
import { go } from "./app.js";

if (computes) addEventListener("hashchange", () => go(location.hash));
