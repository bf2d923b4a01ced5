"""Where training ended, and how far a context is to go."""

from __future__ import annotations

from typing import Any

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.reading import Layer
from posenc.detect.extend.rules import Baseline

__all__ = ["new_length", "trained_rotation"]


def trained_rotation(layer: Layer, trained: int | None) -> Baseline:
    """What a layer was trained with, by the lengths of its config, or as the caller says."""
    spec: Any = layer.spec
    own = next((s for s in spec.scalings if s.stretches), None)
    original = getattr(own, "original_length", None)
    if trained is not None:
        if trained < 1:
            raise ArgumentError(mismatch("extend_context: trained", "a length", trained))
        kept = own is not None and (original is None or trained > original)
        return Baseline(spec.at(trained) if kept else _plain(spec), trained, kept)
    declared = layer.length
    if declared is None and original is None:
        todo = "Say it: trained=8192, or --trained 8192."
        raise DataError(mismatch("extend_context", "a trained length", "none in the config", todo))
    if own is None:
        return Baseline(spec, int(declared or 0))
    if original is not None and (declared is None or declared == original):
        return Baseline(_plain(spec), original)
    if original is not None and declared is not None and declared < original:
        # Files that raise the original length above the declared one state no single length.
        received = f"{declared} declared, {original} before the scaling"
        todo = "Say where training ended: trained=…, or --trained."
        raise DataError(mismatch("extend_context", "lengths that agree", received, todo))
    return Baseline(spec.at(declared), int(declared or 0), True)


def _plain(spec: Any) -> Any:
    """The rotation without the rule that stretches it, and without its magnitude."""
    kept = tuple(s for s in spec.scalings if not s.stretches)
    return spec.replace(scaling=kept)


def new_length(trained: int, to: int | None, factor: float | None) -> int:
    """The length that is asked for, which is above the trained one."""
    if (to is None) == (factor is None):
        received = "neither" if to is None else "both"
        raise ArgumentError(mismatch("extend_context", "to or factor", received))
    if factor is not None:
        if not 1 <= factor <= 2**20:
            raise ArgumentError(
                mismatch("extend_context: factor", "a number from 1 to 2**20", factor)
            )
        to = round(trained * factor)
    assert to is not None  # noqa: S101 - one of the two is given
    if not trained < to <= 2**31:
        todo = "Nothing has to be written for it." if to <= trained else ""
        expected = f"a length above the trained {trained}, up to 2**31"
        raise ArgumentError(mismatch("extend_context: to", expected, to, todo))
    return to
