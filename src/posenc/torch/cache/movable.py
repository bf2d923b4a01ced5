"""A cache whose keys can be moved: layers as they were written, and where each key stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from posenc._core.errors import bad_argument, bad_data, refuse_argument, refuse_data
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.cache.layers import LayerForm, MovableLayer
from posenc.torch.cache.ledger import (
    OF_ROWS,
    Ledger,
    coordinates,
    counted,
    whole_numbers,
)

# Of one rounding, relative to a key of normal entries: 0.0016 in bfloat16, as 8 bits are kept.
PER_UNIT = 0.0016 / 2.0**-8
C = TypeVar("C", bound="MovableCache")


class MovableCache:
    """Keys and values of a model, with a ledger of where each key stands.

    `posenc.torch.cache.track` makes it, and `evict`, `shift`, `merge`, `reuse`, `switch` and
    `stream` make others of it, which share its tensors. Stored keys stay as they were written; a
    read turns a copy of one layer's keys by all that they moved, and rounds it once. The caches of
    transformers become a `transformers.Cache`, which models and `generate` take; lists of
    (keys, values) become a cache that is read by iteration and written by `update`.

    Parameters
    ----------
    ledger : Ledger
        Where each key came from, was written, and stands.
    eras : sequence of tuple
        The rotations of each layer that keys were written with; the last ones are read.
    rules : tuple of RotarySpec or None
        The last of these, with the length left open where they depend on it.
    model : callable
        A weak reference to the model whose keys they are, where it is known.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import evict, track
    >>> rope = posenc.RoPE(4, pairing="half")
    >>> keys = posenc.rotate(rope, torch.ones(1, 2, 6, 4))
    >>> cache = evict(track([(keys, keys)], rope), keep=[0, 1, 4, 5])
    >>> cache.ledger.original.flatten().tolist(), cache.ledger.current.flatten().tolist()
    ([0, 1, 4, 5], [0, 1, 2, 3])
    >>> [(k, v)] = cache
    >>> bool((k - posenc.rotate(rope, torch.ones(1, 2, 4, 4))).abs().max() < 1e-6)
    True
    """

    def __init__(
        self,
        ledger: Ledger,
        eras: Sequence[tuple[RotarySpec | None, ...]],
        rules: tuple[RotarySpec | None, ...],
        model: Callable[[], Any] = lambda: None,
    ) -> None:
        self.ledger = ledger
        self.eras = list(eras)
        self.rules = rules
        self.model = model
        self.layers: list[Any] = []
        self.after: Callable[[Any], Any] | None = None  # what each step leaves of it
        self.requantised = 0.0  # by how much the last `write` into a quantised cache changed keys
        self._expected: Tensor | None = None

    def fill(self, forms: Sequence[LayerForm], pairs: Sequence[Any], *, seen: int) -> None:
        """Give it its layers: tensors, or a layer object that stores nothing."""
        self.layers = [
            MovableLayer(self, i, form, pair[0], pair[1], seen) if isinstance(pair, tuple) else pair
            for i, (form, pair) in enumerate(zip(forms, pairs, strict=True))
        ]

    # --- reading ----------------------------------------------------------------------------------

    @property
    def movable(self) -> list[MovableLayer]:
        """The layers that store keys."""
        return [layer for layer in self.layers if isinstance(layer, MovableLayer)]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, where they stand."""
        return (layer.read() for layer in self.movable)

    def __repr__(self) -> str:
        count, length = len(self.ledger), self.ledger.length
        places = " and ".join(map(str, torch.unique(self.ledger.following()).tolist()[:4]))
        counted_as = f", counted as {length}" if length != count else ""
        return (
            f"{type(self).__name__}({len(self)} layers, {count} tokens, "
            f"next position {places}{counted_as})"
        )

    @property
    def delta(self) -> Tensor:
        """The next position less the number of tokens that the model counts: (rows, 1).

        0 where the model's own count is right. What models of pictures keep as `rope_deltas`.
        """
        return (self.ledger.following() - self.ledger.length)[:, None]

    def next_positions(self, count: int = 1) -> Tensor:
        """The positions of coming tokens, for `position_ids=` of a model.

        Parameters
        ----------
        count : int
            Number of tokens.

        Returns
        -------
        Tensor of int64
            (rows, count); of several axes (axes, rows, count), as models take them.
        """
        counted("next_positions: count", count)
        coming = self.ledger.coming(count)
        return coming[..., 0] if coming.shape[-1] == 1 else coming.movedim(-1, 0)

    @property
    def roundings(self) -> int:
        """How often the key that was written most was rounded since it was stored."""
        return int(self.ledger.roundings.max()) if len(self.ledger) else 0

    @property
    def error(self) -> float:
        """What those roundings amount to, about, as a part of the key's size."""
        unit = max((torch.finfo(layer.dtype).eps / 2 for layer in self.movable), default=0.0)
        return PER_UNIT * unit * math.sqrt(self.roundings)

    @property
    def varies(self) -> bool:
        """Whether keys have several rotations or may come to have them, or steps drop some."""
        return len(self.eras) > 1 or self._follows_length or self.after is not None

    @property
    def _follows_length(self) -> bool:
        return any(rule is not None and rule.needs_length for rule in self.rules)

    # --- new tokens -------------------------------------------------------------------------------

    def expect(self, position_ids: Any) -> None:
        """Say where the tokens of the next step stand, if not behind the last.

        Parameters
        ----------
        position_ids : array of integers
            As the model is given them: (rows, count), or (axes, rows, count).

        Raises
        ------
        ArgumentError
            If the shape does not fit.
        """
        caller, batch = "expect: position_ids", self.movable[0].batch_size
        numbers = coordinates(position_ids, self.ledger.current.shape[-1], caller)
        refuse_argument(len(numbers) not in (1, batch), caller, f"1 or {batch} rows", len(numbers))
        self._expected = numbers

    def enter(self, layer: MovableLayer, count: int) -> None:
        """Note that a layer gets `count` new tokens; the first of a step says where they stand."""
        if layer.seen == len(self.ledger) - count:
            return
        if layer.seen != len(self.ledger):
            raise bad_data(
                "posenc.torch.cache",
                f"{len(self.ledger) - layer.seen} tokens in layer {layer.index}",
                count,
                "Each layer must get the tokens of a step, once.",
            )
        coming = self.ledger.coming(count) if self._expected is None else self._expected
        if coming.shape[1] != count:
            raise bad_argument("posenc.torch.cache", f"{coming.shape[1]} tokens", count)
        if count and self._follows_length:
            self.turn_to(self.rules, int(coming.max()))
        self.ledger = self.ledger.extended(coming, len(self.eras) - 1)
        self._expected = None

    def leave(self, layer: MovableLayer) -> None:
        """Note that a layer has given what it stores; the last of a step ends it."""
        if self.after is not None and layer is self.movable[-1]:
            self.become(self.after(self))

    def turn_to(self, rules: tuple[RotarySpec | None, ...], last: int) -> None:
        """Read keys as rotated by other specs, for a sequence whose last position is `last`."""
        specs = tuple(None if rule is None else rule.at(max(last + 1, 1)) for rule in rules)
        self.rules = rules
        if specs != self.eras[-1]:
            self.eras.append(specs)

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Store the new keys and values of a layer; all of it, where it stands."""
        return self.layers[layer_idx].update(keys, values)

    # --- copies -----------------------------------------------------------------------------------

    def like(self, ledger: Ledger) -> Self:
        """Another cache over the same tensors, with another ledger."""
        other = type(self)(ledger, self.eras, self.rules, self.model)
        other.after = self.after
        other.layers = [
            layer.copied(other) if isinstance(layer, MovableLayer) else layer
            for layer in self.layers
        ]
        return other

    def become(self, other: Self) -> None:
        """Take over what another cache stores."""
        self.ledger, self.eras, self.rules = other.ledger, other.eras, other.rules
        self.layers = other.layers
        for layer in self.movable:
            layer.owner = self

    def check(self, caller: str) -> None:
        """Raise `DataError` where it is not as the ledger knows it."""
        for layer in self.movable:
            layer.check(caller)
            refuse_data(
                layer.seen != len(self.ledger),
                caller,
                "the same tokens in all layers",
                f"layer {layer.index} with {layer.seen} of {len(self.ledger)}",
                "Finish the step first.",
            )

    def __getstate__(self) -> dict[str, Any]:
        self.check("copy")
        return {key: value for key, value in vars(self).items() if key != "model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, model=lambda: None)

    # --- what generation asks of a cache ----------------------------------------------------------

    def of_rows(self, change: Callable[[Tensor], Tensor]) -> None:
        """Repeat, choose or reorder sequences."""

        def changed(t: Tensor) -> Tensor:
            return change(t) if t.shape[0] > 1 else t

        self.ledger = self.ledger.replace(
            **{name: changed(getattr(self.ledger, name)) for name in OF_ROWS}
        )
        for layer in self.movable:
            layer.put(change(layer.keys), change(layer.values))

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder the sequences, for beam search."""
        self._select(beam_idx, "reorder_cache")

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each sequence."""
        counted("batch_repeat_interleave", repeats, 1)
        self.of_rows(lambda t: t.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some of the sequences."""
        self._select(indices, "batch_select_indices")

    def _select(self, indices: Any, caller: str) -> None:
        """Take sequences by their numbers, each of which there is."""
        rows, batch = whole_numbers(indices, caller), self.movable[0].batch_size
        if rows.ndim != 1 or not bool(((rows >= -batch) & (rows < batch)).all()):
            raise bad_argument(
                caller,
                f"numbers of {batch} sequences, of shape (rows,)",
                f"{rows.tolist()!s:.60}",
                "`batch_repeat_interleave` repeats sequences.",
            )
        self.of_rows(lambda t: t.index_select(0, (rows % batch).to(t.device)))


def checked(cache: Any, caller: str) -> None:
    """Raise unless it is a cache with a ledger, as the ledger knows it."""
    refuse_argument(
        not isinstance(cache, MovableCache),
        caller,
        "a cache that `track` returned",
        f"a {type(cache).__name__}",
        "`posenc.torch.cache.track(cache, model)` makes one of any cache.",
    )
    cache.check(caller)


def refuse_fixed(cache: MovableCache, caller: str, more: str = "") -> None:
    """Raise `DataError` where a key cannot be moved."""
    for layer in cache.movable:
        refuse_data(
            layer.form.fixed,
            caller,
            f"keys that can be moved in layer {layer.index}",
            layer.form.fixed,
            more,
        )
