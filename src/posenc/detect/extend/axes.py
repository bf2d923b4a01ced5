"""Larger pictures and longer films: what each rule does to the pairs of each axis."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc import functional, scaling
from posenc._core.errors import PosencError, bad_argument, bad_data
from posenc._core.numeric.ladder import Ladder
from posenc._core.positions.scene import SceneRule
from posenc._core.spec.answers import Displayed
from posenc.detect.extend.options import LayerExtension, TriedRule, layer_extension
from posenc.detect.extend.rules import Baseline, effect
from posenc.detect.facts import Facts
from posenc.encodings.rotary.rope import RoPE
from posenc.presets import diffusion

GRIDS = ("video", "image")  # the parts of a scene that grow
KEPT = ("none", "given")  # what is there already: `adopt` adds a rule
LEFT_OUT = ("dynamic", "base")  # one length is asked for, and nothing is trained further
SHARED = "The axes have parts of one ladder, so no rule can be put into one of them alone."
UNKNOWN = (
    "Quality is not predicted, and no rule is recommended: none was measured here on pictures or "
    "films. k of RIFLEx is the pair whose period is nearest to the trained length; its authors "
    "look for the frame at which films repeat themselves. DyPE is shown at pure noise, where it "
    "does most."
)


@dataclass(frozen=True)
class AxesExtension(Displayed):
    """What `extend` tells of a diffusion model.

    Parameters
    ----------
    model : str
        The class.
    part : str
        The part of the scene that grows.
    axes : tuple of LayerExtension
        The rotation of each axis, and what each rule does to it; no rules where nothing grows.
    lengths : tuple of int
        How many positions each axis is to have.
    lines : mapping
        The line of Python that puts a rule in, by its name; empty where nothing can be put in.
    notes : tuple of str
        Where tables end, and what a config cannot tell.

    Examples
    --------
    >>> import posenc
    >>> config = {"_class_name": "FluxTransformer2DModel"}
    >>> found = posenc.extend(config, size="128x128", trained="64x64", tokens=True)
    >>> [(axis.name, axis.baseline.trained) for axis in found.axes]
    [('t', 1), ('y', 64), ('x', 64)]
    >>> found.lines["ntk"].partition("scaling=")[2]
    'posenc.scaling.PerAxis((None, posenc.scaling.NTK(2.0), posenc.scaling.NTK(2.0))))'
    """

    model: str
    part: str
    axes: tuple[LayerExtension, ...]
    lengths: tuple[int, ...]
    lines: Mapping[str, str]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON types."""
        axes = [
            {
                "axis": axis.name,
                "trained": axis.baseline.trained,
                "length": length,
                "unseen": {option.name: option.effect.unseen for option in axis.options},
                "left_out": axis.left_out,
            }
            for axis, length in zip(self.axes, self.lengths, strict=True)
        ]
        return {"model": self.model, "part": self.part, "axes": axes,
                "lines": dict(self.lines), "notes": list(self.notes)}  # fmt: skip


def extend_axes(
    about: Facts, *, size: Any, frames: int | None, trained: Any, tokens: bool
) -> AxesExtension:
    """What rules do to the axes of a rotation, from one size of a scene to another."""
    asked = [*_numbers(size, "size", 2), *_numbers(frames, "frames", 1)]
    old = _numbers(trained, "trained", len(asked))
    if not old:
        todo = "No config of diffusers says it: trained='1024x1024', frames last."
        raise bad_argument("extend: trained", "the size that the model was trained on", None, todo)
    reading = about.reading
    scene: Any
    spec: Any
    for layer in reading:
        scene, spec = layer.positions, layer.spec
        parts = [*getattr(scene, "parts", ())] if isinstance(spec, RoPE) else []
        part = next((one.name for one in parts if one.name in GRIDS and one.coordinates), "")
        if part:
            break
    else:
        why = "; ".join(reading.errors) or "none that turns by its rotation"
        raise bad_data("extend", "a picture or film in the scene of a model", why)
    before, after = (_spans(scene, part, numbers, tokens) for numbers in (old, asked))
    axes = []
    for number, (name, start, end) in enumerate(zip(scene.axes, before, after, strict=True)):
        baseline = Baseline(_alone(spec, number), start)
        grows = end > start and bool(baseline.steps.any())
        options, left_out = _tried(baseline, name, end) if grows else ((), {})
        axes.append(LayerExtension(name, baseline, options, left_out, window=False))
    notes = [
        f"{name}: the table of the class ends at {last:,} rows, where {end:,} are needed"
        for name, last, end in zip(scene.axes, scene.ends, after, strict=False)
        if last is not None and end > last
    ]
    configs = (about.config or {}, *(about.config or {}).values())
    classes = [str(one.get("_class_name")) for one in configs if isinstance(one, Mapping)]
    name = next(filter(diffusion.transformer, classes), classes[0])
    leaf = bool(diffusion.rotary_modules(name))
    if not leaf:
        notes.append("No module of the model makes the rotation: hand posenc.cos_sin to forward.")
    shared = any(axis.baseline.spec.ladder.spacing == "explicit" for axis in axes)
    notes += [SHARED] * shared
    lines = _lines(axes) if leaf and not shared else {}
    return AxesExtension(name, part, tuple(axes), after, lines, (*notes, UNKNOWN))


