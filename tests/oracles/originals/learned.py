"""Learned tables as the original code reads and resizes them. Nothing here imports posenc."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.originals.tables import transformers


def timm_resample() -> Any:
    """timm's `resample_abs_pos_embed`."""
    return timm_layer("pos_embed").resample_abs_pos_embed


def timm_layer(name: str) -> Any:
    """A file of `timm.layers`, alone: the package as a whole needs torchvision."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        pytest.skip("timm is not installed")
    shell = types.ModuleType("timm_layers_alone")
    shell.__path__ = [str(Path(found.origin).parent / "layers")]
    sys.modules.setdefault(shell.__name__, shell)
    return importlib.import_module(f"timm_layers_alone.{name}")


def timm_definition(path: str, name: str) -> Any:
    """A class or function of timm by itself, without decorators and what its file imports."""
    import torch

    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        pytest.skip("timm is not installed")
    tree = ast.parse((Path(found.origin).parent / path).read_text(encoding="utf-8"))
    node = next(n for n in tree.body if getattr(n, "name", None) == name)
    assert isinstance(node, (ast.ClassDef, ast.FunctionDef))
    node.decorator_list = []
    names: dict[str, Any] = {**vars(typing), "torch": torch, "nn": torch.nn}
    names["trunc_normal_"] = torch.nn.init.trunc_normal_
    exec(compile(ast.Module([node], []), path, "exec"), names)
    return names[name]


def torchtune_file(path: str) -> Any:
    """A file of torchtune, alone: the package as a whole needs torchao."""
    found = importlib.util.find_spec("torchtune")
    if found is None or not found.submodule_search_locations:
        pytest.skip("torchtune is not installed")
    file = Path(found.submodule_search_locations[0]) / path
    spec = importlib.util.spec_from_file_location("torchtune_alone_" + file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def tiny(family: str, config: str, **fields: Any) -> Any:
    """A configuration small enough to build a layer from."""
    modeling = transformers(family)
    return getattr(modeling, config)(**fields)
