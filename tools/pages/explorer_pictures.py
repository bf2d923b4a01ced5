"""The pictures of the explorer in the docs: `python tools/pages/explorer_pictures.py`.

Each is the page itself in a browser, at the state that its row names; `posenc explore` shows the
same at that address. They are reduced to 256 colours, which is what keeps them small.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.browser.serving import ROOT, browser_path, command

FOLDER = ROOT / "docs" / "img" / "explorer"
PICTURES = {
    "attention": ("v=attention&qk=previous&softmax=1&perm=2.1.0.3.4", "light", (1280, 800)),
    "why": (
        "v=attention&qk=random&text=John%20likes%20Jane&perm=2.1.0&shift=0",
        "light",
        (1280, 800),
    ),
    "swapped": (
        "v=attention&text=John%20likes%20Jane&perm=2.1.0&shift=100&qk=random",
        "light",
        (1280, 800),
    ),
    "table": ("v=table", "light", (1280, 800)),
    "long-table": ("v=table&d=64&L=40960&p=20000&j=46", "dark", (1280, 800)),
    "compare": ("v=table&d=64&b.enc=sinusoidal&b.d=64&b.order=sin_cos", "light", (1280, 800)),
    "stretch": ("v=stretch", "dark", (1280, 800)),
}


def main() -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with command() as (_, address), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=arguments)
        for name, (state, theme, (width, height)) in PICTURES.items():
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=theme)
            page.goto(f"{address}#{state}")
            page.locator("body[data-frames]:not(.asking)").wait_for()
            shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            file = FOLDER / f"{name}.png"
            shown.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
            print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
