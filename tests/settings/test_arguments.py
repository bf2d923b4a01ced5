"""Arguments that cannot be meant: an error of posenc names each, whatever library it is of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.spec.checks import small
from posenc.registry import lookup
from tests.settings.subjects import Subject

NAMES = ("Sinusoidal", "Learned", "Fourier", "RoPE", "XPos", "MixedRoPE", "ALiBi", "T5", "Shaw")
BAD: dict[str, Any] = {
    "a text": "abc",
    "far too much": 2**70,
    "a part": 1.5,
    "a dictionary": {"a": 1},
    "rows of two lengths": [[1, 2], [3]],
    "an object": object(),
    "a class of arrays": np.float32,
    "booleans": np.array([True, False, True, False]),
    "half precision": np.arange(4, dtype="float16"),
    "texts": np.array(["a", "b"]),
    "masked": np.ma.MaskedArray([1, 2, 3, 4], mask=[0, 1, 0, 0]),
    "an encoding": small(lookup("GridCells")),
}
Call = tuple[Callable[..., Any], dict[str, Any]]


def calls(name: str) -> Iterator[Call]:
    """The verbs of an encoding with arguments that are right."""
    spec = small(lookup(name))
    subject = Subject(name, spec)
    floats, where = subject.floats(4), subject.where(4)
    params = {n[7:]: v for n, v in floats.items() if n.startswith("params.")} or None
    x, more = floats["x"], {"spec": spec, "params": params}
    if spec.kind == "table":
        yield posenc.add, {**more, "x": x, "positions": where}
        yield posenc.table, {**more, "positions": where}
    elif spec.kind == "rotary":
        yield posenc.rotate, {**more, "x": x, "positions": where}
        yield posenc.cos_sin, {**more, "positions": where}
    elif spec.kind == "bias":
        yield posenc.bias, {**more, "q_positions": where, "k_positions": where}
    else:
        both = {"q_positions": where, "k_positions": where}
        yield posenc.relative, {**more, **both, "q": x, "k": floats["k"]}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_no_value_ends_in_the_words_of_another_library(name: str, library: str) -> None:
    module: Any = pytest.importorskip(library)
    for verb, right in calls(name):
        given = {
            n: module.asarray(v) if isinstance(v, np.ndarray) and v.dtype.kind in "if" else v
            for n, v in right.items()
        }
        verb(**given)
        for argument in inspect.signature(verb).parameters:
            for value in BAD.values():
                places = {"positions": None} if argument in ("offset", "cu_seqlens") else {}
                try:
                    verb(**{**given, **places, argument: value})
                except posenc.PosencError:
                    continue
                # What is taken is what the argument may be.
                assert argument in TAKEN, (verb.__name__, argument, value)


# Real positions of Fourier and of MixedRoPE, a part of a dtype's name, and so on.
TAKEN = ("positions", "q_positions", "k_positions", "offset", "seed", "dtype")


HONEST: dict[str, Callable[[], Any]] = {
    "a switch of NumPy": lambda: posenc.rotate(ROPE, X, inverse=np.True_),
    "reversed": lambda: posenc.rotate(ROPE, X[..., ::-1], positions=np.arange(4)[::-1]),
    "read-only": lambda: posenc.rotate(ROPE, np.broadcast_to(X, (2, 4, 8))),
    "the other byte order": lambda: posenc.cos_sin(ROPE, np.arange(4, dtype=">i8")),
    "a number of NumPy": lambda: posenc.positions.arange(np.int64(3), start=np.int32(2)),
    "an array of one number": lambda: posenc.positions.offset(np.array(3), np.array(2)),
    "nothing": lambda: posenc.bias(posenc.ALiBi(4), [], 5),
    "no word": lambda: posenc.golden(ROPE, pairing=None),
    "the other byte order, for torch": lambda: posenc.rotate(
        ROPE.replace(phase="real"),
        pytest.importorskip("torch").ones(4, 8),
        positions=np.arange(4, dtype=">f8"),
    ),
    "a word of NumPy": lambda: posenc.cos_sin(ROPE, 3, width=np.str_("full")),
}
ROPE = posenc.RoPE(8, pairing="half")
X = np.ones((4, 8), "float32")


@pytest.mark.parametrize("name", HONEST)
def test_what_is_meant_is_taken(name: str) -> None:
    HONEST[name]()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: posenc.rotate(ROPE, X, inplace="no"), "inplace: expected True or False, got 'no'"),
        (lambda: posenc.cos_sin(ROPE, 3, width="fill"), "width: .*got 'fill'. Did you mean 'full'"),
        (lambda: posenc.cos_sin(ROPE, np.ma.array([1, 2], mask=[0, 1])), "positions: .*masked"),
        (lambda: posenc.golden(ROPE, pairing="neo"), "golden: pairing: expected 'half' or"),
        (lambda: posenc.positions.from_mask([[0, 1]], pad=1.5), "positions.from_mask: pad: .*1.5"),
        (lambda: posenc.positions.following(None), "positions.following: .*length=None. TypeErr"),
        (lambda: posenc.positions.grid([3], prefix=-1), r"positions.grid: .*prefix=-1"),
        (lambda: posenc.positions.offset(2**62, 0), "length: .*too large"),
        (lambda: posenc.positions.packed([0, 2], tail=0.5), "tail: expected an integer or None"),
        (lambda: posenc.positions.offset(None, 3), "positions.offset: length: expected an int"),
        (lambda: posenc.cos_sin(ROPE, 2**63), r"positions: .* at most 2\*\*40.*is \[p\]"),
        (lambda: posenc.table(posenc.Sinusoidal(8), 3, device="abc"), "table: device: .*'abc'"),
        (lambda: posenc.rerotate(ROPE, X, None, range(4)), "old_positions: .*got None"),
        (lambda: posenc.positions.path([-1, 0], None), "positions.path: node: expected an int"),
        (
            lambda: posenc.apply_rotary(X, [1.0], np.ones((4, 4)), pairing="half"),
            "apply_rotary: cos: expected an array of NumPy",
        ),
        (lambda: posenc.relative(posenc.Shaw(8, clip=2), X, [1]), "k: expected an array"),
    ],
)
def test_the_argument_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(posenc.ArgumentError, match=message):
        call()
