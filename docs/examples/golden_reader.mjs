// Hold angles in float32 to a golden file of posenc: node golden_reader.mjs FILE
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const f32 = Math.fround;
const PLACE = ["check", "part", "state", "length", "case", "position", "positions", "q_positions"];

function must(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

// The contract in the bytes of a file, which must be whole.
function contractOf(data) {
  const contract = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data));
  must(contract.format === "posenc contract" && [1, 2].includes(contract.version), "not a golden file of version 1 or 2");
  if (contract.version === 2) {
    const end = data.subarray(-79).toString("latin1");
    const digest = createHash("sha256").update(data.subarray(0, -79)).digest("hex");
    must(end === `"sha256": "${digest}"\n}\n`, "cut or changed: the digest at the end is not that of what precedes");
    must(contract.checks.length === contract.records, "not as many records as stated");
  }
  const places = contract.checks.map((check) => JSON.stringify(PLACE.map((key) => check[key])));
  must(new Set(places).size === places.length, "a record stands twice");
  return contract;
}

function turned(x, cos, sin, known) {
  const y = new Array(known.width);
  cos.forEach((c, j) => {
    const a = x[known.first[j]], b = x[known.second[j]], s = known.sign * sin[j];
    y[known.first_out[j]] = f32(f32(a * c) - f32(b * s));
    y[known.second_out[j]] = f32(f32(b * c) + f32(a * s));
  });
  return y;
}

// The tolerances of a record, which may not be wider than the rule of docs/golden.md.
function boundsOf(check, angles, known) {
  const sizes = angles.map((angle, j) => {
    const f = Math.abs(known.frequencies[j]);
    return Math.abs(angle) * (4 + Math.abs(Math.log(f === 0 ? 1 : f))) + 2;
  });
  const m = Math.abs(known.attention_factor), unit = 2 ** -24, own = m * unit * Math.max(...sizes);
  const stated = [check.tolerance_float32, check.rotated_tolerance_float32];
  for (const [i, most] of [own, 2 * (own + 3 * m * unit)].entries()) {
    must(stated[i] >= 0 && stated[i] <= most * 1.001, `a tolerance of ${stated[i]} at position ${check.position}`);
  }
  return stated;
}

let compared = 0, wrong = 0;
function compare(contract) {
  let known = {};
  for (const check of contract.checks) {
    if (check.check === "frequencies") known = check; // of the records of angles that follow
    if (check.check !== "angles" || !("cos" in check)) continue;
    must(check.part === known.part && check.state === known.state, "angles without their frequencies");
    must(known.query.length === known.width, "another width than that of the query");
    const angles = known.frequencies_float32.map((frequency, j) =>
      f32(f32(check.position[known.axis[j]] + known.start) * f32(frequency)));
    const factor = f32(known.attention_factor);
    const cos = angles.map((angle) => f32(factor * f32(Math.cos(angle))));
    const sin = angles.map((angle) => f32(factor * f32(Math.sin(angle))));
    const mine = { cos, sin, rotated_query: turned(known.query, cos, sin, known) };
    const bounds = boundsOf(check, angles, known);
    for (const [name, values] of Object.entries(mine)) {
      must(check[name].length === values.length, `another number of values of ${name}`);
      const off = Math.max(...values.map((value, i) => Math.abs(value - check[name][i])));
      const bound = bounds[name === "rotated_query" ? 1 : 0];
      compared += 1;
      if (off <= bound) continue;
      wrong += 1;
      console.log(`${check.part}: ${name} at position ${check.position} is off by ${off}, allowed ${bound}`);
    }
  }
}

try {
  compare(contractOf(readFileSync(process.argv[2])));
} catch (error) {
  console.error(`${process.argv[2]}: no golden file that is whole: ${error.message}`);
  process.exit(1);
}
console.log(`${compared} arrays compared, ${wrong} differ`);
process.exit(wrong > 0 || compared === 0 ? 1 : 0);
