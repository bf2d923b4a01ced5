"""The plans of published configs, written down, so that none of them changes unseen.

    python tools/models/config_plans.py          what is read otherwise than it is written down
    python tools/models/config_plans.py --write WHY  write it, with why it changed

`tests/golden/configs/plans.jsonl` has a line for each config of `rows.jsonl` and `published.jsonl`:
the entries of its plan in words, or that it is refused, and `why` the line changed since it was
first written: the class or the rule that the change rests on.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import posenc
from posenc._core.spec.answers import brief
from posenc._core.spec.spec import Value

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "configs"
PLANS = FOLDER / "plans.jsonl"


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def configs() -> dict[str, dict[str, Any]]:
    """The configs of both files, by the names that `plans.jsonl` has for them."""
    found = {row["id"]: row["config"] for row in _lines("rows.jsonl")}
    return found | {row["name"]: row["config"] for row in published()}


def published() -> list[dict[str, Any]]:
    """Configs beside the corpus: the name of a model, where its file lies, and what it says."""
    return _lines("published.jsonl")


def stored() -> dict[str, dict[str, Any]]:
    """What is written down, by the same names."""
    return {row["id"]: row for row in _lines("plans.jsonl")}


def plan_of(config: dict[str, Any]) -> list[str]:
    """The entries of the plan in words, a line each, or that the config is refused."""
    plan = posenc.from_hf(copy.deepcopy(config), on_error="report")
    return (["refused"] if plan.errors else []) + [_entry(entry) for entry in plan]


def _entry(entry: posenc.Layer) -> str:
    told = [entry.label]
    if entry.indices is not None:
        told.append(_runs(entry.indices))
    told.append(entry.convolution or _words(entry.spec))
    for name in ("length", "scale", "logit_scale", "positions"):
        value = getattr(entry, name)
        told += [] if value is None else [f"{name}={_words(value)}"]
    return " | ".join(told)


def _words(value: Any) -> str:
    return brief(value, _words) if isinstance(value, Value) else repr(value)


def _runs(numbers: tuple[int, ...]) -> str:
    """Layers in short: `0-2 4`."""
    if not numbers:
        return "none"
    breaks = [i for i, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1]
    runs = [numbers[i:j] for i, j in pairwise([0, *breaks, len(numbers)])]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def changes() -> dict[str, tuple[list[str], list[str]]]:
    """What is written down and what is read, of each config where they differ."""
    kept = stored()
    read = {name: plan_of(config) for name, config in configs().items()}
    told = {name: kept.get(name, {}).get("plan", []) for name in {**kept, **read}}
    return {name: (old, read.get(name, [])) for name, old in told.items() if old != read.get(name)}


def main() -> int:
    """Show what changed, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", metavar="WHY", help="write the plans, with why they changed")
    why = parser.parse_args().write
    found, kept = changes(), stored() if PLANS.exists() else {}
    for name, (old, new) in found.items():
        print(name, *(f"- {line}" for line in old), *(f"+ {line}" for line in new), sep="\n  ")
    if why is None:
        return bool(found)
    rows = []
    for name in configs():
        told = [kept.get(name, {}).get("why", ""), why] if name in found else []
        before = kept.get(name, {"why": ""})
        said = "; ".join(word for word in told if word) if told else before["why"]
        plan = found[name][1] if name in found else before["plan"]
        rows.append({"id": name, "why": said, "plan": plan})
    text = "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows
    )
    PLANS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
