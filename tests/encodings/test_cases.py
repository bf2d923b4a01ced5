"""Every row of `cases.py` on every array library and dtype, against its oracle."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pytest

import posenc
from posenc._core.spec.spec import to_json
from posenc._names import SPECS
from posenc.registry import from_json
from tests.backends import Backend, cycled, each_row_and_dtypes
from tests.cases import CASES, TABLES, Case, RotaryCase
from tests.tolerances import ABSOLUTE, PER_POSITION, assert_close

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
BY_NAME = {case.name: case for case in TABLES}
LENGTH = 12
ORACLES = ("table", "rotary", "bias", "relative")


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
    sources = {kind: here / "oracles" / f"{kind}.py" for kind in ORACLES}
    named = {
        kind: {n.name for n in ast.parse(path.read_text("utf-8")).body if is_function(n)}
        for kind, path in sources.items()
    }
    waiting = set().union(*named.values())
    files = [*sources.values(), *here.glob("*cases*.py"), *here.rglob("*.py")]
    for path in dict.fromkeys(files):
        text = path.read_text("utf-8")
        if any(name in text for name in waiting):  # no other file is parsed, which takes seconds
            waiting -= asked(text)
    for kind, names in named.items():
        assert not names & waiting, f"tests/oracles/{kind}.py"


def is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef)


def asked(text: str) -> set[str]:
    """The names that a module reads or imports."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add(node.name)
    return names


@each_case
def test_json_round_trip(case: Case | RotaryCase) -> None:
    again = from_json(to_json(case.spec))
    assert again == case.spec
    assert hash(again) == hash(case.spec)
    assert to_json(again) == to_json(case.spec)


@functools.cache
def exact(name: str) -> np.ndarray:
    """The rows of a case, at all its positions."""
    case = BY_NAME[name]
    return np.array([case.oracle(p) for p in case.positions])


@each_row_and_dtypes(TABLES, 7, by=lambda row: None)
def test_table_and_sum_equal_the_oracle(
    case: Case, backend: Backend, dtypes: tuple[str, ...]
) -> None:
    """A sum is rounded once, and takes the rows that the table gives."""
    assert len(case.positions) <= LENGTH
    where = backend.asarray([cycled(case.positions, LENGTH)])
    rows = exact(case.name)[cycled(range(len(case.positions)), LENGTH), :]
    size = size_of(cycled(case.positions, LENGTH))
    params = params_of(case, backend)
    for dtype in dtypes:
        table = posenc.table(case.spec, where, params=params, dtype=dtype)
        what = f"{case.name} on {backend.name} in {dtype}"
        assert backend.dtype_of(table) == dtype
        assert_close(backend.numpy(table), rows[None], tolerance(case, dtype, size), what)
        added(case, backend, dtype, where, params, rows, size)


def added(
    case: Case, backend: Backend, dtype: str, where: Any, params: Any, rows: Any, size: Any
) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, LENGTH, case.spec.dim))
    x = backend.asarray(values.astype(np.float32), dtype)
    before = backend.numpy(x).copy()
    y = posenc.add(case.spec, x, params=params, positions=where)
    assert backend.dtype_of(y) == dtype
    want = before * case.spec.embedding_scale
    if case.spec.width == case.spec.dim:
        want = want + rows
    else:
        want = np.concatenate([want, np.broadcast_to(rows, (2, *rows.shape))], axis=-1)
    one_rounding = {"float64": 0, "float32": 2.0**-23, "float16": 2.0**-11, "bfloat16": 2.0**-8}
    bound = tolerance(case, "float64" if dtype == "float64" else "float32", size)
    assert_close(
        backend.numpy(y),
        want,
        bound + 1.001 * one_rounding[dtype] * np.abs(want) + (4e-16 * np.abs(want)),
        f"the sum of {case.name} on {backend.name} in {dtype}",
    )
    assert_close(backend.numpy(x), before, 0, "the input")
