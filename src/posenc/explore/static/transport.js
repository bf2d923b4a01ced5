/** Frames: one request, one consistent picture. How they come is the only thing that differs
 *  between a page served by Python and a frozen one. */

const TYPES = {
  u1: Uint8Array,
  i1: Int8Array,
  u2: Uint16Array,
  i2: Int16Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

/** The header and the arrays of a frame: length, JSON, then arrays at multiples of eight bytes. */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, [type, shape, offset]] of Object.entries(header.arrays ?? {})) {
    const Type = TYPES[type];
    if (!Type) throw new Error(`array ${name} has type ${type}, which this page cannot read`);
    const count = shape.reduce((product, size) => product * size, 1);
    arrays[name] = { data: new Type(buffer, 4 + length + offset, count), shape };
  }
  return { header, arrays };
}

/** The server cannot be reached: not a mistake of the page, and it may pass. */
export class Gone extends Error {}

/** A frozen page does not hold the state asked for. */
export class NotStored extends Error {}

/** Frames from the server that sent the page. */
export function served() {
  return async (request) => {
    let answer;
    try {
      answer = await fetch(`api/frame?${new URLSearchParams(request.query)}`, { cache: "no-store" });
    } catch {
      throw new Gone("no answer");
    }
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 300) || `status ${answer.status}`);
    try {
      return decode(await answer.arrayBuffer());
    } catch (error) {
      if (error instanceof TypeError) throw new Gone("the answer broke off");
      throw error;
    }
  };
}

/** Frames stored in the page itself, by canonical query. */
export function frozen(stored) {
  const decoded = new Map();
  return async (request) => {
    const key = request.canonical;
    if (!Object.hasOwn(stored.frames, key)) throw new NotStored("This page holds stored states only.");
    if (!decoded.has(key)) decoded.set(key, unfrozen(stored.frames[key]));
    return decoded.get(key);
  };
}

function unfrozen(text) {
  return decode(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

/** The defaults by which a frozen page names its states; a served one learns them from a frame. */
export function storedDefaults(stored) {
  return stored ? unfrozen(Object.values(stored.frames)[0]).header.defaults : {};
}

/** The frames embedded in the page, or null on a served one. */
export function embedded() {
  const node = document.getElementById("frames");
  return node ? JSON.parse(node.textContent) : null;
}

const RETRY = 2000;

/**
 * Latest wins: one request in flight, one pending; whatever lies between is never sent.
 * `watch` is told of `show(frame, request)`, `gone()`, `back()`,
 * `failed(error, request)` and `asking(whether)`.
 */
export function latest(load, watch) {
  let busy = false;
  let pending = null;
  let lost = false;

  async function one(request) {
    try {
      const frame = await load(request);
      if (lost) watch.back();
      lost = false;
      watch.show(frame, request, pending === null);
    } catch (error) {
      if (!(error instanceof Gone)) {
        watch.failed(error, request);
        return;
      }
      if (!lost) watch.gone();
      lost = true;
      pending ??= request;
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }

  return async function ask(request) {
    pending = request;
    if (busy) return;
    busy = true;
    watch.asking(true);
    while (pending) {
      const next = pending;
      pending = null;
      await one(next);
    }
    busy = false;
    watch.asking(false);
  };
}
