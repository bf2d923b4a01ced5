"""The module of the third kind, and the same bias for FlexAttention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc import functional
from posenc.encodings.bias.base import BiasSpec
from posenc.functional.arguments.common import Kernel, require
from posenc.kernels import check_kernel
from posenc.torch.flex import ScoreMod, score_mod, slopes
from posenc.torch.learned import LearnedModule


class AttentionBias(LearnedModule):
    """The bias on attention scores as a module.

        logits[..., h, i, j] += bias[..., h, i, j]

    The module has no buffers. What an encoding learns are its parameters, under the names that
    `posenc.init` gives them; with `heads` only those of some heads, as tensor parallelism divides
    them, with the values that the whole model begins with.

    Parameters
    ----------
    spec : BiasSpec
        An encoding of the third kind, such as `posenc.T5(heads=8)`.
    heads : (int, int), optional
        The heads [first, end) of the spec that this module serves; all by default.
    seed : int, optional
        Of the first values of the parameters, those of `posenc.init(spec, seed)`. Without one it
        is drawn from torch's generator, so that modules differ and `torch.manual_seed` repeats
        them; processes that share a model must then draw alike.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it, as for `posenc.bias`.

    Raises
    ------
    ArgumentError
        If `spec` is no bias, or there are no such heads.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc.torch import AttentionBias
    >>> bias = AttentionBias(posenc.T5(heads=8), heads=(2, 4))
    >>> bias(torch.tensor([9]), 10).shape
    torch.Size([2, 1, 10])
    >>> bias.weight.shape
    torch.Size([32, 2])
    """

    def __init__(
        self,
        spec: BiasSpec,
        *,
        heads: tuple[int, int] | None = None,
        seed: int | None = None,
        kernel: Kernel = "auto",
    ) -> None:
        require(spec, BiasSpec, "AttentionBias")
        super().__init__(spec, heads, seed)
        check_kernel(kernel, "AttentionBias")
        self.kernel = kernel

    def forward(
        self,
        q_positions: int | Tensor,
        k_positions: int | Tensor | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Tensor:
        """The bias of queries and keys at some positions.

        Parameters
        ----------
        q_positions : int or Tensor
            A number of positions, or integers of shape (q,) or (batch, q), with a trailing axis for
            specs of several axes.
        k_positions : int or Tensor, optional
            The same for the keys; those of the queries by default.
        dtype : torch.dtype
            Of the result; `scaled_dot_product_attention` wants that of its queries.
        device : torch.device, optional
            Where the result goes, if neither positions nor parameters say so; where the module was
            moved to, by default.

        Returns
        -------
        Tensor
            (..., heads, q, k), for the `attn_mask` of `scaled_dot_product_attention`. Entries that
            do not vary share memory.
        """
        return functional.bias(
            self.spec,
            q_positions,
            k_positions,
            params=self.learned(),
            heads=self.heads,
            dtype=dtype,
            xp=torch,
            kernel=self.kernel,
            device=self.home(q_positions, k_positions) if device is None else device,
        )

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says nothing of what it takes

    def slopes(self) -> Tensor:
        """The slopes of ALiBi for kernels that take slopes: see `posenc.torch.slopes`."""
        return slopes(self.spec, params=self.learned(), heads=self.heads, device=self.home())

    def score_mod(
        self, q_positions: Any = None, k_positions: Any = None, *, scale: float = 1.0
    ) -> ScoreMod:
        """The same bias for FlexAttention: see `posenc.torch.score_mod`."""
        return score_mod(
            self.spec,
            q_positions,
            k_positions,
            params=self.learned(),
            heads=self.heads,
            scale=scale,
            device=self.home(q_positions, k_positions),
        )
