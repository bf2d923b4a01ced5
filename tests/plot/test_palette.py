"""The colours keep what the documentation says of them: even steps, and signs that anyone can tell.

OKLab and the simulations of colour vision are written out here again, from their papers.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from posenc._core.errors import ArgumentError
from posenc.plot import palette

# Machado, Oliveira and Fernandes (2009), severity 1, on linear sRGB.
VISION = {
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
# What docs/plots.md says: unevenness of the steps, and distances of the ends by kind of vision.
UNEVEN = {"light": 0.027, "dark": 0.028, "print": 0.030}
APART = {
    "light": {"deutan": 0.27, "protan": 0.26, "tritan": 0.28},
    "dark": {"deutan": 0.26, "protan": 0.24, "tritan": 0.30},
    "print": {"deutan": 0.27, "protan": 0.26, "tritan": 0.28},
}


def linear(rgb: np.ndarray) -> np.ndarray:
    x = np.asarray(rgb, dtype=float) / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """From linear sRGB, by the matrices of Ottosson (2020)."""
    r, g, b = np.moveaxis(np.clip(rgb, 0, 1), -1, 0)
    l = np.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    m = np.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    s = np.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return np.stack(
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ],
        axis=-1,
    )


def unevenness(*sides: np.ndarray, over: int = 8) -> float:
    """The coefficient of variation of steps of 8 entries; single ones are lost in rounding."""
    steps = np.concatenate([np.linalg.norm(side[over:] - side[:-over], axis=1) for side in sides])
    return float(steps.std() / steps.mean())


@pytest.mark.parametrize("theme", palette.THEMES)
def test_signed_steps_are_even(theme: str) -> None:
    points = oklab(linear(palette.diverging(theme)))
    assert unevenness(points[1:129], points[128:]) <= UNEVEN[theme]


@pytest.mark.parametrize("theme", palette.THEMES)
def test_lightness_is_linear_in_the_size_and_the_same_for_both_signs(theme: str) -> None:
    light = oklab(linear(palette.diverging(theme)))[:, 0]
    negative, positive = light[1:129][::-1], light[128:]
    assert np.abs(negative - positive).max() < 0.006
    straight = np.linspace(light[128], light[255], 128)
    assert np.abs(positive - straight).max() < 0.006


@pytest.mark.parametrize("theme", palette.THEMES)
@pytest.mark.parametrize("vision", VISION)
def test_signs_stay_apart_for_every_kind_of_vision(theme: str, vision: str) -> None:
    lut = linear(palette.diverging(theme)) @ np.array(VISION[vision]).T
    ends = oklab(lut)
    assert np.linalg.norm(ends[1] - ends[255]) >= APART[theme][vision] - 0.005
    assert np.linalg.norm(ends[64] - ends[192]) >= 0.11


def test_maps_of_others_are_less_even() -> None:
    mpl = pytest.importorskip("matplotlib", reason="maps to compare with come with matplotlib")
    for name in ("RdBu_r", "coolwarm", "PuOr_r", "bwr"):
        lut = (mpl.colormaps[name](np.arange(256))[:, :3] * 255).round()
        points = oklab(linear(lut))
        assert unevenness(points[:128], points[128:]) > 5 * UNEVEN["light"]


@pytest.mark.parametrize("theme", palette.THEMES)
def test_the_other_map_is_even(theme: str) -> None:
    assert unevenness(oklab(linear(palette.sequential(theme)))) < 0.07


@pytest.mark.parametrize("theme", palette.THEMES)
def test_zero_is_the_neutral_of_the_page_and_grey(theme: str) -> None:
    zero = palette.diverging(theme)[128]
    assert len(set(zero.tolist())) == 1
    assert palette.colour(zero) == palette.theme(theme).neutral
    assert (palette.diverging(theme)[0] == zero).all()
    assert (palette.sequential(theme)[0] == zero).all()


def test_indices_are_symmetric_and_leave_out_what_is_no_number() -> None:
    values = np.array([-np.inf, np.nan, -3.0, -2.0, -1.0, -0.003, 0.0, 0.003, 1.0, 2.0, 3.0])
    found = palette.indices(values, 2.0)
    assert found.tolist() == [0, 0, 1, 1, 64, 128, 128, 128, 192, 255, 255]
    grid = np.linspace(-1, 1, 10_001)
    up, down = palette.indices(grid).astype(int), palette.indices(-grid).astype(int)
    np.testing.assert_array_equal(up + down, 256)


@pytest.mark.parametrize("theme", palette.THEMES)
def test_curves_differ_by_dashes_too_and_can_be_read(theme: str) -> None:
    series = palette.series(theme)
    assert len({one.dash for one in series}) == len(series)
    assert len({palette.style(number, theme) for number in range(64)}) == 64
    assert tuple(palette.style(number, theme) for number in range(8)) == series
    page = luminance(palette.theme(theme).page)
    for one in series:
        pair = sorted((luminance(one.colour), page))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3  # WCAG 1.4.11, graphics
    for text in (palette.theme(theme).ink, palette.theme(theme).muted):
        pair = sorted((luminance(text), page))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5  # WCAG 1.4.3, text


def luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return float(linear(rgb) @ (0.2126, 0.7152, 0.0722))


def test_unknown_themes_are_named() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'light'"):
        palette.diverging("lihgt")


def test_maps_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        palette.diverging("light")[0] = 0


def test_the_palette_is_the_only_place_of_the_colours_of_series() -> None:
    """The explorer takes each from the frame, the study and the plots by number."""
    import posenc.explore
    from posenc.explore import frame, unpack
    from posenc.plot.views import stretch
    from posenc_study.report import figures

    folder = Path(posenc.explore.__file__).with_name("static")
    sheet = (folder / "style.css").read_text("utf-8")
    assert not re.search(r"--k\d+\s*:", sheet)
    header = unpack(frame({"v": "stretch"})).header
    sent = [(s["color"], tuple(s["dash"])) for s in header["palette"]["series"]]
    assert sent == [tuple(one) for one in palette.series("light")]
    charts = [panel for panel in header["panels"] if panel["kind"] == "chart"]
    rope = posenc.RoPE(128, pairing="half")
    rules = {rule.label: rule.style for rule in stretch.data(rope).rules}
    for chart in charts:
        assert {s["label"]: s["style"] for s in chart["series"]} == rules
    colours = {one.colour for one in palette.series()}
    names = list(figures.ENCODINGS)
    styles = [figures._style(name) for name in names]
    assert {colour for colour, _ in styles} <= colours
    assert len(set(map(str, styles))) == len(names)
    source = Path(figures.__file__).read_text("utf-8")
    assert not re.search(r"#[0-9a-f]{6}", source)
