"""Colours of the plots and the explorer, from OKLCH (Ottosson 2020), so that steps look even.

The diverging map runs from blue through the page's neutral to vermilion. Lightness is linear in the
size of a value and the same for both signs, so a print in grey still shows sizes. Entry 128 is
zero, entries 1 and 255 are the ends, and entry 0 stands for "no value".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from posenc._core.errors import one_of

ThemeName = Literal["light", "dark", "print"]
THEMES: tuple[str, ...] = get_args(ThemeName)

ZERO = 128  # the entry of 0 in a diverging map
NEUTRAL = {"light": 0.97, "dark": 0.19, "print": 1.0}  # lightness of the page
# Around the data: page, ink, muted, rule.
AROUND = {
    "light": ("#fcfcfc", "#16181b", "#5b5f66", "#d3d6db"),
    "dark": ("#101113", "#eceef1", "#a3a9b2", "#3a3f47"),
    "print": ("#ffffff", "#000000", "#444444", "#bbbbbb"),
}
# Lightness, chroma and hue of the ends: of negative values, of positive ones.
ENDS = {
    "light": ((0.48, 0.170, 258.0), (0.48, 0.155, 38.0)),
    "dark": ((0.72, 0.148, 252.0), (0.72, 0.155, 44.0)),
    "print": ((0.48, 0.170, 258.0), (0.48, 0.155, 38.0)),
}
SINGLE = {
    "light": (0.42, 0.130, 258.0),
    "dark": (0.82, 0.090, 250.0),
    "print": (0.36, 0.120, 258.0),
}

_LAB_TO_LMS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


@dataclass(frozen=True)
class Theme:
    """The colours of everything that is no data, as `#rrggbb`."""

    name: ThemeName
    page: str
    neutral: str
    ink: str
    muted: str
    rule: str


class SeriesStyle(NamedTuple):
    """How one of several curves is drawn: never by its colour alone."""

    colour: str
    dash: tuple[float, ...]  # on, off, … in widths of the line; empty for a solid one


# Lightness, chroma and hue of curves; of dark pages the lightness is another.
_CURVES = (
    (0.50, 0.170, 258.0, ()),
    (0.58, 0.165, 42.0, (5.0, 2.0)),
    (0.55, 0.120, 155.0, (1.2, 1.6)),
    (0.55, 0.180, 335.0, (6.0, 1.6, 1.2, 1.6)),
    (0.60, 0.105, 85.0, (9.0, 2.5)),
    (0.48, 0.140, 300.0, (2.5, 1.5)),
    (0.55, 0.095, 205.0, (6.0, 1.5, 1.2, 1.5, 1.2, 1.5)),
    (0.45, 0.020, 258.0, (3.5, 3.5)),
)
EMPTY, LINE = len(_CURVES), len(_CURVES) + 1  # entries of `parts`
_CURVE_LIGHTNESS = {"light": 0.0, "dark": 0.22, "print": -0.06}


def check_theme(name: str) -> ThemeName:
    """The name of a theme, or an error that suggests one."""
    one_of(name, THEMES, "theme")
    return cast("ThemeName", name)


@functools.lru_cache(maxsize=8)
def theme(name: str = "light") -> Theme:
    """The colours around the data."""
    theme_name = check_theme(name)
    page, *others = AROUND[theme_name]
    return Theme(theme_name, page, colour(diverging(theme_name)[ZERO]), *others)


@functools.lru_cache(maxsize=8)
def diverging(name: str = "light") -> np.ndarray:
    """The map of signed values."""
    (light, *low), (_, *high) = ENDS[check_theme(name)]
    t = (np.arange(256) - ZERO) / 127.0
    t[0] = 0.0  # no value
    size, neutral = np.abs(t), NEUTRAL[name]
    chroma, hue = np.where(t < 0, low[0], high[0]), np.where(t < 0, low[1], high[1])
    return _fixed(_bytes(neutral + (light - neutral) * size, chroma * size, hue))


@functools.lru_cache(maxsize=8)
def sequential(name: str = "light") -> np.ndarray:
    """The map of values without a sign: one hue, from the page's neutral."""
    light, chroma, hue = SINGLE[check_theme(name)]
    t, neutral = np.linspace(0.0, 1.0, 256), NEUTRAL[name]
    return _fixed(_bytes(neutral + (light - neutral) * t, chroma * t, np.full(256, hue)))


