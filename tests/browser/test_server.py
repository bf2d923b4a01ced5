"""What is asked of the server; one that is gone, one that is slow; a page within another."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.serving import command, slow
from tests.browser.test_cursor import centre

LOADS = """() => [...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].map((one) => [one.name, one.transferSize])"""


@pytest.mark.parametrize("state", ["v=table", "v=bias"])
def test_the_first_load_is_light_and_asks_for_one_picture(
    open_site: Callable[..., Site], server: str, state: str
) -> None:
    site = open_site(server)  # a page of its own, for which nothing has been loaded before
    site.open(state)
    loads = site.page.evaluate(LOADS)
    assert len(loads) <= 6, loads
    assert sum("api/frame" in name for name, _ in loads) == 1
    assert sum(size for _, size in loads) <= 110_000
    if state == "v=table":
        site.page.mouse.move(*centre(site, 100, 20, 128, 128))
        site.settle()
        assert site.value("p") == "100"
        more = site.page.evaluate(LOADS)[len(loads) :]
        assert [size <= 3000 for _, size in more] == [True] * len(more) != []
        site.page.locator("#theme").click()
        site.settle()
        site.page.locator("#control-d").fill("64")
        site.page.keyboard.press("Enter")
        site.settle()
        assert sum(size for _, size in site.page.evaluate(LOADS)[-1:]) < 20_000


MOUNTED = """async () => {
  const text = (name) => fetch(name).then((answer) => answer.text());
  const [html, css, { mount }] = await Promise.all(
    [text("./"), text("static/explore.css"), import("./static/explore.js")]);
  const told = (window.told = []);
  const ask = async (query) =>
    (await fetch(`api/frame?${new URLSearchParams(query)}`)).arrayBuffer();
  window.pages = ["#v=table&d=16&L=20&p=5", "#v=waves&d=32"].map((state, index) => {
    const box = document.body.appendChild(document.createElement("div"));
    box.id = `box-${index}`;
    box.style.width = "800px";
    return mount(box, { html, css, ask, state, changed: (hash) => told.push([index, hash]) });
  });
}"""


def test_pages_in_elements_of_another_are_on_their_own(site: Site) -> None:
    site.open("v=bias")
    page = site.page
    page.evaluate(MOUNTED)
    first, second = (page.locator(f"#box-{n} .page") for n in (0, 1))
    for inner in (first, second):
        expect(inner).to_have_attribute("data-frames", "1")
        assert inner.locator("#save, #copy-link, script").count() == 0
    assert first.locator("#control-d").input_value() == "16"
    assert second.locator("#control-d").input_value() == "32"
    first.locator("canvas.tile").first.focus()
    page.keyboard.press("ArrowDown")
    expect(first.locator("#control-p")).to_have_value("6")
    page.evaluate("pages[1].go('#v=waves&d=64')")
    expect(second.locator("#control-d")).to_have_value("64")
    first.locator("#theme").click()
    expect(first).to_have_attribute("data-theme", "dark")
    assert second.get_attribute("data-theme") == "light"
    assert page.url.endswith("v=bias"), "the address belongs to the page around them"
    page.wait_for_timeout(300)
    told = page.evaluate("told")
    assert any(which == 0 and "d=16" in state for which, state in told)
    assert {which for which, _ in told} == {0, 1}


def test_a_server_that_is_gone_and_comes_back(open_shared: Callable[..., Site]) -> None:
    with slow(0) as (_, address):
        site = open_shared(address)
        site.open("v=table&p=40")
    page = site.page
    page.keyboard.press("ArrowDown")
    banner = page.locator("#banner")
    expect(banner).to_be_visible()
    assert "stopped" in banner.inner_text()
    assert page.locator("canvas.tile").first.is_visible(), "the last picture stays"
    port = str(urlsplit(address).port)
    with command("--port", port):
        expect(banner).to_be_hidden()
        site.settle()
        assert site.value("p") == "41"
    # The browser itself tells of connections that it did not get.
    site.wrong = [text for text in site.wrong if "ERR_CONNECTION_REFUSED" not in text]
    site.wrong = [text for text in site.wrong if "ERR_EMPTY_RESPONSE" not in text]


def test_a_slow_server_is_asked_for_the_latest_only(open_shared: Callable[..., Site]) -> None:
    with slow(0.3) as (late, address):
        site = open_shared(address)
        site.open("v=table&p=10&L=100")
        before = len(late.asked)
        for _ in range(30):
            site.page.keyboard.press("ArrowDown")
        site.settle()
        assert site.value("p") == "40"
        assert late.most == 1, "one request in flight"
        assert 2 <= len(late.asked) - before <= 6, "what lies between is never asked for"
        assert "p=40" in late.asked[-1]
