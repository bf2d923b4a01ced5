"""Golden files of published models, from configs that are held with their sources.

    python tools/models/golden_files.py          write what is absent or was made otherwise
    python tools/models/golden_files.py --check  name it, and write nothing

`golden/models.csv` has a line for each file: the model, the row of `tests/golden/configs` that has
its config (an id of `rows.jsonl` or a name of `published.jsonl`), and the commit and its date where
the row lacks them. The file is what `posenc golden` makes of the config, with one more remark that
says where the config lies, compressed by xz.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import json
import lzma
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.models import config_oracle, config_plans

import posenc
from posenc.detect.contract.files import text_of

FOLDER = Path(__file__).resolve().parents[2] / "golden"
INDEX = FOLDER / "models.csv"
ENDING = ".golden.json.xz"
LARGEST, ALL = 160_000, 10_000_000  # bytes of a file, and of all
HISTORY = " (history)"  # behind a repository of which an older commit has the file


class Model(NamedTuple):
    """A line of the index, with what its row says."""

    name: str
    config: dict[str, Any]
    repository: str
    path: str
    commit: str
    date: str

    @property
    def file(self) -> Path:
        """Where its file lies."""
        return FOLDER / f"{self.name}{ENDING}"

    @property
    def source(self) -> str:
        """Where its config lies, as far as that is known."""
        told = (f"commit {self.commit}" if self.commit else "", self.date)
        return ", ".join([f"{self.repository}: {self.path}", *filter(None, told)])


def models() -> list[Model]:
    """Every line of the index."""
    rows = {row["id"]: row for row in config_oracle.rows()}
    others = {row["name"]: row for row in config_plans.published()}
    with INDEX.open(encoding="utf-8", newline="") as file:
        return [_model(line, rows, others) for line in csv.DictReader(file)]


def _model(line: dict[str, str], rows: dict[str, Any], others: dict[str, Any]) -> Model:
    key = line["row"]
    if key in rows:
        place, path, commit = (rows[key][name] for name in ("repository", "path", "commit"))
    else:
        (place, path), commit = others[key]["source"].split(": ", maxsplit=1), line["commit"]
    config = (rows.get(key) or others[key])["config"]
    return Model(line["model"], config, place.removesuffix(HISTORY), path, commit, line["date"])


def text(model: Model) -> str:
    """The golden file of a model, before it is compressed."""
    contract = posenc.golden(copy.deepcopy(model.config))
    remark = posenc.Note("remark", f"{model.name}: the config is {model.source}")
    return text_of(dataclasses.replace(contract, notes=(*contract.notes, remark)))


def stored(model: Model) -> str:
    """The golden file of a model as it lies there; empty where there is none."""
    return lzma.decompress(model.file.read_bytes()).decode() if model.file.exists() else ""


def table() -> str:
    """The index as a table: what each file states, and where its config lies."""
    lines = [
        "| model | type | parts | records | kB | the plan is | config |",
        "|---|---|---|--:|--:|---|---|",
    ]
    for model in models():
        data = json.loads(stored(model))
        turns = {c["part"]: c for c in data["checks"] if c["check"] == "frequencies"}
        parts = Counter(_part(part, turns.get(part["name"])) for part in data["parts"])
        told = "; ".join(f"{words} ({n})" if n > 1 else words for words, n in parts.items())
        size = model.file.stat().st_size / 1e3
        settled = re.split("[:;]", data["settled"])[0]
        cells = [model.name, f"`{model.config['model_type']}`", told, data["records"],
                 f"{size:.1f}", settled, model.source.replace("|", r"\|")]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _part(part: dict[str, Any], turns: dict[str, Any] | None) -> str:
    """What a part does, in words: its encoding, what a record says of its rotation, its window."""
    spec = part["spec"]
    if spec is None:
        return part["convolution"] or "no positions"
    words = [spec["type"]]
    if turns is not None:
        words[0] += f" of {turns['width']} {turns['pairing']}"
        words += [f"{turns['axes']} axes"] if turns["axes"] > 1 else []
    scaling = spec.get("scaling") or []
    words += [one["type"] for one in (scaling if isinstance(scaling, list) else [scaling])]
    words += [f"window {part['window']}"] if part["window"] else []
    return ", ".join(words)


def unlike() -> list[str]:
    """The files that are absent, others than is made today, of no model, or too large."""
    every = models()
    wrong = [model.file.name for model in every if stored(model) != text(model)]
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("*.xz"))}
    wrong += sorted(sizes.keys() - {model.file.name for model in every})
    wrong += [f"{name} ({size} bytes)" for name, size in sizes.items() if size > LARGEST]
    return wrong + ([f"all ({sum(sizes.values())} bytes)"] if sum(sizes.values()) > ALL else [])


def main() -> int:
    """Write the files, or compare; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args().check:
        for model in models():
            made = text(model)
            if made != stored(model):
                packed = lzma.compress(made.encode(), preset=9 | lzma.PRESET_EXTREME)
                model.file.write_bytes(packed)
                print(f"{model.file.name}: {len(packed)} bytes")
    wrong = unlike()
    print("\n".join(wrong) or f"{len(models())} files are what `posenc golden` makes today")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
