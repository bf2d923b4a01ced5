"""One layer of a cache: its tensors, which of them turns, and by what."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from posenc._core.arrays.array import is_divided, namespace
from posenc._core.errors import bad_argument, bad_data, refuse_argument
from posenc._core.tracing import is_followed, unseen
from posenc.encodings.rotary.base import RotarySpec
from posenc.kernels import Rerotate, run
from posenc.torch.cache.ledger import Ledger


class LayerForm(NamedTuple):
    """What a layer stores.

    `spec` turns one of the two tensors, in the order of channels that they are stored in; None
    where neither has positions. `fixed` says why its tensors cannot be moved, if so.
    """

    spec: RotarySpec | None = None
    side: int = 0  # 0: what is stored as keys turns. 1: what is stored as values (MLA)
    window: int | None = None
    fixed: str = ""


class Owner(Protocol):
    """What a layer asks of its cache."""

    ledger: Ledger
    eras: list[tuple[RotarySpec | None, ...]]

    @property
    def varies(self) -> bool:
        """Whether keys have several rotations, or may come to have."""

    def enter(self, layer: MovableLayer, count: int) -> None:
        """Note that a layer got `count` new tokens."""

    def leave(self, layer: MovableLayer) -> None:
        """Note that a layer has given what it stores."""

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each sequence, in all layers."""


