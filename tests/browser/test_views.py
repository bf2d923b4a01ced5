"""Every view in both themes: it paints, it fits, and axe finds nothing against it."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from tests.browser.conftest import Site

VIEWS = ("attention", "table", "waves", "distance", "rotate", "bias", "stretch", "scene", "layers")
SIDES = ("width", "height")


def pixels(picture: bytes) -> np.ndarray:
    """A screenshot as (rows, columns, 3)."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def screen(page: Any, selector: str = "#panels") -> np.ndarray:
    """What is on the screen in an element, as (rows, columns, 3)."""
    return pixels(page.locator(selector).screenshot(animations="disabled"))


def findings(page: Any, part: str | None = None) -> list[str]:
    """What axe-core has against a page, or against the elements of a selector in it."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    if page.evaluate("'axe' in window"):
        axe.axe_script = ""  # the document has it
    assert part is None or page.locator(part).count(), part
    report = axe.run(page, part).response
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node.get('failureSummary', '')}"
        for rule in report["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(
    "theme", ["light", pytest.param("dark", marks=pytest.mark.slow("explore", "plot"))]
)
def test_views_paint_and_can_be_read(
    open_shared: Callable[..., Site], server: str, pictures: Path, theme: str
) -> None:
    site = open_shared(server, {"width": 1280, "height": 900}, color_scheme=theme)
    wrong: dict[str, list[str]] = {}
    for view in VIEWS:
        site.open(f"v={view}", more=False)
        file = pictures / f"{view}-{theme}.png"
        whole = site.page.screenshot(path=file, full_page=True, animations="disabled")
        box = site.page.locator("#panels").bounding_box()
        (left, top), (wide, high) = ((int(box[a]), int(box[b])) for a, b in ("xy", SIDES))
        panels = pixels(whole)[top : top + high, left : left + wide]
        wrong[view] = [*faults(site.page, view, panels), *findings(site.page)]
    assert not any(wrong.values()), wrong


def faults(page: Any, view: str, panels: np.ndarray) -> list[str]:
    """What is wrong with a view whose panels have been drawn."""
    shown = panels.reshape(-1, 3) @ np.array([1 << 16, 1 << 8, 1])  # a number for a colour
    colours, counts = np.unique(shown, return_counts=True)
    right = {
        "its tab is chosen": page.locator(f"#tab-{view}").get_attribute("aria-selected") == "true",
        "it asks": page.locator("#title").inner_text().endswith("?"),
        "it says what is seen": len(page.locator("#lead").inner_text()) > 20,
        "much is drawn": len(colours) > 20,
        "not nearly all of it is background": counts.max() < 0.98 * len(shown),
        "it fits": page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
        "one screen has it": page.evaluate("document.documentElement.scrollHeight <= innerHeight"),
        "three controls are seen": page.locator(".control:visible").count() <= 3,
        "no notes": not page.locator("#notes").is_visible(),
    }
    return [f"not: {what}" for what, holds in right.items() if not holds]


# Texts of a picture that lie on each other or begin before it, dials that meet, tables cut short.
UNREADABLE = """() => {
  const wrong = [];
  const all = (name) => [...document.querySelectorAll(`#panels ${name}`)];
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  for (const picture of [...all("svg.axes"), ...all(".dials")]) {
    const left = picture.closest(".figure").getBoundingClientRect().left - 4;
    const name = picture.matches(".dials") ? ".dial" : "text:not([transform])";
    const parts = [...picture.querySelectorAll(name)].map((one) =>
      ({ text: one.textContent, box: one.getBoundingClientRect() }));
    parts.forEach(({ text, box }, n) => {
      if (box.left < left) wrong.push(`cut: ${text}`);
      const met = parts.slice(n + 1).filter((other) => meet(box, other.box));
      wrong.push(...met.map((other) => `${text} on ${other.text}`));
    });
  }
  const wide = all(".scroll").filter((one) => one.scrollWidth > one.clientWidth + 1);
  return [...wrong, ...wide.map((one) => `wide: ${one.textContent.slice(0, 60)}`)];
}"""
ODD = {
    1280: (
        *("v=rotate&d=2", "v=rotate&d=8", "v=stretch&f=1", "v=stretch&f=2", "v=distance"),
        "v=waves&d=8&n=16&L=256",
        "v=attention&sum=1&enc=sinusoidal&text=a%20quick%20brown%20extraordinary%20fox",
        "v=layers&b.enc=plan:gemma3:global",
    ),
    390: ("v=waves&counter=1", "v=rotate&d=8"),
}


def test_nothing_lies_on_another_or_is_cut(open_shared: Callable[..., Site], server: str) -> None:
    wrong = {}
    for width, states in ODD.items():
        site = open_shared(server, {"width": width, "height": 900})
        for state in states:
            site.open(state, more=False)
            wrong[width, state] = site.page.evaluate(UNREADABLE)
    assert not any(wrong.values()), wrong


# --- the pixels of the heatmap --------------------------------------------------------------------

READ = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let at = 0; at < data.length; at += 32768) {
    text += String.fromCharCode(...data.subarray(at, at + 32768));
  }
  return [canvas.width, canvas.height, btoa(text)];
}"""


