"""Whether stored keys are turned as they claim, by what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from posenc._core.calls import checked_call
from posenc._core.errors import refuse_argument
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.cache.layers import as_stored, turned
from posenc.torch.cache.ledger import places, whole_numbers

REACH = 2**20  # offsets on either side
AT_ONCE = 2048  # offsets, so that memory is that of so many keys

# Standard deviations of the noise: by the one an offset must be better than none for a chunk to be
# said to stand elsewhere, by the other every offset must be worse for it to stand where it claims.
ELSEWHERE, HERE = 6.0, 2.0


class Chunk(NamedTuple):
    """What one chunk of keys shows beside the others."""

    first: int  # its first token
    tokens: int
    by: int  # the offset, added to its positions, that is most surely better
    better: float  # by how much better than none, in standard deviations; negative where worse


class KeyEvidence(NamedTuple):
    """The answer of `verify`; true where every chunk agrees."""

    answer: Literal["agrees", "differs", "unknown"]
    chunks: tuple[Chunk, ...]

    def __bool__(self) -> bool:
        return self.answer == "agrees"

    def __str__(self) -> str:
        lines = [
            f"tokens {c.first} to {c.first + c.tokens - 1} fit the others {c.better:.0f} sigma "
            f"better at {c.by:+d} from where they claim to stand"
            for c in self.chunks
            if c.better > ELSEWHERE
        ]
        return "; ".join(lines) or f"{self.answer}: {len(self.chunks)} chunks compared"


@checked_call
def verify(
    keys: Tensor,
    positions: Any,
    spec: RotarySpec,
    *,
    chunks: Sequence[int] | None = None,
    reach: int | None = None,
) -> KeyEvidence:
    r"""Say whether chunks of stored keys are turned by the positions that they claim.

    Keys of trained models have a mean that is not zero, which turns with them. Turned back, the
    means of all chunks must agree; that of a chunk that was moved without its rotation, or twice,
    agrees at another offset:

    .. math:: z_c(d) = \langle R_d M - M,\; m_c \rangle / \sigma_c(d)

    with the mean :math:`m_c` of the chunk, :math:`M` of all others, and :math:`\sigma_c(d)` the
    deviation of the numerator, as the tokens of the chunk vary.

    Parameters
    ----------
    keys : Tensor
        (batch, heads, tokens, channels), as stored.
    positions : array of integers
        (tokens,): where they claim to stand.
    spec : RotarySpec
        What turned them.
    chunks : sequence of int, optional
        The number of tokens of each chunk; eight of one size by default.
    reach : int, optional
        The largest offset that is looked at, to 2²⁰; the span of the positions by default.

    Returns
    -------
    KeyEvidence
        `agrees`, `differs`, or `unknown` where keys have too little in common: of models with
        random weights, of few tokens, or where a neighbouring offset fits nearly as well. Printed
        it says which tokens stand elsewhere.

    Raises
    ------
    ArgumentError
        If shapes do not fit, or the positions span more than 2²⁰ and `reach` is not stated.

    Notes
    -----
    One offset of all keys alike is not seen, nor is what a model makes of it.

    Examples
    --------
    >>> import torch, posenc
    >>> from posenc.torch.cache import verify
    >>> rope = posenc.RoPE(8, pairing="half")
    >>> keys = torch.randn(1, 4, 64, 8, generator=torch.Generator().manual_seed(0)) + 1
    >>> right = posenc.rotate(rope, keys)
    >>> wrong = torch.cat([right[:, :, :32], right[:, :, :32]], dim=2)
    >>> verify(right, range(64), rope, chunks=(32, 32)).answer
    'agrees'
    >>> verify(wrong, range(64), rope, chunks=(32, 32)).answer
    'differs'
    """
    claimed_at = places(whole_numbers(positions, "verify: positions"), "verify: positions")
    refuse_argument(
        keys.ndim != 4 or claimed_at.shape != keys.shape[2:3] or len(spec.axes) != 1,
        "verify",
        "keys (batch, heads, tokens, channels) and positions (tokens,) of one axis",
        f"{tuple(keys.shape)} and {tuple(claimed_at.shape)}",
    )
    count = len(claimed_at)
    sizes = [len(part) for part in claimed_at.chunk(8)] if chunks is None else [*chunks]
    refuse_argument(
        sum(sizes) != count or min(sizes, default=0) < 2 or len(sizes) < 2,
        "verify: chunks",
        f"two or more, each of two tokens or more and {count} in all",
        sizes,
    )
    rule = as_stored(spec.at(int(claimed_at.max()) + 1))
    claimed = claimed_at[None, :, None]
    back = turned(keys.detach().double(), rule, rule, claimed, torch.zeros_like(claimed))
    most = int(claimed_at.max() - claimed_at.min()) if reach is None else reach
    refuse_argument(
        not 0 < most <= REACH,
        "verify: reach",
        f"1 to {REACH:,} positions",
        f"{most:,}",
        "State how far a chunk may be off.",
    )
    offsets = torch.cat([torch.arange(-most, 0), torch.arange(1, most + 1)])
    parts, pieces, first = torch.split(back, sizes, dim=2), [], 0
    for index, part in enumerate(parts):
        rest = torch.cat([other for k, other in enumerate(parts) if k != index], dim=2).mean(2)
        z = torch.cat([_better(part, rest, rule, some) for some in torch.split(offsets, AT_ONCE)])
        best = int(z.argmax())
        pieces.append(Chunk(first, sizes[index], int(offsets[best]), float(z[best])))
        first += sizes[index]
    away = any(chunk.better > ELSEWHERE for chunk in pieces)
    here = all(chunk.better < -HERE for chunk in pieces)
    return KeyEvidence("differs" if away else "agrees" if here else "unknown", tuple(pieces))


def _better(part: Tensor, rest: Tensor, rule: RotarySpec, offsets: Tensor) -> Tensor:
    """How much better a chunk fits the others at each offset than at none, in deviations."""
    many = rest[:, :, None].expand(-1, -1, len(offsets), -1)
    zeros = torch.zeros_like(offsets)[None, :, None]
    apart = turned(many, rule, rule, zeros, offsets[None, :, None]) - rest[:, :, None]
    mean, noise = part.mean(2), part.var(2) / part.shape[2]
    return (apart * mean[:, :, None]).sum((0, 1, 3)) / (apart.square() * noise[:, :, None]).sum(
        (0, 1, 3)
    ).sqrt().clamp(min=1e-300)
