# ruff: noqa: E402 - torch and diffusers may be absent, and are asked for first
"""The rotary function of diffusers: shapes and dtypes of its every option, and exact numbers."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import mpmath
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from posenc._core.errors import ArgumentError, DTypeError
from posenc.torch import get_1d_rotary_pos_embed

PLACES: dict[str, Any] = {
    "count": 5,
    "array": np.array([0, 3, 63]),
    "int32": np.array([7, -2], dtype=np.int32),
    "real array": np.array([0.5, 2.25]),
    "tensor": torch.tensor([0, 1, 31]),
    "real": torch.tensor([0.125, 4.75]),
    "wide": torch.tensor([0.1, 4.7], dtype=torch.float64),
    "narrow": torch.tensor([0.5, 3.0], dtype=torch.float16),
    "none": torch.arange(0),
}
OPTIONS: list[dict[str, Any]] = [
    {"use_real": use, "repeat_interleave_real": twice, "freqs_dtype": dtype, **factors}
    for use, twice, dtype, factors in itertools.product(
        (False, True),
        (True, False),
        (torch.float32, torch.float64),
        ({}, {"ntk_factor": 2.5}, {"linear_factor": 3.0}, {"linear_factor": 0.5, "theta": 256}),
    )
]


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("place", PLACES)
def test_diffusers(place: str) -> None:
    """Every option beside the installed diffusers, at positions where float32 still does."""
    module = pytest.importorskip("diffusers.models.embeddings")
    theirs = module.get_1d_rotary_pos_embed
    for options in OPTIONS:
        expected = _parts(theirs(16, PLACES[place], **options))
        received = _parts(get_1d_rotary_pos_embed(16, PLACES[place], **options))
        assert len(received) == len(expected)
        for a, b in zip(received, expected, strict=True):
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            wide = options["freqs_dtype"] == torch.float64
            bound = 1e-13 if wide and a.is_complex() else 2e-7 if wide else 1e-5
            torch.testing.assert_close(a, b, rtol=0, atol=bound)


def test_signature() -> None:
    module = pytest.importorskip("diffusers.models.embeddings")
    ours, theirs = (
        inspect.signature(f).parameters
        for f in (get_1d_rotary_pos_embed, module.get_1d_rotary_pos_embed)
    )
    assert list(ours) == list(theirs)
    assert [p.default for p in ours.values()] == [p.default for p in theirs.values()]


@pytest.mark.parametrize("position", [1023, 1_048_575, 2**31 - 1])
@pytest.mark.parametrize("factors", [{}, {"linear_factor": 3.0}], ids=str)
def test_exact(position: int, factors: dict[str, float]) -> None:
    where = torch.tensor([position])
    with mpmath.workdps(40):
        linear = mpmath.mpf(factors.get("linear_factor", 1))
        angles = [position * mpmath.mpf(10000) ** (-mpmath.mpf(j) / 8) / linear for j in range(8)]
        cos, sin = ([float(f(a)) for a in angles] for f in (mpmath.cos, mpmath.sin))
    narrow = get_1d_rotary_pos_embed(16, where, **factors)
    wide = get_1d_rotary_pos_embed(16, where, freqs_dtype=torch.float64, **factors)
    for received, bound in ((narrow, 1e-7), (wide, 4e-16 + 1.8e-19 * position)):
        np.testing.assert_allclose(received.real[0], cos, rtol=0, atol=bound)
        np.testing.assert_allclose(received.imag[0], sin, rtol=0, atol=bound)


def test_arguments() -> None:
    with pytest.raises(DTypeError, match="float32 or float64, got torch.bfloat16"):
        get_1d_rotary_pos_embed(8, 4, freqs_dtype=torch.bfloat16)
    with pytest.raises(ArgumentError, match="above 0, got 0"):
        get_1d_rotary_pos_embed(8, 4, linear_factor=0)
    with pytest.raises(ArgumentError, match=r"shape \(seq,\), got \(2, 2\)"):
        get_1d_rotary_pos_embed(8, torch.zeros(2, 2))
    with pytest.raises(ValueError, match="even"):
        get_1d_rotary_pos_embed(7, 4)