def expected(site: Site) -> np.ndarray:
    """The colours that the last frame holds, cell by cell."""
    from posenc.explore import frame, unpack

    query = dict(parse_qsl(urlsplit(site.asked[-1]).query, keep_blank_values=True))
    message = unpack(frame(query))
    panel = message.header["panels"][0]
    lut = message.arrays[message.header["palette"][panel["lut"]]]
    return lut[message.arrays[panel["tile"]]]


def edges(cells: int, pixels: int) -> np.ndarray:
    return np.floor(np.arange(cells + 1) * pixels / cells + 0.5).astype(int)


@pytest.mark.parametrize(
    ("state", "scale"), [("d=48&L=100", 1), ("d=64&L=40960&p=20000", 1), ("d=48&L=100", 2)]
)
def test_each_pixel_of_the_heatmap_is_that_of_the_frame(
    open_site: Callable[..., Site],
    open_shared: Callable[..., Site],
    server: str,
    state: str,
    scale: int,
) -> None:
    site = open_shared(server) if scale == 1 else open_site(server, device_scale_factor=scale)
    site.open(f"v=table&{state}")
    page = site.page
    cells = expected(site)
    canvas = page.locator("canvas.tile").first
    width, height, data = canvas.evaluate(READ)
    drawn = np.frombuffer(base64.b64decode(data), "u1").reshape(height, width, 4)[..., :3]
    down = np.repeat(np.arange(cells.shape[0]), np.diff(edges(cells.shape[0], height)))
    across = np.repeat(np.arange(cells.shape[1]), np.diff(edges(cells.shape[1], width)))
    np.testing.assert_array_equal(drawn, cells[np.ix_(down, across)])
    # On the screen as well: nothing is resampled between the canvas and the glass.
    page.evaluate("document.querySelector('.cursor-layer').remove()")
    box = canvas.bounding_box()
    left, top, right, bottom = (
        round(value * scale, 3)
        for value in (box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"])
    )
    assert {left % 1, top % 1, right % 1, bottom % 1} == {0}, "on the grid of device pixels"
    glass = pixels(page.screenshot())
    np.testing.assert_array_equal(glass[int(top) : int(bottom), int(left) : int(right)], drawn)


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size"), [("phone", (360, 740)), ("tablet", (820, 1180)), ("wall", (3840, 2160))]
)
def test_from_phones_to_walls(
    open_shared: Callable[..., Site], server: str, pictures: Path, name: str, size: tuple[int, int]
) -> None:
    site = open_shared(server, viewport={"width": size[0], "height": size[1]})
    page = site.page
    for view in VIEWS if name == "phone" else ("table", "stretch"):
        site.open(f"v={view}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert page.locator("#panels").bounding_box()["width"] <= size[0]
        if view in ("table", "stretch") and name != "wall":
            page.screenshot(path=pictures / f"{view}-{name}.png", full_page=True)
        if name == "phone":
            without_width(site, size)
    if name == "phone":
        assert not page.locator("#control-enc").is_visible()
        page.locator("#settings-toggle").click()
        assert page.locator("#control-enc").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert findings(page) == []


def without_width(site: Site, size: tuple[int, int]) -> None:
    """Turn a window whose panels have no room, as before the style sheet is there; and back."""
    page = site.page
    wide, high = size
    page.evaluate("document.querySelector('#panels').style.display = 'none'")
    page.set_viewport_size({"width": wide - 20, "height": high})
    site.settle()
    page.evaluate("document.querySelector('#panels').style.display = ''")
    page.set_viewport_size({"width": wide, "height": high})
    site.settle()
