"""Why code cannot be asked, and the widths that its own error tells of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from posenc._core.errors import mismatch
from posenc.detect.subject.code import Callee, CannotAsk, name_of
from posenc.detect.subject.discovery import Search
from posenc.detect.subject.subject import WORDS

MOST_WIDE = 2**13


def refusal(target: Any, codes: list[Callee], search: Search) -> CannotAsk:
    """What was tried, the own error of the code, and what to hand over."""
    if not codes:
        return CannotAsk(mismatch(
            "ask", "a function, a class, an object, a pair of functions or buffers",
            f"{type(target).__name__}: {str(target)[:60]}",
        ))  # fmt: skip
    name = codes[0].name if len(codes) == 1 else name_of(target)
    # Where nothing was called, an error is not that of the code.
    called = search.tried and search.counter.calls
    own = search.tried[0] if called else "no form of a call is known for its arguments"
    slots = ", ".join(slot.name for slot in codes[0].slots)
    says = f"in {search.counter.calls} calls of {name}({slots}) no answer was that of an encoding"
    if codes[0].has("cos", "sin", "tables") and codes[0].has("x") and not codes[0].tables:
        todo = "It applies tables: hand over a pair (what makes them, what applies them)."
    elif codes[0].tables:
        both = "lambda q, k: apply(q, k, *make(q))"
        todo = f"Hand over one function that makes tables and applies them, such as {both}."
    elif search.kind is None:
        todo = (
            "Hand over a function of (x, positions) or (positions); for timesteps, one such as "
            "lambda positions: f(positions / 1000); for a bias, say kind='bias'."
        )
    else:
        takes = {"rotary": "(x, positions)", "bias": "(q_positions, k_positions)"}
        todo = f"Hand over {WORDS[search.kind]} of {takes.get(search.kind, '(positions)')}."
    wide = f" It may have another width than {search.dim}: say `dim`."
    wide *= bool(re.search(r"broadcast|shape|size|dimension", own))
    error = CannotAsk(f"ask: {says}; the first: {own}.{wide} {todo}")
    error.__cause__ = search.error
    error.says = own * bool(wide)
    error.answered = search.answered
    error.arguments = sum(slot.required for slot in codes[0].slots)
    return error


def widths_of(why: CannotAsk) -> Iterator[int]:
    """The widths that an error tells of, of halves or whole, the largest first."""
    for size in sorted({*map(int, re.findall(r"\d+", why.says))}, reverse=True):
        yield from (width for width in (2 * size, size) if 1 < width <= MOST_WIDE)
