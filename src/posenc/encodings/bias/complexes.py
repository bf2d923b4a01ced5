"""Offsets in complexes of molecules (Abramson et al. 2024)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    at_least,
    clipped,
    lookup,
)


@final
@dataclass(frozen=True)
class ComplexOffsets(BiasSpec):
    """Relative positions in complexes (Abramson et al. 2024, doi:10.1038/s41586-024-07487-w).

        logits[h, m, n] += residue_weight[a, h] + token_weight[b, h] + chain_weight[c, h]
                         + entity_weight[h] (m, n of one entity)

        a = clip(m_residue - n_residue, -r, r) + r       in one chain, else 2 r + 1
        b = clip(m_token - n_token, -r, r) + r           in one residue of it, else 2 r + 1
        c = clip(m_copy - n_copy, -s, s) + s             in different chains, else 2 s + 1

    The supplement's algorithm 3, with the channels of its pair representation in the place of
    heads. A position has five numbers: those of the token's chain, of its residue and of the token
    itself, that of the molecule (chains that are copies share it), and that of the copy.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model, or of channels.
    residues : int
        Largest offset r of residues and of tokens.
    copies : int
        Largest offset s of copies.
    init : Init
        First values of the tables.

    Raises
    ------
    SpecError
        If an offset is below 1.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.ComplexOffsets(heads=4)
    >>> list(posenc.init(spec))
    ['residue_weight', 'token_weight', 'chain_weight', 'entity_weight']
    """

    heads: int
    _: KW_ONLY
    residues: int = 32
    copies: int = 2
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {
        "residue_weight": 1,
        "token_weight": 1,
        "chain_weight": 1,
        "entity_weight": 0,
    }
    example = Example(
        {"init": Init(scale=1.0)},
        points=lambda: _chains(4, 16),
        where="four chains of 16 residues, two copies each of two entities",
        unsuited="Its positions are residues and tokens of molecules.",
    )
    paper = "abramson2024accurate"
    axes = ("chain", "residue", "token", "entity", "copy")

    def check(self) -> None:
        """Raise `SpecError` when a number is below 1."""
        at_least("ComplexOffsets", residues=self.residues, copies=self.copies)

    def parameters(self) -> dict[str, Parameter]:
        """The scalars of each offset and head, and one for pairs of one entity."""
        offsets = Parameter((2 * self.residues + 2, self.heads), self.init)
        return {
            "residue_weight": offsets,
            "token_weight": offsets,
            "chain_weight": Parameter((2 * self.copies + 2, self.heads), self.init),
            "entity_weight": Parameter((self.heads,), self.init),
        }

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The sum of the scalars."""
        chain, residue, token, entity, copy = (m - n for m, n in zip(q, k, strict=True))
        one_chain = chain == 0

        def found(name: str, offset: Array, known: Array, last: int) -> Array:
            row = clipped(offset, -last, last, xp=xp) + last
            row = xp.where(known, row, xp.full_like(row, 2 * last + 1))
            return astype(lookup(constants[name], row, head, xp=xp), dtype, xp)

        total = found("residue_weight", residue, one_chain, self.residues)
        total = total + found("token_weight", token, one_chain & (residue == 0), self.residues)
        total = total + found("chain_weight", copy, ~one_chain, self.copies)
        same = astype(lookup(constants["entity_weight"], head, xp=xp), dtype, xp)
        return total + xp.where(entity == 0, same, xp.zeros_like(same))


def _chains(chains: int, residues: int) -> np.ndarray:
    """Chain, residue, token, entity and copy of the residues of chains, two of which are alike."""
    token = np.arange(chains * residues)
    chain = token // residues
    return np.stack([chain, token % residues, token, chain // 2, chain % 2], axis=-1)
