// Axes, sliders, addresses and frames, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const folder = new URL("../../src/posenc/explore/static/", import.meta.url);

/** A script of the page as a module; what needs a document is replaced. */
function load(name) {
  const code = readFileSync(new URL(name, folder), "utf8").replace(
    /^import \{ textWidth \} from "\.\/dom\.js";$/m,
    "const textWidth = (text) => 6 * text.length;",
  );
  return import(`data:text/javascript,${encodeURIComponent(code)}`);
}

const scale = await load("scale.js");
const state = await load("state.js");
const transport = await load("transport.js");

test("linear and logarithmic axes go there and back", () => {
  const linear = scale.scaleOf({ domain: [0, 128], cells: true }, 10, 266);
  assert.equal(linear.at(64), 138);
  assert.equal(linear.middle(0), 11);
  const log = scale.scaleOf({ domain: [1, 10000], scale: "log" }, 400, 0);
  assert.equal(log.at(100), 200);
  assert.ok(Math.abs(log.invert(log.at(37)) - 37) < 1e-9);
});

test("a pixel of an axis of cells is the cell under it", () => {
  const axis = { domain: [10, 20], cells: true };
  const over = scale.scaleOf(axis, 0, 100);
  const pick = (pixel, more = {}) => scale.picked({ ...axis, ...more }, over, pixel, { "@0": { data: [5, 7, 9] } });
  assert.deepEqual([pick(0), pick(9.9), pick(10), pick(99.9), pick(100)], [10, 10, 11, 19, 19]);
  assert.equal(pick(11, { to: "@0" }), 7);
});

test("a pixel of an axis of numbers is the nearest integer in it", () => {
  const axis = { domain: [0.4, 9.6] };
  const over = scale.scaleOf(axis, 0, 92);
  assert.deepEqual([0, 46, 92].map((pixel) => scale.picked(axis, over, pixel, {})), [1, 5, 9]);
});

test("labels that would touch are thinned evenly", () => {
  assert.equal(scale.stride([0, 20, 40, 60], [10, 10, 10, 10], 8), 1);
  assert.equal(scale.stride([0, 20, 40, 60], [18, 18, 18, 18], 8), 2);
  assert.equal(scale.stride([0, 1, 2], [18, 18, 18], 8), 3);
});

test("labels at the ends of lines move apart and stay inside", () => {
  const moved = scale.spread([{ at: 50 }, { at: 52 }, { at: 99 }], 14, 0, 100);
  assert.deepEqual(moved.map(({ at }) => at), [50, 64, 99]);
  const low = scale.spread([{ at: 99 }, { at: 98 }], 14, 0, 100);
  assert.deepEqual(low.map(({ at }) => at), [86, 100]);
});

test("sliders reach both ends and every step", () => {
  const control = { min: 10, max: 1000000, step: 10, scale: "log" };
  assert.deepEqual([0, 1000].map((at) => scale.sliderValue(control, at)), [10, 1000000]);
  assert.equal(scale.sliderPlace(control, 10), 0);
  assert.equal(scale.onStep({ min: 2, max: 512, step: 2 }, 5.2), 6);
  assert.equal(scale.onStep({ min: 0, max: 1, step: 0 }, 0.12345678), 0.1235);
});

test("an address holds what was set, be it a default or unknown", () => {
  const given = state.parseHash("#k=1&v=waves&d=128&p=41&colour=red&w=99&theme=dark");
  assert.deepEqual(given, { v: "waves", d: "128", p: "41", colour: "red" });
  assert.equal(state.formatHash(given), "#k=1&v=waves&colour=red&d=128&p=41");
  const header = { view: "waves", address: { v: "waves", d: "128", j: "3" } };
  assert.deepEqual(state.settled(given, header), { v: "waves", d: "128", p: "41", colour: "red", j: "3" });
});

test("a frame is taken apart", () => {
  const header = { view: "table", arrays: { "@0": ["u1", [2, 3], 0], "@1": ["f4", [2], 8] } };
  let text = JSON.stringify(header);
  text += " ".repeat((8 - ((text.length + 4) % 8)) % 8);
  const bytes = new Uint8Array(4 + text.length + 16);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, text.length, true);
  bytes.set(new TextEncoder().encode(text), 4);
  bytes.set([1, 2, 3, 4, 5, 6], 4 + text.length);
  view.setFloat32(4 + text.length + 8, 0.5, true);
  view.setFloat32(4 + text.length + 12, -2, true);
  const { arrays } = transport.decode(bytes.buffer);
  assert.deepEqual([...arrays["@0"].data], [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(arrays["@0"].shape, [2, 3]);
  assert.deepEqual([...arrays["@1"].data], [0.5, -2]);
});

test("one request is in flight and the latest wins", async () => {
  const asked = [];
  const waiting = [];
  const shown = [];
  const load = (request) => {
    asked.push(request);
    return new Promise((resolve) => waiting.push(() => resolve(request)));
  };
  const nothing = () => {};
  const ask = transport.latest(load, {
    show: (frame, request, last) => shown.push([frame, last]),
    gone: nothing, back: nothing, failed: nothing, asking: nothing,
  });
  ask(1);
  ask(2);
  ask(3);
  assert.deepEqual(asked, [1]);
  waiting[0]();
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(asked, [1, 3]);
  waiting[1]();
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(shown, [[1, false], [3, true]]);
});
