"""How much of a wave a pixel may show, and the filter that shows exactly so much.

A wave of fewer than two pixels cannot be drawn: whatever is seen in its place is a pattern of the
drawing. So every drawing here passes waves by one curve,

    gain(x) = u**2 (3 - 2u)      u = ln(x / 2) / ln(8 / 2), held within 0 and 1

where x is the length of the wave in pixels: 0 up to 2, 1 from 8 on. A wave whose frequency is known
is multiplied by it; rows of which nothing is known are filtered with its Fourier transform.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

FADE = 2.0  # pixels per wave up to which nothing is shown
FULL = 8.0  # and from which all is
REACH = 8.0  # pixels to either side that a filtered pixel looks at
FINE = 128  # points of the tabulated filter per pixel
CHUNK = 1 << 20  # numbers that are fetched at a time
ONE_THREAD = 1 << 18  # multiplications that libraries do not share out


def gain(pixels_per_wave: np.ndarray | float) -> np.ndarray:
    """The share of a wave that is shown, from its length in pixels."""
    x = np.maximum(np.asarray(pixels_per_wave, dtype=np.float64), FADE)
    u = np.minimum(np.log(x / FADE) / np.log(FULL / FADE), 1.0)
    return u * u * (3 - 2 * u)


def edges(start: int, stop: int, pixels: int) -> np.ndarray:
    """Where pixels begin and end, float64: position p covers p to p + 1."""
    return start + np.arange(pixels + 1) * ((stop - start) / pixels)


def centres(start: int, stop: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """The position at the middle of each pixel, as an integer and a fraction of at most 1/2.

    Position p is drawn from p to p + 1, so its own middle is p + 1/2, and that is what p means.
    """
    # Exact in integers for any count below 2**31 and pixels below 2**31.
    top = (2 * np.arange(pixels, dtype=np.int64) + 1) * (stop - start) - pixels
    whole = (top + pixels) // (2 * pixels)
    return start + whole, (top - whole * 2 * pixels) / (2 * pixels)


@functools.lru_cache(maxsize=1)
def _kernel() -> np.ndarray:
    """The filter at distances 0 to REACH pixels, `FINE` points to a pixel."""
    frequency = (np.arange(1024) + 0.5) * (0.5 / 1024)  # cycles per pixel; above 1/2 nothing passes
    passed = gain(1 / frequency)
    x = np.arange(int(REACH * FINE) + 1) / FINE
    values = np.array([(passed * np.cos(2 * np.pi * frequency * d)).mean() for d in x])
    values *= np.where(x > REACH - 2, np.cos(np.pi / 4 * (x - REACH + 2)) ** 2, 1.0)
    values.setflags(write=False)
    return values


def reduced(
    fetch: Callable[[int, int], np.ndarray],
    count: int,
    pixels: int,
    others: int,
    around: tuple[int, int] = (0, 0),
) -> np.ndarray:
    """Rows 0 to count - 1, filtered and drawn in fewer pixels; each row is fetched once.

    Beyond its ends the table is taken to be mirrored, unless there are rows `around` it.
    """
    ratio = count / pixels
    middle = (np.arange(pixels) + 0.5) * ratio - 0.5
    total, weight = np.zeros((pixels, others)), np.zeros(pixels)
    # Short chunks too: a row meets some 16 pixels, a long chunk of rows meets more in vain.
    step = max(1, min(CHUNK // max(others, 1), int(24 * ratio) + 1))
    reach = int(REACH * ratio) + 1
    before, after = (min(n, reach) for n in around)
    for begin in range(-before, count + after, step):
        end = min(begin + step, count + after)
        rows, index = fetch(begin, end), np.arange(begin, end)
        # The mirror image of a row stands as far beyond the last row that there is.
        for image in (index, -1 - 2 * before - index, 2 * (count + after) - 1 - index):
            first, last = np.searchsorted(
                middle, [image.min() - REACH * ratio, image.max() + REACH * ratio]
            )
            if first == last:
                continue
            table = _kernel()
            w = np.interp(
                np.abs((image - middle[first:last, None]) / ratio) * FINE,
                np.arange(len(table)),
                table,
                right=0.0,
            )
            _add_product(total[first:last], w, rows)
            weight[first:last] += w.sum(axis=1)
    return total / weight[:, None]


def _add_product(total: np.ndarray, w: np.ndarray, rows: np.ndarray) -> None:
    """Add `w @ rows`: in slices that stay on one thread, as waking others costs more than these."""
    width = rows.shape[1]
    step = width if w.size * width > ONE_THREAD << 8 else max(1, ONE_THREAD // w.size)
    for begin in range(0, width, step):
        total[:, begin : begin + step] += w @ rows[:, begin : begin + step]
