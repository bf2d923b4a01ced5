"""Other people's libraries as sides: classes of transformers without weights, and of vLLM."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, DataError, DependencyError, mismatch
from posenc._core.io import inputs
from posenc.detect.contract.asked import Asked, CannotSay
from posenc.detect.contract.buffers import FREQUENCIES, Cosines, of_model
from posenc.detect.contract.contract import Part
from posenc.detect.contract.make import parts_of
from posenc.detect.contract.side import Side
from posenc.detect.explain import from_hf
from posenc.encodings.rotary.base import RotarySpec

__all__ = ["materialise", "of_engine", "of_folder"]


def _library(name: str, why: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        todo = "Install it, or compare a function: MODULE:NAME."
        raise DependencyError(mismatch("diff", f"{name}, {why}", str(error)[:100], todo)) from error


def of_folder(folder: str, name: str) -> Side:
    """The rotary modules of the class that a folder's config names, without its own code."""
    _library("torch", "which transformers builds its models with")
    transformers = _library("transformers", "whose class hf:FOLDER asks")
    import torch

    if not Path(folder).is_dir():
        raise ArgumentError(mismatch("diff", "hf: and a folder that is there", repr(folder)))
    data = _json(Path(folder))
    if "auto_map" in data and data.get("model_type") not in transformers.CONFIG_MAPPING:
        raise DataError(
            mismatch(f"diff: {name}", "a class of transformers", "code of the model's own")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = transformers.AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
            with torch.device("meta"):
                model = transformers.AutoModel.from_config(config, trust_remote_code=False)
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise DataError(
                mismatch(f"diff: {name}", "a model that transformers builds", said)
            ) from error
        materialise(model)
    return of_model(model, name)._replace(remarks=(f"{name}: weights were not read",))


def materialise(model: Any) -> None:
    """Build the rotary modules of a model on the meta device again, from their configs."""
    for path, module in list(model.named_modules()):
        keys = [key for key, _ in module.named_buffers(recurse=False)]
        if (
            not any(FREQUENCIES.search(key) for key in keys)
            or getattr(module, "config", None) is None
        ):
            continue
        try:
            made = type(module)(module.config)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue  # it stays on the meta device, and says so when asked
        parent, _, leaf = path.rpartition(".")
        setattr(model.get_submodule(parent), leaf, made)


def of_engine(text: str, name: str) -> Side:
    """The rotary classes of vLLM for the parts of a config."""
    engine, _, config = text.replace(" ", "=", 1).partition("=")
    if engine != "vllm" or not config:
        raise ArgumentError(mismatch("diff", "engine:vllm=CONFIG", repr(name)))
    layers = _library("vllm.model_executor.layers.rotary_embedding", "whose classes are asked")
    import torch

    data = _json(Path(config))
    data = data.get("text_config", data)
    parts = {part.name: part for part in parts_of(from_hf(data))}

    def answers(part: Part) -> Asked:
        own = parts.get(part.name)
        if own is None or not isinstance(own.spec, RotarySpec):
            raise CannotSay("vLLM's rotary classes have nothing for it")
        flat = {"rope_type": "default", "rope_theta": data.get("rope_theta")}
        rope = data.get("rope_parameters") or flat | (data.get("rope_scaling") or {})
        nested = rope.get(part.name.rpartition(".")[2])
        head = data.get("head_dim") or data["hidden_size"] // data["num_attention_heads"]
        length = data.get("max_position_embeddings", 4096)
        neox = own.spec.channels.order == "half"
        rope = dict(nested if isinstance(nested, dict) else rope)
        table = layers.get_rope(head, length, neox, rope, torch.float32).cos_sin_cache
        rows = table.double().numpy()
        return Asked(Cosines(*np.split(rows, 2, axis=-1)))

    return Side(name, whole=False, answers=answers)


def _json(path: Path) -> dict[str, Any]:
    """The JSON of a config, or of the config of a folder."""
    path = path / "config.json" if path.is_dir() else path
    found = inputs.parse(inputs.text_of(path, inputs.CONFIG), str(path), inputs.CONFIG)
    if not isinstance(found, dict):
        raise DataError(mismatch(str(path), "a JSON object", type(found).__name__))
    return found
