"""Draw what a shift of all tokens does to attention, as the moving picture of the README.

python tools/pages/motion.py docs/img/shift.gif
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

import posenc
import posenc.plot

SPECS = {"Sinusoidal": posenc.Sinusoidal(16), "RoPE": posenc.RoPE(16, pairing="half")}
SHIFTS = range(0, 64, 4)


def draw(path: Path, shifts: Iterable[int] = SHIFTS) -> Path:
    """Write a GIF of both encodings side by side, a frame for each shift."""
    frames = [frame(shift) for shift in shifts]
    colours = frames[0].quantize(64)  # one palette, so that a frame holds what changed alone
    first, *others = (image.quantize(palette=colours, dither=Image.Dither.NONE) for image in frames)
    path.parent.mkdir(parents=True, exist_ok=True)
    first.save(path, save_all=True, append_images=others, duration=250, loop=0, optimize=True)
    return path


def frame(shift: int) -> Image.Image:
    """Both panels at one shift."""
    panels = [panel(name, shift) for name in SPECS]
    width, height = panels[0].size
    whole = Image.new("RGB", (width * len(panels), height))
    for place, image in enumerate(panels):
        whole.paste(image, (place * width, 0))
    return whole


def panel(name: str, shift: int) -> Image.Image:
    """The attention of one head, random queries and keys, `shift` positions later."""
    title = f"{name}, {shift} positions later"
    picture = posenc.plot.attention(
        SPECS[name], source="random", shift=shift, title=title, caption=False, width=240
    )
    return Image.open(io.BytesIO(picture.to_bytes("png"))).convert("RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    print(draw(parser.parse_args().path))


if __name__ == "__main__":
    main()
