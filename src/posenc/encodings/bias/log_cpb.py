"""A continuous position bias over logarithms of offsets (Liu et al. 2022)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc.encodings.bias.base import (
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    at_least,
    product,
)
from posenc.encodings.bias.window import WindowSpec, check_window


@final
@dataclass(frozen=True)
class LogCPB(WindowSpec):
    """Log-spaced continuous position bias (Liu et al. 2022, arXiv:2111.09883).

        logits[h, m, n] += 16 sigmoid(W2 relu(W1 x + b1))[h]

        x = sign(r) log2(1 + |r|) / 3        r = 8 (m - n) / (M - 1), along each axis

    with m and n the coordinates of query and key, and M the window that the model was trained at,
    so that a larger window extends the same curve.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    window : tuple of int
        Lengths of the window along each axis.
    trained_window : tuple of int, optional
        The window whose size the offsets are measured in; `window` by default.
    hidden : int
        Width of the hidden layer.
    init : Init
        First values of the weights.

    Raises
    ------
    SpecError
        If a window has no lengths, more than three, or one below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.LogCPB(heads=4, window=(8, 8), hidden=16)
    >>> m = [[row, column] for row in range(8) for column in range(8)]
    >>> posenc.bias(spec, m, params=posenc.init(spec)).shape
    (4, 64, 64)
    """

    heads: int
    _: KW_ONLY
    window: tuple[int, ...]
    trained_window: tuple[int, ...] | None = None
    hidden: int = 512
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"head_weight": 0}
    example = Example({"window": (8, 8)})
    paper = "liu2022swinv2"

    def check(self) -> None:
        """Raise `SpecError` when the windows do not fit each other."""
        super().check()
        if self.trained_window is not None:
            check_window("LogCPB", self.trained_window, of="trained_window")
            self._require(
                len(self.trained_window) == len(self.window),
                "trained_window",
                f"{len(self.window)} lengths, as the window has",
            )
        at_least("LogCPB", hidden=self.hidden)

    def constants(self) -> dict[str, np.ndarray]:
        """The coordinates x of every offset, the last axis fastest."""
        curves = []
        for size, unit in zip(self.window, self.trained_window or self.window, strict=True):
            r = 8.0 * np.arange(1 - size, size) / max(unit - 1, 1)
            curves.append(np.sign(r) * np.log2(1 + np.abs(r)) / 3)
        grid = np.stack(np.meshgrid(*curves, indexing="ij"), axis=-1)
        return {"x": grid.reshape(-1, len(self.window))}

    def parameters(self) -> dict[str, Parameter]:
        """The weights of the perceptron; the second layer has no bias."""
        return {
            "hidden_weight": Parameter((self.hidden, len(self.window)), self.init),
            "hidden_bias": Parameter((self.hidden,), Init("constant", scale=0.0)),
            "head_weight": Parameter((self.heads, self.hidden), self.init),
        }

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The perceptron at every offset of the window: a table (offsets, heads)."""
        first, bias, second = (astype(constants[n], dtype, xp) for n in self.shapes)
        hidden = (
            product(astype(constants["x"], dtype, xp), xp.matrix_transpose(first), xp=xp) + bias
        )
        hidden = xp.where(hidden > 0, hidden, xp.zeros_like(hidden))
        return {"weight": 16 / (1 + xp.exp(-product(hidden, xp.matrix_transpose(second), xp=xp)))}
