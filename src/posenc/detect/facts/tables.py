"""Tables of cosines and sines among the tensors of a model: what their pairs turn by, and rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from posenc._core.io.files import rounded
from posenc._core.reading import Layer
from posenc.detect.facts.fact import Fact
from posenc.detect.fit.tolerances import HALVES, seen
from posenc.detect.subject.arrays import followed, one_of_each
from posenc.encodings.rotary.base import RotarySpec

# Buffers of other people's modules, by the last words of their names.
COSINES = re.compile(r"(?:^|[._])(cos_cached|cos_sin_cache|freqs_cis?|freqs_complex)$")
SINES = re.compile(r"(?:^|[._])sin_cached$")
PLACES = (0, *(2**k for k in range(16)))  # rows, each of which doubles what is known
Read = Callable[[str, int, int], np.ndarray]  # numbers of a tensor from one on, so many


def of_tables(shapes: Mapping[str, tuple[int, ...]], read: Read) -> Iterator[Fact]:
    """Frequencies and rows of tables of known names; those of equal numbers are one fact."""
    kept: dict[tuple[int, bytes], list[str]] = {}
    for key, shape in shapes.items():
        if COSINES.search(key) and len(shape) > 1 and 0 not in shape:
            rows, turning = _frequencies(key, shapes, read)
            if turning is not None:
                kept.setdefault((rows, turning.tobytes()), []).append(key)
    for (rows, content), keys in kept.items():
        yield Fact(
            "frequencies",
            tuple(np.frombuffer(content).tolist()),
            source="buffer",
            rests_on=several(keys),
        )
        yield Fact("length", rows, source="header", rests_on=several(keys))


def several(keys: list[str]) -> str:
    """The first of some names, and how many more there are."""
    return f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0]


def _frequencies(
    key: str, shapes: Mapping[str, tuple[int, ...]], read: Read
) -> tuple[int, np.ndarray | None]:
    """The rows of a table, and what its pairs turn by in the numbers of its own dtype."""
    shape = shapes[key]
    inner = shape[-2:] if len(shape) > 2 and shape[-1] == 2 else shape[-1:]
    width, rows = int(np.prod(inner)), int(np.prod(shape[: -len(inner)]))
    places = [place for place in PLACES if place < rows]
    arrays = {
        name: np.array([read(name, place * width, width).reshape(inner) for place in places])
        for name in (key, key.replace("cos_cached", "sin_cached"))
        if shapes.get(name) == shape
    }
    if (turns := complex_of(key, arrays)) is None or len(places) < 2:
        return rows, None
    dtype = seen(turns)
    turns = turns[:, one_of_each(turns)]
    values = followed(turns * np.conj(turns[0]), places)
    return rows, rounded(values, dtype) if dtype in HALVES else values


def complex_of(key: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Cosines + i sines under a name; None where it has no numbers of these."""
    array = arrays[key]
    if array.dtype.kind == "c":
        return array
    if key.endswith("cos_sin_cache"):
        cos, sin = np.array_split(array, 2, axis=-1)
    elif key.endswith("cos_cached"):
        cos, sin = array, arrays.get(f"{key.removesuffix('cos_cached')}sin_cached", array[:0])
    elif array.ndim > 2 and array.shape[-1] == 2:  # as `view_as_real` has them
        cos, sin = array[..., 0], array[..., 1]
    else:
        return None
    return cos + 1j * sin if cos.shape == sin.shape else None


def short(rows: int, entries: list[Layer]) -> Layer | None:
    """An entry of more positions than a table has rows; None where one has no more."""
    own = [entry for entry in entries if isinstance(entry.spec, RotarySpec)]
    for entry in own:
        originals = (
            getattr(s, "original_length", None) for s in getattr(entry.spec, "scalings", ())
        )
        if rows >= min(filter(None, (entry.length, *originals)), default=0):
            return None
    return own[0] if own else None
