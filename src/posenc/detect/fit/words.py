"""What differs, in words: one sentence for each thing, whoever finds it."""

from __future__ import annotations

from collections.abc import Sequence

FEW = 4  # numbers that are listed


def rounding(dtype: str) -> str:
    """Frequencies that were rounded."""
    return f"frequencies in {dtype}"


def shift(places: int) -> str:
    """A position that is counted otherwise."""
    return f"position p {'+' if places > 0 else '-'} {abs(places)}"


def layer(name: str) -> str:
    """What another layer has."""
    return f"that of {name}"


def backward(pairs: Sequence[int]) -> str:
    """Pairs of the other direction."""
    some = ", ".join(map(str, pairs[:FEW])) + (f", … ({len(pairs)})" if len(pairs) > FEW else "")
    return f"pairs {some} turn backward" if len(pairs) > 1 else f"pair {some} turns backward"


def speed(pair: int, factor: float) -> str:
    """A pair of another frequency than the rule's."""
    if factor == 0:
        return f"pair {pair} does not turn"
    if not 0.5 <= factor < 2:
        return f"pair {pair} turns {factor:.4g} times as fast"
    return f"pair {pair} turns {_percent(factor)} {'faster' if factor > 1 else 'slower'}"


def slope(head: int, factor: float) -> str:
    """A head of another slope than the rule's."""
    return f"slope {head} is {_percent(factor)} off"


def _percent(factor: float) -> str:
    return f"{100 * abs(factor - 1):.3g} %"
