"""What notebooks show of a value: one method for all, which asks the layer that can draw."""

from __future__ import annotations

import importlib


class Displayed:
    """Base of specs, plans and findings: notebooks show them by name, with a small picture."""

    def _repr_html_(self) -> str:
        # By name, as what draws stands above what is drawn.
        return str(importlib.import_module("posenc.plot.card").html(self))
