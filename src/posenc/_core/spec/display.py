"""What notebooks show of a value: one method for all, which calls what it was handed."""

from __future__ import annotations

from posenc._names import HANDED


class Displayed:
    """Base of specs, plans and findings: notebooks show them by name, with a small picture."""

    def _repr_html_(self) -> str:
        return str(HANDED["card"](self))
