"""Every encoding, written anew in NumPy: `check` passes it, and not one that hides a fault."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import testing
from posenc._names import SPECS
from tests.cases import CASES
from tests.oracles import plain


def _golden(spec: Any) -> np.ndarray:
    """Those of directions by multiples of the golden ratio's kin."""
    from scipy.special import erfinv

    axes, phi = len(spec.space), 2.0
    for _ in range(10):
        phi = (1 + phi) ** (1 / (axes + 1))
    i = np.arange(1, spec.heads * spec.pairs + 1)[:, None]
    z = erfinv(2 * (i / phi ** np.arange(1, axes + 1) % 1) - 1)
    u = (z / np.linalg.norm(z, axis=-1, keepdims=True)).reshape(spec.heads, spec.pairs, axes)
    f = spec.lowest * (spec.highest / spec.lowest) ** (np.arange(spec.pairs) / (spec.pairs - 1))
    return (u * f[:, None]).swapaxes(1, 2)


TABLES: dict[str, Callable[[dict[str, np.ndarray]], Callable[..., Any]]] = {
    "Sinusoidal": lambda w: lambda p: plain.waves(p[:, None] * plain.ladder(16)),
    "Learned": lambda w: lambda p: w["weight"][p],
    "Concatenated": lambda w: lambda p: plain.waves(p[:, None] * plain.ladder(8)),
    "Fourier": lambda w: lambda p: plain.halves(p[:, None] * np.pi * 2.0 ** np.arange(4)),
    "Timestep": lambda w: lambda p: plain.halves(p[:, None] * 1e4 ** (-np.arange(8) / 7)),
    "Time2Vec": plain.time2vec,
    "IntegratedFourier": lambda w: plain.integrated,
    "GridCells": lambda w: plain.grid_cells,
    "SphericalHarmonics": lambda w: plain.harmonics,
    "Sphere2Vec": lambda w: plain.sphere,
    "SoftPosition": plain.soft,
    "LearnedFourier": plain.learned_fourier,
    "HashGrid": plain.hash_grid,
    "TreePositions": plain.tree,
    "Summed": lambda w: lambda p: sum(plain.waves(p[:, i, None] * plain.ladder(8)) for i in (0, 1)),
}
ROTATIONS: dict[str, Callable[[Any, dict[str, np.ndarray]], Any]] = {
    "RoPE": lambda s, w: plain.angles(plain.ladder(16)[None, None]),
    "XPos": lambda s, w: plain.xpos,
    "MixedRoPE": lambda s, w: plain.angles(w["frequencies"]),
    "GoldenGateRoPE": lambda s, w: plain.angles(_golden(s)),
    "LRPE": lambda s, w: plain.angles(
        (s.base ** (-np.arange(s.heads * s.pairs) * 2 / (s.heads * s.dim))).reshape(
            s.heads, 1, s.pairs
        )
    ),
    "FoPE": lambda s, w: plain.fope(w),
    "STRING": lambda s, w: plain.angles(w["frequencies"]),
    "ImaginaryRoPE": lambda s, w: plain.imaginary,
}
BIASES: dict[str, Callable[[dict[str, np.ndarray]], Callable[..., Any]]] = {
    "ALiBi": lambda w: lambda q, k: -plain.slopes(8) * np.abs(plain.offsets(q, k)),
    "T5": plain.t5,
    "KERPLE": plain.kerple,
    "FIRE": plain.fire,
    "Sandwich": lambda w: plain.sandwich,
    "WindowTable": lambda w: (
        lambda q, k: np.moveaxis(
            w["weight"][(3 - plain.offsets(q, k)[0]) * 9 + 4 - plain.offsets(q, k)[1]], -1, 0
        )
    ),
    "LogCPB": plain.log_cpb,
    "TUPE": plain.tupe,
    "Decay": lambda w: plain.decay,
    "TISA": plain.tisa,
    "OffsetTable": lambda w: (
        lambda q, k: w["weight"][
            :, np.abs(plain.offsets(q, k)[0]) * 5 + np.abs(plain.offsets(q, k)[1])
        ]
    ),
    "ALiBi2D": lambda w: lambda q, k: -plain.slopes(12) * np.hypot(*plain.offsets(q, k)),
    "ClippedTable": lambda w: (
        lambda q, k: np.moveaxis(w["weight"][np.clip(plain.offsets(q, k), -4, 3) + 4], -1, 0)
    ),
    "Quadratic": plain.quadratic,
    "SpatialBuckets": plain.spatial,
    "AdaptiveSpan": plain.adaptive_span,
    "RotaryBias": plain.rotary_bias,
    "DynamicBias": plain.dynamic,
    "IRPEBias": plain.irpe,
    "ComplexOffsets": plain.complexes,
}
# Of each class its first case, but for these.
OTHER = {
    "Learned": posenc.Learned(6, length=64, init=posenc.Init(scale=1.0)),
    "LRPE": posenc.LRPE(8, heads=2, pairing="half", form="turned"),
    "GoldenGateRoPE": posenc.GoldenGateRoPE(8, heads=2, pairing="half", lowest=0.1, highest=2.0),
    "XPos": posenc.XPos(16, pairing="half", centre=1000),
    "MixedRoPE": posenc.MixedRoPE(8, heads=2, pairing="half"),
    "STRING": posenc.STRING(8, heads=2, pairing="half"),
    "WindowTable": posenc.WindowTable(3, window=(4, 5), init=posenc.Init(scale=1.0)),
    "LogCPB": posenc.LogCPB(3, window=(4, 5), hidden=7, init=posenc.Init(scale=1.0)),
    "IRPEBias": posenc.IRPEBias(3, init=posenc.Init(scale=1.0)),
    "OffsetTable": posenc.OffsetTable(3, size=(4, 5), init=posenc.Init(scale=1.0)),
    "DynamicBias": posenc.DynamicBias(3, window=(4, 5), width=5, init=posenc.Init(scale=1.0)),
    "ComplexOffsets": posenc.ComplexOffsets(3, residues=4, copies=1, init=posenc.Init(scale=1.0)),
    "FoPE": posenc.FoPE(16, heads=2, pairing="half", length=512),
}
NAMES = [*TABLES, *ROTATIONS, *BIASES]


