"""The trained heads of the attention picture: `python tools/measure/attention_heads.py`.

Trains one small model of the study, about a minute on one thread, measures every head of it on
lists that training did not see, and writes what `posenc.plot.content` reads:

    src/posenc/plot/data/heads.npz    the weights, rounded to 1/64, which a wheel packs well
    src/posenc/plot/data/heads.json   the cell of the study, measures of all heads, two chosen
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import posenc
from posenc_study.cell import Cell
from posenc_study.model import transformer
from posenc_study.training.run import Run
from posenc_study.training.saved import load
from posenc_study.training.train import train

FOLDER = Path(posenc.__file__).parent / "plot" / "data"
SETTINGS = {"width": 32, "heads": 2, "layers": 2, "hidden": 64, "steps": 4000}
CELL = Cell.of("copy", "rope", seed=0, settings=SETTINGS)
PARTS = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj"}
PARTS |= {"o": "self_attn.o_proj", "up": "up", "down": "down"}
PARTS |= {"self.norm": "self_norm", "mlp.norm": "mlp_norm"}
LAST = ("q", "k", "v", "self.norm")
MEASURES = {
    "previous": ("a previous-token head", "the symbol before, over the lists to be copied"),
    "content": ("a content head", "the symbol that once followed the same one, over the copies"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out") / "heads")
    folder = parser.parse_args().folder
    if not (folder / "model.safetensors").exists():
        outcome = train(CELL, save=folder)
        print(f"trained in {outcome.seconds:.0f} s; loss {outcome.final_loss:.2g}")
    run = load(folder)
    with torch.no_grad():  # what is measured is what is shipped
        for parameter in run.model.parameters():
            parameter.copy_((parameter * 64).round() / 64)
    measures = measured(run)
    chosen = []
    for name, (label, place) in MEASURES.items():
        best = max(measures, key=lambda row: row[name])
        where = {"layer": best["layer"], "head": best["head"]}
        weight = round(best[name], 3)
        chosen.append({"name": name, "label": label, **where, "weight": weight, "measured": place})
    FOLDER.mkdir(exist_ok=True)
    arrays = {name: value.astype(np.float16) for name, value in weights(run).items()}
    np.savez(FOLDER / "heads.npz", **arrays)
    about = {
        "command": "python tools/measure/attention_heads.py",
        "cell": json.loads(CELL.to_json()),
        "key": CELL.key,
        "width": run.task.shape.width,
        "heads": run.task.shape.heads,
        "dim": run.task.shape.head_dim,
        "base": float(run.sizes.base),
        "pairing": rotation(run).pairing.order,
        "measures": measures,
        "chosen": chosen,
    }
    rows = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items())
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    (FOLDER / "heads.json").write_text(text, encoding="utf-8")
    size = sum(file.stat().st_size for file in FOLDER.glob("heads.*"))
    print(text, f"\n{size:,} bytes")


def rotation(run: Run) -> Any:
    """The encoding of the model."""
    return run.model.scheme.decoder[0].spec("rotary")


def weights(run: Run) -> dict[str, np.ndarray]:
    """The weights that queries, keys and values of every layer need."""
    state = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    named = {"embedding": state["embedding.weight"]}
    for layer in range(run.task.shape.layers):
        for short in PARTS if layer + 1 < run.task.shape.layers else LAST:
            for kind in ("weight", "bias"):
                stored = f"decoder.layers.{layer}.{PARTS[short]}.{kind}"
                named[f"{layer}.{short}.{kind}"] = state[stored]
    return named


@torch.no_grad()
def measured(run: Run) -> list[dict[str, float]]:
    """Of each head, mean attention weights on lists of the trained length."""
    batch = next(iter(run.task.tests())).batches[-1]
    calls: list[Any] = []
    attend = transformer.attend

    def noted(*arguments: Any, **more: Any) -> torch.Tensor:
        calls.append((arguments, more))
        return attend(*arguments, **more)

    with mock.patch.object(transformer, "attend", noted):
        run.model.double()(batch.target)
    run.model.float()
    ids = batch.target.ids
    count = ids.shape[1] // 2 - 1  # [ a b → a b: positions 1 to count, and from count + 2 on
    rows = []
    for layer, ((q, k, _, _), more) in enumerate(calls):
        at = more["q_positions"]
        turned = [posenc.rotate(rotation(run), x, positions=at) for x in (q, k)]
        scores = turned[0] @ turned[1].transpose(-1, -2) * q.shape[-1] ** -0.5
        share = scores.masked_fill(~more["mask"], -torch.inf).softmax(-1).mean(dim=0).numpy()
        first, copies = np.arange(2, count + 1), np.arange(count + 2, 2 * count + 1)
        for head, each in enumerate(share):
            previous = round(float(each[first, first - 1].mean()), 6)
            content = round(float(each[copies, copies - count].mean()), 6)
            rows.append({"layer": layer, "head": head, "previous": previous, "content": content})
    return rows


if __name__ == "__main__":
    main()
