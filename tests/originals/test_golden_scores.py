"""Biases and relative encodings against numbers of original code that no package installs.

`golden/originals_scores.json` says which repository, commit and definition each came from, and
`golden/make_scores.py` makes it again. The originals ran in float64, and their numbers have nine
digits; a few form their angles in float32 all the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc import (
    DAPE,
    FIRE,
    IRPE,
    NEZHA,
    TENER,
    TISA,
    AdaptiveSpan,
    ALiBi2D,
    DynamicBias,
    IRPEBias,
    Ladder,
    PositionSensitive,
    RotaryBias,
    Sandwich,
)
from tests.tolerances import assert_close

GOLDEN = Path(__file__).parents[1] / "golden" / "originals_scores.json"
DATA = json.loads(GOLDEN.read_text(encoding="utf-8"))
ROWS: dict[str, Any] = {row["name"]: row for row in DATA["rows"]}
CLASS_AND_GRID = [(-1, -1), *((r, c) for r in range(2) for c in range(14))]
QUERIES = [CLASS_AND_GRID[i] for i in (0, 1, 7, 23)]
CLOSE = 1e-6
METHODS = {"product": "product", "cross": "cross", "euc": "euclidean", "quant": "quantised"}


def arrays(name: str, *keys: str) -> dict[str, np.ndarray]:
    """The named arrays of a row, in float64."""
    return {key: np.array(ROWS[name][key], dtype=np.float64) for key in keys}


def close(got: Any, name: str, key: str = "values") -> None:
    """Equal to the numbers of the original, of unit size or more."""
    exact = np.array(ROWS[name][key], dtype=np.float64)
    assert_close(got, exact, CLOSE * (1 + np.abs(exact)), name)


def grid(rows: int, columns: int) -> np.ndarray:
    return np.stack(np.divmod(np.arange(rows * columns), columns), axis=-1)


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def test_every_row_says_where_it_comes_from() -> None:
    for row in ROWS.values():
        assert {"repository", "commit", "path", "symbol", "values"} <= row.keys()
    assert len(ROWS) == 22


def test_tisa() -> None:
    params = arrays("tisa", "amplitude", "sharpness", "offset")
    # The authors' f(m - n - 1) is f(n - m) of the paper with other offsets.
    params["offset"] = -1 - params["offset"]
    spec = TISA(3, kernels=2)
    close(posenc.bias(spec, 6, params=params, dtype="float64"), "tisa")


def test_alibi_2d() -> None:
    close(posenc.bias(ALiBi2D(6), grid(3, 3), dtype="float64"), "alibi-2d")


def test_adaptive_span() -> None:
    given = arrays("adaptive-span", "span", "scores")
    spec = AdaptiveSpan(3, length=12, ramp=4)
    # The newest key, whose distance is 0 there, stands last.
    bias = posenc.bias(spec, [11], 12, params={"span": given["span"]}, dtype="float64")
    assert np.isinf(bias).any()
    close(softmax(given["scores"] + bias), "adaptive-span")


def test_rotary_bias() -> None:
    spec = RotaryBias(1, dim=6)
    given = arrays("rotary-bias", "alpha", "beta")
    close(posenc.bias(spec, 9, params=given, dtype="float64")[0], "rotary-bias")


@pytest.mark.parametrize("form", ["plain", "residual"])
def test_dynamic_bias(form: Any) -> None:
    spec = DynamicBias(3, window=(2, 3), width=6, form=form)
    params = arrays(f"dynamic-{form}", *spec.shapes)
    got = posenc.bias(spec, grid(2, 3), params=params, dtype="float64")
    close(got, f"dynamic-{form}")


@pytest.mark.parametrize("method", METHODS)
def test_irpe_bias(method: str) -> None:
    name = f"irpe-{method}-bias"
    spec = IRPEBias(2, method=METHODS[method], extra="class_token")
    tables = arrays(name, *sorted(key for key in ROWS[name] if key.startswith("table")))
    params = dict(zip(spec.shapes, tables.values(), strict=True))
    got = posenc.bias(spec, QUERIES, CLASS_AND_GRID, params=params, dtype="float64")
    close(got, name)


@pytest.mark.parametrize("method", METHODS)
def test_irpe_contextual(method: str) -> None:
    name = f"irpe-{method}-contextual"
    spec = IRPE(4, method=METHODS[method], acts_on="keys_queries_values", extra="class_token")
    ends = ("_rows", "_columns") if method == "cross" else ("",)
    params = {
        f"{side}{end}": np.array(ROWS[name][f"{side}_{i}"], dtype=np.float64)
        for side in ("keys", "queries", "values")
        for i, end in enumerate(ends)
    }
    given = arrays(name, "q", "k", "weights")
    places = np.array(QUERIES), np.array(CLASS_AND_GRID)
    close(posenc.relative(spec, given["q"], given["k"], *places, params=params), name)
    of_values = posenc.relative_values(spec, given["weights"], *places, params=params)
    close(of_values, name, "context")


def test_position_sensitive() -> None:
    name = "position-sensitive"
    given = arrays(name, "queries", "keys", "values_table", "q", "k", "v")
    # Rows of queries and values are numbered by query - key there, those of keys by key - query.
    params = {
        "queries": given["queries"][::-1],
        "keys": given["keys"],
        "values": given["values_table"][::-1],
    }
    q, k, v = given["q"], given["k"], given["v"]
    spec = PositionSensitive(2, length=5, value_dim=4)
    scores = q @ k.swapaxes(-1, -2) + posenc.relative(spec, q, k, params=params)
    weights = softmax(scores * spec.scale)
    got = weights @ v + posenc.relative_values(spec, weights, 5, 5, params=params)
    close(got, name)


def test_nezha() -> None:
    given = arrays("nezha", "q", "k", "v")
    q, k, v = given["q"], given["k"], given["v"]
    spec = NEZHA(4, clip=3)
    weights = softmax((q @ k.swapaxes(-1, -2) + posenc.relative(spec, q, k)) * spec.scale)
    close(weights, "nezha", "weights")
    close(weights @ v + posenc.relative_values(spec, weights, 7, 7), "nezha")


def test_tener() -> None:
    given = arrays("tener", "q", "k")
    params = arrays("tener", "u", "v")
    q, k = given["q"], given["k"]
    spec = TENER(6, count=2)
    scores = (q @ k.swapaxes(-1, -2) + posenc.relative(spec, q, k, params=params)) * spec.scale
    close(softmax(scores), "tener")
    # The term that the paper lacks is no small matter.
    paper = posenc.relative(spec.replace(terms="paper"), q, k, params=params)
    assert np.abs(softmax(q @ k.swapaxes(-1, -2) + paper) - softmax(scores)).max() > 0.01


def test_dape() -> None:
    spec = DAPE(4, count=3, width=5)
    params = arrays("dape", *spec.shapes)
    given = arrays("dape", "q", "k")
    q, k = given["q"], given["k"]
    got = q @ k.swapaxes(-1, -2) * spec.scale + posenc.relative(spec, q, k, params=params)
    close(got, "dape")


def test_fire() -> None:
    """Of the past alone: the code takes distances into the future for 0."""
    spec = FIRE(3, width=4, threshold=5.0)
    params = arrays("fire", *spec.shapes)
    got = posenc.bias(spec, 12, params=params, dtype="float64")
    past = np.tril(np.ones((12, 12), bool))
    exact = np.array(ROWS["fire"]["values"])
    bound = CLOSE * (1 + np.abs(exact))
    assert_close(np.where(past, got, 0), np.where(past, exact, 0), bound, "fire")


def test_sandwich() -> None:
    """A reader of the paper who counts the frequencies from 1, and starts the sum at 0."""
    spec = Sandwich(3, dim=8, ladder=Ladder(start=1))
    ours = posenc.bias(spec, 12, dtype="float64")
    less = spec.dim / 2 / spec.arrays["divisors"][:, None, None]
    close(ours - less, "sandwich")


def test_path() -> None:
    """Of their directions and strengths, each from a key that holds it beside itself."""
    given = arrays("path", "q", "k", "w", "beta")
    weights = np.array(ROWS["path"]["values"])[0]
    q, k, w = (given[name][0].swapaxes(0, 1) for name in ("q", "k", "w"))
    strength = np.log(given["beta"][0].T / (2 - given["beta"][0].T))
    spec = posenc.PaTH(8, count=2)
    # A matrix that sends each key to its direction, as there are fewer keys than channels.
    inverse = np.linalg.pinv(k)
    params = {
        "direction": 1e4 * np.swapaxes(inverse @ w, -1, -2),  # long, so that 1e-6 is nothing
        "strength": (inverse @ strength[..., None])[..., 0],
        "bias": np.zeros(2),
    }
    scores = (q @ k.swapaxes(-1, -2) + posenc.relative(spec, q, k, params=params)) * spec.scale
    past = np.tril(np.ones((7, 7))) > 0
    assert_close(softmax(np.where(past, scores, -np.inf)), weights, CLOSE)


def test_rope_plus_plus() -> None:
    name, given = "rope-plus-plus", arrays("rope-plus-plus", "q", "k", "keys")
    at = np.array(ROWS[name]["positions"][0]).astype(int)
    kinds = [kind(8, pairing="half") for kind in (posenc.RoPE, posenc.ImaginaryRoPE)]
    turned = [posenc.rotate(spec, given["q"], positions=at) for spec in kinds]
    # Their angles are float32, which at position 4000 is 2e-4 off.
    far = 1e-7 * (1 + at)[:, None]
    values = np.array(ROWS[name]["values"])
    assert_close(np.stack(turned, axis=2).reshape(values.shape), values, far)
    for spec in kinds:
        keys = posenc.rotate(spec, given["k"], positions=at, role="key")
        assert_close(keys, given["keys"], far)
