"""Scene: where models of pictures and films put text, a picture and a reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.errors import suggest
from posenc._core.positions.counting import is_count
from posenc._core.positions.scene import SceneRule
from posenc.detect.facts import explain
from posenc.plot.columns import Table
from posenc.plot.palette import EMPTY, LINE
from posenc.plot.panels.grammar import Axis, Heatmap, Matrix
from posenc.plot.panels.text import Described, Tick, number, present
from posenc.plot.rows import require
from posenc.presets import diffusion

# The parts, from the one that lies lowest, by their names in `SceneRule`. The number of a part is
# that of its style.
PARTS = {"picture": ("image", "video"), "reference": ("reference",), "text": ("text",)}
SIDES = (("h", "y", "height"), ("w", "x", "width"))  # names of the axes of a map
PIXELS = 200  # of a map, about; a sign has the shape of its cell however fine it is drawn
MOST = 512  # tokens of a text, or of a side of a picture
FARTHEST = 2048  # cells from the least coordinate to the largest
# Six models, each of which places a scene in another way.
MODELS: dict[str, Any] = {
    name: {"_class_name": pipeline, "transformer": {"_class_name": transformer}}
    for name, pipeline, transformer in (
        ("FLUX.1 Kontext", "FluxKontextPipeline", "FluxTransformer2DModel"),
        ("FLUX.2", "Flux2Pipeline", "Flux2Transformer2DModel"),
        ("Qwen-Image-Edit", "QwenImageEditPipeline", "QwenImageTransformer2DModel"),
        ("LongCat-Image-Edit", "LongCatImageEditPipeline", "LongCatImageTransformer2DModel"),
        ("Lumina 2", "Lumina2Pipeline", "Lumina2Transformer2DModel"),
        ("HunyuanVideo", "HunyuanVideoPipeline", "HunyuanVideoTransformer3DModel"),
    )
}


@dataclass(frozen=True)
class PlacedModel:
    """A scene in the coordinates of one model: the part of each token, and where it stands."""

    name: str
    axes: tuple[str, ...]
    order: tuple[int, ...]  # of the axes: that of heights, that of widths, the others
    pairs: tuple[int, ...]  # which each axis turns
    parts: np.ndarray  # (tokens,): their numbers among `PARTS`
    positions: np.ndarray  # (tokens, axes)
    lacks: tuple[str, ...]  # parts that it has not, or that do not turn


@dataclass(frozen=True)
class SceneView(Described):
    """A scene in the coordinates of several models."""

    models: tuple[PlacedModel, ...]


def data(
    configs: Any = None,
    *,
    text: int = 6,
    image: tuple[int, int] = (8, 8),
    reference: tuple[int, int] = (6, 4),
) -> SceneView:
    """The coordinates of the tokens of a text, a picture and a reference, model by model.

    `configs` are those of diffusers as `posenc.from_hf` reads them, or names of `MODELS`, one or a
    list; six by default. Pictures are rows and columns of tokens; a reference of 0 x 0 is none.
    """
    fits = is_count(text) and 0 < text <= MOST
    require(fits, " scene: text", f"1 to {MOST} tokens", repr(text))
    for name, sides, least in (("image", image, 1), ("reference", reference, 0)):
        counts = np.shape(sides) == (2,) and all(map(is_count, sides)) and any(sides) == all(sides)
        fits = counts and least <= min(sides) <= max(sides) <= MOST
        require(fits, f" scene: {name}", f"two sides of {least} to {MOST} tokens", repr(sides))
    sizes = {
        part: (1, *sides)
        for part, sides in (("picture", image), ("reference", reference))
        if any(sides)
    } | {"text": text}
    several = list(MODELS) if configs is None else configs
    models = tuple(
        _placed(config, sizes)
        for config in (several if isinstance(several, (list, tuple)) else [several])
    )
    require(models, " scene: configs", "at least one config of diffusers", "none")
    every = np.concatenate([model.positions.ravel() for model in models])
    require(
        np.ptp(every) <= FARTHEST,
        " scene: configs",
        f"coordinates at most {FARTHEST} apart, as one map shows all",
        number(np.ptp(every)),
    )
    return SceneView(
        models,
        title=", ".join(
            f"{part} {' × '.join(map(str, np.ravel(n)[-2:]))}" for part, n in sizes.items()
        ),
        caption=present(
            *(f"{model.name}: {_words(model)}." for model in models),
            f"Tokens as diffusers {diffusion.VERSION} counts them, on one scale; below each map, a "
            "strip for each other axis. Where parts share a place, the smaller lies in the larger.",
            "Coordinates are drawn at the nearest whole number." if (every % 1).any() else "",
        ),
    )


def _placed(config: Any, sizes: dict[str, Any]) -> PlacedModel:
    """A scene as one model places it, or the reason why not."""
    text = config if isinstance(config, str) else "{"
    name = text if text in MODELS else ""
    require(
        name or "{" in text or ("\0" not in text and Path(text).exists()),
        " scene: configs",
        "a config of diffusers, its file or the name of a model",
        repr(config)[:80],
        suggest(config, MODELS),
    )
    plan = explain(MODELS.get(name, config))
    rules: list[Any] = [
        (entry.spec, entry.positions)
        for entry in plan
        if isinstance(entry.positions, SceneRule)
        and all({*entry.positions.axes} & {*names} for names in SIDES)
    ]
    require(
        rules,
        " scene: configs",
        "a model of diffusers that counts rows and columns of pictures",
        name or plan.model or "another",
    )
    spec, rule = rules[0]
    own = {part: one.name for part in sizes for one in rule.parts if one.name in PARTS[part]}
    placed = rule.build([(n, sizes[part]) for part, n in own.items()])
    shown = [part for part in own if own[part] in placed]
    return PlacedModel(
        name or plan.model,
        rule.axes,
        tuple(
            sorted(
                range(len(rule.axes)), key=lambda n: [rule.axes[n] not in names for names in SIDES]
            )
        ),
        spec.arrangement.layout(spec.pairs).counts,
        np.repeat([[*PARTS].index(part) for part in shown], [len(placed[own[p]]) for p in shown]),
        np.concatenate([placed[own[part]] for part in shown]),
        tuple(
            f"{part} does not turn" if part in own else f"no {part}"
            for part in sizes
            if part not in shown
        ),
    )


def _words(model: PlacedModel) -> str:
    shown = ((part, model.positions[model.parts == n]) for n, part in enumerate(PARTS))
    return "; ".join(
        (*(f"{part} {ranges(model.axes, rows)}" for part, rows in shown if len(rows)), *model.lacks)
    )


def ranges(axes: tuple[str, ...], positions: np.ndarray) -> str:
    """Tokens by the least and the largest coordinate on each axis."""
    return ", ".join(
        f"{axis} {number(low)}" + (f" to {number(high)}" if high > low else "")
        for axis, low, high in zip(axes, positions.min(0), positions.max(0), strict=True)
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["model", "part", "token", "axis", "coordinate"], (
        [model.name, [*PARTS][part], token, axis, at]
        for model in data.models
        for token, part in enumerate(model.parts)
        for axis, at in zip(model.axes, model.positions[token], strict=True)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: SceneView) -> tuple[Matrix]:
    """A map for each model, and below it a strip for each axis that is in no map."""
    low = min(0, *(int(np.floor(model.positions.min())) for model in data.models))
    high = max(int(np.ceil(model.positions.max())) for model in data.models) + 1
    down = max(int(np.ceil(m.positions[:, m.order[0]].max())) for m in data.models) + 1
    thick = max(1, (high - low) // 14)  # of a strip, and of the gap above the first, in cells
    strips = max(len(model.axes) for model in data.models) - len(SIDES)
    ends = (low, max(high, down + (3 * strips - 1) * thick))
    return (
        Matrix(
            "scene",
            "height × width, and a strip for each other axis",
            tuple(_map(model, ends, down + thick, thick) for model in data.models),
            across=3,
            key=tuple((part, style) for style, part in enumerate(PARTS)),
            caption=data.caption[len(data.models)],
        ),
    )


def _map(model: PlacedModel, ends: tuple[int, int], first: int, thick: int) -> Heatmap:
    """The coordinates that parts have from end to end; strips begin in the row of `first`."""
    (down, across, *others), (low, high) = model.order, ends
    strips = [*zip(range(first - low, high - low, 3 * thick), others, strict=False)]
    places = np.floor(model.positions + 0.5).astype(np.int64).T - low
    used = np.zeros((len(PARTS), high - low, high - low), dtype=bool)
    used[model.parts, places[down], places[across]] = True
    for row, axis in strips:
        used[model.parts, row : row + thick, places[axis]] = True
    return Heatmap(
        f"scene-{model.name}",
        ": ".join(present(model.name, ", ".join(model.lacks))),
        _tile(used, (-low, first - low)),
        "parts",
        Axis("width", ends, cells=True),
        Axis(
            "height",
            ends,
            cells=True,
            also=tuple(Tick(low + row + thick / 2, model.axes[axis]) for row, axis in strips),
        ),
        "",
        "",
        place="full",
    )


def _tile(used: np.ndarray, rules: tuple[int, int]) -> np.ndarray:
    """Cells in pixels, with a thin line down and across at 0, as far down as maps go."""
    fine = max(3, PIXELS // len(used[0]))
    edge = np.minimum(np.arange(fine), np.arange(fine)[::-1])
    inner = np.minimum.outer(edge, edge)  # pixels to the edge of a cell
    tile = np.full([side * fine for side in used[0].shape], EMPTY, dtype=np.uint8)
    tile[rules[0] * fine, :] = tile[: rules[1] * fine, rules[0] * fine] = LINE
    gap = fine // 8
    insets = (gap, gap + max(1, gap), gap + max(1, gap) + fine // 10)
    for style, own in enumerate(used):
        below = used[:style].any(axis=0)
        for cells, inset in ((own & ~below, gap), (own & below, insets[style])):
            tile[np.kron(cells, inner >= inset)] = style
    return tile
