"""Windows and softmax scales that engines hand to their attention, in `configs/engines.json`.

    TORCHDYNAMO_DISABLE=1 python tools/models/engine_scores.py ENGINE FOLDER

For the types of models of the table of vLLM or SGLang, as `engine_reads.py` makes their classes:
behind the stand-ins an attention keeps the arguments that it gets. `windows` has the types whose
layers have windows in a config, each with what the engine's window has more than the config's, or
with "none" where its class gives none; each was made with two windows. `scales` has the types whose
scale under a YaRN with `mscale_all_dim` grows as ours does.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.golden import vllm_stand_ins as stand_ins
from tools.models import engine_reads as reads

from posenc.detect.facts import facts

NAMES = ("Attention", "EncoderOnlyAttention", "MLAAttention", "RadixAttention")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": reads.TRAINED,
        "mscale": 0.7, "mscale_all_dim": 1.3, "rope_theta": 10000.0}  # fmt: skip
MSCALE = "sglang/srt/configs/model_config.py"
CALLED = ("yarn_get_mscale", "compute_mla_mscale_scaling")
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


class Attending(stand_ins.StandIn):
    """An attention that keeps what it is made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        object.__setattr__(self, "given", (args, kwargs))


def attended(engine: Any, data: dict[str, Any]) -> dict[int, tuple[int | None, float]]:
    """The window and the scale of each layer, as the last of its attentions gets them."""
    model = engine.model(copy.deepcopy(data))
    found: dict[int, tuple[int | None, float]] = {}
    for path, module in () if isinstance(model, type) else model.named_modules():
        layer = re.search(r"(?:layers|h|blocks)\.(\d+)\.", path)
        if isinstance(module, Attending) and layer:
            args, given = module.given
            window = given.get("per_layer_sliding_window", given.get("sliding_window_size"))
            scale = given.get("scale", given.get("scaling", args[2] if len(args) > 2 else 0.0))
            exclusive = 1 if "Radix" in type(module).__name__ else 0
            found[int(layer[1])] = (window + exclusive if window and window > 0 else None, scale)
    return found


def windows(data: dict[str, Any], count: int) -> dict[int, int | None]:
    """The window of each layer by our reader; none without windows."""
    found: dict[int, int | None] = {}
    for entry in facts(data).plan:
        for size, layers in entry.windows if ":" not in entry.label else ():
            found |= dict.fromkeys(layers or entry.indices or range(count), size)
    return found if any(found.values()) else {}


def window(engine: Any, name: str, data: dict[str, Any]) -> int | str | None:
    """What the engine's windows have more than the config's; None where nothing shows it."""
    results = set()
    for size in (128, 256):
        made = attended(engine, {**data, "sliding_window": size})
        wanted = windows({**data, "sliding_window": size}, len(made))
        if not wanted or made.keys() != wanted.keys():
            return None
        more = {made[i][0] - w if made[i][0] and w else (made[i][0], w) for i, w in wanted.items()}
        more -= {(None, None)}
        results.add(more.pop() if len(more) == 1 else "")
    (one,) = results if len(results) == 1 else ("",)
    if all(isinstance(each, tuple) and each[0] is None for each in results):
        # Where every layer has one window, vLLM takes it from the settings of its cache.
        return "none" if name == "SGLang" else None
    return one if isinstance(one, int) else None


def grows(engine: Any, data: dict[str, Any]) -> bool:
    """Whether the scale under YaRN is that of the plain rotation times our factor."""
    (plain, yarn), own = (reads.put(data, "", rule) for rule in (PLAIN, YARN)), []
    for entry in facts(yarn).plan:
        own += [float(entry.spec.at(reads.FAR).logit_factor)] if entry.kind == "rotary" else []
    before, after = (attended(engine, config) for config in (plain, yarn))
    return own[0] != 1 and all(
        abs(after[i][1] / before[i][1] / own[0] - 1) < reads.CLOSE for i in before
    ) and bool(before)  # fmt: skip


def main() -> int:
    """Write the columns of an engine."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    name, folder = sys.argv[1:]
    stand_ins.KNOWN |= {kind: type(kind, (Attending,), {}) for kind in NAMES}
    engine = {"vLLM": reads.VLLM, "SGLang": reads.SGLang}[name](folder)
    if name == "SGLang":
        text = Path(folder, MSCALE).read_text("utf-8")
        called = engine.models.symbols_of(text, CALLED)
        called["yarn_get_mscale"].__globals__["logger"] = logging
        stand_ins.KNOWN |= {function: called[function] for function in CALLED}
    whole = json.loads(reads.DATA.read_text("utf-8"))
    types = reads.language_types()
    columns: dict[str, Any] = {"windows": {}, "scales": []}
    for kind in sorted({k for family in whole[name]["families"] for k in family["sources"]}):
        if kind not in types:
            continue
        try:
            data = reads.small_config(kind, types[kind])
            if (more := window(engine, name, data)) is not None:
                columns["windows"][kind] = more
            if grows(engine, data):
                columns["scales"].append(kind)
        except Exception as error:  # noqa: BLE001 - of a class that does not build so
            print(kind, type(error).__name__, str(error)[:80], flush=True)
    print(columns)
    reads.write(name, whole[name] | columns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
