"""How large an encoding is beside what it is added to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, final

from posenc._core.arrays.array import Array, astype
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Parameter, Value


@final
@dataclass(frozen=True)
class Magnitude(Value):
    """The factors of a sum of embeddings and encodings.

        add(x) = embedding_scale * x + table_scale * PE

    Parameters
    ----------
    table_scale : float or {"sqrt_dim", "rsqrt_dim"}
        Factor on the table; `"rsqrt_dim"` is dim ** -0.5.
    embedding_scale : float or {"sqrt_dim", "rsqrt_dim"}
        Factor on the embeddings; `"sqrt_dim"` is the sqrt(d_model) of Vaswani et al. (2017).
    learned : {"nothing", "table_scale"}
        `"table_scale"`: the factor on the table is a parameter, `scale` of shape (), and the field
        `table_scale` says where it begins.

    Examples
    --------
    >>> from posenc import Magnitude
    >>> Magnitude(embedding_scale="sqrt_dim").embedding(16)
    4.0
    """

    _: KW_ONLY
    table_scale: float | Literal["sqrt_dim", "rsqrt_dim"] = 1.0
    embedding_scale: float | Literal["sqrt_dim", "rsqrt_dim"] = 1.0
    learned: Literal["nothing", "table_scale"] = "nothing"

    def table(self, dim: int) -> float:
        """The factor on the table as a number."""
        return _number(self.table_scale, dim)

    def embedding(self, dim: int) -> float:
        """The factor on the embeddings as a number."""
        return _number(self.embedding_scale, dim)

    def parameters(self, dim: int) -> dict[str, Parameter]:
        """The learned factor, if there is one."""
        if self.learned == "nothing":
            return {}
        return {"scale": Parameter((), Init("constant", scale=self.table(dim)))}

    def scaled(self, table: Array, dim: int, values: Mapping[str, Array], *, xp: Any) -> Array:
        """A table times its factor; `values` holds the parameters."""
        if self.learned == "table_scale":
            return table * astype(values["scale"], table.dtype, xp)
        scale = self.table(dim)
        return table if scale == 1 else table * scale


def _number(scale: float | str, dim: int) -> float:
    named = {"sqrt_dim": math.sqrt(dim), "rsqrt_dim": 1 / math.sqrt(dim)}
    return named[scale] if isinstance(scale, str) else float(scale)
