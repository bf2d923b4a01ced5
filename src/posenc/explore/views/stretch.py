"""Stretch: what the rules that extend a context do to each pair, and what that costs."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc.detect.extend.engines import DRAFT, lines_of, wanted_of
from posenc.explore import snippets
from posenc.explore.state.catalogue import held
from posenc.explore.state.entry import Chosen
from posenc.explore.state.fields import Option, choice, integer, real, short, switch
from posenc.explore.state.scene import Page, Scene, ViewShape
from posenc.explore.views.waves import pair_axis
from posenc.plot.columns import pairs_of_rotation
from posenc.plot.panels.grammar import (
    Axis,
    Block,
    Chart,
    Datum,
    Heading,
    Panel,
    Prose,
    stops,
    under,
)
from posenc.plot.panels.text import number, plural, signed, whole
from posenc.plot.views import loss, stretch

TRAINED = integer(
    "Lt",
    "Trained length",
    4096,
    1,
    2**31,
    scale="log",
    hint="That of the model, where it says one.",
)
FACTOR = real("f", "Stretch factor", 8, 1, stretch.LARGEST_FACTOR, scale="log", plays=True)
RULE = choice(
    "rule",
    "Rule in the readout",
    tuple(Option(name, label) for name, label in stretch.RULES.items()),
    "yarn",
    hint="LongRoPE's divisors are measured for each model: posenc explore config.json shows them.",
)


def usual(chosen: Chosen) -> dict[str, str]:
    """The trained length and the factor of the model itself."""
    extent = stretch.extent(chosen.spec, chosen.entry.length)
    return {"Lt": str(extent.original_length), "f": short(extent.factor)}


LOSS = ("rule", "loss")  # the controls of losses
SHAPE = ViewShape(
    "stretch",
    "Stretch",
    "What changes when the context gets longer?",
    "rope",
    (
        TRAINED,
        FACTOR,
        RULE,
        switch(
            "loss",
            "Loss of trained models",
            hint="Of small models, read at 8 times the length that they were trained on.",
        ),
    ),
    cursor=("j",),
    usual=usual,
    first=("f", "rule", "loss"),
    # Where losses are drawn: all but their rule, as the models were trained with one rotation.
    dead=lambda scene: (
        field.key for field, _ in scene.fields if scene["loss"] and field.key not in LOSS
    ),
)


@functools.lru_cache(maxsize=64)
def _stretch(spec: Any, trained: int, factor: float) -> stretch.Stretch:
    return stretch.data(spec, original_length=trained, factor=factor)


def show(scene: Scene) -> Page:
    """Wavelengths and stretch of each pair, and the counts; or the losses."""
    if scene["loss"]:
        return _losses(scene)
    data = _stretch(scene.a.spec, scene["Lt"], scene["f"])
    table = held(scene.a, data.length)
    pair = int(pairs_of_rotation(table.spec).pair[scene["j"]])
    chosen = next((r for r in data.rules if r.name == scene["rule"]), data.rules[0])
    pairs = len(data.rules[0].stretch)
    return Page(
        lead=_lead(data),
        panels=tuple(_panels(data, pair_axis(table, len(chosen.stretch), pair), pair, chosen)),
        readout=(
            Heading(f"{chosen.label}, pair {pair}"),
            Datum("Stretch", _times(float(chosen.stretch[pair]))),
            Datum("Wavelength before", _length(float(data.rules[0].wavelengths[pair]))),
            Datum("Wavelength after", _length(float(chosen.wavelengths[pair]))),
            *(_lines(data, chosen.name) if chosen.name not in ("none", "given") else ()),
            *(_ramps(data) if chosen.name.startswith("yarn") else ()),
        ),
        say=f"Pair {pair}: {chosen.label} stretches it {_times(float(chosen.stretch[pair]))}, from "
        f"{_length(float(data.rules[0].wavelengths[pair]))} positions to "
        f"{_length(float(chosen.wavelengths[pair]))}",
        cursor={"x": stops("j", scene["j"], 0, table.width - 1)},
        python=snippets.stretch(scene, chosen.name, data),
        table={
            "caption": "the stretch of some pairs",
            "columns": ["pair", *(rule.label for rule in data.rules)],
            "rows": [
                [str(i), *(signed(float(rule.stretch[i]), 4) for rule in data.rules)]
                for i in np.unique(np.linspace(0, pairs - 1, min(20, pairs)).astype(int)).tolist()
            ],
        },
        problems=_left_out(data, scene["rule"]),
        paper=("stretch", {"original_length": scene["Lt"], "factor": scene["f"]}),
    )


def _losses(scene: Scene) -> Page:
    """The losses of small models, and the pairs of their RoPE."""
    rule = _measured(scene["rule"])
    view = loss.data(rule)
    losses, far = view.losses, view.losses.length // view.losses.trained
    words = loss.lead(view)
    missing = f"{stretch.RULES[scene['rule']]}: its loss was not measured. Drawn with YaRN."
    columns, rows = loss.rows(view)
    return Page(
        title="A model fails and is repaired",
        lead=words,
        panels=loss.panels(view),
        readout=(
            Heading(f"Loss before {losses.trained} and before {losses.length}"),
            *(
                Datum(label, f"{signed(view.at(name, 1), 2)} → {signed(view.at(name, far), 2)}")
                for name, label in loss.LABELS.items()
            ),
        ),
        say=words,
        python="from posenc.plot.views import loss\n"
        f"view = loss.data({rule!r})\nview.losses.curves",
        table={
            "caption": "the loss of each encoding along the text",
            "columns": columns,
            "rows": [[str(cell) for cell in row] for row in rows],
        },
        problems=() if rule in (scene["rule"], SAME.get(scene["rule"])) else (("rule", missing),),
        paper=("stretch", {"rules": (rule,), "loss": True}),
    )


# Rules with the angles of another at a length that is known beforehand.
SAME = {"dynamic": "ntk"}


def _measured(rule: str) -> str:
    """The rule whose losses are drawn."""
    rule = SAME.get(rule, rule)
    return rule if rule in loss.LABELS else loss.USUAL


def _times(x: float) -> str:
    return f"×{number(x, 3)}"


def _length(x: float) -> str:
    return number(x) if math.isfinite(x) else "endless"


def _left_out(data: stretch.Stretch, rule: str) -> tuple[tuple[str, str], ...]:
    if rule in data.left_out:
        return (("rule", data.left_out[rule]),)
    return (
        (("rule", "This encoding has no rule of its own; a config.json may have."),)
        if rule == "given" and all(r.name != "given" for r in data.rules)
        else ()
    )


def _lead(data: stretch.Stretch) -> str:
    return (
        (
            f"Every pair finished a turn within {whole(data.original_length)} positions, so "
            "longer contexts bring no angle that training did not show."
        )
        if not data.slow
        else (
            "The new length is the trained one, so no pair meets a new angle."
            if data.factor == 1
            else f"{plural(data.slow, 'slow pair')} never finished a turn in training. To meet "
            f"only angles they know, they must stretch by the full ×{number(data.factor)}. Fast "
            "pairs should stay at ×1, so that neighbours keep their step."
        )
    )


def _panels(data: stretch.Stretch, x: Axis, pair: int, chosen: stretch.Rule) -> Iterator[Panel]:
    """The panels of the picture, with a point on the curves of the chosen rule."""
    for panel in stretch.panels(data, chosen.name):
        if isinstance(panel, Chart):
            yield under(
                replace(panel, x=replace(x, label=panel.x.label)),
                pair,
                to=float(getattr(chosen, panel.id)[pair]),
            )
        else:
            yield panel


def _ramps(data: stretch.Stretch) -> Iterator[Prose]:
    """What YaRN multiplies, and where its two ramps are farthest apart."""
    yield Prose("0.1 ln s + 1. It multiplies cos and sin, so scores grow by its square.")
    by_name = {rule.name: rule.stretch for rule in data.rules}
    code, paper = by_name.get("yarn"), by_name.get("yarn_paper")
    if code is not None and paper is not None and data.factor > 1:
        ratio = code / paper
        at = int(np.argmax(np.where(ratio > 0, np.abs(np.log(ratio)), 0.0)))
        yield Prose(
            "YaRN's ramp is linear in turns in the paper, in the index of the pair in the code: at "
            f"pair {at} they stretch {_times(float(paper[at]))} and "
            f"{_times(float(code[at]))}."
        )


def _lines(data: stretch.Stretch, name: str) -> list[Block]:
    """What engines are told for the rule; a config has more, and `posenc extend` reads it."""
    wanted = wanted_of(data.plain, name, data.factor, data.original_length, data.length)
    heading = Heading("What to write")
    if wanted is None:
        return [heading, Prose("No engine has this rule.")]
    lines, remarks = lines_of(None, wanted)
    # What becomes of a draft model is told by `posenc extend`, which knows the model.
    kept = [Prose(remark) for remark in remarks if not remark.startswith(DRAFT)]
    return [heading, *(Datum(*line) for line in lines.items()), *kept]
