"""What the doctor found: one page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, final

from posenc._core.spec.answers import Displayed
from posenc.detect.contract.comparison.diff import EXIT_CODES, Verdict

NOTHING = "nothing of the model was compared with the engine"
TITLES = {
    "says": "What the model says",
    "weights": "What the weights say",
    "faults": "Where they differ",
    "compared": "Compared",
    "not_compared": "Not compared",
}


@final
@dataclass(frozen=True)
class Fault(Displayed):
    """One place where a model, its weights and its engine differ.

    Parameters
    ----------
    text : str
        What differs, as the verb that found it says it.
    change : str
        The line to change: a command, a key of the config, or a line of code.
    call : str
        The smallest call that shows it, where code was asked.

    Examples
    --------
    >>> import posenc
    >>> posenc.doctor({"model_type": "llama", "head_dim": 64, "rope_theta": 5e5}).faults
    ()
    """

    text: str
    change: str
    call: str = ""


@final
@dataclass(frozen=True)
class Diagnosis(Displayed):
    """What `posenc.doctor` found.

    Parameters
    ----------
    model, engine : str
        What was looked at; no engine is an empty text.
    says, weights : tuple of str
        What the model says of its positions, and what its weights say.
    faults : tuple of Fault
        Where these differ from each other and from the engine, what explains the others first.
    compared, not_compared : tuple of str
        What was, and how far; what was not, and why.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5}
    >>> posenc.doctor(config, {"inv_freq": 1e4 ** (-np.arange(32) / 32)}).verdict
    'differs'
    """

    model: str
    engine: str
    _: KW_ONLY
    says: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    compared: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """`differs`; `nothing differs`, in what was compared; or `not compared`."""
        if self.faults:
            return "differs"
        return (
            "not compared"
            if NOTHING in self.not_compared or not self.compared
            else "nothing differs"
        )

    @property
    def exit_code(self) -> int:
        """As of `diff`: 0 where nothing differs, 1 for a fault, 3 where nothing was compared."""
        return EXIT_CODES[self.verdict]

    def lines(self) -> list[str]:
        """The page, for people."""
        head = [f"model: {self.model}", *([f"engine: {self.engine}"] if self.engine else [])]
        return [*head, *(line for name in TITLES for line in self._section(name))]

    def _section(self, name: str) -> Iterator[str]:
        """The lines under one title."""
        rows = getattr(self, name)
        if rows or name == "faults":
            yield from ("", TITLES[name])
        if not rows and name == "faults":
            count = len(self.compared)
            right = self.verdict == "nothing differs"
            short = f"nothing was compared{' with the engine' * bool(self.engine)}"
            yield f"  nowhere: {count} compared" if right else f"  unknown: {short}"
        for number, row in enumerate(rows, 1):
            if isinstance(row, Fault):
                yield f"  {number}. {row.text}"
                yield f"     mend: {row.change}"
                yield from [f"     {row.call}"] if row.call else []
            else:
                yield f"  {row}"

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types: the fields, and the verdict."""
        return {"verdict": self.verdict, **asdict(self)}
