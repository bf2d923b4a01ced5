"""Every encoding in every setting of every array library, beside the reference in float64.

`make test` draws pairs with a fixed seed: each setting meets several encodings, and each encoding
several settings. The full product is slow.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc._names import SPECS
from tests.settings.subjects import subjects

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = {"on_torch": "torch", "on_jax": "jax", "on_strict": "array_api_strict"}
Cell = tuple[str, str, str]  # a file, its setting, a subject
# Encodings for each setting, as these cost; for those that compile; and where some are held below.
DRAWN = {"on_torch": 3, "on_jax": 1, "on_strict": 17}
OTHERS = {("on_torch", "compiled"): 1, ("on_torch", "exported"): 1, ("on_jax", "explicit_mesh"): 0}
# Cells in which something was wrong once, in every run.
HELD: list[Cell] = [
    ("on_torch", "second_derivative", "KERPLE(form='power')"),
    ("on_torch", "meta", "TUPE"),
    ("on_torch", "vmap", "DAPE"),
    ("on_torch", "empty", "Fourier"),
    ("on_torch", "jvp", "MixedRoPE"),
    ("on_jax", "explicit_mesh", "T5"),
    ("on_jax", "explicit_mesh", "KERPLE"),
    ("on_jax", "exported", "Shaw"),
]
SUBJECTS = tuple(subjects())


def settings_of(module: str) -> list[str]:
    """The settings of a file, which need not be imported for that."""
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text("utf-8"))
    if module == "on_strict":
        table = next(node for node in tree.body if isinstance(node, ast.AnnAssign)).value
        return [ast.literal_eval(key) for key in table.keys]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        node.name
        for node in functions
        if any(getattr(mark, "id", "") == "setting" for mark in node.decorator_list)
    ]


def failures(cells: list[Cell]) -> list[dict[str, object]]:
    """What a new process finds wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.settings"],
        input=json.dumps(cells),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *failed, last = map(json.loads, done.stdout.splitlines())
    assert last == {"done": len(cells)}
    return failed


def drawn() -> list[Cell]:
    """Each setting with some encodings: of their examples, each in turn, in an order by chance."""
    rng = np.random.default_rng(30)
    names = itertools.cycle(map(str, rng.permutation(sorted(SPECS))))
    cells = [
        (module, setting, next(names))
        for module in LIBRARIES
        for setting in settings_of(module)
        for _ in range(OTHERS.get((module, setting), DRAWN[module]))
    ]
    return [*cells, *HELD]


def test_the_draw_meets_every_encoding() -> None:
    cells = drawn()
    for name in SPECS:
        assert sum(cell[2] == name for cell in cells) >= 2, name


@pytest.mark.costly
def test_some_encodings_in_every_setting() -> None:
    """In one process; a library that is absent is told once the others have passed."""
    there = {m for m, library in LIBRARIES.items() if importlib.util.find_spec(library)}
    assert failures([cell for cell in drawn() if cell[0] in there]) == []
    for library in LIBRARIES.values():
        pytest.importorskip(library, reason=f"{library} is not installed")


@pytest.mark.slow("_core", "functional", "encodings", "kernels", release=True)
@pytest.mark.parametrize(
    ("module", "setting"), [(module, name) for module in LIBRARIES for name in settings_of(module)]
)
def test_every_encoding_in_every_setting(module: str, setting: str) -> None:
    pytest.importorskip(LIBRARIES[module], reason=f"{LIBRARIES[module]} is not installed")
    assert failures([(module, setting, name) for name in SUBJECTS]) == []
