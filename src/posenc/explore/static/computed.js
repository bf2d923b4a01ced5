/** The page computes its frames itself, where it holds what `tools/local_data.py` wrote. */

import { found } from "./dom.js";
import { local } from "./local.js";
import { embedded, source } from "./transport.js";

const data = embedded(found("computes"));
if (data) source.load = local(data);

export const computes = Boolean(data);
