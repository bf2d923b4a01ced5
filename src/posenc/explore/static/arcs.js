/** For which positions the phase lies in an arc: counted and found in closed form, as posenc/detect/locate/arcs.py. */

const TURN = 1n << 64n;
const SLACK = 1n << 13n; // what float64 may lose on the way from a value to its phase
const modulo = (a, m) => ((a % m) + m) % m;
const floorDiv = (a, b) => (a - modulo(a, b)) / b;

function arcsine(value) {
  const angle = Math.atan2(value, Math.sqrt((1 - value) * (1 + value))) / (2 * Math.PI);
  return BigInt(Math.round(angle * 2 ** 64));
}

/** The phases at which a sine or cosine lies between two values, as [from, length]. */
export function arcsOf(cosine, low, high, reach) {
  if (high < -1 || low > 1) return [];
  const slack = SLACK + BigInt(reach) / 2n;
  const [begin, end] = [arcsine(Math.max(low, -1)), arcsine(Math.min(high, 1))];
  const quarter = cosine ? TURN / 4n : 0n;
  const rising = [begin - quarter - slack, end - begin + 2n * slack];
  const falling = [TURN / 2n - end - quarter - slack, end - begin + 2n * slack];
  let joined = [rising, falling];
  if (rising[0] + rising[1] >= falling[0]) joined = [[rising[0], falling[0] + falling[1] - rising[0]]];
  const last = joined.at(-1);
  if (last[0] + last[1] >= joined[0][0] + TURN) {
    if (joined.length === 1) return [[0n, TURN]];
    joined = [[falling[0], rising[0] + TURN + rising[1] - falling[0]]];
  }
  return joined.map(([start, length]) => [modulo(start, TURN), length]);
}

/** The sum of floor((a i + b) / m) for i = 0 to n - 1, by Euclid's algorithm. */
function floors(n, a, b) {
  let [total, m] = [0n, TURN];
  for (;;) {
    total += (((n - 1n) * n) / 2n) * floorDiv(a, m) + n * floorDiv(b, m);
    [a, b] = [modulo(a, m), modulo(b, m)];
    const top = a * n + b;
    if (top < m) return total;
    [n, b, m, a] = [top / m, top % m, a, m];
  }
}

/** How many positions from `start` on, before `stop`, have a phase in one of some arcs. */
export function countHits(step, arcs, start, stop) {
  const many = BigInt(stop - start);
  let total = 0n;
  for (const [begin, length] of arcs) {
    if (length >= TURN - 1n) return stop - start;
    const shift = step * BigInt(start) - begin;
    total += floors(many, step, shift) - floors(many, step, shift - length - 1n);
  }
  return Number(total);
}

/** The least x >= 0 with low <= step * x mod modulus <= high, or null. */
function first(step, modulus, low, high) {
  if (low === 0n) return 0n;
  if (step === 0n) return null;
  if (2n * step > modulus) return first(modulus - step, modulus, modulus - high, modulus - low);
  const x = (low + step - 1n) / step;
  if (step * x <= high) return x;
  const laps = first(modulus % step, step, modulo(-high, step), modulo(-low, step));
  return laps === null ? null : (low + modulus * laps + step - 1n) / step;
}

/** The least number >= begin whose multiple of the step lies in the arc, or null. */
function next(step, [start, length], begin) {
  const low = modulo(start - step * begin, TURN);
  if (low + length >= TURN) return begin;
  const more = first(modulo(step, TURN), TURN, low, low + length);
  return more === null ? null : begin + more;
}

/** The nearest other positions whose phase is within `wide` of that of a position: at most five. */
export function again(step, wide, position, start, stop) {
  const arc = [modulo(-wide, TURN), 2n * wide];
  const ends = { [-1]: BigInt(position - start), 1: BigInt(stop - 1 - position) };
  const onward = (size, sign) => {
    const more = next(step, arc, size + 1n);
    return more === null || more > ends[sign] ? [] : [[more, sign]];
  };
  let heads = [...onward(0n, -1), ...onward(0n, 1)];
  const places = [];
  while (heads.length && places.length < 5) {
    heads.sort(([a, sign], [b]) => (a < b || (a === b && sign < 0) ? -1 : 1));
    const [[size, sign], ...rest] = heads;
    places.push(position + sign * Number(size));
    heads = [...rest, ...onward(size, sign)];
  }
  return places;
}
