"""Cosines and sines with an entry for each channel, as models keep them for a step: the short way.

A decoding step asks for the cosines of one token. `posenc.cos_sin` reads its arguments with care,
and of the time that takes the arithmetic is the least part: in eager code checks and requests, in
compiled code the guards on every object that was looked at. So this keeps what belongs to the spec,
and takes the plain case alone; any other goes the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posenc import functional
from posenc._core.arrays.array_torch import holds_tensors
from posenc._core.arrays.words import words
from posenc._core.errors import bad_argument
from posenc._core.tracing import outside
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE
from posenc.kernels.plans import native
from posenc.kernels.torch.state import NARROW, followed

Columns = Literal["halves", "twice"] | tuple[int, ...]


class ChannelCosSin:
    """Cosines and sines of positions, an entry for each channel.

    cos[..., c] = m * cos(positions * f[columns[c]]),   sin likewise
    """

    def __init__(self, spec: RotarySpec, columns: Columns | Sequence[int]) -> None:
        pairs = spec.pairs
        if columns == "halves":
            numbers = [*range(pairs)] * 2
        elif columns == "twice":
            numbers = [pair for pair in range(pairs) for _ in range(2)]
        else:
            numbers = list(columns)
        if not all(0 <= number <= pairs for number in numbers):
            raise bad_argument(
                "ChannelCosSin: columns", f"numbers of pairs, from 0 to {pairs}", tuple(columns)
            )
        self.spec = spec
        self.columns = numbers
        self.halves = columns == "halves"
        self.axes = len(spec.axes)
        plain = isinstance(spec, RoPE) and spec.phase == "exact" and not spec.uneven
        self.short = plain and not spec.needs_length
        self.factor = spec.attention_factor if self.short else 1.0
        self.short = self.short and (self.factor == 1 or pairs not in numbers)
        self._phases: Any = self._native() if self.short else None
        self._words: dict[tuple[torch.device, bool], Tensor] = {}

    def __call__(
        self, positions: Tensor, dtype: torch.dtype = torch.float32, *, length: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions (...), of several axes (..., axes), in `dtype`."""
        if torch.compiler.is_compiling():
            if _known(self, "short", positions.dtype, dtype):
                return self._traced(positions, dtype)
        elif self._phases is not None and positions.is_cpu and type(positions) is Tensor:
            where = positions[..., None] if self.axes == 1 else positions
            narrow = positions.dtype is torch.int64 and dtype in NARROW
            if narrow and where.numel() and not followed():
                cos = where.new_empty((*where.shape[:-1], len(self.columns)), dtype=dtype)
                sin = torch.empty_like(cos)
                self._phases.cos_sin(where, cos, sin, self.factor, False, torch.get_num_threads())
                return cos, sin
        return self._usual(positions, dtype, length)

    def _traced(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What the compiler is to follow: the arithmetic of `_core.numeric.phase`, bit for bit.

        It stands here once more, in methods of tensors and numbers, as each function, module and
        attribute that is looked at costs a guard in every call. No operation overflows, as C++
        takes overflow for impossible.
        """
        axes, factor = _known(self, "axes"), _known(self, "factor")
        where = positions[..., None] if axes == 1 else positions
        # Of one token every channel is computed. Of many each pair is, and written twice; the
        # second in a form in which the compiler does not see the first and copy it, element by
        # element.
        #
        # A length that the compiler leaves open is no constant, nor is what follows from it, so
        # that each branch asks for its own steps.
        twice = False
        if _known(self, "halves") and not _is_one(where.shape[-2]):
            twice = True
            steps = _steps(self, where.device, True)[...]
        else:
            steps = _steps(self, where.device, False)[...]
        high: Any = 0
        low: Any = 0
        a = 0
        while a < steps.shape[1]:
            step_high, step_low = steps[0, a], steps[1, a]
            if a < axes:
                p = where[..., a, None]
                p_low = ((p & 0xFFFFFFFF) ^ 2**31) - 2**31
                # Less than 2**63 - 2**31 in size, as no position has both words at their least.
                p_high = (p >> 32) + ((p >> 31) & 1)
                crossed = p_low * step_high + p_high * step_low
                product = p_low * step_low
            else:  # the phase of position 0
                crossed, product = step_high, step_low
            if a == 0:
                high, low = crossed, product
            else:
                high = (high & 0xFFFFFFFF) + (low >> 32) + (crossed & 0xFFFFFFFF)
                low = (low & 0xFFFFFFFF) + product
            a += 1
        high = high + (low >> 32)
        turn = (high << 32) + (low & 0xFFFFFFFF)
        quadrant = ((high.int() >> 29) + 1) >> 1  # of which the low bits of a word are enough
        u = ((turn << 2) >> 2).float() * 2.0**-61
        z = u * u
        sin = u * 0.7853981852531433 + u * (
            -2.4273130172502988e-08
            + z * (-0.08074543476917805 + z * (0.0024900069643183295 + z * -3.59543992578884e-05))
        )
        cos = 1.0 + z * (
            -0.3084251357928012
            + z * (0.015854327515167944 + z * (-0.00032594163727223124 + z * 3.531154069761483e-06))
        )
        swapped = (quadrant & 1) == 1
        sign = (1 - (quadrant & 2)).float()
        cos, sin = sin.neg().where(swapped, cos) * sign, cos.where(swapped, sin) * sign
        if factor != 1:
            cos, sin = cos * factor, sin * factor
        cos, sin = cos.to(dtype), sin.to(dtype)
        if not twice:
            return cos, sin
        return torch.cat((cos, cos.neg().neg()), dim=-1), torch.cat((sin, sin.neg().neg()), dim=-1)

    def _usual(self, positions: Tensor, dtype: torch.dtype, length: Any) -> tuple[Tensor, Tensor]:
        read = length if self.spec.needs_length else None  # models hand it to every encoding
        cos, sin = functional.cos_sin(self.spec, positions, length=read, dtype=dtype)
        if self.halves:
            return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
        if self.spec.pairs in self.columns:
            cos = torch.cat((cos, torch.ones_like(cos[..., :1])), dim=-1)
            sin = torch.cat((sin, torch.zeros_like(sin[..., :1])), dim=-1)
        return cos[..., self.columns], sin[..., self.columns]

    def _patterns(self) -> np.ndarray:
        """The steps of each channel, and those of position 0 after them: (axes, channels)."""
        arrays = self.spec.arrays
        rows = [*arrays["step"], *([arrays["origin"]] if "origin" in arrays else [])]
        return np.stack([np.append(row, 0)[self.columns] for row in rows])

    def _native(self) -> Any:
        """The steps as the compiled kernel holds them, or None where there is no such kernel."""
        module = native()
        if isinstance(module, str):
            return None
        rows = self._patterns()
        origin = rows[self.axes].copy() if len(rows) > self.axes else None
        return module.Phases(rows[: self.axes].copy(), origin)

    def steps(self, device: torch.device, pairs: bool) -> Tensor:
        """The steps of each channel, or of each pair, as high and low words on a device."""
        key = (device, pairs)
        if key not in self._words:
            rows = self._patterns()
            rows = rows[:, : self.spec.pairs] if pairs else rows
            self._words[key] = torch.stack(words(torch.from_numpy(rows.copy()))).to(device)
        return self._words[key]

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "columns": "halves" if self.halves else self.columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _is_one(count: int) -> bool:
    """Whether the compiler knows that a number is 1; one that it leaves open stays so."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(count == 1)


# What the compiler calls while it traces, in place of following it, leaves one guard: on the object
# that holds the steps.


@outside
def _known(channels: ChannelCosSin, name: str, *dtypes: torch.dtype) -> Any:
    """A number that the object holds, or whether the short way can be traced."""
    if not dtypes:
        return getattr(channels, name)
    positions, result = dtypes
    return channels.short and positions is torch.int64 and result in NARROW and holds_tensors()


@outside
def _steps(channels: ChannelCosSin, device: torch.device, pairs: bool) -> Tensor:
    """The steps as the graph takes them."""
    with torch.inference_mode(mode=False):
        return channels.steps(device, pairs)
