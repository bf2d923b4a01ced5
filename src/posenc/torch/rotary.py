"""The module of the second kind: rotations of queries and keys.

The module compiles and exports as a whole, also where frequencies depend on the length of the
sequence: of the two sets of LongRoPE a length chooses within the graph, while Dynamic NTK has a
graph for each length beyond the original one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from torch import Tensor

from posenc import functional
from posenc._core.errors import bad_argument, refuse_argument
from posenc.encodings.rotary.base import RotarySpec
from posenc.functional.arguments.common import Kernel, require
from posenc.functional.arguments.tokens import check_tokens
from posenc.kernels import check_kernel
from posenc.torch.learned import LearnedModule, drop, frequencies


class RotaryOptions(TypedDict, total=False):
    """What a call takes by name."""

    offset: int | Tensor | None
    cu_seqlens: Tensor | None
    cos_sin: tuple[Tensor, Tensor] | None
    position_ids: Tensor | None
    length: int | Tensor | None


class RotaryEmbedding(LearnedModule):
    """Turn queries and keys by their positions.

        q'[pair j of token t] = m * R(positions[t] * f[j]) q[pair j of token t],   k' likewise

    The module has no buffers: cosines and sines are computed from integer phases when they are
    needed, in float32 or better whatever the dtype of the module. So there is nothing to cast
    wrongly, to lose on the meta device, to outgrow, or to find in a state dict. Learned rotations
    have their parameters, and nothing else. Head counts, lengths and positions are arguments.

    Parameters
    ----------
    spec : RotarySpec
        An encoding of the second kind, such as `posenc.RoPE(128, pairing="half")`.
    seq_dim : int
        The axis that holds the sequence: -2 for (batch, heads, seq, channels), -3 for (batch, seq,
        heads, channels) and flat (tokens, heads, channels).
    inplace : bool
        Whether to write over queries and keys. Gradients stay right; what cannot be overwritten is
        refused with the reason.
    seed : int, optional
        Of the first values of the parameters, those of `posenc.init(spec, seed)`. Without one it
        is drawn from torch's generator, so that modules differ and `torch.manual_seed` repeats
        them; processes that share a model must then draw alike.
    kernel : {"auto", "reference", "cpu", "triton"}
        What computes it, as for `posenc.rotate`.

    Raises
    ------
    ArgumentError
        If `spec` is no rotation, or `seq_dim` no axis before the last.

    Examples
    --------
    >>> import posenc, torch
    >>> from posenc.torch import RotaryEmbedding
    >>> rotary = RotaryEmbedding(posenc.RoPE(64, pairing="half"))
    >>> q, k = torch.randn(1, 8, 5, 64), torch.randn(1, 2, 5, 64)     # grouped: 8 and 2 heads
    >>> q, k = rotary(q, k, offset=torch.tensor([100]))
    >>> alone = rotary(q)                                             # one tensor, from 0
    >>> rotary.state_dict()
    OrderedDict()
    """

    def __init__(
        self,
        spec: RotarySpec,
        *,
        seq_dim: int = -2,
        inplace: bool = False,
        seed: int | None = None,
        kernel: Kernel = "auto",
    ) -> None:
        require(spec, RotarySpec, "RotaryEmbedding")
        if not isinstance(seq_dim, int) or seq_dim >= -1:
            raise bad_argument(
                "RotaryEmbedding: seq_dim",
                "-2 or less",
                seq_dim,
                "The last axis holds the channels.",
            )
        super().__init__(spec, seed=seed)
        self.seq_dim = seq_dim
        self.inplace = inplace
        self.kernel = check_kernel(kernel, "RotaryEmbedding")
        self._values = "v" in spec.channels.targets

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        v: Tensor | None = None,
        offset: int | Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cos_sin: tuple[Tensor, Tensor] | None = None,
        position_ids: Tensor | None = None,
        length: int | Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Turn `q` and `k`, and `v` where the spec turns values; or one tensor alone.

        Parameters
        ----------
        q, k : Tensor
            (..., seq, channels), floating, of any head counts and one sequence length. A tensor
            that comes alone is turned as queries are, which matters for xPos only.
        positions : Tensor, optional
            Integers of shape (seq,), (batch, seq) or a leading shape, with a trailing axis for
            specs of several axes; 0, 1, … by default.
        v : Tensor, optional
            Values, for a spec whose targets name them.
        offset : int or Tensor, optional
            Position of the first token: one number, or one per row.
        cu_seqlens : Tensor, optional
            Cumulative lengths of packed sequences; each counts from 0.
        cos_sin : tuple of Tensor, optional
            What `posenc.cos_sin` gave for the positions, in place of all the above.
        position_ids : Tensor, optional
            The same as `positions`, under the name that other libraries use.
        length : int or Tensor, optional
            Length of the sequence, for scalings that depend on it; as for `posenc.rotate`.

        Returns
        -------
        tuple of Tensor
            q, k (and v), each in its dtype; a tensor where `q` came alone.

        Raises
        ------
        ArgumentError
            If shapes do not fit, positions are given twice, or a needed length is absent.
        DTypeError
            If an input is not floating or the positions are not integers.
        """
        caller = "RotaryEmbedding"
        twice = positions is not None and position_ids is not None
        refuse_argument(twice, caller, "positions or position_ids", "both of them")
        positions = position_ids if positions is None else positions
        refuse_argument(k is None and v is not None, f"{caller}: k", "keys beside values", None)
        if k is not None and not getattr(k.dtype, "is_floating_point", True):
            todo = "Positions go by name: positions=…"
            raise bad_argument(f"{caller}: k", "keys", f"an array of {k.dtype}", todo)
        if k is not None and self._values != (v is not None):
            raise bad_argument(
                f"{caller}: v",
                "values" if v is None else "no values",
                f"targets {self.spec.channels.targets}",
                "`targets` of its pairing names the arrays that turn: q, k, v.",
            )
        if cos_sin is not None:
            if any(value is not None for value in (positions, offset, cu_seqlens, length)):
                raise bad_argument(
                    f"{caller}: cos_sin",
                    "cosines and sines alone",
                    "positions too",
                    "They were made for positions already.",
                )
            turned = self._by_cos_sin([x for x in (q, k, v) if x is not None], cos_sin)
        else:
            inputs = [(q, "query")] if k is None else [(q, "query"), (k, "key")]
            turned = functional.rotate_together(
                self.spec,
                inputs if v is None else [*inputs, (v, "key")],
                positions=positions,
                offset=offset,
                cu_seqlens=cu_seqlens,
                seq_dim=self.seq_dim,
                length=length,
                inplace=self.inplace,
                params=self.learned(),
                kernel=self.kernel,
            )
        return turned[0] if k is None else turned

    if TYPE_CHECKING:
        # As `forward`, with what comes back for what is given; torch's own says nothing of it.

        @overload
        def __call__(
            self,
            q: Tensor,
            k: None = None,
            positions: Tensor | None = None,
            **options: Unpack[RotaryOptions],
        ) -> Tensor: ...
        @overload
        def __call__(
            self,
            q: Tensor,
            k: Tensor,
            positions: Tensor | None = None,
            **options: Unpack[RotaryOptions],
        ) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self,
            q: Tensor,
            k: Tensor,
            positions: Tensor | None = None,
            *,
            v: Tensor,
            **options: Unpack[RotaryOptions],
        ) -> tuple[Tensor, Tensor, Tensor]: ...
        def __call__(self, q: Tensor, k: Any = None, positions: Any = None, **options: Any) -> Any:
            """Turn `q` and `k`, and `v` where the spec turns values; or one tensor alone."""

    def _by_cos_sin(
        self, arrays: list[Tensor], cos_sin: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, ...]:
        if self.spec.sided:
            raise bad_argument(
                "RotaryEmbedding",
                "positions, as queries and keys have cosines of their own",
                "cos_sin",
            )
        cos, sin = cos_sin
        if cos.shape[-1] != self.spec.pairs:
            raise bad_argument(
                "RotaryEmbedding: cos_sin",
                f"cos of shape (..., {self.spec.pairs}), an entry for each pair",
                f"shape {tuple(cos.shape)}",
            )
        check_tokens(arrays, self.seq_dim, "RotaryEmbedding")
        return tuple(
            functional.apply_rotary(
                x,
                cos,
                sin,
                pairing=self.spec.channels,
                seq_dim=self.seq_dim,
                inplace=self.inplace,
            )
            for x in arrays
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # Checkpoints of other code hold what follows from the spec here.
        drop(state_dict, prefix, self, frequencies)
        super()._load_from_state_dict(state_dict, prefix, *rest)
