/** The page in a notebook: what the widget's comm carries in place of HTTP. The widget's module puts it
 *  after the bundle, whose `mount` it calls, and after HTML and CSS, the texts of the page. */

const SILENCE = 30000;

/** Bytes of their own: arrays begin at multiples of eight bytes, which a part of a message may not. */
function part(view) {
  const { buffer = view, byteOffset = 0, byteLength } = view;
  return new Uint8Array(new Uint8Array(buffer, byteOffset, byteLength)).buffer;
}

export function render({ model, el }) {
  const waiting = new Map();
  const name = Math.random().toString(36).slice(2);
  let count = 0;
  let shown = "";
  const text = (state) => JSON.stringify(Object.entries(state).sort());
  const stateOf = (hash) => {
    const { k, ...state } = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
    return state;
  };
  const hashOf = (state) => `#${new URLSearchParams({ k: "1", ...state })}`;
  const answered = ({ id, error }, buffers) => {
    const asked = waiting.get(id);
    if (!asked) return;
    waiting.delete(id);
    clearTimeout(asked.timer);
    if (error) asked.reject(new Error(error));
    else asked.resolve(part(buffers[0]));
  };
  const ask = (query) => new Promise((resolve, reject) => {
    const id = `${name}-${count++}`;
    const late = () => answered({ id, error: "Python does not answer. Run the cell again." });
    waiting.set(id, { resolve, reject, timer: setTimeout(late, SILENCE) });
    model.send({ id, query });
  });
  const changed = (hash) => {
    const state = stateOf(hash);
    if (text(state) === shown) return;
    shown = text(state);
    model.set("state", state);
    model.save_changes();
  };
  model.on("msg:custom", answered);
  const box = document.createElement("div");
  // The notebook's own keys stay out of the page.
  box.dataset.lmSuppressShortcuts = "true";
  box.addEventListener("keydown", (event) => event.stopPropagation());
  el.append(box);
  shown = text(model.get("state"));
  const state = hashOf(model.get("state"));
  const height = model.get("height");
  const page = mount(box, { html: HTML, css: CSS, ask, state, changed, height });
  const follow = () => {
    if (text(model.get("state")) === shown) return;
    shown = text(model.get("state"));
    page.go(hashOf(model.get("state")));
  };
  model.on("change:state", follow);
  return () => {
    model.off("msg:custom", answered);
    model.off("change:state", follow);
  };
}
