"""The compiled kernels against the reference, for every case; what they refuse; who is asked.

The array engine is the specification, and the compiled code rounds where it does: bits are
compared.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

import posenc
from posenc import ArgumentError, Arrangement, Ladder, Pairing, RoPE, Sinusoidal, kernels
from posenc.encodings.rotary import rope
from posenc.functional.arguments.common import Kernel
from posenc.kernels import KERNELS, choose, cpu, plans
from posenc.kernels.cpu import Cpu
from posenc.kernels.requests import Refusal
from tests.backends import BACKENDS, Backend
from tests.cases import TABLES, Case, RotaryCase
from tests.cases_scores import BIASES, ScoreCase
from tests.rotary_cases import ROTARY

ABSENT = Cpu().absent()
compiled = pytest.mark.skipif(ABSENT is not None, reason=f"no compiled kernels: {ABSENT}")
LIBRARIES = [
    (backend, dtype)
    for backend in BACKENDS
    if backend.name in ("numpy", "torch")
    for dtype in backend.dtypes
    if dtype != "float64"
]
each_library = pytest.mark.parametrize(
    ("backend", "dtype"), LIBRARIES, ids=[f"{b.name}-{d}" for b, d in LIBRARIES]
)
RNG = np.random.default_rng(0)


def in_each_library(check: Callable[[Any, Backend, str], None]) -> Callable[[Any], None]:
    """A test of a case in all of them, which tells every one in which it failed."""

    def run(case: Any) -> None:
        failed, absent = {}, None
        for backend, dtype in LIBRARIES:
            try:
                check(case, backend, dtype)
            except pytest.skip.Exception as error:
                absent = error
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told together
                failed[backend.name, dtype] = f"{type(error).__name__}: {error}"[:600]
        assert failed == {}
        if absent is not None:
            raise absent

    run.__doc__ = check.__doc__
    return run


def same(got: Any, want: Any, backend: Backend) -> None:
    """Raise unless dtypes and bits agree."""
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(backend.numpy(got), backend.numpy(want))


def every_kernel_agrees(call: Any, backend: Backend) -> None:
    """Raise unless each kernel that takes a request gives the bits of the reference."""
    try:
        expected = call("reference")
    except ArgumentError:  # of the encoding itself
        for kernel in KERNELS:
            refusal(lambda kernel=kernel: call(kernel))
        return
    wholes = expected if isinstance(expected, tuple) else (expected,)
    for kernel in KERNELS:
        try:
            received = call(kernel)
        except ArgumentError as error:
            if f"kernel={kernel!r}: expected a call that it can compute" not in str(error):
                raise
            continue
        parts = received if isinstance(received, tuple) else (received,)
        for part, whole in zip(parts, wholes, strict=True):
            same(part, whole, backend)


def refusal(call: Any) -> str:
    """What a named kernel says when it cannot."""
    with pytest.raises(ArgumentError) as caught:
        call()
    return str(caught.value)


def why_not_turned(case: RotaryCase) -> str | None:
    """What the kernels must say of a rotation, or None."""
    if not isinstance(case.spec, RoPE):
        return "where it knows RoPE"
    if case.spec.phase == "float32":
        return "phase='float32'"
    if case.spec.uneven:
        return "attention factors that differ by axis"
    return None if np.asarray(case.positions).dtype.kind == "i" else "real positions"


# --- every case -----------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("case", ROTARY, ids=lambda case: case.name)
@in_each_library
def test_rotations(case: RotaryCase, backend: Backend, dtype: str) -> None:
    """Forward and inverse, wider than the rotation, of two head counts."""
    where = backend.asarray(case.positions)
    width = case.spec.dim + 3
    for heads in (1, 3):
        values = RNG.normal(size=(2, heads, len(case.positions), width)).astype(np.float32)
        x = backend.asarray(values, dtype)
        for inverse in (False, True):

            def call(kernel: Any, x: Any = x, inverse: bool = inverse) -> Any:
                return posenc.rotate(
                    case.spec,
                    x,
                    positions=where,
                    inverse=inverse,
                    params=case.params,
                    kernel=kernel,
                )

            reason = why_not_turned(case)
            if reason is not None:
                assert reason in refusal(lambda: call("cpu"))
            else:
                call("cpu")
            every_kernel_agrees(call, backend)


@compiled
@pytest.mark.parametrize("case", ROTARY, ids=lambda case: case.name)
@in_each_library
def test_cosines_and_sines(case: RotaryCase, backend: Backend, dtype: str) -> None:
    where = backend.asarray(case.positions)

    def call(kernel: Any) -> Any:
        return posenc.cos_sin(case.spec, where, dtype=dtype, params=case.params, kernel=kernel)

    reason = why_not_turned(case)
    if reason is not None:
        assert reason in refusal(lambda: call("cpu"))
    else:
        call("cpu")
    every_kernel_agrees(call, backend)


def why_not_rows(case: Case) -> str | None:
    """What the kernels must say of a table, or None."""
    spec = case.spec
    if not isinstance(spec, Sinusoidal):
        return f"{type(spec).__name__}, where it knows Sinusoidal"
    if spec.phase == "float32":
        return "phase='float32'"
    if spec.ladder.cos_shift:
        return "cosines with exponents of their own"
    return "a learned factor" if spec.shapes else None


@compiled
@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.name)
@in_each_library
def test_tables_and_sums(case: Case, backend: Backend, dtype: str) -> None:
    spec, where = case.spec, backend.asarray(case.positions)
    params = None
    if case.params is not None:
        params = {name: backend.asarray(value) for name, value in case.params.items()}
    values = RNG.normal(size=(2, len(case.positions), spec.dim)).astype(np.float32)
    x = backend.asarray(values, dtype)

    def rows(kernel: Any) -> Any:
        return posenc.table(spec, where, params=params, dtype=dtype, kernel=kernel)

    def total(kernel: Any) -> Any:
        return posenc.add(spec, x, params=params, positions=where, kernel=kernel)

    reason = why_not_rows(case)
    for call in (rows, total):
        if reason is None:
            call("cpu")
        else:
            assert reason in refusal(lambda call=call: call("cpu"))
        every_kernel_agrees(call, backend)


@compiled
@pytest.mark.parametrize("case", BIASES, ids=lambda case: case.name)
@in_each_library
def test_biases(case: ScoreCase, backend: Backend, dtype: str) -> None:
    spec = case.spec
    q, k = backend.asarray(case.queries), backend.asarray(case.keys)
    params = None
    if case.params is not None:
        params = {name: backend.asarray(value) for name, value in case.params.items()}

    def call(kernel: Any, q: Any = q, k: Any = k) -> Any:
        return posenc.bias(spec, q, k, params=params, dtype=dtype, kernel=kernel)

    known = isinstance(spec, (posenc.ALiBi, posenc.T5)) and "log_slopes" not in spec.shapes
    if isinstance(spec, posenc.T5) and spec.buckets % 2:
        known = spec.direction == "causal"
    if known and dtype != "float16":
        call("cpu")
    else:
        refusal(lambda: call("cpu"))
    every_kernel_agrees(call, backend)
    rows = [backend.asarray([side] * 2) for side in (case.queries, case.keys)]
    every_kernel_agrees(lambda kernel: call(kernel, *rows), backend)


# --- layouts --------------------------------------------------------------------------------------

ROPE = RoPE(
    8,
    pairing=Pairing("interleaved", part="trailing", direction="backward"),
    scaling=posenc.scaling.YaRN(4, original_length=64),
    arrangement=Arrangement(start=3),
)
GRID = RoPE(8, pairing="half", arrangement=Arrangement(rule="axial", axes=("h", "w")))


def layouts(tokens: int = 5) -> list[tuple[RoPE, tuple[int, ...], dict[str, Any]]]:
    """Positions in every form that the verb takes, for every place of the sequence."""
    ids = RNG.integers(-(2**31), 2**31, size=(2, 4, tokens))
    grids = RNG.integers(0, 2**20, size=(2, 4, tokens, 2))
    return [
        (ROPE, (2, 4, tokens, 11), {}),
        (ROPE, (2, 4, tokens, 11), {"offset": 2**40}),
        (ROPE, (2, 4, tokens, 11), {"offset": ids[:, 0, 0]}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids[0, 0]}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids[:, 0]}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids[:1, :, :]}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids[:, :, 0], "seq_dim": -3}),
        (ROPE, (2, 4, tokens, 11), {"positions": ids.astype(np.int32)}),
        (ROPE, (8, tokens, 11), {"positions": ids.reshape(8, tokens)}),
        (ROPE, (8, tokens, 11), {"positions": ids.reshape(8, tokens)[:, 0], "seq_dim": -3}),
        (ROPE, (8, tokens, 11), {"cu_seqlens": [0, 3, 3, 7], "seq_dim": -3}),
        (ROPE, (8 * tokens, 11), {"positions": ids.reshape(-1)}),
        (ROPE, (1, 2, 1, 4, tokens, 11), {"positions": ids[0, 0]}),
        (GRID, (2, 4, tokens, 11), {"positions": grids[0, 0]}),
        (GRID, (2, 4, tokens, 11), {"positions": grids[:, 0]}),
        (GRID, (2, 4, tokens, 11), {"positions": grids}),
        (GRID, (8, tokens, 11), {"positions": grids.reshape(8, tokens, 2)}),
        (GRID, (2, 4, tokens, 11), {"positions": grids[:, :, 0], "seq_dim": -3}),
        (GRID, (8, tokens, 11), {"positions": grids[0, :, :].reshape(-1, 2)[:8], "seq_dim": -3}),
    ]


@compiled
@each_library
@pytest.mark.parametrize("inplace", [False, True])
def test_layouts(backend: Backend, dtype: str, inplace: bool) -> None:
    for spec, shape, how in layouts():
        values = RNG.normal(size=shape).astype(np.float32)
        x = backend.asarray(values, dtype)
        how = {k: backend.asarray(v) if k == "positions" else v for k, v in how.items()}
        want = posenc.rotate(spec, x, kernel="reference", **how)
        got = posenc.rotate(spec, x, kernel="cpu", inplace=inplace, **how)
        assert (got is x) == inplace
        same(got, want, backend)


@compiled
def test_strides_of_numpy_arrays() -> None:
    """Transposed, reversed and strided views, read and written where they lie."""
    whole = RNG.normal(size=(3, 20, 4, 24)).astype(np.float32)
    views = {
        "transposed": whole.transpose(0, 2, 1, 3),
        "reversed": whole[:, ::-1],
        "every other channel": whole[..., ::2],
        "slices": whole[:, 2:9, 1:3, 5:16],
        "empty": whole[:, :0],
    }
    for name, view in views.items():
        want = posenc.rotate(ROPE, view, kernel="reference")
        np.testing.assert_array_equal(posenc.rotate(ROPE, view, kernel="cpu"), want, err_msg=name)
        copy = view.copy()
        posenc.rotate(ROPE, copy, kernel="cpu", inplace=True)
        np.testing.assert_array_equal(copy, want, err_msg=name)


@compiled
def test_views_are_written_and_nothing_beside_them() -> None:
    whole = RNG.normal(size=(3, 20, 4, 24)).astype(np.float32)
    kept = whole.copy()
    view = whole[:, 2:9, 1:3, 5:16]
    want = posenc.rotate(ROPE, view, kernel="reference", seq_dim=-3)
    posenc.rotate(ROPE, view, kernel="cpu", seq_dim=-3, inplace=True)
    kept[:, 2:9, 1:3, 5:16] = want
    np.testing.assert_array_equal(whole, kept)


@compiled
def test_read_only_arrays_stay() -> None:
    x = np.ones((3, 8), np.float32)
    x.setflags(write=False)
    with pytest.raises(ArgumentError, match="read-only"):
        posenc.rotate(ROPE, x, inplace=True)
    assert (x == 1).all()


# --- integers -------------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("base", [10_000.0, 5e5, 1.5])
def test_integers_of_the_compiled_code(base: float) -> None:
    """Quadrants and residuals are those of the array engine, before any sine is taken."""
    from posenc._core.numeric.phase import quadrants, turns

    spec = RoPE(128, pairing="half", base=base, arrangement=Arrangement(start=-7))
    positions = np.concatenate(
        [RNG.integers(-(2**62), 2**62, size=5000), [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1]]
    )[:, None]
    with np.errstate(over="ignore"):
        want = quadrants(turns(positions, spec.arrays["step"], spec.arrays["origin"]))
    got = [np.empty((len(positions), 64), np.int64) for _ in range(2)]
    plans.phases(spec).integers(positions, *got)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


# --- the choice -----------------------------------------------------------------------------------


class Stub:
    """A kernel that gives a fixed answer."""

    name, about = "cpu", "stub"
    refusals = (Refusal,)

    def __init__(self, absent: str | None = None, why: str | None = None, fails: str = "") -> None:
        self._absent, self._why, self._fails = absent, why, fails
        self.operations = {kernels.Rotate: self.run, kernels.Table: self.run}

    def absent(self) -> str | None:
        return self._absent

    def why_not(self, request: Any) -> str | None:
        return self._why

    def run(self, request: Any) -> Any:
        if self._fails:
            raise Refusal(self._fails)
        return ("taken",)


@pytest.mark.parametrize(
    ("stub", "reason"),
    [
        (Stub(absent="not compiled"), "not compiled"),
        (Stub(why="of the wrong size"), "of the wrong size"),
        (Stub(fails="overlapping memory"), "overlapping memory"),
    ],
)
def test_a_named_kernel_says_why_not(
    stub: Stub, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "CANDIDATES", (stub,))
    x = np.ones((3, 8), np.float32)
    want = posenc.rotate(ROPE, x, kernel="reference")
    np.testing.assert_array_equal(posenc.rotate(ROPE, x), want)
    with pytest.raises(ArgumentError, match=f"kernel='cpu'.*{reason}.*falls back"):
        posenc.rotate(ROPE, x, kernel="cpu")


def test_a_kernel_that_can_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CANDIDATES", (Stub(),))
    x = np.ones((3, 8), np.float32)
    assert posenc.rotate(ROPE, x) == "taken"
    assert posenc.rotate(ROPE, x, kernel="cpu") == "taken"
    assert posenc.rotate(ROPE, x, kernel="reference").shape == x.shape


def test_names_of_kernels_are_checked() -> None:
    assert get_args(Kernel) == KERNELS, "functional/arguments/common.py: Kernel"
    x = np.ones((3, 8), np.float32)
    for call in (
        lambda kernel: posenc.rotate(ROPE, x, kernel=kernel),
        lambda kernel: posenc.cos_sin(ROPE, 3, kernel=kernel),
        lambda kernel: posenc.table(Sinusoidal(8), 3, kernel=kernel),
        lambda kernel: posenc.add(Sinusoidal(8), x, kernel=kernel),
        lambda kernel: posenc.bias(posenc.ALiBi(2), 3, kernel=kernel),
    ):
        with pytest.raises(ArgumentError, match="kernel: expected one of .* 'cpu'"):
            call("cuda")
        with pytest.raises(ArgumentError, match="kernel: expected one of"):
            call(None)


@compiled
def test_what_the_compiled_code_leaves_alone() -> None:
    x = np.ones((3, 8))
    real = RoPE(8, pairing="half", phase="real")
    for reason, call in {
        "float64, where it has": lambda: posenc.rotate(ROPE, x, kernel="cpu"),
        "real positions": lambda: posenc.rotate(
            real, x.astype("f"), positions=[0.5, 1, 2], kernel="cpu"
        ),
        "cosines with exponents": lambda: posenc.table(
            Sinusoidal(8, ladder=Ladder(cos_shift=0.5)), 3, kernel="cpu"
        ),
        "foreign byte order": lambda: posenc.rotate(ROPE, x.astype(">f4"), kernel="cpu"),
    }.items():
        assert reason in refusal(call)
    same = posenc.rotate(real, x.astype("f"), positions=[0, 1, 2], kernel="cpu")
    assert same.dtype == np.float32


# --- the way from a verb --------------------------------------------------------------------------


def ours() -> list[str]:
    """The functions of ours that are at work, from the verb on."""
    package, names, frame = str(Path(posenc.__file__).parent), [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(package):
            names.insert(0, frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_the_way_to_the_sine_of_the_reference_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)  # whose rules are asked where it is
    ways: list[list[str]] = []
    evaluate = rope.evaluate

    def seen(*args: Any, **kwargs: Any) -> Any:
        ways.append(ours())
        return evaluate(*args, **kwargs)

    monkeypatch.setattr(rope, "evaluate", seen)
    posenc.rotate(
        GRID, np.ones((3, 8), np.float32), positions=np.ones((3, 2), int), kernel="reference"
    )
    assert ways == [["rotate", "run", "rotate", "phasors"]]  # and `evaluate`


def test_the_way_to_the_compiled_code_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ways: list[list[str]] = []

    class Plan:
        def turn(self, *args: Any) -> None:
            ways.append(ours())

    spec, x = RoPE(8, pairing="half"), np.ones((3, 8), np.float32)
    monkeypatch.setattr(cpu, "rotation", lambda *args, **kwargs: Plan())
    monkeypatch.setattr(Cpu, "absent", lambda self: None)
    posenc.rotate(spec, x)
    spec.plans["direct", False] = Plan()
    posenc.rotate(spec, torch.ones(1, 8), offset=5)
    assert ways == [["rotate", "run", "rotate"], ["rotate", "at_once", "rotated"]]


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_a_warm_bias_enters_few_functions(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "torch.distributed.tensor"):  # whose arrays are asked for where they are
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec, names, package = posenc.ALiBi(12), [], str(Path(posenc.__file__).parent)

    def count(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            names.append(frame.f_code.co_name)

    for _ in range(2):
        posenc.bias(spec, 16, kernel=kernel)
    profiler = sys.getprofile()
    sys.setprofile(count)
    try:
        posenc.bias(spec, 16, kernel=kernel)
    finally:
        sys.setprofile(profiler)
    assert 0 < len(names) <= 50, names


# --- what is here ---------------------------------------------------------------------------------


def test_the_report_names_every_operation_and_kernel() -> None:
    rows = kernels.report()
    assert {(row["op"], row["kernel"]) for row in rows} == {
        ("relative", "reference"),
        *((op, kernel) for op in choose.OPERATIONS for kernel in set(KERNELS) - {"auto"}),
    }
    assert all(row["reason"] for row in rows)
    assert all(row["runs"] for row in rows if row["kernel"] == "reference")


COMPILED = "posenc.kernels._native"


def test_the_build_says_why_there_are_no_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where torch is imported, the first call imports more of the package, which needs its path.
    posenc.rotate(ROPE, np.ones((3, 8), np.float32))
    plans.native.cache_clear()
    try:
        monkeypatch.delitem(sys.modules, COMPILED, raising=False)
        monkeypatch.setattr(kernels, "__path__", [])
        monkeypatch.setattr(plans, "MISSING", tmp_path / "missing.txt")
        assert "not compiled (No module named 'posenc.kernels._native')" in str(Cpu().absent())
        plans.native.cache_clear()
        plans.MISSING.write_text("no C++ compiler was found\n")
        assert "not compiled (no C++ compiler was found); install" in str(Cpu().absent())
        assert posenc.rotate(ROPE, np.ones((3, 8), np.float32)).shape == (3, 8)
    finally:
        plans.native.cache_clear()


def test_kernels_of_another_interface_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    plans.native.cache_clear()
    try:
        monkeypatch.setitem(sys.modules, COMPILED, ModuleType("another"))
        monkeypatch.setattr(kernels, "_native", sys.modules[COMPILED], raising=False)
        assert "compiled for interface None" in str(Cpu().absent())
    finally:
        plans.native.cache_clear()


def test_a_counted_table_goes_where_it_is_asked_for() -> None:
    import torch

    spec = posenc.Sinusoidal(8)
    want = posenc.table(spec, np.arange(5))
    np.testing.assert_array_equal(posenc.table(spec, 5, kernel="cpu"), want)
    np.testing.assert_array_equal(posenc.table(spec, 5, xp=torch, kernel="cpu").numpy(), want)
    assert posenc.table(spec, 5, xp=torch, device="meta").is_meta
    with pytest.raises(ArgumentError, match="a tensor on the CPU, got meta"):
        posenc.table(spec, 5, xp=torch, device="meta", kernel="cpu")
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    with pytest.raises(ArgumentError, match="arrays of array_api_strict"):
        posenc.table(spec, 5, xp=strict, kernel="cpu")


@pytest.mark.parametrize("offset", [None, 0, 7, -3, 2**61, 2**62 + 5])
def test_a_counted_sum_begins_where_it_is_asked_to(offset: int | None) -> None:
    spec = posenc.Sinusoidal(8)
    x = np.ones((2, 5, 8), np.float32)
    want = posenc.add(spec, x, positions=np.arange(5) + (offset or 0), kernel="reference")
    np.testing.assert_array_equal(posenc.add(spec, x, offset=offset, kernel="cpu"), want)


@compiled
@pytest.mark.skipif(
    shutil.which("objdump") is None or platform.machine() != "x86_64",
    reason="instructions are read by objdump, on x86-64",
)
def test_rows_are_fetched_before_they_are_needed() -> None:
    """GCC leaves out a call whose body fetches and does nothing else: no answer would tell."""
    code = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", kernels._native.__file__],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert len(re.findall(r"\tprefetch", code)) >= 3 * 2 * 2  # sets, orders, x and y
