"""What each transformer class of diffusers does about positions: a table, from its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import posenc
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets import diffusion

HEAD = ("class", "part of the plan", "what acts", "pairing", "axes", "base", "scene")
# What configs state that the classes need.
STATED: dict[str, dict[str, Any]] = {
    "EasyAnimateTransformer3DModel": {"patch_size": 2},
    "HiDreamImageTransformer2DModel": {"patch_size": 2, "axes_dims_rope": [64, 32, 32]},
    "HunyuanDiT2DModel": {"patch_size": 2},
    "LatteTransformer3DModel": {"patch_size": 2},
    "OmniGenTransformer2DModel": {
        "rope_scaling": {"short_factor": [1.0] * 48, "long_factor": [1.0] * 48}
    },
}


def table() -> str:
    """The table in Markdown, a row for each encoding of each class."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for name in sorted(diffusion.transformers()):
        lines += ["| " + " | ".join(cells) + " |" for cells in _cells(name)]
    return "\n".join(lines)


def _cells(name: str) -> Iterator[tuple[str, ...]]:
    plan = posenc.from_hf({"_class_name": name, **STATED.get(name, {})}, on_error="report")
    for error in plan.errors:
        yield (f"`{name}`", "", f"refused: {error}", *[""] * 4)
    for entry in plan:
        spec: Any = entry.spec
        scene = "" if entry.positions is None else str(entry.positions)
        what = entry.convolution or (type(spec).__name__ if spec is not None else "no positions")
        cells = ("", "", "")
        if isinstance(spec, RotarySpec):
            bases = ", ".join(f"{base:g}" for base in getattr(spec, "bases", ()))
            cells = (spec.channels.order, ", ".join(spec.axes), bases)
            what = f"{what}, {spec.dim} channels"
        yield (f"`{name}`", entry.layer, what, *cells, scene.replace("|", "\\|"))
