"""A learned scalar for each distance up to a clip (Jumper et al. 2021)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

from posenc.encodings.bias.base import (
    Array,
    Axes,
    BiasSpec,
    Constants,
    Example,
    Init,
    Parameter,
    astype,
    clipped,
    distance,
    lookup,
)


@final
@dataclass(frozen=True)
class ClippedTable(BiasSpec):
    """Clipped relative positions as scalars (Jumper et al. 2021, doi:10.1038/s41586-021-03819-2).

        logits[h, m, n] += weight[r - first, h]        r = clip(n - m, first, last)

    The embedding of residue offsets there, with its channels in the place of heads; also the
    vectors of Shaw et al. (2018) cut down to scalars, as audio encoders have them.

    Parameters
    ----------
    heads : int
        Number of heads of the whole model, or of channels.
    clip : int or (int, int)
        Largest distance with a scalar of its own, or the first and the last one.
    form : {"signed", "absolute"}
        Whether the two directions have scalars of their own. `absolute`: r = |clip(n - m)|.
    added : {"after", "before"}
        Whether the bias is added after the scores are divided by sqrt(d), or before.
    init : Init
        First values of the table.

    Raises
    ------
    SpecError
        If 0 is not among the distances.

    Examples
    --------
    >>> import posenc
    >>> spec = posenc.ClippedTable(heads=4, clip=32)
    >>> posenc.init(spec)["weight"].shape
    (65, 4)
    """

    heads: int
    _: KW_ONLY
    clip: int | tuple[int, int]
    form: Literal["signed", "absolute"] = "signed"
    added: Literal["after", "before"] = "after"
    init: Init = Init(scale=0.02)

    by_head: ClassVar = {"weight": 1}
    example = Example({"clip": 16, "init": Init(scale=1.0)})
    paper = "jumper2021highly"

    def check(self) -> None:
        """Raise `SpecError` when there are no distances."""
        first, last = self.ends
        self._require(
            first <= 0 <= last,
            "clip",
            "a distance of at least 0, or the first and last one around 0",
        )

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last distance."""
        return (-self.clip, self.clip) if isinstance(self.clip, int) else self.clip

    def parameters(self) -> dict[str, Parameter]:
        """The scalar of each distance and head."""
        first, last = self.ends
        count = last - first + 1 if self.form == "signed" else max(-first, last) + 1
        return {"weight": Parameter((count, self.heads), self.init)}

    def score(
        self, q: Axes, k: Axes, head: Array, constants: Constants, *, dtype: Any, xp: Any
    ) -> Array:
        """The scalar of the clipped distance."""
        first, last = self.ends
        r = clipped(distance(q, k), first, last, xp=xp)
        row = r - first if self.form == "signed" else xp.abs(r)
        return astype(lookup(constants["weight"], row, head, xp=xp), dtype, xp)
