/** The page computes its frames itself, where it holds what posenc/explore/server/document.py wrote. */

import { found } from "./dom.js";
import { local } from "./local.js";
import { source } from "./transport.js";

const block = found("computes");
if (block) {
  const data = JSON.parse(block.textContent);
  Object.assign(source, { load: local(data), first: data.saved[0]?.state ?? {} });
}
