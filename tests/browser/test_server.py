"""A server that is gone, and one that is slow."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.serving import command, slow


def test_a_server_that_is_gone_and_comes_back(open_site: Callable[..., Site]) -> None:
    with command() as (process, address):
        site = open_site(address)
        site.open("v=table&p=40")
        page = site.page
        process.kill()
        process.wait()
        page.keyboard.press("ArrowDown")
        banner = page.locator("#banner")
        expect(banner).to_be_visible()
        assert "stopped" in banner.inner_text()
        assert page.locator("canvas.tile").first.is_visible(), "the last picture stays"
    port = str(urlsplit(address).port)
    with command("--port", port):
        expect(banner).to_be_hidden(timeout=8000)
        site.settle()
        assert site.value("p") == "41"
    # The browser itself tells of connections that it did not get.
    site.wrong = [text for text in site.wrong if "ERR_CONNECTION_REFUSED" not in text]
    site.wrong = [text for text in site.wrong if "ERR_EMPTY_RESPONSE" not in text]


def test_a_slow_server_is_asked_for_the_latest_only(open_site: Callable[..., Site]) -> None:
    with slow(0.3) as (late, address):
        site = open_site(address)
        site.open("v=table&p=10&L=100")
        before = len(late.asked)
        for _ in range(30):
            site.page.keyboard.press("ArrowDown")
        site.settle()
        assert site.value("p") == "40"
        assert late.most == 1, "one request in flight"
        assert 2 <= len(late.asked) - before <= 6, "what lies between is never asked for"
        assert "p=40" in late.asked[-1]
