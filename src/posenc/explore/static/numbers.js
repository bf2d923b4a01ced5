/** Numbers as people read them, by the rules of posenc/plot/panels/text.py: the same texts from the same numbers. */

const MINUS = "\u2212";
const NEARLY = 1e-12; // what sums of float64 leave of a whole number
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

const thousands = (digits) => digits.replace(/^\d+/, (n) => n.replace(/\B(?=(\d{3})+$)/g, ","));

/** A number of at least 0 to some places; of two that are equally near the even one, as Python has it. */
function fixed(size, places) {
  const text = size.toFixed(places);
  const far = size.toFixed(Math.min(100, places + 30)); // a double that is a tie has no digits beyond
  const rest = far.slice(far.indexOf(".") + 1 + places);
  if (!/^50*$/.test(rest) || Number(text.at(-1)) % 2 === 0) return text;
  return far.slice(0, far.indexOf(".") + (places ? 1 + places : 0));
}

/** The nearest integer, the even one of two. */
export function rint(x) {
  const nearest = Math.round(x);
  return Math.abs(x % 1) === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest;
}

/** An integer with its thousands apart. */
export function whole(n) {
  const nearest = typeof n === "bigint" ? n : rint(n);
  const digits = typeof n === "bigint" ? String(n) : nearest.toFixed(0);
  return digits.startsWith("-") ? (nearest ? MINUS + thousands(digits.slice(1)) : "0") : thousands(digits);
}

/** A number to some significant digits, in powers of ten where it is very large or small. */
export function number(x, digits = 4) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "not a number" : x > 0 ? "∞" : `${MINUS}∞`;
  const size = Math.abs(x);
  if (size < 1e15 && Math.abs(size - rint(size)) <= NEARLY * size) return whole(x);
  const sign = x < 0 ? MINUS : "";
  if (size >= 1e-4 && size < 1e15) {
    const after = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    const text = thousands(fixed(size, after));
    return sign + (after ? text.replace(/\.?0+$/, "") : text);
  }
  const [mantissa, exponent] = size.toExponential(Math.max(digits - 1, 0)).split("e");
  return `${sign}${mantissa} × 10${[...exponent.replace("+", "")].map((c) => RAISED[c]).join("")}`;
}

/** A number to some places after the point. */
export function signed(x, places = 4) {
  if (!Number.isFinite(x)) return number(x);
  const text = thousands(fixed(Math.abs(x), places));
  return x < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

/** `1 pair`, `2 pairs`. */
export const plural = (n, word) => `${whole(n)} ${word}${Number(n) === 1 ? "" : "s"}`;

/** `3 of 18`. */
export const count = (n, of) => `${whole(n)} of ${whole(of)}`;

const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
const raised = (text, n) => `${text}e${n < 0 ? "-" : "+"}${String(Math.abs(n)).padStart(2, "0")}`;

/** A float to so many significant digits, as C and Python write it: %g. */
export function general(x, digits) {
  const [mantissa, power] = x.toExponential(digits - 1).split("e");
  return power < -4 || power >= digits ? raised(bare(mantissa), Number(power)) : bare(x.toPrecision(digits));
}

/** A float with every digit that it needs, as an address has it. */
export function short(x) {
  const text = general(x, 6);
  if (Number(text) === x) return text;
  const [own, power] = x.toExponential().split("e"); // all digits, as repr has them
  if (power < -4 || power >= 16) return raised(own, Number(power));
  if (Number.isInteger(x)) return `${x}.0`;
  return String(x).includes("e") ? x.toFixed(own.length - 2 - power) : String(x);
}

/** `{at, text}` of each label. */
const tick = (at, text) => ({ at, text });
const powerOfTen = (n) => Number(`1e${n}`);

/** Round numbers of a linear axis, at most about `most` of them. */
export function ticks(low, high, most = 6) {
  const span = high - low;
  if (!(Number.isFinite(span) && span > 0)) return Number.isFinite(low) ? [tick(low, number(low))] : [];
  let step = powerOfTen(Math.floor(Math.log10(span / most)));
  step *= [1, 2, 5, 10].find((f) => span / (step * f) <= most);
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return Array.from({ length: last - first + 1 }, (_, n) => (first + n) * step + 0).map((at) => tick(at, at ? signed(at, places) : "0"));
}

function powerText(at) {
  if (at >= 1e-3 && at < 1e7) return at >= 1 ? whole(at) : number(at, 1);
  return number(at, 1).replace("1 × ", "");
}

/** Round numbers of a logarithmic axis. */
export function logTicks(low, high, most = 7, base = 10) {
  if (!(low > 0 && low < high && Number.isFinite(high))) return [];
  const log = (x) => Math.log(x) / Math.log(base);
  const [first, last] = [Math.ceil(log(low) - 1e-9), Math.floor(log(high) + 1e-9)];
  const at = [];
  if (last - first >= 2 || base !== 10) {
    const every = Math.max(1, Math.ceil((last - first + 1) / most));
    for (let n = first; n <= last; n += every) at.push(base === 10 ? powerOfTen(n) : 2 ** n);
  } else {
    for (let n = first - 1; n <= last; n += 1) at.push(...[1, 2, 5].map((f) => f * powerOfTen(n)));
  }
  return at.filter((x) => last - first >= 2 || base !== 10 || (x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9))).map((x) => tick(x, powerText(x)));
}

/** Ticks at round names, and at those after them, which stand elsewhere: sines and cosines. */
export function namedTicks(names, start, stop, most) {
  const shown = new Set(ticks(0, names.length - 1, most).flatMap(({ at }) => [Math.trunc(at), Math.trunc(at) + 1]));
  const marks = [];
  names.forEach((name, at) => {
    if (shown.has(name) && at >= start && at < stop) marks.push(tick(at + 0.5, whole(name)));
  });
  return marks;
}

/** A domain a little wider than its values, never empty. */
export function widened(low, high, share = 0.05) {
  if (!(Number.isFinite(low) && Number.isFinite(high))) return [-1, 1];
  const room = (high - low) * share || Math.max(Math.abs(high) * share, 1e-6);
  return [low - room, high + room];
}