def spec_of(name: str) -> Any:
    first = next(case.spec for case in CASES if type(case.spec).__name__ == name)
    return OTHER.get(name, first)


def moved(positions: np.ndarray, rest: int) -> np.ndarray:
    """Positions of which one in seven is off, by a cell or by a hundredth."""
    whole = positions.dtype.kind == "i"
    off = positions % 7 == rest if whole else positions % 0.7 < 0.1
    return np.where(off, positions - 1 if whole else positions * 0.99, positions)


def written(name: str, *, hidden: bool) -> tuple[Any, Any]:
    """An encoding as code, with or without a fault, and its spec."""
    spec = spec_of(name)
    params = posenc.init(spec)
    rest = 2 if len(spec.axes) > 1 else 5  # small grids have no fifth cell
    seen: Any = functools.partial(moved, rest=rest) if hidden else np.asarray
    if name in TABLES:
        rows = TABLES[name](params)
        return lambda positions: rows(seen(positions)), spec
    if name in ROTATIONS:
        basis = plain.cayley(params["generator"]) if name == "STRING" else None
        turn = plain.rotated(ROTATIONS[name](spec, params), basis)
        return lambda x, positions: turn(x, seen(positions)), spec
    bias = BIASES[name](params)
    return lambda q_positions, k_positions: bias(q_positions, seen(k_positions)), spec


def test_every_encoding_is_written() -> None:
    kinds = {"table", "rotary", "bias"}
    named = {name for name in SPECS if getattr(posenc, name).kind in kinds}
    assert {*NAMES} == named - {"PoPE"}


OFTEN = {"Learned", "HashGrid", "ALiBi2D", "TUPE"}
EACH = [
    pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow("testing", "detect/subject"))
    for name in NAMES
]


@pytest.mark.parametrize("name", EACH)
def test_check_lets_an_honest_one_pass(name: str) -> None:
    code, spec = written(name, hidden=False)
    card = testing.check(code, spec=spec, library="numpy")
    assert card.passed, "\n".join(card.lines())
    assert card["calls"].status == "pass"


def test_cells_that_are_drawn_twice_have_one_row() -> None:
    axes = posenc.Arrangement(rule="axial", axes=("row", "column"))
    spec = posenc.Sinusoidal(16, arrangement=axes)
    card = testing.check(
        lambda positions: np.concatenate(
            [plain.waves(positions[:, i, None] * plain.ladder(8)) for i in (0, 1)], axis=-1
        ),
        spec=spec,
        library="numpy",
    )
    assert card["distinct"].status == "pass", "\n".join(card.lines())


@pytest.mark.parametrize("name", EACH)
def test_check_finds_a_hidden_fault(name: str) -> None:
    code, spec = written(name, hidden=True)
    card = testing.check(code, spec=spec, library="numpy", laws=["calls"])
    assert card["calls"].status == "fail", "\n".join(card.lines())


def test_what_is_no_rotation_is_refused() -> None:
    with pytest.raises(posenc.CannotAsk, match="PoPE: expected a rotation"):
        testing.check(posenc.PoPE(8, heads=1, pairing="half"))
