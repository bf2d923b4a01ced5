"""Losses by position and a learned table: `python tools/measure/trained_losses.py [FOLDER]`.

Writes what `posenc.plot.trained` reads, in `src/posenc/plot/data`:

    losses.json    from the committed rows of `extension-64` in `docs/data`
    learned.npz    the rows that seed 0 learned, from the model in FOLDER, which is trained where it
                   is not there, about half a minute on one thread

Of the learned rows those that were trained are kept, rounded to 1/32.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from posenc.detect.extend.rules import RULES
from posenc.plot.trained import LOSSES, ROWS
from posenc.plot.views.loss import LABELS
from posenc_study.cell import Cell
from posenc_study.results.records import Results, read_csv
from posenc_study.tasks import task
from posenc_study.training.run import Run
from posenc_study.training.saved import load
from posenc_study.training.train import train

ROOT = Path(__file__).resolve().parents[2]
TASK = "extension-64"
PARTS = 32  # of 1: to these the rows are rounded
FARTHEST = "8L"


def losses(results: Results) -> dict[str, Any]:
    """What is stored of the losses."""
    own = task(TASK)({})
    first = next(r for r in results.finished(TASK) if r.cell.encoding == "rope")
    curves = {}
    for name in LABELS:
        encoding, rule = (name, "none") if name not in RULES else ("rope", name)
        columns = [
            results.values(TASK, encoding, f"nats-{FARTHEST}.{rule}", f"{half / 2:g}L")
            for half in range(1, 2 * int(FARTHEST.removesuffix("L")) + 1)
        ]
        parts = {"mean": np.mean, "least": np.min, "largest": np.max}
        curves[name] = {"seeds": len(columns[0])} | {
            part: [round(float(of(list(column.values()))), 3) for column in columns]
            for part, of in parts.items()
        }
    return {
        "trained": own.length,
        "stretch": own.length // 2,
        "steps": first.steps,
        "layers": own.shape.layers,
        "parameters": first.parameters,
        "dim": own.shape.head_dim,
        "base": float(own.settings["base"]),
        "curves": curves,
    }


def written(stored: dict[str, Any]) -> str:
    """The text of the file, with a line for each curve."""
    curves = stored["curves"].items()
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(curve)}" for name, curve in curves)
    head = json.dumps({key: value for key, value in stored.items() if key != "curves"})
    return f'{head[:-1]},\n "curves": {{\n{lines}\n }}}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "out" / "learned")
    folder = parser.parse_args().folder
    LOSSES.write_text(written(losses(read_csv(ROOT / "docs" / "data"))), encoding="utf-8")
    if not (folder / "model.safetensors").exists():
        train(Cell.of(TASK, "learned", seed=0, settings=task(TASK)({}).settings), save=folder)
    run: Run = load(folder)
    (weight,) = (v for k, v in run.model.state_dict().items() if "pos_embed" in k)
    rows = np.rint(weight.numpy()[: run.task.length] * PARTS) / PARTS
    np.savez_compressed(ROWS, weight=rows.astype(np.float16))
    print(LOSSES.stat().st_size, "and", ROWS.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
