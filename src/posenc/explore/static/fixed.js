/** Numbers with 256 bits after the point, as BigInt: the arithmetic that a ladder of frequencies needs. */

const BITS = 256n; // posenc has 50 digits, some 166 bits
export const ONE = 1n << BITS;

export const times = (a, b) => (a * b) >> BITS;
export const over = (a, b) => (a << BITS) / b;
export const integral = (n) => BigInt(n) << BITS;
export const least = (a, b) => (a < b ? a : b);
export const most = (a, b) => (a > b ? a : b);
export const floor = (x) => (x >> BITS) << BITS;
const shifted = (x, by) => (by < 0n ? x >> -by : x << by);

/** A float as mantissa * 2 ** exponent, both integers. */
export function parts(x) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(x));
  const word = bits.getBigUint64(0);
  const exponent = word >> 52n;
  const mantissa = (word & ((1n << 52n) - 1n)) | (exponent ? 1n << 52n : 0n);
  return [x < 0 ? -mantissa : mantissa, (exponent || 1n) - 1075n];
}

/** A float exactly; what lies below 2 ** -256 is dropped. */
export function exact(x) {
  const [mantissa, exponent] = parts(x);
  return shifted(mantissa, exponent + BITS);
}

/** The nearest float. */
export function float(x) {
  const size = x < 0n ? -x : x;
  const drop = BigInt(Math.max(0, size.toString(2).length - 62));
  // What is dropped only breaks ties, for which one bit stands.
  const kept = (size >> drop) | ((size & ((1n << drop) - 1n)) ? 1n : 0n);
  return Number(x < 0n ? -kept : kept) * 2 ** Number(drop - BITS);
}

/** z + s z^3 / 3 + z^5 / 5 + s z^7 / 7 + …: atanh(z) with the sign 1, atan(z) with -1. */
function series(z, sign) {
  let [total, power] = [0n, z];
  for (let k = 1n; power; k += 2n) {
    total += power / k;
    power = (power * z * z * sign) / (ONE * ONE); // towards 0, which `>>` never reaches from below
  }
  return total;
}

const LN2 = 2n * series(ONE / 3n, 1n);
export const PI = 16n * series(ONE / 5n, -1n) - 4n * series(ONE / 239n, -1n);

/** The logarithm of mantissa * 2 ** exponent. */
export function logarithm([mantissa, exponent]) {
  const size = BigInt(mantissa.toString(2).length);
  const m = shifted(mantissa, BITS - size); // from 1/2 to 1
  return 2n * series(over(m - ONE, m + ONE), 1n) + (exponent + size) * LN2;
}

export const ln = (x) => logarithm([x, -BITS]);

export function exp(x) {
  const turns = floor(over(x, LN2) + ONE / 2n) >> BITS;
  const rest = x - turns * LN2;
  let [total, term] = [ONE, ONE];
  for (let k = 1n; term; k += 1n) {
    term = times(term, rest) / k;
    total += term;
  }
  return shifted(total, turns);
}
