"""The layout of arrays by their shapes: which axis counts rows, tokens, heads and channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from posenc._core.errors import bad_data, refuse_data
from posenc.detect.trace.dumps.files import Dump
from posenc.detect.trace.places import of_queries, places_of


def arranged(dumps: Sequence[Dump], width: int | None, caller: str) -> list[Dump]:
    """All of some dumps in one layout; `width` is that of a head, for arrays of joined heads."""
    options = [[[*_layouts(array, width)] for array in (dump.before, dump.after)] for dump in dumps]
    counts = [{a.shape[1] for a in both[0]} & {a.shape[1] for a in both[1]} for both in options]
    tokens = set.intersection(*counts) if counts else set()
    stated = {dump.positions.shape[-1] for dump in dumps if dump.positions is not None}
    tokens = tokens & stated if stated else tokens
    if not tokens:
        shapes = ", ".join(dict.fromkeys(str(dump.before.shape) for dump in dumps))
        raise bad_data(
            caller,
            f"queries, keys and positions of one number of tokens, in heads of {width or '?'}",
            f"arrays of shape {shapes}",
            "Layouts that are known: (rows, heads, tokens, channels), heads and tokens exchanged, "
            "heads joined, or axes in the order of ggml.",
        )  # fmt: skip
    return [_chosen(dump, both, tokens) for dump, both in zip(dumps, options, strict=True)]


def _layouts(array: np.ndarray, width: int | None) -> Iterator[np.ndarray]:
    """An array as (rows, tokens, heads, channels), in each way that its shape allows."""
    plain = array.astype(np.float64)
    if plain.ndim < 2:
        return
    if width and plain.shape[-1] != width and plain.shape[0] == width:
        plain = plain.T  # as ggml counts axes: channels first
    channels = plain.shape[-1]
    if width and channels != width and not channels % width and plain.ndim < 4:
        plain = plain.reshape(*plain.shape[:-1], channels // width, width)
        if plain.ndim == 4:
            yield plain  # rows of joined heads
            return
    elif width and channels != width:
        return
    if plain.ndim == 2:
        yield plain[None, :, None]
    elif plain.ndim == 3:
        yield plain[None]
        yield plain.swapaxes(0, 1)[None]
    elif plain.ndim == 4:
        yield plain
        yield plain.swapaxes(1, 2)


def _chosen(dump: Dump, both: list[list[np.ndarray]], tokens: set[int]) -> Dump:
    """The layout in which tokens turn alike in all heads."""
    pairs = [
        (x, y) for x in both[0] for y in both[1] if x.shape == y.shape and x.shape[1] in tokens
    ]
    refuse_data(
        not pairs, f"layer {dump.layer}, {dump.tensor}", "one shape before it turns and after",
        f"{dump.before.shape} and {dump.after.shape}",
    )  # fmt: skip
    before, after = min(pairs, key=lambda pair: _unlike(*pair)) if len(pairs) > 1 else pairs[0]
    own = None if dump.positions is None else np.squeeze(dump.positions)
    rows, count, *_ = before.shape
    places = of_queries(places_of({}, own, rows), rows, count, past=0, axes=1)
    return dump._replace(before=before, after=after, positions=places)


def _unlike(x: np.ndarray, y: np.ndarray) -> float:
    """How far the turns of a token are from being the same in all heads, in the better pairing."""
    scores = []
    for first, second in ((slice(0, None, 2), slice(1, None, 2)),
                          (slice(0, x.shape[-1] // 2), slice(x.shape[-1] // 2, None))):  # fmt: skip
        v, w = (a[..., first] + 1j * a[..., second] for a in (x, y))
        total = np.abs((w * v.conj()).sum(axis=2)).sum()
        scores.append(1 - total / np.maximum((np.abs(v) * np.abs(w)).sum(), 1e-30))
    return min(scores)