def _numbers(value: Any, name: str, count: int) -> list[int]:
    """The numbers of a size: 1024x1024, 129, (1024, 1024)."""
    if value is None:
        return []
    texts = re.split("[x×]", value) if isinstance(value, str) else [*np.atleast_1d(value)]
    if len(texts) != count or not all(re.fullmatch("[1-9][0-9]{0,8}", str(t)) for t in texts):
        shape = {1: "a number of frames", 2: "WIDTHxHEIGHT", 3: "WIDTHxHEIGHTxFRAMES"}[count]
        raise bad_argument(f"extend: {name}", f"{shape}, as what is asked for", repr(value)[:80])
    return [int(text) for text in texts]


def _spans(scene: SceneRule, part: str, numbers: list[int], tokens: bool) -> tuple[int, ...]:
    """How many positions a grid takes on each axis; what is not asked for is one token."""
    _, tall, wide = (1, 1, 1) if tokens or not scene.pixels else scene.pixels
    width, height = numbers[:2] if len(numbers) > 1 else (wide, tall)
    frames = 1 if len(numbers) == 2 else numbers[-1]
    cells = (frames, height, width)
    if not tokens:
        cells = scene.cells(height=height, width=width, frames=frames)
    rows = scene.replace(ends=()).build([(part, cells)])[part]  # tables may end before
    return tuple(math.ceil(span) + 1 for span in np.ptp(rows, axis=0))


def _alone(spec: RoPE, axis: int) -> RoPE:
    """The pairs of one axis, as a rotation."""
    layout = spec.arrangement.layout(spec.pairs)
    turned = [j for j, a in zip(layout.index, layout.axis, strict=True) if a == axis and j >= 0]
    base = spec.base[axis] if isinstance(spec.base, tuple) else spec.base
    own = RoPE(2 * len(turned) or 2, pairing="half", base=base)
    if turned and turned == [*range(layout.counts[axis])]:
        return own.replace(ladder=spec.ladder, scaling=spec.rules_of(axis))
    of_axis = np.array(
        [a == axis and j >= 0 for a, j in zip(layout.axis, layout.index, strict=True)]
    )
    steps = functional.frequencies(spec)[of_axis].tolist() or [0.0]
    return own.replace(ladder=Ladder(spacing="explicit", frequencies=tuple(steps)))


def _tried(
    baseline: Baseline, axis: str, length: int
) -> tuple[tuple[TriedRule, ...], dict[str, str]]:
    """The rules of longer texts that fit, and that of films or pictures."""
    tried = layer_extension(axis, baseline, length, window=False)
    out = LEFT_OUT if baseline.spec.ladder.spacing == "geometric" else (*LEFT_OUT, "ntk")
    options = [option for option in tried.options if option.name not in out]
    left_out = {key: why for key, why in tried.left_out.items() if key not in LEFT_OUT}
    factor, periods = length / baseline.trained, 2 * np.pi / np.maximum(baseline.steps, 1e-30)
    k = int(np.abs(periods - baseline.trained).argmin()) + 1
    name, label, rule = (
        ("riflex", f"RIFLEx, k={k}", scaling.RIFLEx(k, length))
        if axis == "t"
        else ("dype", "DyPE, noise 1", scaling.DyPE(factor, 1, original_length=baseline.trained))
    )
    try:
        spec = baseline.spec.replace(scaling=(*baseline.spec.scalings, rule))
        seen = effect(baseline, spec, length)
        options.append(TriedRule(name, label, spec, factor, None, None, seen))
    except PosencError as error:
        left_out[name] = str(error)
    return tuple(options), left_out


def _lines(axes: list[LayerExtension]) -> dict[str, str]:
    """For each rule the line of Python that puts it in, on the axes that grow."""
    lines = {}
    for name in dict.fromkeys(o.name for axis in axes for o in axis.options if o.name not in KEPT):
        tried = [axis.option(name) for axis in axes]
        rules: Any = (
            o and (scaling.NTK(o.factor) if o.base else o.spec.scalings[-1]) for o in tried
        )
        rule = re.sub(r"\b(?=[A-Z]\w*\()", "posenc.scaling.", repr(scaling.PerAxis((*rules,))))
        lines[name] = f"posenc.torch.adopt(pipe.transformer, scaling={rule})"
    return lines
