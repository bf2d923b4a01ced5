// Frames that the page makes, of some states; with a fourth word only whether it makes them:
// node frames.check.mjs MODULES DATA.json STATES.json [made]

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, data, states, brief] = process.argv.slice(2);
const { local } = await import(pathToFileURL(`${folder}/local.js`));
const load = local(JSON.parse(readFileSync(data, "utf8")));

/** A header with its arrays in place: kind and shape beside the numbers. */
function whole(node, arrays) {
  if (typeof node === "string" && arrays[node]) {
    const { data: numbers, shape } = arrays[node];
    return { array: numbers.constructor.name, shape, numbers: Array.from(numbers, (x) => (Number.isFinite(x) ? x : String(x))) };
  }
  if (Array.isArray(node)) return node.map((one) => whole(one, arrays));
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(Object.entries(node).map(([key, one]) => [key, whole(one, arrays)]));
}

const answers = [];
for (const query of JSON.parse(readFileSync(states, "utf8"))) {
  const begun = performance.now();
  try {
    const { header, arrays } = await load({ query });
    answers.push({ frame: brief ? header.view : whole(header, arrays), ms: performance.now() - begun });
  } catch (error) {
    answers.push({ refused: error.name === "Error" || error.constructor.name === "NotStored" ? error.message : error.stack, kind: error.constructor.name });
  }
}
process.stdout.write(JSON.stringify(answers));
