"""Larger pictures and longer films: what each rule does to the pairs of each axis."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc import scaling
from posenc._core.errors import bad_argument, bad_data
from posenc._core.positions.scene import SceneRule
from posenc.detect.extend.extension import Extension
from posenc.detect.extend.options import LayerExtension, layer_extension
from posenc.detect.extend.rules import Baseline, ExtendingRule
from posenc.detect.facts import Facts
from posenc.encodings.rotary.rope import RoPE

GRIDS = ("video", "image")  # the parts of a scene that grow
DYPE = ExtendingRule(
    "DyPE, noise 1", lambda factor, trained: scaling.DyPE(factor, 1, original_length=trained)
)
UNKNOWN = (
    "Quality is not predicted, and no rule is recommended: none was measured here on pictures or "
    "films. DyPE is shown at pure noise, where it does most. RIFLEx is shown for the first pair of "
    "time that completes no turn in training, as that of its authors for HunyuanVideo and "
    "CogVideoX-5B; it is the one in whose period films repeat themselves, which films alone show."
)


@dataclass(frozen=True)
class AxesExtension(Extension):
    """What `extend` found of a diffusion model: its layers are the axes that grow.

    `lines` has the line of Python that puts a rule in: no code of diffusers reads a config's.

    Parameters
    ----------
    model : str
        The class of the model, or of its pipeline.
    trained, length : int
        Positions of the axis that grows most, in training and now.
    layers : tuple of LayerExtension
        The axes that grow.
    rule : str
        Empty, as none is recommended.
    reasons, notes : tuple of str
        What is not known; which pairs meet unseen angles, and where tables end.
    source, architecture : None and str
        Nothing is written into a config.
    asked : str, optional
        The rule that the caller wants.
    pairings : dict
        Of models with one axis alone; empty here.
    axes : tuple of str
        All axes of the model.

    Examples
    --------
    >>> import posenc
    >>> config = {"_class_name": "FluxTransformer2DModel"}
    >>> found = posenc.extend(config, size="128x64", trained="64x64", tokens=True)
    >>> [(axis.name, axis.option("none").effect.unseen) for axis in found.layers]
    [('x', 20)]
    >>> found.lines("ntk")["posenc"].partition("scaling=")[2]
    'posenc.scaling.PerAxis((None, None, posenc.scaling.NTK(2.0))))'
    """

    axes: tuple[str, ...] = ()

    def switches(self, rule: str | None = None) -> str:
        """What a rule is for."""
        self.wanted(rule)
        return "Each size, and each step of DyPE, has a rule of its own."

    def written(self, rule: str | None = None) -> tuple[dict[str, str], tuple[str, ...]]:
        """The line of Python that puts a rule in, where it is no larger one of the config's own."""
        self.wanted(rule)
        if (name := rule or self.asked or self.rule) in ("none", "given"):
            return {}, ()
        tried = {axis.name: axis.option(name) for axis in self.layers}
        rules: Any = (
            o and (scaling.NTK(o.factor) if o.base else o.spec.scalings[-1])
            for o in map(tried.get, self.axes)
        )
        text = re.sub(r"\b(?=[A-Z]\w*\()", "posenc.scaling.", repr(scaling.PerAxis((*rules,))))
        return {"posenc": f"posenc.torch.adopt(pipe.transformer, scaling={text})"}, ()


