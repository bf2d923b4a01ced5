/** Frames: one request, one consistent picture. How they come is the only thing that differs
 *  between a page served by Python and one that computes. */

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

/** The header and the arrays of a message: length, JSON, then arrays at multiples of eight bytes. */
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

/** A copy of a header with another value at a path; what is not on the path is shared. */
function placed(node, [key, ...rest], value) {
  if (key === undefined) return value;
  const copy = Array.isArray(node) ? [...node] : { ...node };
  copy[key] = placed(node[key], rest, value);
  return copy;
}

/** The frame that a step leads to from the one before; a frame that is whole stays as it is. */
export function stepped(before, { header, arrays }) {
  if (!header.steps) return { header, arrays };
  let next = before.header;
  for (const [path, value] of header.steps) next = placed(next, path, value);
  const kept = { ...before.arrays, ...arrays };
  for (const name of header.gone) delete kept[name];
  return { header: { ...next, id: header.id }, arrays: kept };
}

/** The server cannot be reached: not a mistake of the page, and it may pass. */
export class Gone extends Error {}

/** A page without Python does not make the state asked for. */
export class NotStored extends Error {}

/** The bytes of a frame, from the server that sent the page. */
export async function fetched(query) {
  let answer;
  try {
    answer = await fetch(`api/frame?${new URLSearchParams(query)}`, { cache: "no-store" });
  } catch {
    throw new Gone("no answer");
  }
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 300) || `status ${answer.status}`);
  try {
    return await answer.arrayBuffer();
  } catch {
    throw new Gone("the answer broke off");
  }
}

/** Frames from Python: the first one whole, then what differs from the last. `ask` gives their bytes. */
export function served(ask) {
  let last = null;
  return async (request) => {
    const since = last ? { since: last.header.id } : {};
    const next = stepped(last, decode(await ask({ ...request.query, ...since })));
    if (!request.query.numbers) last = next;
    return next;
  };
}

/** A frame that is kept in the page itself. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return decode(await new Response(stream).arrayBuffer());
}

/** Where frames come from in a page that makes them itself, and the state that it opens on; `computed.js` sets
 *  both before the page begins. */
export const source = { load: null, first: {} };

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