@functools.lru_cache(maxsize=8)
def series(name: str = "light") -> tuple[SeriesStyle, ...]:
    """How the curves of a chart are drawn, in order: a colour and a pattern of dashes each."""
    more = _CURVE_LIGHTNESS[check_theme(name)]
    return tuple(
        SeriesStyle(colour(_bytes(*np.array([[l + more], [c], [h]]))[0]), dash)
        for l, c, h, dash in _CURVES
    )


@functools.lru_cache(maxsize=8)
def parts(name: str = "light") -> np.ndarray:
    """Colours of what is no number: those of curves in their order, of nothing, of a thin line."""
    around = [theme(name).neutral, *[theme(name).rule] * (255 - EMPTY)]
    return _fixed(np.array([rgb(one) for one in (*(s.colour for s in series(name)), *around)]))


def style(number: int, name: str = "light") -> SeriesStyle:
    """How the curve of any number is drawn, in plots, the explorer and the study."""
    styles = series(name)
    again, place = divmod(number, len(styles))
    return SeriesStyle(styles[place].colour, styles[(place + 3 * again) % len(styles)].dash)


def indices(values: np.ndarray, limit: float = 1.0) -> np.ndarray:
    """The entries of a diverging map for values from -limit to limit."""
    finite = np.isfinite(values)
    scaled = np.where(finite, values, 0) * (127.0 / limit)
    # Half away from zero, so that both signs are treated alike.
    return np.where(
        finite, np.copysign(np.floor(np.abs(np.clip(scaled, -127, 127)) + 0.5), scaled) + ZERO, 0
    ).astype(np.uint8)


def shares(values: np.ndarray, limit: float = 1.0) -> np.ndarray:
    """The entries of a sequential map for values from 0 to limit; what is not finite is 0."""
    return np.rint(
        np.clip(np.nan_to_num(np.asarray(values), posinf=limit) * (255.0 / limit), 0, 255)
    ).astype(np.uint8)


def largest(values: np.ndarray) -> float:
    """The largest size of the finite values, at which a scale ends; 0 where there are none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def colour(rgb: np.ndarray) -> str:
    """The colour `#rrggbb` of three bytes."""
    return "#" + "".join(f"{int(c):02x}" for c in rgb)


def rgb(colour: str) -> np.ndarray:
    """The three bytes of a colour `#rrggbb`."""
    return np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8)


def to_oklab(rgb: np.ndarray) -> np.ndarray:
    """Bytes of sRGB (..., 3) as OKLab, in which distances are those that people see."""
    encoded = np.asarray(rgb, dtype=np.float64) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ np.linalg.inv(_LMS_TO_RGB).T) @ np.linalg.inv(_LAB_TO_LMS).T


def _lab(light: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> np.ndarray:
    angle = np.deg2rad(hue)
    return np.stack([light, chroma * np.cos(angle), chroma * np.sin(angle)], axis=-1)


def _bytes(light: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> np.ndarray:
    # Linear sRGB leaves 0 to 1 where no screen has the colour.
    linear = np.clip((_lab(light, chroma, hue) @ _LAB_TO_LMS.T) ** 3 @ _LMS_TO_RGB.T, 0.0, 1.0)
    return np.rint(
        np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055) * 255
    ).astype(np.uint8)


def _fixed(lut: np.ndarray) -> np.ndarray:
    lut.setflags(write=False)
    return lut
