"""One cursor for all views: by keys, by pointer, by sliders and fields."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import Site, led_around


def label(site: Site) -> str:
    """What a screen reader is told of the picture."""
    return site.page.locator("canvas.tile").first.get_attribute("aria-label") or ""


def centre(site: Site, position: float, dimension: float, length: int, width: int) -> Any:
    """The point of the picture where a cell is drawn."""
    box = site.page.locator("canvas.tile").first.bounding_box()
    return (
        box["x"] + (dimension + 0.5) / width * box["width"],
        box["y"] + (position + 0.5) / length * box["height"],
    )


def test_arrows_move_it(site: Site) -> None:
    site.open("v=table&p=40&j=21")
    keys = site.page.keyboard
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Shift+ArrowDown", "Shift+ArrowLeft"):
        keys.press(key)
    site.settle()
    assert (site.value("p"), site.value("j")) == ("52", "12")
    expect(site.page).to_have_url(re.compile(r"#k=1&v=table&j=12&p=52$"))
    assert "52" in label(site)
    assert "12" in label(site)
    expect(site.page.locator("#say")).to_contain_text("52")
    for _ in range(3):
        keys.press("Shift+ArrowLeft")
    site.settle()
    assert site.value("j") == "0"


def test_hover_shows_and_a_click_sets(site: Site) -> None:
    site.open("v=table&d=32&L=64&p=5&j=3")
    page = site.page
    page.mouse.move(*centre(site, 50, 20, 64, 32))
    site.settle()
    assert site.value("p") == "50"
    page.wait_for_timeout(250)
    assert "p=5&" in page.url + "&"
    page.mouse.move(5, 5)
    site.settle()
    assert (site.value("p"), site.value("j")) == ("5", "3")
    page.mouse.click(*centre(site, 33, 17, 64, 32))
    page.mouse.move(5, 5)
    site.settle()
    assert (site.value("p"), site.value("j")) == ("33", "17")
    expect(page).to_have_url(re.compile("j=17.*p=33"))


def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(site: Site) -> None:
    site.open("v=table&d=32&L=640")
    page = site.page

    def window() -> tuple[int, int]:
        low, high = re.search(r"p0=(\d+)", page.url), re.search(r"p1=(\d+)", page.url)
        return int(low[1]) if low else 0, int(high[1]) if high else 640

    page.mouse.move(*centre(site, 480, 16, 640, 32))
    page.mouse.wheel(0, -400)
    expect(page).to_have_url(re.compile(r"p0=\d+&p1=\d+"))  # which is written after a pause
    site.settle()
    low, high = window()
    address = page.url
    assert 0 < low < 480 < high <= 640
    assert abs((480 - low) / (high - low) - 0.75) < 0.02, "what is under the pointer stays there"
    box = page.locator("canvas.tile").first.bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=4)
    page.mouse.up()
    expect(page).not_to_have_url(address)
    site.settle()
    assert window()[1] - window()[0] == high - low
    assert window()[0] > low, "the picture goes up with the pointer"
    page.mouse.dblclick(box["x"] + 30, box["y"] + 30)
    expect(page).not_to_have_url(re.compile(r"p[01]="))
    site.settle()
    assert window() == (0, 640)


def test_sliders_and_fields_agree(site: Site) -> None:
    site.open("v=table&n=10000")
    page = site.page
    slider = page.locator(".control:has(#control-n) input[type=range]")
    slider.evaluate("node => { node.value = 500; node.dispatchEvent(new Event('input')); }")
    site.settle()
    base = float(site.value("n"))
    low, high = (float(page.locator("#control-n").get_attribute(name)) for name in ("min", "max"))
    assert abs(base / (low * high) ** 0.5 - 1) < 0.05, "half-way on a logarithmic slider"
    page.locator("#control-L").fill("200")
    page.keyboard.press("Enter")
    site.settle()
    expect(page).to_have_url(re.compile("L=200"))
    length = page.locator(".control:has(#control-L) input[type=range]")
    assert length.get_attribute("aria-valuetext") == "200"
    length.press("ArrowRight")
    site.settle()
    assert site.value("L") == "201"


def test_the_whole_page_by_keyboard(site: Site) -> None:
    """Tab reaches every control in the order of the page, and each shows that it has the focus."""
    site.open("v=table")
    page = site.page
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outlined = page.evaluate(
            """() => {
              const node = document.activeElement;
              const style = getComputedStyle(node);
              const body = node === document.body;
              return [body ? "BODY" : node.id || node.className || node.tagName,
                      style.outlineStyle !== "none" || body];
            }"""
        )
        if name == "BODY":
            break
        assert outlined, f"{name} hides its focus"
        seen.append(name)
    for wanted in ("skip", "tab-table", "theme", "control-enc", "control-d", "tile", "data-table"):
        assert wanted in seen, (wanted, seen)
    assert seen.index("tab-table") < seen.index("control-enc") < seen.index("tile")
    assert sum(name.startswith("tab-") for name in seen) == 1, "tabs take one place; arrows move"


def test_dragging_the_dials_moves_query_and_key_together(site: Site) -> None:
    site.open("v=rotate&m=20")
    page = site.page
    distance = site.value("off")
    led_around(page, ".dial-face", 5.2)  # a position turns the first pair by 1
    expect(page.locator("#control-m")).to_have_value("25")
    site.settle()
    assert (site.value("m"), site.value("off")) == ("25", distance)
    led_around(page, ".dial-face", -2.2)
    expect(page.locator("#control-m")).to_have_value("23")
    assert "j=" not in page.url, "a drag is no click on the dial"
