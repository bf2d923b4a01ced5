"""The module of the fourth kind: relative encodings that meet the content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from posenc import functional
from posenc.encodings.relative.base import RelativeSpec
from posenc.functional.arguments.common import require
from posenc.torch.learned import LearnedModule


class RelativeAttention(LearnedModule):
    """What positions add to scores and values, as a module.

        scores = (q . k + relative) * spec.scale        where spec.place is "before"
        scores = q . k * spec.scale + relative          where it is "after"

    The module has no buffers; its parameters have the names that `posenc.init` gives them.

    Parameters
    ----------
    spec : RelativeSpec
        An encoding of the fourth kind, such as `posenc.Shaw(64, clip=16)`.
    heads : (int, int), optional
        The heads [first, end) of the spec that this module serves; all by default.
    seed : int, optional
        Of the first values of the parameters, those of `posenc.init(spec, seed)`. Without one it
        is drawn from torch's generator, so that modules differ and `torch.manual_seed` repeats
        them; processes that share a model must then draw alike.

    Raises
    ------
    ArgumentError
        If `spec` is no relative encoding, or there are no such heads.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc.torch import RelativeAttention
    >>> module = RelativeAttention(posenc.Shaw(4, clip=2))
    >>> q, k = torch.randn(2, 8, 1, 4), torch.randn(2, 8, 6, 4)
    >>> module(q, k, torch.tensor([5]), torch.arange(6)).shape
    torch.Size([2, 8, 1, 6])
    """

    def __init__(
        self,
        spec: RelativeSpec,
        *,
        heads: tuple[int, int] | None = None,
        seed: int | None = None,
    ) -> None:
        require(spec, RelativeSpec, "RelativeAttention")
        super().__init__(spec, heads, seed)

    def forward(
        self, q: Tensor, k: Tensor, q_positions: Any = None, k_positions: Any = None
    ) -> Tensor:
        """What is added to the products of queries and keys.

        Parameters
        ----------
        q, k : Tensor
            (..., heads, q, dim) and (..., heads, k, dim).
        q_positions, k_positions : Tensor, optional
            Integers; both count from 0 where there are as many queries as keys.

        Returns
        -------
        Tensor
            (..., heads, q, k), in the dtype of `q`.
        """
        more: Any = {"params": self.learned(), "heads": self.heads}
        return functional.relative(self.spec, q, k, q_positions, k_positions, **more)

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says nothing of what it takes

    def of_values(
        self, weights: Tensor, q_positions: Any = None, k_positions: Any = None
    ) -> Tensor:
        """What is added to the weighted values: see `posenc.relative_values`."""
        more: Any = {"params": self.learned(), "heads": self.heads}
        return functional.relative_values(self.spec, weights, q_positions, k_positions, **more)
