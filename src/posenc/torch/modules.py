"""The module of the first kind: tables added to the embeddings.

The module compiles and exports as a whole. So does a function that calls `posenc.add` or
`posenc.table`, with a spec from outside or one that it makes, which is a constant of its graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._core.errors import bad_argument
from posenc.encodings.api import BiasSpec, RelativeSpec, TableSpec
from posenc.functional.arguments.common import Kernel, require
from posenc.kernels import check_kernel
from posenc.torch.flex import ScoreMod, score_mod, slopes
from posenc.torch.learned import LearnedModule, drop, rows


class PositionTable(LearnedModule):
    """Add the encoding of a table to embeddings.

        y = dropout(embedding_scale * x + PE(positions))

    The module has no buffers: rows are computed from integer phases when they are needed. So there
    is nothing to cast wrongly, to lose on the meta device, to outgrow, or to find in a state dict.
    What a learned encoding learns are parameters of the module, under the names that `posenc.init`
    gives them; they are cast, moved, saved and trained as any others.

    The sum is formed in float32 (float64 for float64 inputs) and rounded once, under autocast too.

    Parameters
    ----------
    spec : TableSpec
        An encoding of the first kind, such as `posenc.Sinusoidal(512)`.
    dropout : float
        Probability of dropping an entry of the sum, in training.
    seq_dim : int
        The axis of the input that holds the sequence: -2, or -3 for (batch, seq, heads, dim).
    seed : int, optional
        Of the first values of the parameters, those of `posenc.init(spec, seed)`. Without one it
        is drawn from torch's generator, so that modules differ and `torch.manual_seed` repeats
        them; processes that share a model must then draw alike.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it, as for `posenc.add`.

    Raises
    ------
    ArgumentError
        If `spec` is no table, `dropout` no probability, or `seq_dim` no axis before the last.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc.torch import PositionTable
    >>> module = PositionTable(posenc.Sinusoidal(4)).eval()
    >>> module(torch.zeros(1, 2, 4, dtype=torch.bfloat16), offset=1).dtype
    torch.bfloat16
    >>> module.state_dict()
    OrderedDict()
    """

    def __init__(
        self,
        spec: TableSpec,
        *,
        dropout: float = 0.0,
        seq_dim: int = -2,
        seed: int | None = None,
        kernel: Kernel = "auto",
    ) -> None:
        require(spec, TableSpec, "PositionTable")
        if not 0 <= dropout <= 1:
            raise bad_argument("PositionTable: dropout", "a probability", dropout)
        if not isinstance(seq_dim, int) or seq_dim >= -1:
            raise bad_argument(
                "PositionTable: seq_dim", "-2 or less", seq_dim, "The last axis holds the channels."
            )
        super().__init__(spec, seed=seed)
        self.kernel = check_kernel(kernel, "PositionTable")
        self.seq_dim = seq_dim
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        positions: Tensor | None = None,
        *,
        offset: int | Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """Add the encoding to `x`.

        Parameters
        ----------
        x : Tensor
            (..., seq, dim), floating. It is not written to.
        positions : Tensor, optional
            Integers of shape (seq,), (batch, seq) or the leading shape of `x`, with a trailing axis
            for specs of several axes; 0, 1, … by default.
        offset : int or Tensor, optional
            Position of the first token: one number, or one per row. Not beside `positions`.
        position_ids : Tensor, optional
            The same as `positions`, under the name that other libraries use.

        Returns
        -------
        Tensor
            (..., seq, width), in the dtype of `x`; the width is `spec.width`, which is that of `x`
            unless the table is appended.

        Raises
        ------
        ArgumentError
            If the shapes do not fit, or positions are given twice.
        DTypeError
            If `x` is not floating or the positions are not signed or small unsigned integers.
        PositionError
            If `offset` leaves no room for the sequence below 2**63, or a position is not in a
            learned table.
        """
        if position_ids is not None:
            if positions is not None:
                raise bad_argument("PositionTable", "positions or position_ids", "both of them")
            positions = position_ids
        y = functional.add(
            self.spec,
            x,
            params=self.learned(),
            positions=positions,
            offset=offset,
            seq_dim=self.seq_dim,
            kernel=self.kernel,
        )
        return self.dropout(y)

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says nothing of what it takes

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # Checkpoints of other code hold what follows from the spec here.
        drop(state_dict, prefix, self, rows)
        super()._load_from_state_dict(state_dict, prefix, *rest)


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
        return functional.relative(
            self.spec, q, k, q_positions, k_positions, params=self.learned(), heads=self.heads
        )

    if TYPE_CHECKING:
        __call__ = forward  # torch's own says nothing of what it takes

    def of_values(
        self, weights: Tensor, q_positions: Any = None, k_positions: Any = None
    ) -> Tensor:
        """What is added to the weighted values: see `posenc.relative_values`."""
        return functional.relative_values(
            self.spec,
            weights,
            q_positions,
            k_positions,
            params=self.learned(),
            heads=self.heads,
        )


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
        self.kernel = check_kernel(kernel, "AttentionBias")

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
