"""What a conversion is checked by: a forward probe, and whether the model is there as a whole.

The probe compares scores of random inputs before and after a conversion, in float64:

    s[m, n] = (R(a_m) W_q x_m) · (R(a_n) W_k x_n)

with random x, and for each position and pair a random angle. R pairs the channels of the source by
the old pairing and those of the result by the new one; the scores must agree. The rotation is the
library's verb, not the order by which the weights were moved.

A conversion that misses a tensor writes a model that is neither in the old order nor in the new
one. So what is missing is an error, with the tensors that it may be. Adapters are parts of a model,
and so is one file of several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import DataError, bad_data, refuse_data
from posenc._core.io import files
from posenc._core.io.checkpoints import Checkpoint, Stored
from posenc.detect.facts.weights.heads import Model, split_name
from posenc.detect.facts.weights.projections import (
    WORDS,
    AttentionTensors,
    HeadTensor,
    counted,
    listed,
    unknown_names,
)
from posenc.encodings.rotary.pairing import Pairing
from posenc.functional import apply_rotary

POSITIONS = 3
# Both sides add the same products in another order.
AGREE = 1e-9
MOST_SHOWN = 6  # layers of one reason
THEIRS = {"q", "k", "qk", "qkv", "query", "key", "queries", "keys"}  # words of names
SAY = (
    'Say which they are: `layout=Projections(names={"q": PATTERN, "k": PATTERN})`, or which names '
    "count: `layout=Projections(only=PATTERN)`."
)


class Probe(NamedTuple):
    """What a forward probe compared, and what it could not compare.

    Parameters
    ----------
    layers, heads : int
        Those whose scores were compared: queries and keys of the source with those of the result.
    worst : float
        The largest difference of two scores as a part of the size of their head's scores.
    unverified : mapping of str to tuple of str
        Reasons, each with the layers it holds for.
    """

    layers: int
    heads: int
    worst: float
    unverified: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self._asdict(), "unverified": {k: list(v) for k, v in self.unverified.items()}}

    def words(self) -> list[str]:
        """The same for people."""
        verified = (
            f"verified: scores of {self.heads} heads in {self.layers} layers, at random "
            f"inputs, agree to {self.worst:.0e} of their size; whether the source has the stated "
            "pairing is not part of this"
        )
        lines = [verified] if self.heads else []
        for reason, layers in self.unverified.items():
            more = f", … ({len(layers)} in all)" if len(layers) > MOST_SHOWN else ""
            lines.append(f"not verified: {reason}: {', '.join(layers[:MOST_SHOWN])}{more}")
        return lines


def probe(
    attentions: tuple[AttentionTensors, ...],
    converted: Mapping[str, Stored],
    target: Callable[[Pairing], Pairing],
    *,
    seed: int = 0,
) -> Probe:
    """Compare the scores of the source with those of the result.

    Where one side is missing, random vectors stand for it: a mistake in the order shows, but no
    head counts as compared. Nor does one whose scores are not finite, or all 0.
    """
    rng = np.random.default_rng(seed)
    layers, count, worst = 0, 0, 0.0
    unverified: dict[str, list[str]] = {}
    for attention in attentions:
        there = {s.part for h in attention.tensors if h.kind == "weight" for s in h.segments}
        alone = {("q",): "queries only", ("k",): "keys only", (): "no weights"}
        reason = alone.get(tuple(part for part in "qk" if part in there), "")
        if any(tensor.stored.tensor.stored is None for tensor in attention.tensors):
            reason = reason or "numbers that NumPy lacks, compared byte by byte"
        if reason:
            unverified.setdefault(reason, []).append(attention.name)
        if not there:
            continue
        channels, rotated = attention.heads.channels, attention.heads.rotated
        angles = rng.uniform(0, 2 * np.pi, (POSITIONS, rotated // 2))
        state = rng.bit_generator.state
        sides = []
        with np.errstate(all="ignore"):
            for tensors, pairing in (({}, channels), (converted, target(channels))):
                rng.bit_generator.state = state  # the same inputs on both sides
                q, k = (
                    None if rows is None else _turned(rows, rotated, pairing, angles)
                    for rows in [_heads(attention, tensors, part, rng) for part in "qk"]
                )
                sides.append(_scores(q, k, pairing, rng))
            size = np.sqrt(np.mean(np.square(sides[0]), axis=(-2, -1), keepdims=True))
            difference = np.abs(sides[1] - sides[0]) / np.where(size > 0, size, 1)
        finite = [np.isfinite(side).all(axis=(-2, -1)) for side in sides]
        largest = float(np.max(difference[finite[0] & finite[1]], initial=0))
        # What is not finite must be so in the same places of both sides.
        refuse_data(
            not (same := (np.isfinite(sides[0]) == np.isfinite(sides[1])).all()) or largest > AGREE,
            f"probe of {attention.name}",
            "equal scores",
            largest if same else "NaN or infinity in other places",
            "Nothing was written.",
        )
        if reason:
            continue
        compared = finite[0] & (size[..., 0, 0] > 0)
        for why, which in (
            ("NaN or infinity", ~finite[0]),
            ("all scores are 0", finite[0] & ~compared),
        ):
            if which.any():
                unverified.setdefault(why, []).append(
                    f"{attention.name} ({int(which.sum())} of {len(compared)} heads)"
                )
        if compared.any():
            layers, count, worst = layers + 1, count + int(compared.sum()), max(worst, largest)
    return Probe(layers, count, worst, {k: tuple(v) for k, v in unverified.items()})


def _heads(
    attention: AttentionTensors, tensors: Mapping[str, Stored], part: str, rng: np.random.Generator
) -> np.ndarray | None:
    """The queries or keys of all heads at a few random inputs: (heads, positions, width).

    None where no weight makes them.
    """
    total: np.ndarray | None = None
    for kind in ("weight", "bias", "scale", "gain", "shift"):
        for tensor in attention.tensors:
            if tensor.kind != kind or not tensor.of(part):
                continue
            stored = tensors.get(tensor.name, tensor.stored)
            value = _projected(tensor, stored, rng) if kind == "weight" else stored.array()
            value = value.reshape(-1, tensor.view[1])
            rows = np.stack([value[:, s.begin : s.begin + s.width] for s in tensor.of(part)])
            if kind == "weight":
                total = rows
            elif total is None:
                return None
            else:
                total = total * rows if kind in ("gain", "scale") else total + rows
    return total


def _projected(tensor: HeadTensor, stored: Stored, rng: np.random.Generator) -> np.ndarray:
    """Random inputs through a weight, in pieces: (positions, channels)."""
    before, channels, behind = tensor.view
    if before > 1:  # inputs first
        x = rng.standard_normal((POSITIONS, before)) / np.sqrt(before)
        total = np.zeros((POSITIONS, channels))
        step = max(1, files.PIECE // (8 * channels))
        for start in range(0, before, step):
            rows = min(step, before - start)
            piece = stored.numbers(start * channels, rows * channels).reshape(rows, channels)
            total += x[:, start : start + rows] @ piece
        return total
    x = rng.standard_normal((POSITIONS, behind)) / np.sqrt(max(1, behind))
    step = max(1, files.PIECE // (8 * max(1, behind)))
    pieces = []
    for start in range(0, channels, step):
        rows = min(step, channels - start)
        pieces.append(x @ stored.numbers(start * behind, rows * behind).reshape(rows, behind).T)
    return np.concatenate(pieces, axis=1)


class _Turned(NamedTuple):
    """Heads at a few positions: the channels that turn, turned, and the others."""

    turned: np.ndarray
    others: np.ndarray


def _turned(heads: np.ndarray, rotated: int, pairing: Pairing, angles: np.ndarray) -> _Turned:
    begin = heads.shape[-1] - rotated if pairing.part == "trailing" else 0
    part = np.ascontiguousarray(heads[..., begin : begin + rotated])
    turned = pairing.replace(part="leading", output="same")
    part = apply_rotary(part, np.cos(angles), np.sin(angles), pairing=turned)
    return _Turned(part, np.delete(heads, np.s_[begin : begin + rotated], axis=-1))


def _scores(
    q: _Turned | None, k: _Turned | None, pairing: Pairing, rng: np.random.Generator
) -> np.ndarray:
    """(heads, positions, positions); random vectors stand for queries or keys that are absent.

    Channels that do not turn meet a random vector of their own, as heads of queries and of a latent
    key need not be of one width.
    """
    sides = [side.turned for side in (q, k) if side is not None]
    if len(sides) == 1:
        sides.append(_random(sides[0].shape[:-1], sides[0].shape[-1], pairing, rng))
    first, second = sides
    second = np.repeat(second, first.shape[0] // second.shape[0], axis=0)
    scores = first @ np.swapaxes(second, -1, -2)
    for side, axis in ((q, -1), (k, -2)):
        if side is not None and side.others.shape[-1]:
            more = side.others @ rng.standard_normal(side.others.shape[-1])
            more = np.repeat(more, scores.shape[0] // more.shape[0], axis=0)
            scores = scores + np.expand_dims(more, axis)
    return np.asarray(scores)


def _random(
    shape: tuple[int, ...], rotated: int, pairing: Pairing, rng: np.random.Generator
) -> np.ndarray:
    """Random vectors, the same in every pairing, written pair by pair into their channels."""
    pairs = rng.standard_normal((*shape, rotated // 2, 2))
    rows = np.empty((*shape, rotated))
    for j, (first, second) in enumerate(pairing.channels(rotated)):
        rows[..., first], rows[..., second] = pairs[..., j, 0], pairs[..., j, 1]
    return rows


# --- completeness ---------------------------------------------------------------------------------


def check_whole(
    checkpoint: Checkpoint, attentions: tuple[AttentionTensors, ...], model: Model, caller: str
) -> None:
    """Raise `DataError` where queries have no keys, keys no queries, or a layer neither."""
    own = [a for a in attentions if not a.adapter]
    for attention in own:
        _check_sides(checkpoint, attention, own, model, caller)
        _check_vectors(checkpoint, attention, model, caller)
    if (wrong := counted(checkpoint, attentions, model)) is not None:
        raise DataError(f"{caller}: {wrong.text}")
    _check_layers(checkpoint, own, model, caller)


def _check_sides(
    checkpoint: Checkpoint,
    attention: AttentionTensors,
    own: list[AttentionTensors],
    model: Model,
    caller: str,
) -> None:
    for kinds, axes, words in (
        (("weight",), 2, ("queries", "keys")),
        (("gain", "shift"), 1, ("gains of queries", "gains of keys")),
    ):
        there, norms = _sides(attention, kinds), "gain" in kinds
        if (
            len(there) == 2
            or (norms and not there)
            or ("k" not in there and model.borrows(attention.layer))
            # An indexer may have a norm of its keys alone.
            or (norms and there == {"k"} and model.layout.attention)
        ):
            continue
        have, miss = words if "q" in there else words[::-1]
        raise bad_data(
            f"{caller}: {attention.name}",
            f"{miss} beside its {have}" if there else "weights of queries and keys",
            _shown(
                checkpoint,
                unknown_names(
                    checkpoint,
                    model,
                    f"{attention.name}.",
                    {a.layer for a in own if a.layer is not None and len(_sides(a, kinds)) == 2},
                    axes,
                ),
            ),
            SAY,
        )


def _check_vectors(
    checkpoint: Checkpoint, attention: AttentionTensors, model: Model, caller: str
) -> None:
    """Raise where a vector beside queries and keys is called theirs by a name that is not known."""
    tensors = checkpoint.tensors
    sizes = {s.width for h in attention.tensors for s in h.segments if s.part in ("q", "k")}
    for tensor in attention.tensors:
        sizes |= {tensor.view[1], *(sum(s.width for s in tensor.of(part)) for part in "qk")}
    strange = [
        name
        for name in unknown_names(checkpoint, model, f"{attention.name}.", set(), 1)
        if len(tensors[name].tensor.shape) == 1
        and tensors[name].tensor.shape[0] in sizes
        and THEIRS & set(re.split(r"[._]", name[len(attention.name) + 1 :]))
    ]
    refuse_data(
        strange,
        caller,
        "known names of biases and norms of queries and keys",
        _shown(checkpoint, strange),
        'Say which they are: names={"q_gain": PATTERN, "q": PATTERN, …}, or rename them.',
    )


def _sides(attention: AttentionTensors, kinds: tuple[str, ...]) -> set[str]:
    return {s.part for h in attention.tensors if h.kind in kinds for s in h.segments} & {"q", "k"}


def _check_layers(
    checkpoint: Checkpoint, own: list[AttentionTensors], model: Model, caller: str
) -> None:
    """Raise where a layer beside those of known names has what looks like queries and keys."""
    shapes = {h.stored.tensor.shape for a in own for h in a.tensors if h.kind == "weight"}
    numbers = {a.layer for a in own if a.layer is not None}
    count = model.counted or max(numbers, default=-1) + 1
    others = [
        n for n in range(count)
        if n not in numbers and (not model.counted or model.heads(n) is not None)
    ]  # fmt: skip
    for stem in sorted({split_name(f"{a.name}.")[0] for a in own if a.layer is not None}):
        for begin in (f"{stem}{layer}" for layer in others):
            # A layer of another kind, a recurrence for instance, has nothing that looks like heads.
            close = [
                name
                for name in unknown_names(checkpoint, model, begin, numbers, 2)
                if re.match(rf"{re.escape(begin)}[./_]", name)
                and (
                    checkpoint.tensors[name].tensor.shape in shapes
                    or any(word in name.lower() for word in WORDS[2:])
                )
            ]
            refuse_data(
                close,
                caller,
                f"queries and keys of layer {begin}, as in {len(numbers)} others",
                _shown(checkpoint, close),
                SAY,
            )


def _shown(checkpoint: Checkpoint, names: list[str]) -> str:
    return f"none of a known name; perhaps {listed(checkpoint, names)}" if names else "none"
