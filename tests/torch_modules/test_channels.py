# ruff: noqa: E402 - torch may be absent, and is asked for first
"""Cosines and sines of each channel: the short way gives the bits of `posenc.cos_sin`."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import posenc
from posenc._core.errors import ArgumentError
from posenc.torch.channels import ChannelCosSin

# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`?torch.jit:DeprecationWarning")

YARN = posenc.scaling.YaRN(4, original_length=64)
GRID = posenc.Arrangement(rule="sections", axes=("time", "row", "column"), sizes=(2, 3, 3))
SPECS = {
    "plain": posenc.RoPE(16, pairing="half"),
    "factor": posenc.RoPE(16, pairing="half", scaling=YARN),
    "start": posenc.RoPE(16, pairing="half", arrangement=posenc.Arrangement(start=3)),
    "axes": posenc.RoPE(16, pairing="half", arrangement=GRID),
    "real": posenc.RoPE(16, pairing="half", phase="real"),
    "float32": posenc.RoPE(16, pairing="half", phase="float32"),
}
COLUMNS: dict[str, Any] = {"halves": (*range(8), *range(8)), "twice": [c // 2 for c in range(16)]}
PLACES = [0, 1, 4095, 2**31 - 1, 2**31, 2**53 + 1, -1, -(2**31) - 1, -(2**62), 2**63 - 64]


def _positions(spec: Any, rows: int = 1) -> Any:
    count = len(spec.axes)
    where = torch.tensor(PLACES if spec.phase == "exact" else PLACES[:3])
    where = torch.stack([where - 7 * row for row in range(rows)])
    return where if count == 1 else torch.stack([where - 3 * a for a in range(count)], dim=-1)


def _expected(spec: Any, positions: Any, columns: Any, dtype: Any) -> list[Any]:
    found = posenc.cos_sin(spec, positions, dtype=dtype)
    return [half[..., list(columns)] for half in found]


def _equal(received: Any, expected: Any) -> None:
    for a, b in zip(received, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", SPECS)
def test_eager(name: str, columns: Any, dtype: Any) -> None:
    spec = SPECS[name]
    positions = _positions(spec, 2)
    received = ChannelCosSin(spec, columns)(positions, dtype)
    _equal(received, _expected(spec, positions, COLUMNS[columns], dtype))
    # A model hands a length to every encoding; no rule of these reads it.
    _equal(ChannelCosSin(spec, columns)(positions, dtype, length=9), received)


def test_any_columns() -> None:
    spec, columns = SPECS["plain"], (3, 0, 8, 3, 7)
    cos, sin = ChannelCosSin(spec, columns)(torch.tensor([5]))
    half = posenc.cos_sin(spec, torch.tensor([5]))
    for received, source, still in ((cos, half[0], 1.0), (sin, half[1], 0.0)):
        row = torch.cat((source[0], torch.tensor([still])))
        torch.testing.assert_close(received[0], row[list(columns)], rtol=0, atol=0)
    cos, sin = ChannelCosSin(SPECS["factor"], (0, 8))(torch.tensor([5]))
    assert (cos[0, 1], sin[0, 1]) == (1, 0)  # a still channel has no factor
    with pytest.raises(ArgumentError, match="from 0 to 8"):
        ChannelCosSin(spec, (9,))


def test_copies_and_lengths() -> None:
    dynamic = posenc.scaling.DynamicNTK(2, original_length=4)
    spec = posenc.RoPE(16, pairing="half", scaling=dynamic)
    long = ChannelCosSin(spec, "halves")(torch.arange(9), length=9)
    _equal(long, _expected(spec.at(9), torch.arange(9), COLUMNS["halves"], torch.float32))
    short = ChannelCosSin(SPECS["factor"], "halves")
    expected = short(torch.arange(9))
    for again in (copy.deepcopy(short), pickle.loads(pickle.dumps(short))):
        _equal(again(torch.arange(9)), expected)


@pytest.mark.costly
@pytest.mark.parametrize(
    "compiler",
    [
        "eager",
        pytest.param("aot_eager", marks=pytest.mark.slow("torch")),
        pytest.param("inductor", marks=pytest.mark.slow("torch")),
    ],
)
@pytest.mark.parametrize("tokens", [1, len(PLACES)])
def test_compiled(tokens: int, compiler: str) -> None:
    """The graph that the compiler makes gives the bits of eager code, in one piece."""
    torch._dynamo.reset()
    channels = {
        (name, columns): ChannelCosSin(SPECS[name], columns)
        for name in ("plain", "factor", "start", "axes")
        for columns in COLUMNS
    }
    places = {name: _positions(spec)[:, -tokens:] for name, spec in SPECS.items()}

    def run(places: Any) -> Any:
        return {key: short(places[key[0]], torch.float32) for key, short in channels.items()}

    received = torch.compile(run, fullgraph=True, backend=compiler)(places)
    for (name, columns), values in received.items():
        _equal(values, _expected(SPECS[name], places[name], COLUMNS[columns], torch.float32))
