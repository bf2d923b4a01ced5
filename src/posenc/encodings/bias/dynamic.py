"""A perceptron of the offset (Wang et al. 2022)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from posenc.encodings.bias.base import (
    Array,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    at_least,
    product,
)
from posenc.encodings.bias.window import WindowSpec

EPSILON = 1e-5  # of the normalisations


@final
@dataclass(frozen=True)
class DynamicBias(WindowSpec):
    """Dynamic position bias (Wang et al. 2022, arXiv:2108.00154).

        logits[h, m, n] += V g(N_3(x_3)) [h] + v[h]

        x_1 = W_0 (m - n) + b_0        x_{i+1} = W_i g(N_i(x_i)) + b_i,  i = 1, 2

    with m and n the coordinates of query and key, g a rectifier and N layer normalisations. The
    perceptron runs at every offset of a window, which may be larger than that of the training.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model.
    window : tuple of int
        Lengths of the window along each axis.
    width : int
        Width of the hidden layers; a sixteenth of that of the layer in the authors' code.
    form : {"plain", "residual"}
        `residual`: x_i is added to x_{i+1}.
    init : Init
        First values of the weights; biases begin as zeros.

    Raises
    ------
    SpecError
        If the window has no lengths, more than three, or one below 1, or there is no width.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.DynamicBias(heads=4, window=(7, 7), width=8)
    >>> m = [[row, column] for row in range(7) for column in range(7)]
    >>> posenc.bias(spec, m, params=posenc.init(spec)).shape
    (4, 49, 49)
    """

    heads: int
    _: KW_ONLY
    window: tuple[int, ...]
    width: int
    form: Literal["plain", "residual"] = "plain"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"head_weight": 0, "head_bias": 0}
    example = Example({"window": (8, 8), "width": 16, "init": Init(scale=1.0)})
    paper = "wang2022crossformer"

    def check(self) -> None:
        """Raise `SpecError` when window or width are none."""
        super().check()
        at_least("DynamicBias", width=self.width)

    def constants(self) -> dict[str, np.ndarray]:
        """Every offset m - n of the window, the last axis fastest."""
        lines = [np.arange(1.0 - size, size) for size in self.window]
        grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
        return {"offsets": grid.reshape(-1, len(self.window))}

    def parameters(self) -> dict[str, Parameter]:
        """Weights and biases of the layers, and the gains and shifts of the normalisations."""
        zeros, ones, w = Init("constant", scale=0.0), Init("constant", scale=1.0), self.width
        return {
            "offset_weight": Parameter((w, len(self.window)), self.init),
            "offset_bias": Parameter((w,), zeros),
            "norm_weight": Parameter((3, w), ones),
            "norm_bias": Parameter((3, w), zeros),
            "hidden_weight": Parameter((2, w, w), self.init),
            "hidden_bias": Parameter((2, w), zeros),
            "head_weight": Parameter((self.heads, w), self.init),
            "head_bias": Parameter((self.heads,), zeros),
        }

    def prepare(self, constants: Constants, *, dtype: Any, xp: Any) -> Constants:
        """The perceptron at every offset of the window: a table (offsets, heads)."""
        w = {name: astype(constants[name], dtype, xp) for name in self.shapes}

        def rectified(x: Array, i: int) -> Array:
            x = x - xp.mean(x, axis=-1, keepdims=True)
            spread = xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + EPSILON)
            x = x / spread * w["norm_weight"][i, ...] + w["norm_bias"][i, ...]
            return xp.where(x > 0, x, xp.zeros_like(x))

        x = astype(constants["offsets"], dtype, xp)
        x = product(x, xp.matrix_transpose(w["offset_weight"]), xp=xp) + w["offset_bias"]
        for i in range(2):
            inner = product(rectified(x, i), xp.matrix_transpose(w["hidden_weight"][i, ...]), xp=xp)
            inner = inner + w["hidden_bias"][i, ...]
            x = x + inner if self.form == "residual" else inner
        table = product(rectified(x, 2), xp.matrix_transpose(w["head_weight"]), xp=xp)
        return {"weight": table + w["head_bias"]}
