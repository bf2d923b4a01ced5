"""Every encoding in every setting of every array library, beside the reference in float64.

`make test` draws pairs with a fixed seed: each setting meets several encodings, and each encoding
several settings. The full product is slow.
"""

from __future__ import annotations

import ast
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
MODULES = ("on_torch", "on_jax", "on_strict")
DRAWN = {"on_torch": 3, "on_jax": 1, "on_strict": 16}  # encodings for each setting, as these cost
# Cells in which something was wrong once, in every run.
HELD: dict[str, list[tuple[str, str]]] = {
    "on_torch": [
        ("second_derivative", "KERPLE(form='power')"),
        ("meta", "TUPE"),
        ("vmap", "DAPE"),
        ("empty", "Fourier"),
        ("jvp", "MixedRoPE"),
    ],
    "on_jax": [("explicit_mesh", "T5"), ("explicit_mesh", "KERPLE"), ("exported", "Shaw")],
    "on_strict": [],
}
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


def failures(module: str, cells: list[tuple[str, str]]) -> list[dict[str, object]]:
    """What a new process finds wrong."""
    library = {"on_torch": "torch", "on_jax": "jax", "on_strict": "array_api_strict"}[module]
    pytest.importorskip(library, reason=f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.settings", module],
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


def drawn(module: str) -> list[tuple[str, str]]:
    """Each setting with some encodings: of their examples, each in turn, in an order by chance."""
    rng = np.random.default_rng(29)
    names = list(rng.permutation(sorted(SPECS)))
    before = MODULES[: MODULES.index(module)]
    past = sum(DRAWN[other] * len(settings_of(other)) for other in before) % len(names)
    names, cells = names[past:] + names[:past], []
    for setting in settings_of(module):
        for _ in range(DRAWN[module]):
            names.append(names.pop(0))
            cells.append((setting, str(names[-1])))
    return [*cells, *HELD[module]]


def test_the_draw_meets_every_encoding() -> None:
    cells = [cell for module in MODULES for cell in drawn(module)]
    for name in SPECS:
        assert sum(cell[1] == name for cell in cells) >= 2, name


@pytest.mark.costly
@pytest.mark.parametrize("module", MODULES)
def test_some_encodings_in_every_setting(module: str) -> None:
    assert failures(module, drawn(module)) == []


@pytest.mark.slow("_core", "functional", "encodings", "kernels", release=True)
@pytest.mark.parametrize(
    ("module", "setting"), [(module, name) for module in MODULES for name in settings_of(module)]
)
def test_every_encoding_in_every_setting(module: str, setting: str) -> None:
    assert failures(module, [(setting, name) for name in SUBJECTS]) == []
