"""What `adopt` did to a model, as a value."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Self, final

import numpy as np

from posenc._core.spec.display import Displayed
from posenc._core.spec.spec import Spec
from posenc.detect.fit.turns import CONSIDERABLE
from posenc.detect.subject import Reach


class Distance(NamedTuple):
    """How far a module, or stored rows, are from exact angles."""

    change: float  # the largest up to `last`
    place: int  # where it is
    last: int
    wrong: int | None  # the first that is off by more than 1e-3, if there is one
    looked: int  # the farthest that was asked for
    reach: Reach | None = None  # of a module, which is asked; all rows that are stored are seen

    @classmethod
    def of(cls, places: np.ndarray, off: np.ndarray, last: int, reach: Reach | None = None) -> Self:
        """By the differences at positions."""
        within = np.where(places <= last, off, 0.0)
        worst, wrong = int(within.argmax()), places[off > CONSIDERABLE]
        first = int(wrong.min()) if wrong.size else None
        return cls(float(within[worst]), int(places[worst]), last, first, int(places.max()), reach)


@final
@dataclass(frozen=True)
class Replacement(Displayed):
    """One module that was replaced, for one type of layer, or one buffer of rows.

    Parameters
    ----------
    path : str
        The path of the module, the first where it stands at several, or of the buffer.
    layer : str
        The entry of the plan whose numbers it has.
    spec : Spec, optional
        What is computed in its place; None where nothing turns.
    was : str
        The class of the module that was replaced, or that has the buffer.
    change : float
        The largest difference of cosines and sines, or of rows, between it and exact angles, at the
        positions up to `last`.
    place : int
        The position of that difference.
    last : int
        The last position that the model is declared for.
    wrong : int, optional
        The first position, of those that were asked, where the module was off by more than 0.001.
    looked : int
        The farthest position that was asked.
    reach : Reach, optional
        How a module was looked at, with what arithmetic in float32 explains; see `posenc.ask`.
    what : {"cos and sin", "rows"}
        Which numbers were replaced.
    trained : Spec, optional
        What the config says, for which the weights were trained, where another encoding was put in
        on purpose.

    Examples
    --------
    >>> from posenc.torch import adopt
    """

    path: str
    _: KW_ONLY
    layer: str
    spec: Spec | None
    was: str
    change: float
    place: int
    last: int
    wrong: int | None
    looked: int
    reach: Reach | None = None
    what: str = "cos and sin"
    trained: Spec | None = None

    @property
    def text(self) -> str:
        """The replacement as a sentence."""
        return f"{self.path} ({self.was}), {self.numbers}"

    @property
    def numbers(self) -> str:
        """What changed, in words."""
        change = (
            f"{self.layer}: {self.what} change by at most {self.change:.2g} up to position "
            f"{self.last:,}, at {self.place:,}; "
        )
        if self.trained is not None:
            other = "no positions" if self.spec is None else repr(self.spec)
            return f"{change}{other} in place of {self.trained!r}, on purpose"
        bound = (
            f"no more than {CONSIDERABLE:g} up to {self.looked:,}"
            if self.wrong is None
            else f"more than {CONSIDERABLE:g} from position {self.wrong:,} on"
        )
        return f"{change}the old ones were off by {bound}"


@final
@dataclass(frozen=True)
class Adoption(Displayed):
    """What `posenc.torch.adopt` replaced in a model, what it left, and why.

    Parameters
    ----------
    model : str
        The class of the model.
    replaced : tuple of Replacement
        Each module, for each type of layer that it answers for.
    left : tuple of str
        What was left as it was, and why.
    remarks : tuple of str
        What else there is to know.

    Examples
    --------
    >>> from posenc.torch import adopt
    """

    model: str
    _: KW_ONLY
    replaced: tuple[Replacement, ...]
    left: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.model}: {len(self.replaced)} replaced, {len(self.left)} left"]
        alike: dict[tuple[str, str], list[Replacement]] = {}
        for row in self.replaced:
            alike.setdefault((row.was, row.numbers), []).append(row)
        for (was, numbers), rows in alike.items():
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            lines.append(f"  replaced  {rows[0].path}{more} ({was}), {numbers}")
            reach = rows[0].reach if rows[0].trained is None else None
            looked = ["as float32 has angles, the module:", *reach.lines()] if reach else ()
            lines += [f"            {line}" for line in looked]
        lines += [f"  left      {row}" for row in self.left]
        lines += [f"  remark    {row}" for row in self.remarks]
        return "\n".join(lines)
