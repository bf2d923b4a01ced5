"""A trained model as a file.

A folder holds two files:

    model.safetensors   weights; in the metadata, the cell and the plans of both stacks as JSON
    config.json         the sizes under the names that readers of checkpoints know

What follows from a spec (rows of a sinusoidal table, frequencies of a rotation) is written beside
the weights under its usual name, so that tools which read files alone find it there. Loading
compares it with the spec and keeps the spec.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

import posenc
from posenc._core.errors import DataError, DependencyError, mismatch
from posenc._core.io import files, inputs
from posenc._core.io.outputs import write_whole
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.concatenated import Concatenated
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc_study.cell import Cell
from posenc_study.model.transformer import Stack
from posenc_study.training.run import Run

WEIGHTS, CONFIG = "model.safetensors", "config.json"
LARGEST = 2**27  # bytes; the models of the study are small


def save(run: Run, folder: Path) -> None:
    """Write a trained model."""
    arrays = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    scheme = run.model.scheme
    for name, stack in (("encoder", run.model.encoder), ("decoder", run.model.decoder)):
        if stack is not None:
            arrays |= {f"{name}.{key}": value for key, value in _follows(stack, run).items()}
    metadata = {
        "format": "pt",
        "cell": run.cell.to_json(),
        "encoder": posenc.to_json(scheme.encoder),
        "decoder": posenc.to_json(scheme.decoder),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, _safetensors().save(arrays, metadata=metadata))
    write_whole(folder / CONFIG, json.dumps(_config(run), indent=1) + "\n")


def _follows(stack: Stack, run: Run) -> dict[str, np.ndarray]:
    """Tables and frequencies that follow from specs, under the names that files use for them."""
    arrays = {}
    if stack.pos_embed is not None and not stack.pos_embed.spec.shapes:
        spec = stack.pos_embed.spec
        table = spec.table if isinstance(spec, Concatenated) else spec  # its own columns
        if isinstance(table, Sinusoidal):
            rows = posenc.table(table, run.sizes.longest, dtype="float32")
            arrays["pos_embed.pe"] = np.ascontiguousarray(rows)
    for home, modules in stack.positions.items():
        for kind, module in modules.items():  # type: ignore[operator]
            if kind == "rotary" and isinstance(module.spec, RoPE):
                frequencies = posenc.frequencies(module.spec).astype("float32")
                arrays[f"positions.{home}.rotary.inv_freq"] = frequencies
    return arrays


def _config(run: Run) -> dict[str, Any]:
    shape = run.task.shape
    return {
        "hidden_size": shape.width,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.hidden,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": run.sizes.length,
        "rope_theta": run.sizes.base,
    }


def load(folder: str | Path, *, data: Path | None = None) -> Run:
    """A trained model with its task."""
    path = Path(folder) / WEIGHTS
    metadata, arrays = _read(path)
    if "cell" not in metadata:
        todo = "Train one with `posenc study run` and a folder for models."
        raise DataError(mismatch(str(path), "a model of the study", "no cell inside", todo))
    run = Run(Cell.from_json(metadata["cell"]), data)
    for name in ("encoder", "decoder"):
        if posenc.to_json(getattr(run.model.scheme, name)) != metadata.get(name):
            todo = "It was written by a version that fits encodings differently."
            raise DataError(mismatch(str(path), f"the plan of the {name} of its cell", "one", todo))
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    try:
        run.model.load_state_dict(state)
    except RuntimeError as error:
        todo = "The file has been changed."
        raise DataError(mismatch(str(path), "the weights of its cell", str(error), todo)) from None
    run.model.eval()
    return run


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        layout = files.read_layout(path)
    except FileNotFoundError:
        raise DataError(mismatch("generate", "a folder with a model", f"no {path}")) from None
    if layout.size > LARGEST:
        raise DataError(mismatch(str(path), f"a model of at most {LARGEST} bytes", layout.size))
    arrays = {}
    with inputs.unchanged(path, layout.state) as file:
        for name, tensor in layout.tensors.items():
            if tensor.stored is None:
                caller = f"{path}: {name[:80]!r}"
                raise DataError(mismatch(caller, "numbers that NumPy has", tensor.dtype))
            flat = files.read(file, tensor.begin, math.prod(tensor.shape), tensor.stored)
            arrays[name] = files.decode(flat, tensor.dtype).reshape(tensor.shape)
    return dict(layout.metadata), arrays


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        todo = "Install it: pip install safetensors"
        raise DependencyError(mismatch("study", "safetensors", "no such package", todo)) from None
    return safetensors.numpy
