"""Presets: every row of data against plain loops, some against the published code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import presets
from posenc.encodings.table.base import TableSpec
from tests.oracles.table import halves, rounded_up_and_cut, sine_keeps_extra, vaswani
from tests.tolerances import ABSOLUTE, ORIGINAL, assert_close

Oracle = Callable[[int, int], Sequence[float]]


def t2t(p: int, d: int) -> list[float]:
    return halves(p, d, 10000.0, d // 2 - 1)


def paper_halves(p: int, d: int) -> list[float]:
    return halves(p, d, 10000.0, d / 2)


def paper(p: int, d: int) -> list[float]:
    return vaswani(p, d)


def reserved(p: int, d: int) -> list[float]:
    return [0.0] * d if p == -1 else t2t(p + 2, d)


# Name -> (row of the table, factor on the table, factor on the embeddings, odd widths)
ORACLES: dict[str, tuple[Oracle, str, str, str]] = {
    "vaswani2017": (paper, "1", "sqrt", "computed"),
    "tensor2tensor": (t2t, "1", "1", "computed"),
    "fairseq": (reserved, "1", "sqrt", "computed"),
    "whisper": (t2t, "1", "1", "refused"),
    "marian-nmt": (t2t, "1", "sqrt", "refused"),
    "marian-transformers": (lambda p, d: sine_keeps_extra(p, d, 1e4), "1", "sqrt", "computed"),
    "pegasus-original": (t2t, "1", "sqrt", "computed"),
    "annotated-transformer": (paper, "1", "sqrt", "refused"),
    "xlm": (paper, "1", "1", "computed"),
    "speecht5-speech": (reserved, "1", "1", "computed"),
    "conformer-relative": (paper, "1", "1", "refused"),
    "transformer-xl": (paper_halves, "1", "1", "refused"),
    "videoprism": (paper_halves, "1", "1", "refused"),
    "funasr-nano": (lambda p, d: t2t(p + 1, d), "1", "1", "refused"),
    "qwen-omni-audio": (t2t, "1", "1", "refused"),
    "positional-encodings": (lambda p, d: rounded_up_and_cut([p], d, 1e4), "1", "1", "computed"),
    "x-transformers": (paper_halves, "rsqrt", "1", "refused"),
    "keras-hub": (paper, "1", "1", "computed"),
    "timesfm": (t2t, "1", "1", "refused"),
}
POSITIONS = [-3, -1, 0, 1, 2, 17, 1000]


def test_every_preset_of_one_axis_has_an_oracle() -> None:
    """Those of several axes, and of real positions, are in `test_presets_originals.py`."""
    rows = [presets.row(name) for name in presets.names()]
    plain = {
        row.name
        for row in rows
        if row.spec["type"] == "Sinusoidal"
        and len(row.spec.get("arrangement", {}).get("axes", ["position"])) == 1
    }
    assert plain == set(ORACLES)


@pytest.mark.parametrize("name", sorted(ORACLES))
@pytest.mark.parametrize("dim", [8, 9, 64])
def test_table_of_preset(name: str, dim: int) -> None:
    oracle, table_scale, embedding_scale, odd = ORACLES[name]
    if dim % 2 and odd == "refused":
        with pytest.raises(posenc.SpecError, match=f"dim={dim}"):
            presets.preset(name, dim)
        return
    spec = presets.preset(name, dim)
    assert isinstance(spec, TableSpec)
    scales = {"1": 1.0, "sqrt": math.sqrt(dim), "rsqrt": 1 / math.sqrt(dim)}
    exact = np.array([oracle(p, dim) for p in POSITIONS]) * scales[table_scale]
    table = posenc.table(spec, POSITIONS)
    assert_close(table, exact, ABSOLUTE["float32"], name)
    assert spec.embedding_scale == scales[embedding_scale]


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_rows_are_complete(name: str) -> None:
    row = presets.row(name)
    assert row.kind == presets.preset(name, 8).kind
    assert row.note
    assert row.size not in row.spec
    for source in row.sources:
        assert source["symbol"]
        assert ("repository" in source and "path" in source) or "paper" in source
    assert set(row.recognise) == {"model_types", "classes"}


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_json_round_trip(name: str) -> None:
    spec = presets.preset(name, 8)
    assert posenc.from_json(posenc.to_json(spec)) == spec


def test_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(posenc.ArgumentError, match="Did you mean 'whisper'"):
        presets.preset("wisper", 8)


@pytest.mark.parametrize("dim", [True, 8.0, "8", None])
def test_a_width_is_an_integer(dim: Any) -> None:
    with pytest.raises(posenc.ArgumentError, match="an integer"):
        presets.preset("whisper", dim)


def test_sizes_of_sections_follow_the_width() -> None:
    arrangement = {
        "type": "Arrangement",
        "rule": "axial",
        "axes": ["t", "w", "h"],
        "sizes": [
            {"expression": "dim//8"},
            {"expression": "3*dim//16"},
            {"expression": "(dim - dim//4)//4 + 0"},
        ],
    }
    template = {"type": "Sinusoidal", "arrangement": arrangement}
    row = presets.Preset("x", "table", "dim", template, (), {}, "")
    assert row.build(64).arrangement.sizes == (8, 12, 12)  # type: ignore[attr-defined]
    assert json.dumps(template)  # the template is left as it was


@pytest.mark.parametrize("text", ["__import__('os')", "dim**2", "dim.real", "other", "1.5"])
def test_sizes_are_integers_and_the_name_of_the_size(text: str) -> None:
    template = {"type": "Sinusoidal", "base": {"expression": text}}
    row = presets.Preset("x", "table", "dim", template, (), {}, "")
    with pytest.raises(posenc.SpecError, match="integers"):
        row.build(8)


# --- the published code ---------------------------------------------------------------------------


def test_against_published_generators() -> None:
    torch = pytest.importorskip("torch", reason="the published generators are written in torch")
    pytest.importorskip("transformers", reason="holds the published generators")
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
    from transformers.models.videomae.modeling_videomae import get_sinusoid_encoding_table
    from transformers.models.whisper.modeling_whisper import sinusoids

    rows = np.arange(32)  # their float32 phases lose a bit at each power of two
    for name, published in (
        ("whisper", sinusoids(32, 32)),
        ("videoprism", create_sinusoidal_positions(32, 32)),
        ("xlm", get_sinusoid_encoding_table(32, 32)[0]),
    ):
        assert isinstance(published, torch.Tensor)
        assert_close(
            posenc.table(presets.preset(name, 32), rows), published.numpy(), ORIGINAL, name
        )  # type: ignore[arg-type]
