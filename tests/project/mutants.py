"""Implementations that each break one law of the battery, and are otherwise right.

Plain torch, written without posenc: a good one of each kind, and for every law a way to spoil it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from posenc import ALiBi, RoPE, Sinusoidal
from posenc.testing import NotOffered, Subject, tensor_of

# kind, law -> a subject that breaks it.
MUTANTS: dict[tuple[str, str], Callable[..., Subject]] = {}


class GoodRotary(nn.Module):
    """Half pairing, base 10,000, angles in float64."""

    def __init__(self, dim: int = 16, base: float = 10_000) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError("an even width")
        self.dim, self.base = dim, base

    def angles(self, positions: Tensor) -> Tensor:
        """(…, seq, pairs)."""
        exponents = torch.arange(self.dim // 2, dtype=torch.float64) * 2 / self.dim
        return positions.double()[..., None] * self.base**-exponents

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self.angles(positions)
        if angles.ndim == 3:
            angles = angles[:, None]
        a, b = x.double().chunk(2, dim=-1)
        turned = (a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin())
        return torch.cat(turned, dim=-1).to(x.dtype)


class GoodTable(nn.Module):
    """Interleaved sines and cosines in float64."""

    def __init__(self, dim: int = 16, base: float = 10_000) -> None:
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        channels = torch.arange(self.dim, dtype=torch.float64)
        angles = positions.double()[..., None] * self.base ** (-(channels // 2) * 2 / self.dim)
        return torch.where(channels % 2 == 0, angles.sin(), angles.cos()).to(dtype)


class GoodGrid(nn.Module):
    """Two axes, half of the channels each."""

    def __init__(self, dim: int = 16, base: float = 10_000) -> None:
        super().__init__()
        if dim % 4:
            raise ValueError("a multiple of 4")
        self.one = GoodTable(dim // 2, base)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.cat([self.one(p, dtype) for p in positions.unbind(-1)], dim=-1)


class GoodBias(nn.Module):
    """ALiBi with the slopes of the authors."""

    def __init__(self, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self) -> Tensor:
        whole = 2 ** (self.heads.bit_length() - 1)
        power, above = (2.0 ** (-8 * np.arange(1, n + 1) / n) for n in (whole, 2 * whole))
        return torch.from_numpy(np.concatenate([power, above[::2]])[: self.heads])

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        away = (k[..., None, :] - q[..., :, None]).abs().double()
        return (-self.slopes()[:, None, None] * away[..., None, :, :]).float()


def rotary(cls: type = GoodRotary, **fields: Any) -> Subject:
    def make(dim: int = 16, base: float = 10_000) -> Any:
        return cls(dim, base)

    def call(made: Any, x: Any, positions: Any) -> Any:
        return made(x, tensor_of(positions, x))

    spec = RoPE(16, pairing="half")
    known = {"make": make, "call": call, "dim": 16, "spec": spec}
    return Subject(cls.__name__, "rotary", **{**known, **fields})


def table(cls: type = GoodTable, axes: int = 1, **fields: Any) -> Subject:
    def make(dim: int = 16, base: float = 10_000) -> Any:
        return cls(dim, base)

    def call(made: Any, positions: Any, dtype: str) -> Any:
        return made(tensor_of(positions, None), getattr(torch, dtype))

    spec = Sinusoidal(16) if axes == 1 else None
    known = {"make": make, "call": call, "dim": 16, "axes": axes, "spec": spec}
    return Subject(cls.__name__, "table", **{**known, **fields})


def bias(cls: type = GoodBias, **fields: Any) -> Subject:
    def make(heads: int = 8) -> Any:
        return cls(heads)

    def call(made: Any, q: Any, k: Any) -> Any:
        return made(tensor_of(q, None), tensor_of(k, None))

    known = {"make": make, "call": call, "heads": 8, "spec": ALiBi(8)}
    return Subject(cls.__name__, "bias", **{**known, **fields})


def breaks(kind: str, law: str, what: str = "") -> Callable[[type], type]:
    """Register a class as the one that breaks a law, or what of it."""
    wrap: Any = {"rotary": rotary, "table": table, "bias": bias}[kind]

    def register(cls: type) -> type:
        axes = {"axes": 2} if issubclass(cls, GoodGrid) else {}
        MUTANTS[kind, f"{law}: {what}" if what else law] = lambda **f: wrap(cls, **axes, **f)
        return cls

    return register


# --- rotations ----------------------------------------------------------------------------------


@breaks("rotary", "norm")
class Grows(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions) * (
            1
            + positions.reshape(-1)[-1] * 0
            + 1e-3 * (positions if positions.ndim == 1 else positions[:, None])[..., None].float()
        )


@breaks("rotary", "linear")
class Shifts(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions) + 1


@breaks("rotary", "shift")
class Squares(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions.double() ** 1.01)


@breaks("rotary", "calls", "heads")
class ByHead(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        return turned if x.shape[1] < 4 else turned.roll(1, dims=1)


@breaks("rotary", "calls", "decode")
class FromZero(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(
            x, positions - positions.min() if positions.numel() < 3 else positions
        )


@breaks("rotary", "history")
class Remembers(GoodRotary):
    longest = 0

    def angles(self, positions: Tensor) -> Tensor:
        self.longest = max(self.longest, int(positions.max()))
        return super().angles(positions) * (1 + self.longest * 1e-3)


@breaks("rotary", "calls", "history of dtypes")
class Caches(GoodRotary):
    dtype: Any = None

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.dtype = self.dtype or x.dtype
        return super().forward(x, positions.to(self.dtype))


@breaks("rotary", "calls", "padding")
class FirstRow(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions[-1] if positions.ndim == 2 else positions)


@breaks("rotary", "calls", "packing")
class Ignores(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, torch.arange(x.shape[-2]) + positions.reshape(-1)[0])


@breaks("rotary", "calls", "rows")
class OneRow(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions[:1] if positions.ndim == 2 else positions)


@breaks("rotary", "calls", "offset")
class NoOffset(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, torch.arange(x.shape[-2]) if len(positions) > 1 else positions)


@breaks("rotary", "negative")
class Absolute(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions.abs())


class Single(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        exponents = torch.arange(self.dim // 2) * 2 / self.dim
        return positions.float()[..., None] * self.base**-exponents


class Short(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions % 100_000)


MUTANTS["rotary", "near 2^17"] = MUTANTS["rotary", "near 2^20"] = lambda: rotary(Short)
for _power in ("2^24", "2^31"):
    MUTANTS["rotary", f"near {_power}"] = lambda: rotary(Single)


class InHalf(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions.to(x.dtype))


MUTANTS["rotary", "calls: dtypes"] = lambda **fields: rotary(InHalf, **fields)


@breaks("rotary", "dtype")
class Widens(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x.float(), positions)


@breaks("rotary", "input")
class Writes(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x.copy_(super().forward(x, positions))


@breaks("rotary", "calls", "spec")
class OtherBase(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) * 1.01


@breaks("rotary", "odd width")
class LosesAChannel(GoodRotary):
    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim - dim % 2, base)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x[..., : self.dim], positions)
        return nn.functional.pad(turned, (0, x.shape[-1] - self.dim))


@breaks("rotary", "settings")
class Shared(GoodRotary):
    known: ClassVar[dict[int, float]] = {}

    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim, self.known.setdefault(dim, base))


class Random(GoodRotary):
    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim, base)
        self.turn = float(torch.rand(()))

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) + self.turn


MUTANTS["rotary", "repeat"] = lambda: rotary(Random)


@breaks("rotary", "deepcopy")
class Uncopied(GoodRotary):
    off = 0.0

    def __deepcopy__(self, memo: Any) -> Any:
        other = type(self)(self.dim, self.base)
        other.off = 0.1
        return other

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) + self.off


class Buffer(GoodRotary):
    def __init__(self, dim: int, base: float, persistent: bool = False) -> None:
        super().__init__(dim, base)
        frequencies = base ** -(torch.arange(dim // 2) * 2 / dim)
        self.register_buffer("frequencies", frequencies, persistent=persistent)

    def angles(self, positions: Tensor) -> Tensor:
        return positions.float()[..., None] * self.frequencies.float()


class Persistent(Buffer):
    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim, base, persistent=True)


for _law in ("cast", "empty memory", "checkpoint"):
    MUTANTS["rotary", _law] = lambda: rotary(Buffer)
MUTANTS["rotary", "state dict"] = lambda: rotary(Persistent)


@breaks("rotary", "pickle")
class Unpickled(GoodRotary):
    off = 0.0

    def __getstate__(self) -> Any:
        return {**self.__dict__, "off": 0.1}

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.dim, self.base)

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) + self.off


@breaks("rotary", "gradient")
class Detaches(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x.detach(), positions) + 0 * x


class Branches(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions if positions.max().item() < 10**6 else positions * 1)


MUTANTS["rotary", "compile"] = MUTANTS["rotary", "export"] = lambda: rotary(Branches)


@breaks("rotary", "calls", "batch")
class ByRow(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        return turned if x.shape[0] < 17 else torch.cat([turned[:16], x[16:]])


@breaks("rotary", "calls", "lengths")
class OddLengths(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions + (x.shape[-2] % 32 == 31))


@breaks("rotary", "long")
class Unturned(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(torch.where(positions < 4096, positions, 0))


@breaks("rotary", "widths")
class NarrowOnly(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) * (torch.arange(self.dim // 2) < 32)


@breaks("rotary", "kept")
class OneBuffer(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        held = self.__dict__.setdefault("held", {}).setdefault(turned.shape, turned.clone())
        return turned if turned.requires_grad else held.copy_(turned)


# --- tables -------------------------------------------------------------------------------------


@breaks("table", "distinct")
class Halves(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions // 2, dtype)


@breaks("table", "calls", "decode")
class TableFromZero(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(
            positions - positions.min() if len(positions) == 1 else positions, dtype
        )


@breaks("table", "calls", "rows")
class TableOneRow(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        if positions.ndim == 2:
            positions = positions[:1].expand_as(positions)
        return super().forward(positions, dtype)


@breaks("table", "calls", "offset")
class TableNoOffset(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(torch.arange(positions.shape[-1]), dtype)


@breaks("table", "history")
class TableRemembers(GoodTable):
    longest = 0

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        self.longest = max(self.longest, int(positions.max()))
        return super().forward(positions, dtype) * (1 + self.longest)


@breaks("table", "history of dtypes")
class TableCaches(GoodTable):
    dtype: Any = None

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        self.dtype = self.dtype or dtype
        return super().forward(positions, self.dtype).to(dtype)


@breaks("table", "axes")
class LosesAnAxis(GoodGrid):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        first = positions[..., :1].expand_as(positions)
        return super().forward(first, dtype)


@breaks("table", "grid")
class Flattens(GoodGrid):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        wide = positions[..., 1].max() + 1
        flat = positions[..., 0] * wide + positions[..., 1]
        return super().forward(torch.stack([flat, flat], dim=-1), dtype)


class TableSingle(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        channels = torch.arange(self.dim)
        angles = positions.float()[..., None] * self.base ** (-(channels // 2) * 2 / self.dim)
        return torch.where(channels % 2 == 0, angles.sin(), angles.cos()).to(dtype)


class TableShort(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions % 100_000, dtype)


MUTANTS["table", "near 2^17"] = MUTANTS["table", "near 2^20"] = lambda: table(TableShort)
for _power in ("2^24", "2^31"):
    MUTANTS["table", f"near {_power}"] = lambda: table(TableSingle)


class TableInHalf(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions.to(dtype), dtype)


MUTANTS["table", "bfloat16"] = lambda: table(TableInHalf)


@breaks("table", "float16")
class TableThroughBfloat16(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions, torch.bfloat16).to(dtype)


@breaks("table", "calls", "spec")
class CosineFirst(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions, dtype).flip(-1)


@breaks("table", "odd width")
class OddIsZero(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions * (1 - self.dim % 2), dtype)


@breaks("table", "settings")
class TableShared(GoodTable):
    known: ClassVar[dict[int, float]] = {}

    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim, self.known.setdefault(dim, base))


@breaks("table", "repeat")
class TableRandom(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions, dtype) + 1e-6 * torch.rand(())


@breaks("table", "deepcopy")
class TableUncopied(GoodTable):
    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.dim, self.base * 2)


class TableBuffer(GoodTable):
    def __init__(self, dim: int, base: float, persistent: bool = False) -> None:
        super().__init__(dim, base)
        frequencies = base ** (-(torch.arange(dim) // 2) * 2 / dim)
        self.register_buffer("frequencies", frequencies, persistent=persistent)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        angles = positions.float()[..., None] * self.frequencies.float()
        return torch.where(torch.arange(self.dim) % 2 == 0, angles.sin(), angles.cos()).to(dtype)


class TablePersistent(TableBuffer):
    def __init__(self, dim: int, base: float) -> None:
        super().__init__(dim, base, persistent=True)


for _law in ("cast", "empty memory", "checkpoint"):
    MUTANTS["table", _law] = lambda: table(TableBuffer)
MUTANTS["table", "state dict"] = lambda: table(TablePersistent)


@breaks("table", "pickle")
class TableUnpickled(GoodTable):
    def __getstate__(self) -> Any:
        return {**self.__dict__, "base": 20_000}

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.dim, self.base)


@breaks("table", "long")
class TableHolds(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return super().forward(positions.clamp(max=4095), dtype)


# --- biases -------------------------------------------------------------------------------------


@breaks("bias", "shift")
class Drifts(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q * 2, k * 2) + 0.01 * q[..., None, :, None]


@breaks("bias", "calls", "decode")
class Stretches(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(k if q.shape[-1] == 1 else q, k)


@breaks("bias", "calls", "rectangle")
class TopLeft(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q - q.min() if q.shape[-1] == 4 else q, k)


@breaks("bias", "history")
class BiasRemembers(GoodBias):
    longest = 0

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        self.longest = max(self.longest, k.shape[-1])
        return super().forward(q, k) * self.longest


@breaks("bias", "long")
class BiasHolds(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q.clamp(max=4095), k.clamp(max=4095))


@breaks("bias", "rows")
class BiasOneRow(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        if q.ndim == 2:
            return super().forward(q[:1], k[:1]).expand(q.shape[0], -1, -1, -1)
        return super().forward(q, k)


@breaks("bias", "calls", "far")
class Saturates(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q, k).half().float()


@breaks("bias", "head counts")
class Geometric(GoodBias):
    def slopes(self) -> Tensor:
        return torch.from_numpy(2.0 ** (-8 * np.arange(1, self.heads + 1) / self.heads))


@breaks("bias", "calls", "spec")
class Positive(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return -super().forward(q, k)


@breaks("bias", "repeat")
class BiasRandom(GoodBias):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q, k) + 1e-6 * torch.rand(())


@breaks("bias", "deepcopy")
class BiasUncopied(GoodBias):
    factor = 1

    def __deepcopy__(self, memo: Any) -> Any:
        other = type(self)(self.heads)
        other.factor = 2
        return other

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q, k) * self.factor


class BiasBuffer(GoodBias):
    def __init__(self, heads: int, persistent: bool = False) -> None:
        super().__init__(heads)
        self.register_buffer("held", super().slopes(), persistent=persistent)

    def slopes(self) -> Tensor:
        return self.held


class BiasPersistent(BiasBuffer):
    def __init__(self, heads: int) -> None:
        super().__init__(heads, persistent=True)


for _law in ("empty memory", "checkpoint"):
    MUTANTS["bias", _law] = lambda: bias(BiasBuffer)
MUTANTS["bias", "state dict"] = lambda: bias(BiasPersistent)


@breaks("bias", "pickle")
class BiasUnpickled(GoodBias):
    factor = 1

    def __getstate__(self) -> Any:
        return {**self.__dict__, "factor": 2}

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.heads)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return super().forward(q, k) * self.factor


def unasked() -> Subject:
    """One that can only be asked from position 0 on."""

    def call(made: Any, x: Any, positions: Any) -> Any:
        raise NotOffered("it cannot be asked")

    return rotary(call=call)


# --- others that look right ---------------------------------------------------------------------

# name -> (a class of faults that hide, a law that sees it, whether one does without a spec).
HIDDEN: dict[str, tuple[Callable[..., Subject], str, bool]] = {}


def hides(
    name: str, law: str, wrap: Callable[..., Subject] = rotary, *, by_law: bool = True
) -> Callable[[type], type]:
    """Register a class whose fault is far from what is usually tried."""

    def register(cls: type) -> type:
        HIDDEN[name] = (lambda **fields: wrap(cls, **fields), law, by_law)
        return cls

    return register


def wrong_from(start: int, change: Callable[[Tensor], Tensor]) -> type:
    """Angles of changed positions from a position on."""

    class Wrong(GoodRotary):
        def angles(self, positions: Tensor) -> Tensor:
            return super().angles(torch.where(positions < start, positions, change(positions)))

    return Wrong


hides("unturned from 4,096", "long")(wrong_from(4096, lambda p: 0 * p))
hides("held at 2,047", "long")(wrong_from(2048, lambda p: 0 * p + 2047))
hides("wrapped at 4,096", "long")(wrong_from(4096, lambda p: p % 4096))
hides("off by one from 8,192", "long")(wrong_from(8192, lambda p: p + 1))
hides("off by one from 2^17", "long")(wrong_from(2**17, lambda p: p + 1))
hides("half the speed from 40,000", "long")(wrong_from(40_000, lambda p: 20_000 + p // 2))


@hides("sizes off by 1e-4", "norm")
class Larger(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions) * (1 + 1e-4)


@hides("one channel off by 1e-4", "norm")
class OneLarger(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        channel = torch.arange(x.shape[-1]) == 5
        return super().forward(x, positions) * (1 + 1e-4 * channel)


@hides("a faulty head from the 16th on", "calls")
class Head16(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        return torch.cat([turned[:, :16], -turned[:, 16:]], dim=1)


@hides("trailing channels of a wider head", "widths")
class Narrow(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions) * (torch.arange(self.dim // 2) < 32)


def remembers(original: int) -> type:
    class Dynamic(GoodRotary):
        longest = original

        def angles(self, positions: Tensor) -> Tensor:
            self.longest = max(self.longest, int(positions.max()) + 1)
            exponents = torch.arange(self.dim // 2, dtype=torch.float64) * 2 / self.dim
            base = self.base * (2 * self.longest / original - 1) ** (self.dim / (self.dim - 2))
            return positions.double()[..., None] * base**-exponents

    return Dynamic


for _length in (64, 512, 4096, 32_768, 131_072):
    hides(f"dynamic NTK of {_length:,} that remembers", "history")(remembers(_length))


def remembers_shape(original: int) -> type:
    class Dynamic(GoodRotary):
        longest = original

        def forward(self, x: Tensor, positions: Tensor) -> Tensor:
            self.longest = max(self.longest, x.shape[-2])
            return super().forward(x, positions)

        def angles(self, positions: Tensor) -> Tensor:
            return super().angles(positions) * (original / self.longest)

    return Dynamic


hides("a longest sequence of 8,192 that is remembered", "history")(remembers_shape(8192))
hides("float32 angles", "near 2^24")(Single)
hides("one row of many", "calls")(ByRow)
hides("odd lengths", "calls")(OddLengths)
hides("one buffer for all answers", "kept")(OneBuffer)


@hides("other frequencies from the third call on", "linear")
class Third(GoodRotary):
    calls = 0

    def angles(self, positions: Tensor) -> Tensor:
        self.calls += 1
        return super().angles(positions) * (1 if self.calls < 3 else 1.01)


@hides("odd rows of a batch", "calls")
class OddBatch(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions + (x.shape[0] % 2 == 1) * (x.shape[0] > 1))


@hides("float16 wraps at 2,048", "calls")
class HalfWraps(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, positions % 2048 if x.dtype == torch.float16 else positions)


@hides("bfloat16 loses its last head", "calls")
class HalfHead(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        if x.dtype == torch.bfloat16 and x.shape[1] > 1:
            turned = torch.cat([turned[:, :-1], x[:, -1:]], dim=1)
        return turned


@hides("writes to what is contiguous", "input")
class WritesPlain(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = super().forward(x, positions)
        return x.copy_(turned) if x.is_contiguous() and not x.requires_grad else turned


@hides("large values are cut", "calls")
class Cut(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x.clamp(-100, 100), positions)


class _Stopped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(keep)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # type: ignore[override]
        return grads[0] * ctx.saved_tensors[0], None


@hides("no gradient from 4,096", "gradient")
class NoGradientFar(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        keep = (positions < 4096).to(x.dtype)
        keep = keep[..., None] if positions.ndim == 1 else keep[:, None, :, None]
        return _Stopped.apply(super().forward(x, positions), keep)


@hides("no gradient from the 16th head on", "gradient")
class NoGradientHead(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        keep = (torch.arange(x.shape[1]) < 16).to(x.dtype)[:, None, None]
        return _Stopped.apply(super().forward(x, positions), keep)


@hides("one token behind a cache of 600 begins anew", "calls")
class Cached(GoodRotary):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        alone = x.shape[-2] == 1 and positions.numel() == 1 and int(positions.max()) >= 600
        return super().forward(x, positions * 0 if alone else positions)


@hides("NaN in one channel from 70,000", "long")
class Nan(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        angles = super().angles(positions)
        angles[..., 3] = torch.where(positions < 70_000, angles[..., 3], torch.nan)
        return angles


@hides("base 10,000.1", "calls", by_law=False)
class NearBase(GoodRotary):
    def __init__(self, dim: int = 16, base: float = 10_000) -> None:
        super().__init__(dim, base * 1.00001)


@hides("two pairs exchanged", "calls", by_law=False)
class Exchanged(GoodRotary):
    def angles(self, positions: Tensor) -> Tensor:
        angles = super().angles(positions)
        return torch.cat([angles[..., :-2], angles[..., -2:].flip(-1)], dim=-1)


@hides("a table that is held at 4,095", "long", table)
class TableHeld(TableHolds):
    pass


@hides("a table that remembers 30,000 positions", "history", table)
class TableLong(GoodTable):
    many = False

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        self.many = self.many or positions.numel() > 30_000
        return super().forward(positions, dtype) * (1 + self.many * 1e-3)


@hides("a table off by 1e-4", "calls", table, by_law=False)
class TableLarger(GoodTable):
    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        return (super().forward(positions, torch.float64) * (1 + 1e-4)).to(dtype)


@hides("a bias held at 4,095", "long", bias)
class BiasHeld(BiasHolds):
    pass


@hides("a bias of other heads from the 12th on", "head counts", bias, by_law=False)
class BiasHeads(GoodBias):
    def slopes(self) -> Tensor:
        slopes = super().slopes()
        return torch.where(torch.arange(self.heads) < 12, slopes, slopes * 1.1)


@hides("a bias off by 1e-4", "calls", bias, by_law=False)
class BiasLarger(GoodBias):
    def slopes(self) -> Tensor:
        return super().slopes() * (1 + 1e-4)
