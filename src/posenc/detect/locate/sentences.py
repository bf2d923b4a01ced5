"""What `locate` found, in sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from posenc._core.numeric.ladder import Ladder
from posenc.detect.locate.arcs import Interval
from posenc.detect.locate.from_values import (
    Interpretation,
    positions_of,
    predictions,
    readings,
    up_to,
)
from posenc.detect.locate.result import (
    CUT,
    EXPLANATIONS,
    FARTHEST,
    LEAST_BITS,
    SWAPPED,
    Fit,
    Location,
    scale_of,
)
from posenc.encodings.table.column_phases import columns_of

# --- values ---------------------------------------------------------------------------------------


def of_values(result: Location, values: Mapping[int, Interval]) -> Iterator[str]:
    """The story of values at dimensions."""
    low, high = result.within
    best, stated = result.best, result.as_stated
    by_words = {
        r.words: r
        for r in readings(result.stated, values, max(abs(int(low)), abs(int(high))), "siblings")
    }
    span = f"from {_place(low)} to {_place(high)}"
    if best is None:
        tried = "under any convention that was tried" if result.tried > 1 else "as stated"
        yield f"No position {span} has such values, {tried}{_beyond(result, by_words)}."
        size = abs(scale_of(result.stated))
        large = [v.text for v in values.values() if abs(v.middle) > size]
        yield (
            f"{', '.join(large)}: a sine or cosine of this table is at most {size:g} in size."
            if large
            else "A larger range, or fewer digits, may have one."
        )
        return
    doubt = "; but chance alone may give this" if best.bits <= LEAST_BITS else ""
    front = "No position as stated; position" if doubt and stated is None else "Position"
    yield f"{front} {_place(best.positions[0])}{_if(best)}{doubt}."
    yield from _worked(result, best, by_words[best.convention], values)
    if stated is None:
        yield f"With the formula as stated: no position {span}{_beyond(result, by_words)}."
    elif stated is not best:
        yield f"With the formula as stated: position {_place(stated.positions[0])}."
        yield from _worked(result, stated, by_words[()], values)
        yield _at_the_same_place(result, best, stated, values)
    yield from _explained(best)
    yield from _uniqueness(result, best, values)
    others = [fit for fit in result.fits if fit is not best and fit is not stated]
    if others:
        yield "Less likely:"
        for fit in others[:3]:
            yield f"  position {_place(fit.positions[0])}{_if(fit)} ({_chance(fit)})"


def _beyond(result: Location, by_words: Mapping[tuple[str, ...], Interpretation]) -> str:
    """Which position outside the range the stated formula has."""
    least = 0 if result.within[0] >= 0 else -FARTHEST
    return "".join(
        f"; the nearest to 0 is {_place(place)}"
        for words, reading in by_words.items()
        if not words
        for place in positions_of(result.stated, reading, least, FARTHEST, most=1).positions
    )


def _worked(
    result: Location, fit: Fit, reading: Interpretation, values: Mapping[int, Interval]
) -> Iterator[str]:
    """The formula with its numbers, for each value; then how likely that is by chance."""
    position = fit.positions[0]
    for (dimension, value), c, received in zip(
        values.items(),
        reading.constraints,
        predictions(result.stated, reading, position),
        strict=True,
    ):
        p = position[c.axis] if isinstance(position, tuple) else position
        digits = (value.places or 7) + 2
        formula = _formula(result.stated, reading, dimension, c.function, p)
        low, high = (reading.digits == "cut" and value.cut) or (value.low, value.high)
        ends = "" if value.places is None else f": from {low:f} to {high:f}"
        yield f"  {formula} = {received:.{digits}f}   ({value.text} given{ends})"
    upto = up_to(position, *map(int, result.within))
    tried = max(1, round(fit.chance / (upto * reading.density)))
    yield (
        f"  {_chance(fit)}: of all integers a share of {reading.density:.3g} fits, and this is "
        f"among the first {upto:,.0f}; {_conventions(tried)} tried"
    )


def _formula(spec: Any, reading: Interpretation, dimension: int, function: str, p: Any) -> str:
    sibling = reading.sibling
    changed = sibling.of(spec)
    pair = int(columns_of(changed).pair[dimension - sibling.counted_from])
    start = changed.matrix.arrangement.start
    shown = str(p) if not start else f"({p} + {start})"
    scale = scale_of(changed)
    front = "" if scale == 1 else f"{scale:.6g} * "
    ladder = changed.matrix.ladder
    geometric = isinstance(ladder, Ladder) and ladder.spacing == "geometric"
    if not geometric or ladder.first != 1 or len(changed.axes) > 1:
        frequency = float(changed.matrix.frequencies(cosine=function == "cos")[pair])
        return f"{front}{function}({shown} * {frequency:.6g})"
    index = pair + ladder.start + (ladder.cos_shift if function == "cos" else 0.0)
    parts = re.fullmatch(r"d/(\d+)", str(ladder.denominator))
    divisor = float(ladder.divisor(count=changed.pairs, width=changed.matrix.width))
    whole = (index * int(parts[1]), changed.dim) if parts else (index, f"{divisor:g}")
    return f"{front}{function}({shown} / {changed.base:g}**({whole[0]:g}/{whole[1]}))"


def _at_the_same_place(
    result: Location, best: Fit, stated: Fit, values: Mapping[int, Interval]
) -> str:
    """What the stated formula gives at the position of the best convention."""
    plain = next(iter(readings(result.stated, values, 0, "stated")))
    place = best.positions[0]
    shown = ", ".join(
        f"{g:.{v.places or 7}f}"
        for g, v in zip(predictions(result.stated, plain, place), values.values(), strict=True)
    )
    written = " and ".join(v.text for v in values.values())
    nowhere = f", and {written} nowhere before {_place(stated.positions[0])}"
    counted = isinstance(place, int) and result.within[0] == 0
    at = f"at position {_place(place)}{nowhere if counted else ''}"
    return f"  The formula as stated gives {shown} {at}."


def _uniqueness(result: Location, best: Fit, values: Mapping[int, Interval]) -> Iterator[str]:
    """How many positions fit, and what would leave one."""
    span = "from {} to {}".format(*map(_place, result.within))
    if best.alone:
        yield f"No other position {span} fits under that convention."
        return
    count = f"{len(best.positions):,}" if best.listed == "all" else f"About {best.expected:,.0f}"
    listed = ", ".join(map(_place, best.positions[1:4]))
    yield (
        f"{count} positions {span} fit{' under that convention' if best.convention else ''}; "
        f"the next are {listed}."
    )
    places = [v.places for v in values.values() if v.places is not None]
    if len(values) == 1 and places and len(result.stated.axes) == 1:
        digits = places[0] + math.ceil(math.log10(max(best.expected, 2.0)) + 1)
        yield (
            f"{digits} digits of the number itself, without added zeros, or the value of another "
            "dimension, would leave one."
        )
    else:
        yield "More digits, or values at more dimensions, would leave one."


# --- vectors --------------------------------------------------------------------------------------


def of_vector(result: Location, spread: float | None = None) -> Iterator[str]:
    """The story of a whole vector."""
    low, high = result.within
    best = result.best
    if best is None:
        tried = (
            f"any of {_conventions(result.tried)}" if result.tried > 1 else "the convention stated"
        )
        yield f"No such position from {_place(low)} to {_place(high)}, under {tried}."
        if spread is not None and spread > 0.01:
            yield (
                f"The moduli of its pairs differ by {spread:.0%}; in a row of such a table they "
                "are all the same."
            )
        return
    many = len(best.positions)
    if many == 1:
        yield f"Position {_place(best.positions[0])}{_if(best)}."
    else:
        count = f"{many}" if best.listed == "all" else f"{many} or more"
        listed = ", ".join(map(_place, best.positions[:5]))
        yield f"{count} positions fit{_if(best)}: {listed}{', ...' if many > 5 else ''}"
        yield "A wider vector, more digits or a smaller range would leave one."
    start = getattr(getattr(best.spec, "arrangement", None), "start", 0)
    if start and isinstance(best.positions[0], int):
        yield f"  It is row {best.positions[0] + start} of a table that starts at {start}."
    place, off = best.rival or (None, 0.0)
    rival = f"; the next best, position {_place(place)}, has {off:.2g}" if best.rival else ""
    yield f"  root mean square difference {best.residual:.2g}{rival}"
    yield f"  {_chance(best)}"
    yield from _explained(best)
    if best.convention and result.as_stated is None:
        yield "With the formula as stated, no row fits."
    if (
        getattr(best.spec, "kind", "") == "rotary"
        and isinstance(best.positions[0], int)
        and best.positions[0] < 0
    ):
        yield f"  If pairs turn the other way, it is position {-best.positions[0]}."


# --- both -----------------------------------------------------------------------------------------


def _explained(fit: Fit) -> Iterator[str]:
    """Why people write what a convention does otherwise."""
    for word in fit.convention:
        if word in EXPLANATIONS:
            yield f"{word[0].upper()}{word[1:]}: {EXPLANATIONS[word]}."


def _if(fit: Fit) -> str:
    """`, if A, B and C`."""
    if not fit.convention:
        return ""
    *others, last = sorted(fit.convention, key=lambda word: (word == CUT, word == SWAPPED))
    return f", if {', '.join(others)} and {last}" if others else f", if {last}"


def _chance(fit: Fit) -> str:
    if fit.bits > 50:
        return f"chance alone gives such a match once in 10**{math.floor(fit.bits * math.log10(2))}"
    if fit.bits > 1:
        return f"chance alone gives such a match once in {2.0**fit.bits:,.0f}"
    if fit.bits > -3:
        return f"chance alone gives {fit.chance:.2g} such matches, so this is too little to tell"
    return f"chance alone gives {fit.chance:,.0f} such matches"


def _place(position: Any) -> str:
    if isinstance(position, tuple):
        return "(" + ", ".join("?" if p is None else _place(p) for p in position) + ")"
    return f"{position:,.9g}" if isinstance(position, float) else f"{position:,}"


def _conventions(count: int) -> str:
    return f"{count} conventions" if count > 1 else "1 convention"
