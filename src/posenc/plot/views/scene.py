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
MODELS: Mapping[str, Any] = {
    name: {"_class_name": pipeline, "transformer": {"_class_name": transformer}}
    for name, pipeline, transformer in (
        ("FLUX.1 Kontext", "FluxKontextPipeline", "FluxTransformer2DModel"),
        ("FLUX.2", "Flux2Pipeline", "Flux2Transformer2DModel"),
        ("Qwen-Image-Edit", "QwenImageEditPipeline", "QwenImageTransformer2DModel"),
        ("LongCat-Image-Edit", "LongCatImageEditPipeline", "LongCatImageTransformer2DModel"),
        ("Lumina 2", "Lumina2Pipeline", "Lumina2Transformer2DModel"),
        ("HunyuanVideo", "HunyuanVideoPipeline", "HunyuanVideoTransformer3DModel"),
        ("Z-Image", "ZImagePipeline", "ZImageTransformer2DModel"),
        ("Wan", "WanPipeline", "WanTransformer3DModel"),
    )
}
DRAWN = 6  # the first of them, unasked: each places a scene in another way


@dataclass(frozen=True)
class PlacedModel:
    """A scene in the coordinates of one model: the part of each token, and where it stands."""

    name: str
    axes: tuple[str, ...]
    pairs: tuple[int, ...]  # which each axis turns
    parts: np.ndarray  # (tokens,): their numbers among `PARTS`
    positions: np.ndarray  # (tokens, axes)
    lacks: tuple[str, ...]  # parts that it has not, or that do not turn

    @property
    def order(self) -> list[int]:
        """The axes: that of heights, that of widths, and the others."""
        return sorted(
            range(len(self.axes)), key=lambda n: [self.axes[n] not in names for names in SIDES]
        )

    def of(self, part: str) -> np.ndarray:
        """The positions of a part; none where the model lacks it."""
        return self.positions[self.parts == [*PARTS].index(part)]

    def __str__(self) -> str:
        parts = (f"{part} {told(self.axes, self.of(part))}" for part in PARTS if len(self.of(part)))
        return "; ".join((*parts, *self.lacks))


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
    sizes: dict[str, Any] = {"picture": (1, *image), "reference": (1, *reference), "text": text}
    sizes = {part: size for part, size in sizes.items() if np.any(size)}
    several = list(MODELS)[:DRAWN] if configs is None else configs
    several = several if isinstance(several, (list, tuple)) else [several]
    require(several, " scene: configs", "at least one config of diffusers", "none")
    models = tuple(_placed(config, sizes) for config in several)
    words = (f"{part} {' × '.join(map(str, np.ravel(sizes[part])[-2:]))}" for part in sizes)
    caption = present(
        *(f"{model.name}: {model}." for model in models),
        f"Coordinates as diffusers {diffusion.VERSION} counts them, on one scale; below each map, "
        "a strip for each other axis. Where parts share a place, the smaller lies in the larger.",
        "Coordinates are drawn at the nearest whole number."
        if any((model.positions % 1).any() for model in models)
        else "",
    )
    return SceneView(models, pixels, f"tokens: {', '.join(words)}", caption)


def _placed(config: Any, sizes: Mapping[str, Any]) -> PlacedModel:
    """A scene as one model places it, or the reason why not."""
    name = config if isinstance(config, str) and config in MODELS else ""
    plan = from_hf(MODELS.get(name, config))
    rules: list[Any] = [
        (entry.spec, entry.positions)
        for entry in plan
        if isinstance(entry.positions, SceneRule)
        and all({*entry.positions.axes} & {*names} for names in SIDES)
    ]
    expected = "a model of diffusers that counts rows and columns of pictures"
    require(rules, " scene: configs", expected, name or plan.model or "another")
    spec, rule = rules[0]
    has = [part.name for part in rule.parts]
    own = {part: n for part in sizes for n in PARTS[part] if n in has}
    placed = rule.build([(n, sizes[part]) for part, n in own.items()])
    shown = [part for part in own if own[part] in placed]
    return PlacedModel(
        name or plan.model,
        rule.axes,
        spec.arrangement.layout(spec.pairs).counts,
        np.repeat([[*PARTS].index(part) for part in shown], [len(placed[own[p]]) for p in shown]),
        np.concatenate([placed[own[part]] for part in shown]),
        tuple(
            f"{part} does not turn" if part in own else f"no {part}"
            for part in sizes
            if part not in shown
        ),
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
        for token, row in enumerate(model.of(part))
        for axis, at in zip(model.axes, row, strict=True)
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(data: SceneView) -> tuple[Matrix]:
    """A map for each model, and below it a strip for each axis that is in no map."""
    models = data.models
    low = min(0, *(int(np.floor(model.positions.min())) for model in models))
    high = max(int(np.ceil(model.positions.max())) for model in models) + 1
    down = max(int(np.ceil(model.positions[:, model.order[0]].max())) for model in models) + 1
    thick = max(1, (high - low) // 14)  # of a strip, and of the gap above the first, in cells
    last = max(len(model.axes) for model in models) - len(SIDES) - 1
    ends = (low, max(high, down + (2 + 3 * last) * thick))
    fine = max(3, data.pixels // (ends[1] - low))
    return (
        Matrix(
            "scene",
            "height × width, and a strip for each other axis",
            tuple(_map(model, ends, down + thick, thick, fine) for model in models),
            across=3,
            key=tuple((part, style) for style, part in enumerate(PARTS)),
            caption=data.caption[len(models)],
        ),
    )


def _map(model: PlacedModel, ends: tuple[int, int], first: int, thick: int, fine: int) -> Heatmap:
    """The coordinates that parts have, `fine` pixels each; strips begin in the row of `first`."""
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
        _tile(used, (-low, first - low), fine),
        "parts",
        Axis("width", ends, cells=True),
        Axis(
            "height",
            ends,
            cells=True,
            also=tuple(Tick(low + row + thick / 2, model.axes[axis]) for row, axis in strips),
            stop=first - thick,
        ),
        "",
        "",
        place="full",
        label=f"{model.name}: {model}",
    )


def _tile(used: np.ndarray, rules: tuple[int, int], fine: int) -> np.ndarray:
    """Cells in pixels, with a thin line down and across at 0, as far down as maps go."""
    edge = np.minimum(np.arange(fine), np.arange(fine)[::-1])
    inner = np.minimum.outer(edge, edge)  # pixels to the edge of a cell
    tile = np.full([side * fine for side in used[0].shape], EMPTY, dtype=np.uint8)
    tile[rules[0] * fine, :] = tile[: rules[1] * fine, rules[0] * fine] = LINE
    for style, own in enumerate(used):
        below = used[:style].any(axis=0)
        inset = min(round(INSETS[style] * fine), (fine - 1) // 2)
        tile[np.kron(own & ~below, inner >= (fine >= APART))] = style
        tile[np.kron(own & below, inner >= inset)] = style
    return tile
