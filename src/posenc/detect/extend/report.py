"""An extension in words, and as data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from posenc.detect.extend.extension import Extension
from posenc.detect.extend.options import LayerExtension, TriedRule

COLUMNS = ("rule", "factor", "unseen", "circle", "lost", "scale", "short", "smallest")
LEGEND = (
    "unseen    slow pairs that reach angles which training did not show",
    "circle    the largest part of a circle that a slow pair enters without training",
    "lost      fast pairs whose step between neighbours changes by over 1 %",
    "scale     the attention factor: it multiplies cosines and sines",
    "short     the largest change of a score within the trained length, over the largest score",
    "smallest  the smallest factor from which no pair reaches an unseen angle",
    "short assumes that each pair carries the same share of a score.",
)


def lines(extension: Extension, width: int = 1000) -> Iterator[str]:
    """The report, a line at a time, with the columns of its table that fit."""
    rule = extension.asked
    own = " with its own scaling" if any(e.baseline.own for e in extension.layers) else ""
    yield (
        f"{extension.model or 'a model without a name'}: trained on {extension.trained:,} "
        f"positions{own}, asked for {extension.length:,}, {_number(extension.factor)} times as many"
    )
    for layer in extension.layers:
        yield from ("", *_layer(layer, extension.length, width))
    yield from ("", *LEGEND, "")
    chosen = extension.rule if rule is None else rule
    label = _label(extension, chosen) if chosen or rule is not None else "no rule"
    yield f"{'first rule, in the order explained below' if rule is None else 'asked for'}: {label}"
    for sentence in extension.reasons if rule is None else extension.reasons[-1:]:
        yield f"  {sentence}"
    if chosen:
        yield f"  {extension.switches(chosen)}"
    if chosen and chosen != "none":
        words, remarks = extension.written(chosen)
        pairs = (text for engine, line in words.items() for text in (engine, f"  {line}"))
        yield from ("", "what to write", *(f"  {line}" for line in (*pairs, *remarks)))
    for note in extension.notes:
        yield f"note: {note}"


def _label(extension: Extension, rule: str) -> str:
    option = next((o for e in extension.layers if not e.window and (o := e.option(rule))), None)
    if option is None or rule == "none":
        return "nothing to write"
    return f"{option.label!r}, with " + (
        f"base {option.base:.9g}" if option.base else f"factor {_number(option.factor)}"
    )


def _layer(layer: LayerExtension, length: int, width: int) -> Iterator[str]:
    baseline, pairs = layer.baseline, layer.baseline.steps.size
    yield (
        f"{layer.name}: {pairs} pairs. Within {baseline.trained:,} positions, "
        f"{int(baseline.slow.sum())} slow pairs complete no turn and {int(baseline.fast.sum())} "
        "fast pairs complete 32 or more."
    )
    if layer.window:
        yield (
            f"  These layers have a window. Distances stay within it at {length:,} positions, so "
            "there is nothing to write."
        )
        return
    rows = [COLUMNS, *(_row(option) for option in layer.options)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    shown = sum(total <= width for total in itertools.accumulate(n + 2 for n in widths))
    for row in rows:
        cells = (
            cell.rjust(width) for cell, width in zip(row[1:shown], widths[1:shown], strict=True)
        )
        yield "  ".join(["", row[0].ljust(widths[0]), *cells])
    none = layer.option("none")
    worst = min(layer.options, key=lambda option: option.effect.resolved)
    if none is not None:
        fewer = worst.effect.resolved < none.effect.resolved
        yield (
            f"  Keys in bfloat16 tell neighbouring positions apart by {none.effect.resolved} of "
            f"{pairs} pairs{f' ({worst.label}: {worst.effect.resolved})' if fewer else ''}: those "
            "that turn by 2**-8 radian or more at each position."
        )
    for name, why in layer.left_out.items():
        yield f"  {name} is left out: {why}"


def _row(option: TriedRule) -> tuple[str, ...]:
    numbers = option.effect
    return (
        option.label,
        _number(option.factor),
        str(numbers.unseen),
        f"{numbers.arc:.2f}",
        str(numbers.lost),
        f"{numbers.attention_factor:.4g}",
        f"{numbers.change:.2f}",
        "-" if option.smallest is None or option.name == "none" else _number(option.smallest),
    )


def _number(x: float) -> str:
    return f"{x:.4g}"
