/** How a column over positions is drawn, in Table and in Waves. */

import { float32, float64, make } from "./grammar.js";

/** A series of a curve, with its band where pixels cannot show all of it. */
export function seriesOf(curve) {
  const band = curve.band ? { lo: float32(curve.low), hi: float32(curve.high) } : {};
  return make("Series", { label: curve.label, x: float64(curve.x), y: float32(curve.mean), ...band });
}

export const unresolved = (curve) => (curve.band ? "Line: what pixels can show. Band: from the least to the largest value." : "");
