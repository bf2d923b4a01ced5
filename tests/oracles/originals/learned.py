"""Learned tables as the original code reads and resizes them. Nothing here imports posenc."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.originals.tables import transformers

__all__ = ["timm_resample", "tiny", "transformers"]


def timm_resample() -> Any:
    """timm's `resample_abs_pos_embed`, from its file: the package as a whole needs torchvision."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        pytest.skip("timm is not installed")
    shell = types.ModuleType("timm_layers_alone")
    shell.__path__ = [str(Path(found.origin).parent / "layers")]
    sys.modules.setdefault(shell.__name__, shell)
    return importlib.import_module("timm_layers_alone.pos_embed").resample_abs_pos_embed


def tiny(family: str, config: str, **fields: Any) -> Any:
    """A configuration small enough to build a layer from."""
    modeling = transformers(family)
    return getattr(modeling, config)(**fields)