class MovableLayer:
    """The keys and values of one layer, as written, and read where they stand.

    It has the interface of a cache layer of transformers.
    """

    is_compileable = False
    is_croppable = True
    supports_early_init = True
    is_initialized = True

    def __init__(
        self, owner: Owner, index: int, form: LayerForm, keys: Tensor, values: Tensor, seen: int
    ) -> None:
        self.owner = owner
        self.index = index
        self.form = form
        self.seen = seen  # tokens of the ledger that it has had; it stores the last ones
        self.put(keys, values)

    def put(self, keys: Tensor, values: Tensor) -> None:
        """Store tensors as they are written now."""
        self.keys, self.values = keys, values
        self._seal = None if is_followed() else self._state()

    def _state(self) -> tuple[Any, ...]:
        return tuple(
            (id(t), tuple(t.shape), None if t.is_inference() else t._version)
            for t in (self.keys, self.values)
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.put(self.keys, self.values)

    def check(self, caller: str) -> None:
        """Raise `DataError` where the tensors were changed behind the ledger's back."""
        if is_followed():
            return
        if self._seal is None:  # a compiled step stored them
            self._seal = self._state()
        if self._seal != self._state():
            raise bad_data(
                caller,
                f"the keys and values of layer {self.index} as the ledger knows them",
                "others",
                "Others changed them; `track` the cache anew, with the positions of its tokens.",
            )

    # --- reading ----------------------------------------------------------------------------------

    @property
    def stored(self) -> int:
        """How many tokens it stores."""
        return int(self.keys.shape[-2])

    @property
    def is_sliding(self) -> bool:
        """Whether it stores the last tokens alone."""
        return self.form.window is not None

    @property
    def batch_size(self) -> int:
        """The number of sequences."""
        return int(self.keys.shape[0])

    @property
    def dtype(self) -> torch.dtype:
        """That of the keys."""
        return self.keys.dtype

    @property
    def device(self) -> torch.device:
        """That of the keys."""
        return self.keys.device

    @property
    def rows(self) -> slice:
        """The tokens of the ledger that it stores."""
        return slice(self.seen - self.stored, self.seen)

    def moves(self) -> bool:
        """Whether some key stands elsewhere than it was written."""
        ledger, eras, rows = self.owner.ledger, self.owner.eras, self.rows
        if self.form.spec is None or len(eras) == 1:
            return self.form.spec is not None and not ledger.still
        if any(eras[number][self.index] != eras[-1][self.index] for number in self._numbers()):
            return True
        return bool((ledger.written[:, rows] != ledger.current[:, rows]).any())

    def _numbers(self) -> list[int]:
        """The eras of the keys that it stores."""
        era = self.owner.ledger.era[self.rows]
        alike = len(era) > 0 and bool((era == era[0]).all())  # a sort takes longer
        return [int(era[0])] if alike else torch.unique(era).tolist()

    def away(self) -> Tensor:
        """Which tokens stand elsewhere than they were written, or were rotated otherwise."""
        ledger, eras, rows = self.owner.ledger, self.owner.eras, self.rows
        other = torch.tensor([specs[self.index] != eras[-1][self.index] for specs in eras])
        moved = (ledger.written[:, rows] != ledger.current[:, rows]).any(-1).any(0)
        return moved | other[ledger.era[rows]]

    def read(self) -> tuple[Tensor, Tensor]:
        """Keys and values, the rotated ones where they stand; copies only where they moved."""
        self.check("posenc.torch.cache")
        if not self.moves():
            return self.keys, self.values
        pair = [self.keys, self.values]
        pair[self.form.side] = self._turned(pair[self.form.side])
        return pair[0], pair[1]

    def _turned(self, keys: Tensor) -> Tensor:
        ledger, eras, rows = self.owner.ledger, self.owner.eras, self.rows
        written, current, era = ledger.written[:, rows], ledger.current[:, rows], ledger.era[rows]
        now = eras[-1][self.index]
        numbers = self._numbers() if len(eras) > 1 else [0]
        if len(numbers) == 1:
            return turned(keys, eras[numbers[0]][self.index], now, written, current)  # type: ignore[arg-type]
        result = torch.empty_like(keys)
        for number in numbers:
            places = (era == number).nonzero()[:, 0]
            here = places.to(keys.device)
            result[:, :, here] = turned(
                keys[:, :, here], eras[number][self.index], now,  # type: ignore[arg-type]
                written[:, places], current[:, places],
            )  # fmt: skip
        return result

    # --- what a model asks of it ------------------------------------------------------------------

    def update(
        self, keys: Tensor, values: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Store new keys and values, and return all, as attention is to see them.

        Where keys have several rotations, which of them decides what is computed: graphs of a
        compiler end here then, once for each layer.
        """
        if is_followed() and self.owner.varies:
            return unseen(self._updated, keys, values)
        return self._updated(keys, values)

    def _updated(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.check("posenc.torch.cache")
        # Rows that come as several beams, or as prompts behind one prefix, are repeated.
        beams = max(keys.shape[0] // max(self.batch_size, 1), 1)
        for new, old in ((keys, self.keys), (values, self.values)):
            here = (old.shape[0] * beams, *old.shape[1:2], *old.shape[3:])
            there = (*new.shape[:2], *new.shape[3:])
            if new.ndim != 4 or here != there:
                raise bad_argument(
                    "posenc.torch.cache",
                    f"(batch, heads, channels) {here} in layer {self.index}",
                    there,
                )
        if beams > 1:
            self.owner.batch_repeat_interleave(beams)
        count = int(keys.shape[-2])
        self.owner.enter(self, count)
        self.seen += count
        self.put(torch.cat([self.keys, keys], -2), torch.cat([self.values, values], -2))
        whole = self.read()
        self.trim()
        self.owner.leave(self)
        return whole

    def trim(self) -> None:
        """Keep what a coming token may see."""
        window = self.form.window
        if window is not None and self.stored >= window:
            begin = self.stored - window + 1
            self.put(self.keys[:, :, begin:], self.values[:, :, begin:])

    def keep(self, places: Tensor, seen: int) -> None:
        """Keep what is stored at (1 or batch, kept) places, as the last of `seen` tokens."""

        def kept(t: Tensor) -> Tensor:
            index = places.to(t.device)
            if len(index) == 1:
                return t.index_select(2, index[0])
            index = index[:, None, :, None].expand(-1, t.shape[1], -1, t.shape[-1])
            return torch.gather(t, 2, index)

        self.seen = seen
        self.put(*(of_heads(t, kept) for t in (self.keys, self.values)))

    def get_seq_length(self) -> int:
        """The tokens that the model counts."""
        ledger = self.owner.ledger
        return ledger.length - (len(ledger) - self.seen)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The number of keys beside so many queries, and which place the first has in a mask."""
        return self.stored + query_length, self.get_seq_length() - self.stored

    def get_max_length(self) -> int:
        """The window, or -1."""
        return self.form.window or -1

    def copied(self, owner: Owner) -> Self:
        """The same tensors in another cache."""
        return type(self)(owner, self.index, self.form, self.keys, self.values, self.seen)


def is_quantised(layer: Any) -> bool:
    """Whether a layer of transformers stores quantised keys."""
    return hasattr(layer, "_quantized_keys")


def whole_of(layer: Any) -> tuple[Tensor, Tensor]:
    """The dequantised keys and values of a layer, with those that it has not quantised yet."""
    more = (
        layer._dequantize(t)[:, :, :0] for t in (layer._quantized_keys, layer._quantized_values)
    )
    pair: tuple[Tensor, Tensor] = copy.copy(layer).update(*more)  # the layer itself stays
    return pair


def requantised(layer: Any, keys: Tensor, values: Tensor) -> float:
    """Quantise keys and values into a layer anew; by how much that changes them, relatively."""
    fresh = {"is_initialized": False, "cumulative_length": 0, "_pending_beam_idx": None}
    vars(layer).update({name: value for name, value in fresh.items() if name in vars(layer)})
    layer.update(keys.contiguous(), values.contiguous())
    return max(
        float((new - old).norm() / old.norm().clamp(min=torch.finfo(old.dtype).tiny))
        for new, old in zip(whole_of(layer), (keys, values), strict=True)
    )


@functools.lru_cache(maxsize=256)
def as_stored(spec: RotarySpec) -> RotarySpec:
    """A rotation of keys in the order of channels that they have in the cache."""
    pairing = spec.channels
    if pairing.output == "half" and pairing.order != "half":
        return spec.replace(pairing=pairing.replace(order="half", output="same"))
    return spec


def turned(keys: Tensor, before: RotarySpec, after: RotarySpec, old: Tensor, new: Tensor) -> Tensor:
    """A copy of keys, rotated by `before` at `old`, as `after` would have them at `new`."""
    if is_divided(keys):
        return of_heads(keys, lambda part: turned(part, before, after, old, new))
    old, new = (side[:, None].to(keys.device) for side in (old, new))
    xp = namespace(keys, "posenc.torch.cache")
    return run(Rerotate(before, after, keys, old, new, -2, xp, "posenc.torch.cache"), "auto")


def of_heads(t: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """What changes all heads alike, where processes may have divided them among each other."""
    if not is_divided(t):
        return change(t)
    whole: Any = t
    refuse_argument(
        not all(place.is_replicate() or place.is_shard(1) for place in whole.placements),
        "posenc.torch.cache",
        "keys and values that are whole, or divided over heads (axis 1)",
        f"placements {whole.placements}",
        "Redistribute them, or track the part of each process.",
    )
    part = change(whole.to_local()).contiguous()
    shape = torch.Size((*t.shape[:2], *part.shape[2:]))
    return type(whole).from_local(
        part, whole.device_mesh, whole.placements, run_check=False,
        shape=shape, stride=torch.empty(shape, device="meta").stride(),
    )  # fmt: skip
