"""Scene: where models of pictures and films put text, a picture and a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc._core.positions.scene import SceneRule
from posenc.detect.explain import from_hf
from posenc.plot.columns import Table
from posenc.plot.palette import EMPTY, LINE
from posenc.plot.panels.grammar import Axis, Heatmap, Matrix
from posenc.plot.panels.text import Tick, number, present
from posenc.plot.rows import require
from posenc.presets import diffusion

# The parts, from the one that lies lowest, by their names in `SceneRule`; each has the style of its
# number, and where another lies below it, is so much smaller than a cell on each side.
PARTS = {"picture": ("image", "video"), "reference": ("reference",), "text": ("text",)}
INSETS = (0.0, 0.2, 0.3)
SIDES = (("h", "y", "height"), ("w", "x", "width"))  # names of the axes of a map
APART = 8  # pixels of a cell from which on there is room between cells
MOST = 512  # tokens of a text, or of a side of a picture
CLASSES = {
    "FLUX.1 Kontext": ("FluxKontextPipeline", "FluxTransformer2DModel"),
    "FLUX.2": ("Flux2Pipeline", "Flux2Transformer2DModel"),
    "Qwen-Image-Edit": ("QwenImageEditPipeline", "QwenImageTransformer2DModel"),
    "LongCat-Image-Edit": ("LongCatImageEditPipeline", "LongCatImageTransformer2DModel"),
    "Lumina 2": ("Lumina2Pipeline", "Lumina2Transformer2DModel"),
    "HunyuanVideo": ("HunyuanVideoPipeline", "HunyuanVideoTransformer3DModel"),
    "Z-Image": ("ZImagePipeline", "ZImageTransformer2DModel"),
    "Wan": ("WanPipeline", "WanTransformer3DModel"),
}
MODELS: Mapping[str, Any] = {
    name: {"_class_name": pipeline, "transformer": {"_class_name": transformer}}
    for name, (pipeline, transformer) in CLASSES.items()
}
DRAWN = 6  # the first of them, unasked: each places a scene in another way


@dataclass(frozen=True)
class PlacedModel:
    """A scene in the coordinates of one model: those of each part, (tokens, axes)."""

    name: str
    axes: tuple[str, ...]
    pairs: tuple[int, ...]  # which each axis turns
    picture: np.ndarray
    reference: np.ndarray
    text: np.ndarray
    lacks: tuple[str, ...]  # parts that it has not, or that do not turn

    @property
    def order(self) -> list[int]:
        """The axes: that of heights, that of widths, and the others."""
        side = {name: n for n, names in enumerate(SIDES) for name in names}
        return sorted(range(len(self.axes)), key=lambda n: side.get(self.axes[n], len(SIDES)))

    def __str__(self) -> str:
        parts = ((part, getattr(self, part)) for part in PARTS)
        shown = (f"{part} {told(self.axes, rows)}" for part, rows in parts if len(rows))
        return "; ".join((*shown, *self.lacks))


@dataclass(frozen=True)
class SceneView:
    """A scene in the coordinates of several models."""

    models: tuple[PlacedModel, ...]
    pixels: int
    title: str
    caption: tuple[str, ...]


def data(
    configs: Any = None,
    *,
    text: int = 6,
    image: tuple[int, int] = (8, 8),
    reference: tuple[int, int] = (6, 4),
    pixels: int = 512,
) -> SceneView:
    """The coordinates of the tokens of a text, a picture and a reference, model by model.

    `configs` are those of diffusers as `posenc.from_hf` reads them, or names of `MODELS`, one or a
    list; six by default. Pictures are rows and columns of tokens; a reference of 0 x 0 is none.
    """
    require(0 < text <= MOST, " scene: text", f"1 to {MOST} tokens", text)
    for name, sides, least in (("image", image, 1), ("reference", reference, 0)):
        fits = all(least <= side <= MOST for side in sides) and any(sides) == all(sides)
        require(fits, f" scene: {name}", f"two sides of {least} to {MOST} tokens", tuple(sides))
    sizes = {"picture": (1, *image), "reference": (1, *reference), "text": text}
    if not any(reference):
        del sizes["reference"]
    several = [*MODELS][:DRAWN] if configs is None else configs
    several = several if isinstance(several, (list, tuple)) else [several]
    require(several, " scene: configs", "at least one config of diffusers", "none")
    models = tuple(_placed(config, sizes) for config in several)
    whole = all(not (getattr(model, part) % 1).any() for model in models for part in PARTS)
    caption = present(
        *(f"{model.name}: {model}." for model in models),
        f"Coordinates as diffusers {diffusion.VERSION} counts them, on one scale; below each map, "
        "a strip for each other axis. Where parts share a place, the smaller lies in the larger.",
        "" if whole else "Cells are those of the nearest whole numbers.",
    )
    words = (f"{' × '.join(map(str, size[1:]))} of {part}" for part, size in [*sizes.items()][:-1])
    return SceneView(models, pixels, f"tokens: {', '.join((*words, f'{text} of text'))}", caption)


def _placed(config: Any, sizes: Mapping[str, Any]) -> PlacedModel:
    """A scene as one model places it, or the reason why not."""
    name = config if isinstance(config, str) and config in MODELS else ""
    plan = from_hf(MODELS.get(name, config))
    sides = [
        (entry.spec, entry.positions)
        for entry in plan
        if isinstance(entry.positions, SceneRule)
        and all({*entry.positions.axes} & {*names} for names in SIDES)
    ]
    expected = "a model of diffusers that counts rows and columns of pictures"
    require(sides, " scene: configs", expected, name or plan.model or "another")
    spec, rule = sides[0]
    has = [part.name for part in rule.parts]
    own = {part: n for part in sizes for n in PARTS[part] if n in has}
    placed = rule.build([(n, sizes[part]) for part, n in own.items()])
    rows = {part: placed[n] for part, n in own.items() if n in placed}
    lacks = {part: f"{part} does not turn" if part in own else f"no {part}" for part in sizes}
    return PlacedModel(
        name or plan.model,
        rule.axes,
        spec.arrangement.layout(spec.pairs).counts,
        *(rows.get(part, np.zeros((0, len(rule.axes)), dtype=np.int64)) for part in PARTS),
        tuple(words for part, words in lacks.items() if part not in rows),
    )


def told(axes: tuple[str, ...], rows: np.ndarray) -> str:
    """Tokens by the least and the largest coordinate on each axis."""
    return ", ".join(
        f"{axis} {number(low)}" + (f" to {number(high)}" if high > low else "")
        for axis, low, high in zip(axes, rows.min(axis=0), rows.max(axis=0), strict=True)
    )


def rows(data: Any) -> Table:
    """The numbers of a .csv."""
    return ["model", "part", "token", "axis", "coordinate"], (
        [model.name, part, token, axis, at]
        for model in data.models
        for part in PARTS
        for token, row in enumerate(getattr(model, part))
        for axis, at in zip(model.axes, row, strict=True)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: SceneView) -> tuple[Matrix]:
    """A map for each model, and below it a strip for each axis that is in no map."""
    every = [(model.order, getattr(model, part)) for model in data.models for part in PARTS]
    low = min(int(np.floor(rows.min(initial=0))) for _, rows in every)
    high = max(int(np.ceil(rows.max(initial=0))) for _, rows in every)
    down = max(int(np.ceil(rows[:, order[0]].max(initial=0))) for order, rows in every)
    thick = max(1, (high - low) // 14)  # of a strip, and of the gap above it, in cells
    first = down + 1 + thick - low
    strips = max(len(order) for order, _ in every) - len(SIDES)
    count = max(high - low + 1, first + 3 * thick * strips - 2 * thick * (strips > 0))
    return (
        Matrix(
            "scene",
            "height × width, and a strip for each other axis",
            tuple(
                _map(model, low, first, thick, count, max(3, data.pixels // count))
                for model in data.models
            ),
            across=3,
            key=tuple((part, style) for style, part in enumerate(PARTS)),
            caption=data.caption[len(data.models)],
        ),
    )


def _map(model: PlacedModel, low: int, first: int, thick: int, count: int, fine: int) -> Heatmap:
    """The cells from `low` on that parts have, `fine` pixels each, and strips from row `first`."""
    down, across, *others = model.order
    strips = [*zip(range(first, count, 3 * thick), others, strict=False)]
    used = np.zeros((len(PARTS), count, count), dtype=bool)
    for own, part in zip(used, PARTS, strict=True):
        places = np.floor(getattr(model, part) + 0.5).astype(np.int64) - low
        own[places[:, down], places[:, across]] = True
        for row, axis in strips:
            own[row : row + thick, places[:, axis]] = True
    tile = np.full((count * fine, count * fine), EMPTY, dtype=np.uint8)
    tile[-low * fine, :] = tile[: first * fine, -low * fine] = LINE
    edge = np.minimum(np.arange(fine), np.arange(fine)[::-1])
    inner = np.minimum.outer(edge, edge)  # pixels to the edge of a cell
    for style, own in enumerate(used):
        below = used[:style].any(axis=0)
        inset = min(round(INSETS[style] * fine), (fine - 1) // 2)
        tile[np.kron(own & ~below, inner >= (fine >= APART))] = style
        tile[np.kron(own & below, inner >= inset)] = style
    named = tuple(Tick(low + row + thick / 2, model.axes[axis]) for row, axis in strips)
    ends = (low, low + count)
    return Heatmap(
        f"scene-{model.name}",
        ": ".join(present(model.name, ", ".join(model.lacks))),
        tile,
        "parts",
        Axis("width", ends, cells=True),
        Axis("height", ends, cells=True, also=named, stop=low + first - thick),
        "",
        "",
        place="full",
        label=f"{model.name}: {model}",
    )
