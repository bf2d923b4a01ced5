"""What `posenc diff` finds between the plan of each model type of transformers and its model.

    python tools/models/diff_models.py          a line for each model type that was compared
    python tools/models/diff_models.py --write  the same into docs/diff.md and docs/data/diff.json
    python tools/models/diff_models.py NAME ...  only these model types, which are not written

The default config of each type is read by `posenc.from_hf`, and its model is built without memory
for weights; rotary modules are built again from the same config, so that they have numbers. Nothing
here names a model.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PAGE, DATA = ROOT / "docs" / "diff.md", ROOT / "docs" / "data" / "diff.json"
BLOCK = "(<!-- generated: {} -->\n).*?(<!-- end -->)"


def row(model_type: str) -> dict[str, Any] | None:
    """What `diff` says of a model type; None where its model does not build."""
    import torch
    import transformers

    import posenc
    from posenc.detect.contract.sides.models import materialise

    try:
        config = transformers.CONFIG_MAPPING[model_type]()
        with torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
        materialise(model)
    except Exception:  # noqa: BLE001 - other people's classes raise anything
        return None
    try:
        found = posenc.diff(config, model)
    except posenc.DataError as error:
        return {"model_type": model_type, "verdict": "not compared", "why": str(error)[:160]}
    told = found.to_dict()
    return {
        "model_type": model_type, "verdict": told["verdict"], "differences": told["differences"],
        "compared": told["compared"], "not_compared": told["not_compared"],
    }  # fmt: skip


def table(rows: list[dict[str, Any]], version: str) -> str:
    """The rows as Markdown."""
    by = {v: [r for r in rows if r["verdict"] == v] for v in
          ("nothing differs", "differs", "not compared")}  # fmt: skip
    turned = sum(any(": rotate" in line for line in r["compared"]) for r in by["nothing differs"])
    rotary = sum(
        any(": rotate" in line or ": cos_sin" in line for line in r["compared"])
        for r in by["nothing differs"]
    )
    same, other, none = (len(by[v]) for v in by)
    none_why = "as nothing of a known name answers, or the plan is refused"
    biased, towers = (
        sum(any(re.search(words, line) for line in r["compared"]) for r in by["nothing differs"])
        for words in (": bias", r"^[^:]*vision[^:]*: (cos_sin|rotate|table|bias)")
    )
    lines = [
        f"transformers {version}, {len(rows)} model types whose default model builds:",
        "",
        "| | model types |",
        "|---|---|",
        f"| nothing differs | {same} |",
        f"| … in cosines and sines | {rotary} |",
        f"| … in rotated vectors too | {turned} |",
        f"| … in biases | {biased} |",
        f"| … in parts named after vision | {towers} |",
        f"| differs | {other} |",
        f"| not compared, {none_why} | {none} |",
        "",
    ]
    if by["differs"]:
        lines += [
            "| model type | layers | field | plan | model | off by |",
            "|---|---|---|---|---|---|",
        ]
    for found in by["differs"]:
        for d in found["differences"]:
            size = "" if d["size"] is None else f"{d['size']:.2g} from position {d['position']}"
            cells = (f"`{found['model_type']}`", d["where"], d["field"], d["a"], d["b"], size)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def bugs() -> str:
    """The bugs of the tests as Markdown."""
    from tests.detect.contract.bugs import BUGS, TABLES

    lines = ["| bug | thread | field |", "|---|---|---|"]
    rows = [(name, bug.thread, bug.url, bug.field) for name, bug in BUGS.items()]
    for name, (thread, _, _, field) in TABLES.items():
        project, _, number = thread.partition("#")
        rows.append((name, thread, f"https://github.com/{project}/issues/{number}", field))
    lines += [f"| {name} | [{thread}]({url}) | `{field}` |" for name, thread, url, field in rows]
    return "\n".join([*lines, ""])


def put(name: str, text: str) -> None:
    """Replace a block of the page."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(BLOCK.format(name), re.DOTALL)
    PAGE.write_text(pattern.sub(lambda m: f"{m[1]}{text}{m[2]}", page), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="into the page and its data")
    parser.add_argument("--bugs", action="store_true", help="write the bugs of the tests alone")
    given = parser.parse_args()
    if given.bugs:
        put("bugs", bugs())
        return
    warnings.simplefilter("ignore")
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    rows = []
    for name in given.names or sorted(transformers.CONFIG_MAPPING):
        with contextlib.redirect_stderr(None):
            found = row(name)
        if found is not None:
            rows.append(found)
            fields = [d["field"] for d in found.get("differences", ())]
            print(name, found["verdict"], *fields, sep="  ", flush=True)
    if given.write and not given.names:
        data = {"transformers": transformers.__version__, "rows": rows}
        DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        put("transformers", table(rows, transformers.__version__))
        put("bugs", bugs())


if __name__ == "__main__":
    main()
