"""The evaluator of the page that computes, in Node, against the numbers of Python."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.errors import PosencError
from posenc.scaling import NTK, Linear, Llama3, LongRoPE, Proportional, YaRN
from tests.explore.node import node
from tests.explore.test_page import STATIC

CHECK = Path(__file__).parents[1] / "browser" / "evaluator.check.mjs"
LENGTH = 4096
PLACES = 31_250  # positions, each with 64 pairs


def rules(pairs: int) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """The seven rules as the page and as Python have them."""
    divisors = tuple(1 + j / 3 for j in range(pairs))
    for factor in (1.0, 2.5, 32.0):
        yield {"rule": "linear", "factor": factor}, (Linear(factor),)
        if pairs > 1:
            yield {"rule": "ntk", "factor": factor}, (NTK(factor),)
        llama = {"factor": factor, "originalLength": LENGTH}
        yield {"rule": "llama3", **llama}, (Llama3(factor, original_length=LENGTH),)
        longrope = LongRoPE(divisors, divisors, original_length=LENGTH, factor=factor)
        yield {"rule": "longrope", "divisors": divisors, **llama}, (longrope.at(LENGTH),)
        for outward in (True, False):
            rounding: Any = "outward" if outward else "none"
            scaling = YaRN(factor, original_length=LENGTH, rounding=rounding)
            yield {"rule": "yarn", "truncate": outward, **llama}, (scaling,)
    equal = Llama3(8, original_length=LENGTH, low_freq_factor=2, high_freq_factor=2)
    yield (
        {"rule": "llama3", "factor": 8, "originalLength": LENGTH, "low": 2, "high": 2},
        (equal,),
    )
    step = YaRN(8, original_length=LENGTH, beta_fast=2, beta_slow=2)
    yield {"rule": "yarn", "factor": 8, "originalLength": LENGTH, "fast": 2, "slow": 2}, (step,)
    for fraction in (0.0, 0.25, 0.7, 1.0):
        yield {"rule": "proportional", "fraction": fraction}, (Proportional(fraction),)
    yield {"rule": "none"}, ()


def ladders() -> Iterator[dict[str, Any]]:
    """Ladders of all rules, widths and bases, and what Python says of each."""
    for dim, base in itertools.product((2, 4, 10, 64, 128, 512), (10.0, 333.3, 1e4, 5e5, 1e7)):
        for scaling, own in rules(dim // 2):
            try:
                spec = posenc.RoPE(dim, pairing="half", base=base, scaling=own)
            except PosencError:
                continue  # a base that leaves YaRN no ramp
            yield {
                "options": {"dim": dim, "base": base, "scaling": scaling},
                "steps": [str(step) for step in spec.arrays["step"][0].tolist()],
                "frequencies": posenc.frequencies(spec).tolist(),
                "factor": spec.attention_factor,
            }
    odd = posenc.Sinusoidal(7)
    yield {
        "options": {"dim": 7, "of": "Sinusoidal"},
        "steps": [str(step) for step in odd.arrays["step"][0].tolist()],
        "frequencies": posenc.frequencies(odd).tolist(),
        "factor": 1.0,
    }


def rope(dim: Any = 8, **more: Any) -> posenc.RoPE:
    return posenc.RoPE(dim, pairing="half", **more)


def long(divisors: tuple[float, ...], **more: Any) -> posenc.RoPE:
    scaling = LongRoPE(divisors, divisors, **{"original_length": 64, "length": 64, **more})
    return rope(scaling=scaling)


def scaled(rule: str, **more: Any) -> dict[str, Any]:
    return {"dim": 8, "scaling": {"rule": rule, **more}}


# What the page is asked for, and how Python refuses the same.
REFUSED: list[tuple[str, Any, Callable[[], object]]] = [
    *[("ladder", {"dim": dim}, lambda dim=dim: rope(dim)) for dim in (0, -2, 7, 2.5, "8")],
    ("ladder", {"dim": 2**18 * 2 + 2}, lambda: rope(2**18 * 2 + 2)),
    ("ladder", {"dim": 0, "of": "Sinusoidal"}, lambda: posenc.Sinusoidal(0)),
    *[("ladder", {"dim": 8, "base": base}, lambda b=base: rope(base=b)) for base in (0, -1, "x")],
    ("ladder", {"dim": 1024, "base": 1e-300}, lambda: rope(1024, base=1e-300)),
    *[("ladder", scaled("linear", factor=f), lambda f=f: Linear(f)) for f in (0.5, 0, -1, 0.3)],
    ("ladder", {**scaled("ntk", factor=2), "dim": 2}, lambda: rope(2, scaling=NTK(2))),
    ("ladder", scaled("ntk", factor=0.5), lambda: NTK(0.5)),
    ("ladder", scaled("proportional", fraction=1.5), lambda: Proportional(1.5)),
    ("ladder", scaled("proportional", fraction=-0.1), lambda: Proportional(-0.1)),
    (
        "ladder",
        scaled("llama3", factor=8, originalLength=0),
        lambda: Llama3(8, original_length=0),
    ),
    (
        "ladder",
        scaled("llama3", factor=8, originalLength=64, low=4, high=1),
        lambda: Llama3(8, original_length=64, low_freq_factor=4, high_freq_factor=1),
    ),
    (
        "ladder",
        scaled("yarn", factor=8, originalLength=64, fast=1, slow=32),
        lambda: YaRN(8, original_length=64, beta_fast=1, beta_slow=32),
    ),
    (
        "ladder",
        scaled("yarn", factor=8, originalLength=4) | {"dim": 64},
        lambda: posenc.frequencies(rope(64, scaling=YaRN(8, original_length=4))),
    ),
    (
        "ladder",
        scaled("longrope", divisors=[1, 1, 1], originalLength=64),
        lambda: long((1, 1, 1)),
    ),
    (
        "ladder",
        scaled("longrope", divisors=[1, 0, 1, 1], originalLength=64),
        lambda: long((1, 0, 1, 1)),
    ),
    (
        "ladder",
        scaled("longrope", divisors=[1, 1, 1, 1], originalLength=1, factor=2),
        lambda: long((1, 1, 1, 1), original_length=1, factor=2.0),
    ),
    *[("slopes", heads, lambda h=heads: posenc.ALiBi(h)) for heads in (0, 1.5, 2**16 + 1)],
    ("bucket", {"buckets": 3}, lambda: posenc.T5(8, buckets=3)),
    ("bucket", {"buckets": 4096}, lambda: posenc.T5(8, buckets=4096)),
    (
        "bucket",
        {"buckets": 1, "causal": True},
        lambda: posenc.T5(8, buckets=1, direction="causal"),
    ),
    (
        "bucket",
        {"buckets": 32, "maxDistance": 8},
        lambda: posenc.T5(8, buckets=32, max_distance=8),
    ),
    ("cosSin", 0.5, lambda: posenc.cos_sin(rope(), [0.5])),
]


def words(call: Callable[[], object]) -> str:
    with pytest.raises(PosencError) as refused:
        call()
    return str(refused.value)


def slopes(heads: int) -> list[float]:
    entries = posenc.bias(posenc.ALiBi(heads), [1], [0], dtype="float64")
    return [-float(slope) for slope in entries.ravel()]


def buckets() -> Iterator[dict[str, Any]]:
    offsets = [*range(-700, 701), 10**6, -(10**6)]
    for count, farthest in ((32, 128), (31, 100), (8, 2000)):
        for causal in (False, True):
            direction: Any = "causal" if causal else "bidirectional"
            spec = posenc.T5(1, buckets=count, max_distance=farthest, direction=direction)
            options = {"buckets": count, "maxDistance": farthest, "causal": causal}
            yield {
                "options": options,
                "offsets": offsets,
                "buckets": spec.bucket(offsets).tolist(),
            }


def rotations() -> Iterator[dict[str, Any]]:
    x = np.random.default_rng(0).standard_normal(16)
    for pairing, position in itertools.product(("half", "interleaved"), (0, 7, 2**31 - 1)):
        scaling = YaRN(4, original_length=64)
        spec = posenc.RoPE(16, pairing=pairing, scaling=scaling)  # type: ignore[arg-type]
        yield {
            "options": {
                "dim": 16,
                "scaling": {"rule": "yarn", "factor": 4, "originalLength": 64},
            },
            "pairing": pairing,
            "position": position,
            "x": x.tolist(),
            "turned": posenc.rotate(spec, x[None], positions=[position])[0].tolist(),
        }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What Python says, as JSON, and cosines and sines to 2**31 as int64, float64 and float64."""
    folder = tmp_path_factory.mktemp("evaluator")
    spec = posenc.RoPE(128, pairing="half", base=500_000.0)
    table = posenc.Sinusoidal(10, base=100.0)
    (folder / "expected.json").write_text(
        json.dumps(
            {
                "ladders": list(ladders()),
                "refusals": [(name, argument, words(call)) for name, argument, call in REFUSED],
                "slopes": [(h, slopes(h)) for h in (1, 8, 12, 100)],
                "buckets": list(buckets()),
                "rotations": list(rotations()),
                "table": {
                    "options": {"dim": 10, "base": 100.0, "of": "Sinusoidal"},
                    "positions": [0, 1, 2**31],
                    "rows": posenc.table(table, [0, 1, 2**31], dtype="float64").tolist(),
                },
                "cosines": {"dim": 128, "base": 500_000.0},
            }
        )
    )
    places = np.random.default_rng(1).integers(-(2**31), 2**31, PLACES)
    both = posenc.cos_sin(spec, places, dtype="float64")
    (folder / "cosines.bin").write_bytes(b"".join(x.tobytes() for x in (places, *both)))
    return folder / "expected.json", folder / "cosines.bin"


