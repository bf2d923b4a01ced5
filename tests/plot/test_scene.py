"""A scene in the coordinates of models: against plain loops, and its cells pixel by pixel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from posenc._core.errors import ArgumentError, DataError
from posenc.plot import palette
from posenc.plot.views import scene

TEXT, IMAGE, REFERENCE = 5, (4, 6), (3, 2)


def grid(rows: int, columns: int, place: Any) -> list[tuple[int, ...]]:
    return [place(h, w) for h, w in itertools.product(range(rows), range(columns))]


# What each model's own code makes of the scene: picture, reference, text; none does not turn.
EXPECTED: dict[str, tuple[list[tuple[int, ...]], ...]] = {
    "FLUX.1 Kontext": (
        grid(4, 6, lambda h, w: (0, h, w)),
        grid(3, 2, lambda h, w: (1, h, w)),
        [(0, 0, 0)] * 5,
    ),
    "FLUX.2": (
        grid(4, 6, lambda h, w: (0, h, w, 0)),
        grid(3, 2, lambda h, w: (10, h, w, 0)),
        [(0, 0, 0, n) for n in range(5)],
    ),
    "Qwen-Image-Edit": (
        grid(4, 6, lambda h, w: (0, h - 2, w - 3)),
        grid(3, 2, lambda h, w: (1, h - 2, w - 1)),
        [(3 + n,) * 3 for n in range(5)],
    ),
    "LongCat-Image-Edit": (
        grid(4, 6, lambda h, w: (1, 5 + h, 5 + w)),
        grid(3, 2, lambda h, w: (2, 5 + h, 5 + w)),
        [(0, n, n) for n in range(5)],
    ),
    "Lumina 2": (grid(4, 6, lambda h, w: (5, h, w)), [], [(n, 0, 0) for n in range(5)]),
    "HunyuanVideo": (grid(4, 6, lambda h, w: (0, h, w)), [], []),
}


@pytest.fixture(scope="module")
def view() -> scene.SceneView:
    return scene.data(text=TEXT, image=IMAGE, reference=REFERENCE)


def test_tokens_stand_where_the_models_put_them(view: scene.SceneView) -> None:
    assert [model.name for model in view.models] == list(EXPECTED)
    for model in view.models:
        parts = EXPECTED[model.name]
        for number, places in enumerate(parts):
            own = model.positions[model.parts == number]
            expected = np.array(places, dtype=np.int64).reshape(-1, len(model.axes))
            np.testing.assert_array_equal(own, expected, err_msg=f"{model.name}, {number}")
        assert sum(model.pairs) in (64, 48)
        assert len(model.lacks) == sum(not places for places in parts)
    assert view.models[5].lacks == ("no reference", "text does not turn")
    assert "Qwen-Image-Edit: picture t 0, h −2 to 1, w −3 to 2; reference t 1" in view.caption[2]


def test_every_cell_has_the_signs_of_its_tokens(view: scene.SceneView) -> None:
    """The lowest part at the edge of a cell, the highest in the middle, nothing elsewhere."""
    (panel,) = scene.panels(view)
    low, high = (int(end) for end in panel.cells[0].x.domain)
    fine = len(panel.cells[0].tile) // (high - low)
    for cell, model in zip(panel.cells, view.models, strict=True):
        down, across, *others = model.order
        signs: dict[tuple[int, int], list[int]] = {}
        for part, place in zip(model.parts.tolist(), model.positions.tolist(), strict=True):
            signs.setdefault((place[down], place[across]), []).append(part)
            for tick, axis in zip(cell.y.also, others, strict=True):
                assert tick.text == model.axes[axis]
                signs.setdefault((int(tick.at), place[axis]), []).append(part)
        for row, column in itertools.product(range(low, high), repeat=2):
            top, left = ((n - low) * fine for n in (row, column))
            square = cell.tile[top : top + fine, left : left + fine]
            parts = signs.get((row, column), [])
            shown = {*np.unique(square).tolist()} - {palette.EMPTY, palette.LINE}
            assert shown <= {*parts}, (model.name, row, column)
            if parts:
                ends = int(square[1, fine // 2]), int(square[fine // 2, fine // 2])
                assert ends == (min(parts), max(parts)), (model.name, row, column)


def test_signs_in_one_place_have_sizes_of_their_own() -> None:
    """All three parts of FLUX.1 Kontext stand at 0, 0 of its map."""
    (panel,) = scene.panels(scene.data("FLUX.1 Kontext", text=1, image=(2, 2), reference=(2, 2)))
    (low, high), tile = panel.cells[0].x.domain, panel.cells[0].tile
    fine = len(tile) // int(high - low)
    assert (low, fine) == (0, 50)
    counts = [int((tile[:fine, :fine] == part).sum()) for part in range(3)]
    assert counts == [38**2 - 26**2, 26**2 - 16**2, 16**2]


@pytest.mark.parametrize("side", [2, 5, 9, 12, 15, 18, 21, 25, 31, 38, 47, 59, 511])
def test_a_scene_of_any_size_shows_what_lies_below(side: int) -> None:
    """In each cell that picture and reference share, however few pixels it has."""
    view = scene.data("FLUX.1 Kontext", image=(2, side), reference=(2, side))
    (panel,) = scene.panels(view)
    count = int(np.ptp(panel.cells[0].x.domain))
    fine = len(panel.cells[0].tile) // count
    cells = panel.cells[0].tile[: 2 * fine, : side * fine].reshape(2, fine, side, fine)
    for part in (0, 1):
        seen = (cells == part).any(axis=(1, 3))
        seen[0, 0] = True  # there the text lies over both
        assert seen.all()


def test_without_a_reference_none_is_missed() -> None:
    view = scene.data(["Lumina 2", "FLUX.2"], reference=(0, 0))
    assert [model.lacks for model in view.models] == [(), ()]
    assert view.title == "picture 8 × 8, text 6"


def test_a_pipeline_or_a_transformer_of_ones_own_is_drawn() -> None:
    config = {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56]}
    pipeline = {"_class_name": "FluxKontextPipeline", "transformer": config}
    plain, edit = scene.data([config, pipeline]).models
    assert (plain.lacks, edit.lacks) == (("no reference",), ())
    assert (plain.name, edit.name) == ("FluxTransformer2DModel", "FluxKontextPipeline")


def test_fractions_are_drawn_at_the_nearest_cell_and_it_is_said() -> None:
    view = scene.data({"_class_name": "CogVideoXTransformer3DModel"}, image=(8, 8))
    rows = view.models[0].positions
    assert (rows % 1).any()
    assert "nearest whole number" in view.caption[-1]
    (panel,) = scene.panels(view)
    cells = panel.cells[0].x.domain[1] - panel.cells[0].x.domain[0]
    fine = len(panel.cells[0].tile) // int(cells)
    middles = panel.cells[0].tile[fine // 2 :: fine, fine // 2 :: fine]
    expected = {(int(h + 0.5), int(w + 0.5)) for _, h, w in rows.tolist()}
    assert {*map(tuple, np.argwhere(middles[:5] == 0).tolist())} == expected
    assert "nearest" not in scene.data("FLUX.2").caption[-1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"text": 0}, "text: expected 1 to 512 tokens, got 0"),
        ({"text": 513}, "text: expected 1 to 512 tokens, got 513"),
        ({"text": None}, "text: expected 1 to 512 tokens, got None"),
        ({"text": 2.5}, "text: expected 1 to 512 tokens, got 2.5"),
        ({"image": (0, 0)}, "image: expected two sides of 1 to 512"),
        ({"image": "8x8"}, "image: expected two sides of 1 to 512 tokens, got '8x8'"),
        ({"image": (8, 8, 8)}, "image: expected two sides of 1 to 512"),
        ({"reference": None}, "reference: expected two sides of 0 to 512 tokens, got None"),
        ({"reference": (8.0, 8)}, "reference: expected two sides of 0 to 512"),
        ({"image": (8, 513)}, "image: expected two sides of 1 to 512"),
        ({"reference": (0, 8)}, "reference: expected two sides of 0 to 512"),
        ({"configs": []}, "at least one config"),
        ({"configs": "FLUX2"}, "or the name of a model, got 'FLUX2'. Did you mean 'FLUX.2'"),
        ({"configs": "no\0such"}, "Known: FLUX.1 Kontext, FLUX.2, HunyuanVideo"),
        ({"configs": {"_class_name": "Ideogram4Transformer2DModel"}}, "at most 2048 apart"),
        ({"configs": {"_class_name": "StableAudioDiTModel"}}, "counts rows and columns"),
        ({"configs": {"model_type": "gpt2", "n_positions": 8}}, "counts rows and columns"),
    ],
    ids=str,
)
def test_what_is_no_scene_is_named(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        scene.data(**asked)


def test_the_largest_sizes_are_taken() -> None:
    view = scene.data("FLUX.2", text=512, image=(512, 2), reference=(1, 512))
    assert len(view.models[0].positions) == 512 + 1024 + 512


def test_what_is_no_config_keeps_the_words_of_its_reader() -> None:
    with pytest.raises(DataError, match="is a VAE"):
        scene.data({"_class_name": "AutoencoderKL"})
