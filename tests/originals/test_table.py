"""Tables against the code that people run: within its error, and bit for bit where promised."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import Arrangement, Ladder, Magnitude, Sinusoidal
from tests.golden.make_golden import GOLDEN, WIDEST
from tests.oracles.originals import tables as originals
from tests.oracles.originals.tables import ORIGINALS, Original, numbers
from tests.tolerances import ABSOLUTE, ORIGINAL, assert_close

LENGTH = 65
T2T = Ladder(denominator="n-1", expression="exp")


def halves(dim: int, **fields: Any) -> Sinusoidal:
    """tensor2tensor's table, with the zero column that odd widths get."""
    odd = "zero_pad" if dim % 2 else "sin_extra"
    return Sinusoidal(dim, ladder=T2T, order="sin_cos", odd=odd, **fields)


SPECS: dict[str, Callable[[int], Sinusoidal]] = {
    "whisper": halves,
    "marian": lambda dim: Sinusoidal(dim, order="sin_cos"),
    "xlm": Sinusoidal,
    "speech_to_text": halves,
    "speech_to_text, padding_idx=1": lambda dim: halves(dim, arrangement=Arrangement(pad=1)),
    "annotated": lambda dim: Sinusoidal(dim, ladder=Ladder(expression="exp")),
}
# Marian and XLM work in float64, so that only exact phases are theirs.
CLASSIC = ("whisper", "speech_to_text", "speech_to_text, padding_idx=1", "annotated")
ROWS = [(original, dim) for original in ORIGINALS for dim in original.widths]

each_original = pytest.mark.parametrize(
    ("original", "dim"), ROWS, ids=[f"{original.name}-{dim}" for original, dim in ROWS]
)
each_classic = pytest.mark.parametrize(
    ("original", "dim"),
    [row for row in ROWS if row[0].name in CLASSIC],
    ids=[f"{original.name}-{dim}" for original, dim in ROWS if original.name in CLASSIC],
)


def assert_same_bits(got: Any, want: Any) -> None:
    """Raise unless two tensors agree in every bit, the sign of zeros included."""
    import torch

    assert got.dtype == want.dtype
    assert got.shape == want.shape
    bits = torch.int32 if got.dtype == torch.float32 else torch.int16
    differ = got.contiguous().view(bits) != want.contiguous().view(bits)
    assert not differ.any(), f"{int(differ.sum())} of {differ.numel()} entries differ"


def test_every_original_has_a_spec_and_golden_numbers() -> None:
    names = {original.name for original in ORIGINALS}
    assert names == set(SPECS)
    assert names == {row["name"] for row in json.loads(GOLDEN.read_text())["tables"]}


# --- within the error of the original -------------------------------------------------------------


def error_of(original: Original, dim: int, positions: np.ndarray) -> Any:
    """What the arithmetic of the original allows: a column of bounds."""
    if original.name not in CLASSIC:
        return ABSOLUTE["float32"] + 2.0**-25  # float64, rounded once
    if dim <= WIDEST:
        return ORIGINAL
    # Wide tables have more pairs at their fast end, where both roundings of the angle, that of the
    # frequency and that of the product, count in full.
    return np.maximum(ORIGINAL, 2 * 2.0**-24 * positions)[:, None]


@each_original
def test_exact_table_equals_the_original(original: Original, dim: int) -> None:
    want = numbers(original.make(LENGTH, dim))
    bound = error_of(original, dim, np.arange(LENGTH))
    for dtype in ("float32", "float64"):
        got = posenc.table(SPECS[original.name](dim), LENGTH, dtype=dtype)
        assert_close(got, want, bound, original.name)


@pytest.mark.parametrize(
    "row",
    json.loads(GOLDEN.read_text())["tables"],
    ids=lambda row: f"{row['name']}-{row['dim']}",
)
@pytest.mark.parametrize("phase", ["exact", "float32"])
def test_table_equals_the_golden_numbers(row: dict[str, Any], phase: str) -> None:
    spec = SPECS[row["name"]](row["dim"]).replace(phase=phase)
    positions = np.array(row["positions"])
    # Powers in float32 are an ulp or two off, and positions magnify that.
    bound = ORIGINAL if phase == "exact" else ORIGINAL + 4 * 2.0**-24 * positions[:, None]
    assert_close(posenc.table(spec, positions), np.array(row["values"]), bound, row["name"])


