"""The pictures of docs/plots.md are those that its commands draw."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib")

from PIL import Image

from posenc.plot import palette

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plots.md"
FOLDER = ROOT / "docs" / "img" / "plots"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / "pages" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_every_picture_of_the_page_has_its_command_and_its_file() -> None:
    shown = re.findall(r"\]\(img/plots/([^)]+)\)", PAGE.read_text("utf-8"))
    made = tool("plots").commands()
    files = sorted(path.name for path in FOLDER.iterdir())
    assert sorted(shown) == sorted(made) == files
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_130_000


@pytest.mark.parametrize("name", ["16x64.png", "period.png", "bias.png", "compare.png"])
def test_stored_pictures_were_drawn_by_their_commands(name: str, tmp_path: Path) -> None:
    plots = tool("plots")
    fresh = plots.draw(tmp_path, name, plots.commands()[name])
    stored, drawn = (Image.open(path) for path in (FOLDER / name, fresh))
    assert json.loads(stored.info["posenc"]) == json.loads(drawn.info["posenc"])
    assert stored.info["Description"] == drawn.info["Description"]
    # Letters may differ with the versions of libraries; the pixels of data do not.
    one, two = np.asarray(stored.convert("RGB")), np.asarray(drawn.convert("RGB"))
    assert one.shape == two.shape
    assert (one != two).any(axis=2).mean() < 0.02


def test_a_matrix_is_drawn_with_whole_squares(tmp_path: Path) -> None:
    picture = tool("picture")
    values = np.array([[1.0, -1.0, 0.0], [0.5, 2.0, -2.0]])
    path = picture.draw(values, tmp_path / "x.png", cell=6, labels=("row", "column"))
    found = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB"))
    shades = palette.diverging("light")[palette.indices(values, 2.0)]
    squares = shades.repeat(6, axis=0).repeat(6, axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(found, squares.shape)
    assert (windows == squares).all(axis=(3, 4, 5)).sum() == 1
