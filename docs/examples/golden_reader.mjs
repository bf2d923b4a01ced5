// Hold angles in float32 to a golden file of posenc: node golden_reader.mjs FILE
import { readFileSync } from "node:fs";

const f32 = Math.fround;

function turned(x, cos, sin, known) {
  const y = new Array(known.width);
  cos.forEach((c, j) => {
    const a = x[known.first[j]], b = x[known.second[j]], s = known.sign * sin[j];
    y[known.first_out[j]] = f32(f32(a * c) - f32(b * s));
    y[known.second_out[j]] = f32(f32(b * c) + f32(a * s));
  });
  return y;
}

const contract = JSON.parse(readFileSync(process.argv[2], "utf8"));
if (contract.format !== "posenc contract" || contract.version !== 1) {
  throw new Error("not a golden file of version 1");
}
let known, compared = 0, wrong = 0;
for (const check of contract.checks) {
  if (check.check === "frequencies") known = check; // of the records of angles that follow
  if (check.check !== "angles" || !("cos" in check)) continue;
  const angles = known.frequencies_float32.map((frequency, j) =>
    f32(f32(check.position[known.axis[j]] + known.start) * f32(frequency)));
  const factor = f32(known.attention_factor);
  const cos = angles.map((angle) => f32(factor * f32(Math.cos(angle))));
  const sin = angles.map((angle) => f32(factor * f32(Math.sin(angle))));
  const mine = { cos, sin, rotated_query: turned(known.query, cos, sin, known) };
  for (const [name, values] of Object.entries(mine)) {
    const off = Math.max(...values.map((value, i) => Math.abs(value - check[name][i])));
    const bound = check[(name === "rotated_query" ? "rotated_" : "") + "tolerance_float32"];
    compared += 1;
    if (off <= bound) continue;
    wrong += 1;
    console.log(`${check.part}: ${name} at position ${check.position} is off by ${off}, allowed ${bound}`);
  }
}
console.log(`${compared} arrays compared, ${wrong} differ`);
process.exit(wrong > 0 || compared === 0 ? 1 : 0);
