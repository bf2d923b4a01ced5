"""Whatever says what a model's positions are -> its plan."""

from __future__ import annotations

from typing import Any, Literal

from posenc._core.errors import DataError
from posenc._core.reading import Reading
from posenc.detect.facts.model import ASKED, facts


def explain(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    on_error: Literal["raise", "report"] = "raise",
) -> Reading:
    """Read the positions of a model, as the command `posenc explain` does.

    Parameters
    ----------
    source : mapping, str, path, or config object
        The path of a GGUF file, which `posenc.from_gguf` reads, or whatever `posenc.from_hf` takes:
        a dictionary, JSON text, the path of a `config.json` or of its folder.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels, for families that are not known.
    base : float, optional
        The base, for sources that do not state it; it overrides those that do.
    on_error : {"raise", "report"}
        As in `posenc.from_hf`.

    Returns
    -------
    Reading
        An entry for each type of layer; `print` shows it.

    Raises
    ------
    DataError
        If the source cannot be read, or something that changes numbers is left open.

    Examples
    --------
    >>> import posenc
    >>> plan = posenc.explain({"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0})
    >>> plan["attention"].spec.base
    500000.0
    """
    known = facts(source, pairing=pairing, base=base)
    plan = known.reading
    if on_error == "raise":
        known.require("explain", *ASKED)
        if plan.errors:
            todo = 'on_error="report" returns what could be read.'
            raise DataError(f"explain: {'; '.join(plan.errors)}. {todo}")
    return known.explained
