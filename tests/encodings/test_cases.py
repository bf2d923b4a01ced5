"""Every row of `cases.py` on every array library and dtype, against its oracle."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.spec.spec import to_json
from posenc._names import SPECS
from posenc.registry import from_json
from tests.backends import Backend, each_backend_and_dtype
from tests.cases import CASES, TABLES, Case, RotaryCase
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_table = pytest.mark.parametrize("case", TABLES, ids=lambda case: case.name)


def tolerance(case: Case, dtype: str, magnitude: Any) -> Any:
    """The promised bound for rows at positions of this size."""
    return ABSOLUTE[dtype] * case.scale + PER_POSITION * magnitude


def params_of(case: Case, backend: Backend) -> dict[str, Any] | None:
    """The learned arrays of a case, of one library."""
    if case.params is None:
        return None
    return {name: backend.asarray(values) for name, values in case.params.items()}


def size_of(positions: tuple[Any, ...]) -> np.ndarray:
    """The largest coordinate of each position, as a column."""
    return np.array([np.abs(p).max() for p in positions], dtype=np.float64)[:, None]


def test_every_encoding_has_a_case() -> None:
    assert {type(case.spec).__name__ for case in CASES} == set(SPECS)


def test_case_names_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_oracle_is_asked() -> None:
    """One that stays when its encoding is taken away is named."""
    here = Path(__file__).parents[1]
    files = [*here.rglob("*.py")]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in files}
    asked = set()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.Name):
            asked.add(node.id)
        elif isinstance(node, ast.Attribute):
            asked.add(node.attr)
        elif isinstance(node, ast.alias):
            asked.add(node.name)
    for kind in ("table", "rotary", "bias", "relative"):
        tree = trees[here / "oracles" / f"{kind}.py"]
        named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not named - asked, f"tests/oracles/{kind}.py"


@each_case
def test_json_round_trip(case: Case | RotaryCase) -> None:
    again = from_json(to_json(case.spec))
    assert again == case.spec
    assert hash(again) == hash(case.spec)
    assert to_json(again) == to_json(case.spec)


@each_table
@each_backend_and_dtype
def test_table_equals_oracle(case: Case, backend: Backend, dtype: str) -> None:
    positions = backend.asarray(case.positions)
    table = posenc.table(case.spec, positions, params=params_of(case, backend), dtype=dtype)
    assert backend.dtype_of(table) == dtype
    exact = np.array([case.oracle(p) for p in case.positions])
    bound = tolerance(case, dtype, size_of(case.positions))
    assert_close(backend.numpy(table), exact, bound, f"{case.name} on {backend.name}")


@each_table
@each_backend_and_dtype
def test_add_is_the_sum_rounded_once(case: Case, backend: Backend, dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, len(case.positions), case.spec.dim))
    x = backend.asarray(values.astype(np.float32), dtype)
    before = backend.numpy(x).copy()
    params = params_of(case, backend)
    y = posenc.add(case.spec, x, params=params, positions=backend.asarray(case.positions))
    assert backend.dtype_of(y) == dtype
    exact = before * case.spec.embedding_scale
    rows = np.array([case.oracle(p) for p in case.positions])
    if case.spec.width == case.spec.dim:
        exact = exact + rows
    else:
        exact = np.concatenate([exact, np.broadcast_to(rows, (2, *rows.shape))], axis=-1)
    one_rounding = {"float64": 0, "float32": 2.0**-23, "float16": 2.0**-11, "bfloat16": 2.0**-8}
    bound = tolerance(case, "float64" if dtype == "float64" else "float32", size_of(case.positions))
    assert_close(
        backend.numpy(y),
        exact,
        bound + 1.001 * one_rounding[dtype] * np.abs(exact) + (4e-16 * np.abs(exact)),
        case.name,
    )
    assert_close(backend.numpy(x), before, 0, "the input")