def compared(
    files: tuple[Path, Path], folder: Path, broken: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """What Node says of the modules; `broken` is a text of the evaluator and what stands for it."""
    (folder / "package.json").write_text('{"type": "module"}')
    for name in ("evaluator.js", "fixed.js"):
        shutil.copy(STATIC / name, folder)
    script = folder / "evaluator.js"
    code, (text, other) = script.read_text(), broken
    assert text in code
    script.write_text(code.replace(text, other, 1))
    answer: dict[str, Any] = json.loads(node(CHECK, folder, *files))
    return answer


def test_steps_cosines_and_refusals_are_those_of_python(
    expected: tuple[Path, Path], tmp_path: Path
) -> None:
    answer = compared(expected, tmp_path)
    assert answer["wrong"].pop("refusals") == []
    assert answer["wrong"] == dict.fromkeys(answer["wrong"], 0)
    assert answer["compared"] >= 30_000
    assert answer["cosines"] >= 2_000_000
    assert answer["worst"] <= 4e-16
    assert answer["sum"] <= 1e-15
    assert answer["unseen"] == 0


@pytest.mark.parametrize(
    ("text", "other", "what"),
    [
        ("fast = 32,", "fast = 31,", "steps"),
        ("slow = 1,", "slow = 1.1,", "steps"),
        ("high = 4 }", "high = 4.1 }", "steps"),
        ("0.1 * Math.log(factor)", "0.11 * Math.log(factor)", "factors"),
        ("(-8 * (2 * (h - power) + 1))", "(-8 * (2 * (h - power) + 2))", "slopes"),
        ("(Math.PI / 4)", "(3.1415926535897 / 4)", "rotations"),
    ],
)
def test_a_constant_that_is_off_is_seen(
    text: str, other: str, what: str, expected: tuple[Path, Path], tmp_path: Path
) -> None:
    none = tmp_path / "none.bin"
    none.write_bytes(b"")
    answer = compared((expected[0], none), tmp_path, (text, other))
    assert answer["wrong"][what] > 0
