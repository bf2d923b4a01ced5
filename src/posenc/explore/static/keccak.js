/** SHAKE-256, which browsers lack: the numbers that stand in for words, as posenc/_core/numeric/random_vectors.py. */

const RATE = 136; // bytes of a block

/** The round constants as pairs of words (low, high), by the shift register of the standard (FIPS 202, 3.2.5). */
const ROUNDS = (() => {
  const constants = [];
  let register = 1;
  for (let round = 0; round < 24; round += 1) {
    const words = [0, 0];
    for (let j = 0; j < 7; j += 1) {
      const bit = 2 ** j - 1;
      if (register & 1) words[bit >> 5] ^= 1 << (bit & 31);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
    constants.push(words);
  }
  return constants;
})();

/** Where each lane goes, and by how many bits it turns: [from, to, bits]. */
const MOVES = (() => {
  const moves = [];
  let [x, y] = [1, 0];
  for (let t = 0; t < 24; t += 1) {
    moves.push([x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), (((t + 1) * (t + 2)) / 2) % 64]);
    [x, y] = [y, (2 * x + 3 * y) % 5];
  }
  return moves;
})();

/** Turns 64 bits, words (low, high) of `from` at a lane, into those of `to`. */
function turn(from, lane, to, place, bits) {
  const a = from[bits < 32 ? 2 * lane : 2 * lane + 1];
  const b = from[bits < 32 ? 2 * lane + 1 : 2 * lane];
  const by = bits & 31;
  to[2 * place] = by ? (a << by) | (b >>> (32 - by)) : a;
  to[2 * place + 1] = by ? (b << by) | (a >>> (32 - by)) : b;
}

const [columns, turned, lanes] = [new Int32Array(10), new Int32Array(10), new Int32Array(50)];

function permute(state) {
  for (let round = 0; round < 24; round += 1) {
    for (let x = 0; x < 10; x += 1) columns[x] = state[x] ^ state[x + 10] ^ state[x + 20] ^ state[x + 30] ^ state[x + 40];
    for (let x = 0; x < 5; x += 1) turn(columns, x === 4 ? 0 : x + 1, turned, x, 1);
    for (let x = 0; x < 10; x += 1) {
      const mixed = columns[x < 2 ? x + 8 : x - 2] ^ turned[x];
      for (let n = x; n < 50; n += 10) state[n] ^= mixed;
    }
    lanes[0] = state[0];
    lanes[1] = state[1];
    for (let m = 0; m < 24; m += 1) turn(state, MOVES[m][0], lanes, MOVES[m][1], MOVES[m][2]);
    for (let row = 0; row < 50; row += 10) {
      for (let x = 0; x < 10; x += 1) state[row + x] = lanes[row + x] ^ (~lanes[row + (x < 8 ? x + 2 : x - 8)] & lanes[row + (x < 6 ? x + 4 : x - 6)]);
    }
    state[0] ^= ROUNDS[round][0];
    state[1] ^= ROUNDS[round][1];
  }
}

/** So many bytes of SHAKE-256, as words of 32 bits, of a text. */
function shake(text, words) {
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const state = new Int32Array(50);
  const blocks = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += RATE) {
    for (let n = 0; n < RATE / 4; n += 1) state[n] ^= blocks.getInt32(at + 4 * n, true);
    permute(state);
  }
  const out = new Uint32Array(words);
  for (let n = 0; n < words; n += 1) {
    if (n && n % (RATE / 4) === 0) permute(state);
    out[n] = state[n % (RATE / 4)];
  }
  return out;
}

/** A vector for a word: multiples of 2 ** -23, uniform in [-1, 1), the same for the same word and seed. */
export const randomVector = (word, dim, seed) => Float64Array.from(shake(`${seed} ${word}`, dim), (bits) => ((bits >>> 8) - 2 ** 23) * 2 ** -23);