def test_golden_numbers_are_those_of_the_installed_original() -> None:
    stored = json.loads(GOLDEN.read_text())
    for original in ORIGINALS:
        for row in stored["tables"]:
            if row["name"] == original.name:
                assert row["symbol"] == original.symbol
                live = numbers(original.make(stored["length"], row["dim"]))[row["positions"]]
                # Libraries may change the last bits of their sines from one build to the next.
                assert_close(live, np.array(row["values"]), 5e-7, row["name"])


# --- padding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding_idx", [0, 1, 7])
@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("dim", [16, 17])
def test_padded_rows_of_speech_to_text(padding_idx: int, past: int, dim: int) -> None:
    family = originals.transformers("speech_to_text")
    import torch

    module = family.Speech2TextSinusoidalPositionalEmbedding(30, dim, padding_idx)
    tokens = torch.full((4, 6), 9)
    tokens[0, :2] = padding_idx  # left
    tokens[1, 4:] = padding_idx  # right
    tokens[2, 1:3] = padding_idx  # inside
    tokens[3] = padding_idx
    want = module(tokens, past_key_values_length=past)
    spec = halves(dim, arrangement=Arrangement(start=padding_idx + 1, pad=padding_idx))
    real = tokens != padding_idx
    positions = posenc.positions.from_mask(real, pad=-1)
    positions = torch.where(real, positions + past, positions)
    assert_close(posenc.table(spec, positions), want, ORIGINAL, "padded rows")
    assert not posenc.table(spec, positions)[~real].any()
    classic = posenc.table(spec.replace(phase="float32"), positions)
    assert_same_bits(classic, want)


def test_the_sum_of_the_annotated_transformer() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from posenc.torch import PositionTable

    dim, tokens = 32, torch.randn(2, 50, 32)
    spec = Sinusoidal(
        dim,
        ladder=Ladder(expression="exp"),
        magnitude=Magnitude(embedding_scale="sqrt_dim"),
    )
    want = tokens * dim**0.5 + originals.annotated(LENGTH, dim)[:50]
    got = PositionTable(spec)(tokens)
    torch.testing.assert_close(got, want, rtol=2.0**-22, atol=ORIGINAL)
    classic = PositionTable(spec.replace(phase="float32"))(tokens)
    assert_same_bits(classic, want)


# --- bit for bit ----------------------------------------------------------------------------------


@each_classic
@pytest.mark.parametrize("length", [2, 7, LENGTH, 2000])
def test_classic_arithmetic_has_the_bits_of_the_original(
    original: Original, dim: int, length: int
) -> None:
    want = original.make(length, dim)
    import torch

    spec = SPECS[original.name](dim).replace(phase="float32")
    assert_same_bits(posenc.table(spec, torch.arange(length)), want)
    assert_same_bits(posenc.table(spec, length, xp=torch), want)


def test_exact_phases_are_not_the_classic_ones() -> None:
    """Equal bits above would mean nothing if both kinds of phases gave them."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec, far = Sinusoidal(16, ladder=T2T), torch.arange(2**20, 2**20 + 64)
    gap = posenc.table(spec, far) - posenc.table(spec.replace(phase="float32"), far)
    assert float(gap.abs().max()) > 1e-3


BASES = (10_000.0, 500_000.0, 1_000_003.0)


@pytest.mark.parametrize("dim", [6, 64, 96, 128])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("order", ["cos_sin", "sin_cos"])
def test_classic_arithmetic_has_the_bits_of_llama(base: float, dim: int, order: str) -> None:
    family = originals.transformers("llama")
    import torch

    config = family.LlamaConfig(
        hidden_size=2 * dim,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=8,
        vocab_size=8,
        rope_parameters={"rope_theta": base, "rope_type": "default"},
    )
    rotary = family.LlamaRotaryEmbedding(config)
    spec = Sinusoidal(dim, base=base, order=order, phase="float32")
    random = torch.randint(0, 2**20, (2, 3001), generator=torch.Generator().manual_seed(dim))
    near = torch.arange(32_769 if (dim, order) == (128, "cos_sin") else 1027)[None]
    for positions in (near, random, torch.tensor([[0], [1], [2**20]])):
        for dtype in (torch.float32, torch.bfloat16):
            # cos and sin come twice over, for the halves of a head.
            cos, sin = rotary(torch.ones(1, dtype=dtype), positions)
            pair = (cos, sin) if order == "cos_sin" else (sin, cos)
            want = torch.cat([half[..., : dim // 2] for half in pair], dim=-1)
            assert_same_bits(posenc.table(spec, positions, dtype=dtype), want)