def extend_axes(
    about: Facts, *, size: Any, frames: int | None, trained: Any, tokens: bool, rule: str | None
) -> AxesExtension:
    """What rules do to the axes of a rotation, from one size of a scene to another."""
    reading = about.reading
    grids = [
        (layer.spec, layer.positions, part.name)
        for layer in reading
        if isinstance(layer.spec, RoPE) and isinstance(layer.positions, SceneRule)
        for part in layer.positions.parts
        if part.name in GRIDS and part.coordinates
    ]
    if not grids:
        raise bad_data(
            "extend",
            "a picture or film in the scene of a model",
            "; ".join(reading.errors) or "none that turns by its rotation",
        )
    spec, scene, part = grids[0]
    asked = [*_numbers(size, "size", 2), *_numbers(frames, "frames", 1)]
    ends = zip(
        *(
            _spans(scene, part, numbers, tokens)
            for numbers in (_numbers(trained, "trained", len(asked)), asked)
        ),
        strict=True,
    )
    spans = dict(zip(scene.axes, ends, strict=True))
    layers = tuple(
        _layer(name, Baseline(_alone(spec, axis), start), end)
        for axis, (name, (start, end)) in enumerate(spans.items())
        if end > start
    )
    if not layers:
        raise bad_argument("extend: size", "more than that of training", f"{spans}")
    slow = ((axis.name, axis.baseline.slow.nonzero()[0]) for axis in layers)
    notes = [f"{k}: pairs {j[0]} to {j[-1]} meet unseen angles" for k, j in slow if j.size]
    notes += [
        f"{name}: the table of the class ends at {last:,} rows, where {spans[name][1]:,} are needed"
        for name, last in zip(scene.axes, scene.ends, strict=False)
        if last is not None and spans[name][1] > last
    ]
    start, end = max(spans.values(), key=lambda pair: pair[1] / pair[0])
    extension = AxesExtension(
        reading.model,
        start,
        end,
        layers,
        "",
        (UNKNOWN,),
        (*notes,),
        None,
        "",
        rule,
        axes=scene.axes,
    )
    if rule is not None:
        extension.wanted()  # an unknown rule is told at once
    return extension


def _layer(name: str, baseline: Baseline, length: int) -> LayerExtension:
    """The rules for one axis: those of texts, DyPE and, for time, RIFLEx."""
    more, slow = {"dype": DYPE}, baseline.slow.nonzero()[0] + 1
    if name == "t" and slow.size:
        more["riflex"] = ExtendingRule(
            f"RIFLEx, k {slow[0]}",
            lambda factor, trained: scaling.RIFLEx(int(slow[0]), round(factor * trained)),
        )
    return layer_extension(name, baseline, length, window=False, more=more)


def _numbers(value: Any, name: str, count: int) -> list[int]:
    """The numbers of a size: 1024x1024, 129, (1024, 1024)."""
    if value is None and name != "trained":
        return []
    texts = re.split("[x×]", value) if isinstance(value, str) else [*np.atleast_1d(value)]
    if len(texts) != count or not all(re.fullmatch("[1-9][0-9]{0,8}", str(t)) for t in texts):
        shape = {1: "frames", 2: "width x height", 3: "width x height x frames"}[count]
        raise bad_argument(
            f"extend: {name}",
            f"{shape}, as what is asked for",
            repr(value)[:80],
            "No config of diffusers says it." if value is None else "",
        )
    return [int(text) for text in texts]


def _spans(scene: SceneRule, part: str, numbers: list[int], tokens: bool) -> tuple[int, ...]:
    """How many positions a grid takes on each axis; what is not asked for is one token."""
    _, tall, wide = (1, 1, 1) if tokens or not scene.pixels else scene.pixels
    width, height = numbers[:2] if len(numbers) > 1 else (wide, tall)
    cells = (1 if len(numbers) == 2 else numbers[-1], height, width)
    if not tokens:
        cells = scene.cells(height=height, width=width, frames=cells[0])
    placed = scene.replace(ends=()).build([(part, cells)])  # tables may end before
    return tuple(math.ceil(span) + 1 for span in np.ptp(placed[part], axis=0))


def _alone(spec: RoPE, axis: int) -> RoPE:
    """The pairs of one axis, as a rotation."""
    layout = spec.arrangement.layout(spec.pairs)
    turned = [j for j, a in zip(layout.index, layout.axis, strict=True) if a == axis]
    if turned != [*range(layout.counts[axis])]:
        raise bad_data(
            "extend",
            "axes with ladders of their own",
            "one that they share",
            "Then one rule is for all axes, or their positions are scaled.",
        )
    return RoPE(
        2 * len(turned),
        pairing="half",
        base=spec.base,
        ladder=spec.ladder,
        scaling=spec.rules_of(axis),
    )
