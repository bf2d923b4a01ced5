"""What each attention is expected to do, and at which positions.

By a config, a plan, a spec, facts, or another trace; positions are handed over, of the inputs, or
counted.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, PosencError, refuse
from posenc._core.grouping import grouped
from posenc._core.io.inputs import load
from posenc._core.reading import Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.contract.contract import Contract, Part
from posenc.detect.contract.make import described
from posenc.detect.facts import Facts, facts
from posenc.detect.trace.result import UNTURNED, Trace
from posenc.encodings.api import BiasSpec, RotarySpec


class Expected(NamedTuple):
    """What one layer is expected to do about positions."""

    rotary: RotarySpec | None = None
    bias: BiasSpec | None = None
    scale: float | None = None  # where it is stated; or else what is usual
    window: int | None = None
    stated: bool = True  # whether anything is of rotations
    windows_stated: bool = False
    tempered: bool = False  # whether scores have a factor that depends on the position
    others: tuple[tuple[str, RotarySpec], ...] = ()
    relative: bool = False
    missing: bool = False  # whether nothing is said of this layer, where something is of others


class Expectations(NamedTuple):
    """What the layers of a model are expected to do, part by part."""

    name: str
    parts: Mapping[str, Callable[[int], Expected]]  # by part: what a layer of it does
    notes: Sequence[str] = ()
    read: bool = False  # of a config, which need not state what its class does to scores


def _listed(layers: Mapping[int, Expected], number: int) -> Expected:
    """What is said of a layer, by its number."""
    return layers.get(number, Expected(stated=False, missing=bool(layers)))


NOTHING = {"": functools.partial(_listed, {})}


def expectations(expected: Any, model: Any) -> Expectations:
    """What a model is held against; where nothing is handed over, its config."""
    if expected is None:
        config = getattr(model, "config", None)
        try:
            # A config of diffusers does not hold the name of its class.
            own = load(model, "trace") if isinstance(config, Mapping) else config
            read = None if own is None else facts(own).plan
        except PosencError as error:
            return Expectations("", NOTHING, [
                f"what it is held against, because its config cannot be read: {error}"
            ])  # fmt: skip
        return Expectations("", NOTHING) if read is None else _of_reading(read, "its config")
    if isinstance(expected, (str, Path)):
        # A config that leaves something open is read below, as far as it can be.
        with contextlib.suppress(DataError):
            expected = described(expected, "trace: expected")
    match expected:
        case Contract():
            inside = {part.name.partition("#")[0].rpartition(".")[0] for part in expected.parts}
            return Expectations("the contract", {
                name: functools.partial(_of_parts, [p for p in expected.parts if _inside(p, name)])
                for name in sorted(inside)
            })  # fmt: skip
        case Trace():
            layers = {layer.index: _of_traced(layer) for layer in expected.layers}
            return Expectations("another trace", {"": functools.partial(_listed, layers)})
        case Spec():
            return Expectations(type(expected).__name__, {"": lambda _: _of_specs([expected])})
        case Plan():
            layers = {n: _of_specs([*entry.specs]) for n, entry in enumerate(expected)}
            return Expectations("the plan", {"": functools.partial(_listed, layers)})
        case Facts():
            expected = expected.reading
    refuse((
        isinstance(expected, type)
        or not (isinstance(expected, (Mapping, str, Path)) or hasattr(expected, "to_dict")),
        "trace: what it is held against", "a config, a plan, a spec, facts, or another trace",
        type(expected).__name__,
    ))  # fmt: skip
    return _of_reading(
        expected if isinstance(expected, Reading) else facts(expected).plan, "the config"
    )


def _of_specs(specs: list[Spec]) -> Expected:
    return Expected(
        next((s for s in specs if isinstance(s, RotarySpec)), None),
        next((s for s in specs if isinstance(s, BiasSpec)), None),
    )


def _inside(part: Part, name: str) -> bool:
    """Whether a part is the main attention of the layers of this part of a model."""
    plain = part.name.partition("#")[0]
    return plain.rpartition(".")[0] == name and ":" not in plain


def _of_parts(parts: Sequence[Part], number: int) -> Expected:
    """What the parts of a contract say of a layer."""
    own = [part for part in parts if part.layers is None or number in part.layers]
    window = next((part.window for part in own if part.window is not None), None)
    return _of_specs([part.spec for part in own if part.spec is not None])._replace(
        scale=next((part.scale for part in own if part.scale is not None), None), window=window,
        windows_stated=window is not None or any(part.whole for part in own),
        tempered=any(part.temperature is not None for part in own),
    )  # fmt: skip


def _of_traced(layer: Any) -> Expected:
    rotary = layer.query.spec if isinstance(layer.query.spec, RotarySpec) else None
    stated = rotary is not None or layer.query.why in ("", UNTURNED)
    return Expected(
        rotary, scale=layer.scale, window=layer.window, stated=stated, windows_stated=True,
        relative=bool(layer.bias), missing=not stated,
    )  # fmt: skip


def _of_reading(reading: Reading, name: str) -> Expectations:
    several = any("." in entry.layer for entry in reading)
    parts = grouped(
        (entry.layer.partition(".")[0] if several else "", entry)
        for entry in reading
        if not entry.attention
    )
    return Expectations(
        name,
        {n: functools.partial(_of_entries, Reading(tuple(own))) for n, own in parts.items()}
        or NOTHING,
        [f"part of its config: {text}" for text in reading.errors],
        read=True,
    )


def _of_entries(reading: Reading, number: int) -> Expected:
    own = reading.at(number)
    every = [(e.label, e.spec) for e in reading if isinstance(e.spec, RotarySpec)]
    spec = next((e.spec for e in own if isinstance(e.spec, RotarySpec)), None)
    windows = [size for entry in own for size, layers in entry.windows
               if layers is None or number in layers]  # fmt: skip
    return Expected(
        spec,
        next((e.spec for e in own if isinstance(e.spec, BiasSpec)), None),
        next((e.scale for e in own if e.scale is not None), None),
        windows[-1] if windows else None,
        stated=bool(own) or not every,
        missing=not own and bool(every),
        windows_stated=bool(windows),
        tempered=any(e.logit_scale is not None for e in own),
        others=tuple((label, other) for label, other in every if other != spec),
        relative=any(e.kind == "relative" for e in own),
    )


# --- positions ------------------------------------------------------------------------------------


class ExpectedPlaces(NamedTuple):
    """Positions, and which tokens are padding."""

    positions: np.ndarray | None = None  # (sequences, tokens) or (sequences, tokens, axes)
    padding: np.ndarray | None = None  # (sequences, keys): True for a token that is none
    stated: bool = False  # whether somebody said so
    unseen: bool = False  # whether no angles tell those of a grid either


def places_of(inputs: Any, positions: Any, sequences: int) -> ExpectedPlaces:
    """What the inputs of a run say of positions."""
    keywords = inputs if isinstance(inputs, Mapping) else {}
    ids = keywords.get("position_ids") if positions is None else positions
    mask = keywords.get("attention_mask")
    padding = np.zeros(0) if mask is None or isinstance(mask, Mapping) else _numbers(mask) == 0
    padding = padding if padding.ndim == 2 and padding.any() else None
    if ids is None:
        return ExpectedPlaces(None, padding)
    numbers = _numbers(ids)
    if positions is None and numbers.ndim == 3 and numbers.shape[1] in (1, sequences):
        numbers = np.moveaxis(numbers, 0, -1)  # (axes, sequences, tokens), as most models take them
    if numbers.ndim == 1:
        numbers = numbers[None]
    refuse((
        numbers.ndim not in (2, 3) or numbers.dtype.kind not in "iuf"
        or not np.isfinite(numbers).all(),
        "trace: positions", "numbers (tokens,), (sequences, tokens) or (sequences, tokens, axes)",
        f"{numbers.dtype} {numbers.shape}",
    ))  # fmt: skip
    if numbers.dtype.kind in "iu" or (numbers == np.rint(numbers)).all():
        numbers = numbers.astype(np.int64)
    shape = (len(numbers) if len(numbers) > 1 else sequences, *numbers.shape[1:])
    return ExpectedPlaces(np.broadcast_to(numbers, shape), padding, stated=True)


def of_queries(
    places: ExpectedPlaces, sequences: int, tokens: int, past: int, axes: int
) -> np.ndarray:
    """The positions of queries, (sequences, tokens) or with axes."""
    own = places.positions
    if own is not None and own.shape[1] == 1 < tokens:  # the heads of a group stand as tokens
        own = np.repeat(own, tokens, axis=1)
    if own is None or own.shape[1] != tokens or own.shape[0] not in (1, sequences):
        own = np.broadcast_to(past + np.arange(tokens), (sequences, tokens))
    return with_axes(np.broadcast_to(own, (sequences, *own.shape[1:])), axes)


def with_axes(own: np.ndarray, axes: int) -> np.ndarray:
    """Positions for so many axes: a token of text has the same along all."""
    if axes == 1:
        return own if own.ndim == 2 else own[..., 0]
    own = own[..., None] if own.ndim == 2 else own
    if own.shape[-1] == axes:
        return own
    # Four rows of ids: the first are those of the text.
    own = own[..., -axes:] if own.shape[-1] > axes else own[..., :1]
    return np.broadcast_to(own, (*own.shape[:2], axes))


def of_keys(queries: np.ndarray, read: np.ndarray) -> np.ndarray:
    """The positions of keys: the last have those of the queries, and the others precede them."""
    sequences, tokens = read.shape
    if (queries == queries[:, :1]).all():
        queries = queries[:, :1]
    count = queries.shape[1]
    keys = np.zeros((sequences, tokens, *queries.shape[2:]), queries.dtype)
    for row in range(sequences):
        line = np.flatnonzero(read[row]) if read[row].any() else np.arange(tokens)
        last = min(count, len(line))
        before = len(line) - last
        keys[row, line[before:]] = queries[row, count - last :]
        steps = np.arange(before, 0, -1).reshape(-1, *(1,) * (queries.ndim - 2))
        keys[row, line[:before]] = queries[row, count - last] - steps
    return keys


def _numbers(value: Any) -> np.ndarray:
    detach = getattr(value, "detach", None)
    if detach is None:
        return np.asarray(value)
    plain = detach().cpu()
    return np.asarray((plain.double() if plain.is_floating_point() else plain).numpy())
