"""One browser and one server for each worker; each page is watched for errors and strangers."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.serving import ROOT, browser_path, command

HERE = Path(__file__).parent
NEEDED = ("playwright", "starlette", "uvicorn")
USUAL = {"width": 1280, "height": 800}


def _reason() -> str:
    """Why these tests cannot run here; empty if they can."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"the page is tested with {' and '.join(missing)}, which is not installed"
    if browser_path() is None:
        return (
            "no browser: `make test-browser` installs Chromium where it may, or name one in CHROME"
        )
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _reason()
    for item in items:
        if item.path.parent == HERE:
            item.add_marker("costly")
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's browser, headless. As root it has no sandbox of its own to stand in."""
    import os

    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # of what comes at once where no other program runs
    arguments = ["--disable-background-networking", "--disable-component-update", "--disable-gpu"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of `posenc explore`, which sends the page as it is in a wheel."""
    subprocess.run([sys.executable, ROOT / "tools" / "bundle.py"], check=True)
    with command() as (_, address):
        yield address


class Site:
    """A page of the explorer, with what it asked for and what went wrong in it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.told = {
            "request": lambda request: self.asked.append(request.url),
            "pageerror": lambda error: self.wrong.append(str(error)),
            "console": self._console,
        }
        for event, listener in self.told.items():
            page.on(event, listener)

    def leave(self) -> None:
        """Empty the page, with which other tests go on."""
        if self.page.url != "about:blank":
            self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
            self.page.goto("about:blank")
        for event, listener in self.told.items():
            self.page.remove_listener(event, listener)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def open(self, state: str = "v=table", *, more: bool = True) -> None:
        """Go to a state and wait for its picture, with `more` than three controls."""
        self.page.goto(f"{self.address}#{state}")
        self.settle()
        self.page.evaluate(
            "more => document.querySelector('.more')?.toggleAttribute('open', more)", more
        )

    def settle(self) -> None:
        """Wait until a picture has been drawn and nothing more is asked for."""
        self.page.locator("body[data-frames]:not(.asking)").wait_for(timeout=60_000)

    def value(self, key: str) -> str:
        """What the field of a control shows."""
        return str(self.page.locator(f"#control-{key}").input_value())

    def strangers(self) -> list[str]:
        """Requests that left for anywhere but this machine."""
        return [url for url in self.asked if urlsplit(url).hostname not in ("127.0.0.1", None)]


@pytest.fixture
def open_site(chromium: Any) -> Iterator[Callable[..., Site]]:
    """Make pages, and see at the end that none had an error or asked anybody else."""
    made: list[tuple[Site, Any]] = []

    def make(address: str, **settings: Any) -> Site:
        settings = {"viewport": USUAL, **settings}
        context = chromium.new_context(**settings)
        site = Site(context.new_page(), address)
        made.append((site, context))
        return site

    yield make
    for site, context in made:
        context.close()
        assert not site.wrong, site.wrong
        assert not site.strangers()


@pytest.fixture(scope="session")
def shared_page(chromium: Any) -> Iterator[Callable[[], Any]]:
    """Give the page that tests share: a new one costs as much as a whole test."""
    held: list[Any] = []

    def page() -> Any:
        if held and not held[0].is_closed():
            return held[0]
        held[:] = [chromium.new_context(viewport=USUAL).new_page()]
        return held[0]

    yield page
    for one in held:
        one.context.close()


@pytest.fixture
def open_shared(shared_page: Callable[[], Any]) -> Iterator[Callable[..., Site]]:
    """Make the shared page a fresh one, which remembers nothing of the tests before."""
    made: list[Site] = []

    def make(address: str, viewport: Mapping[str, int] = USUAL, **media: Any) -> Site:
        page = shared_page()
        page.mouse.move(0, 0)
        page.set_viewport_size(viewport)
        page.emulate_media(**{"color_scheme": "light", "reduced_motion": "no-preference", **media})
        made.append(Site(page, address))
        return made[-1]

    yield make
    for site in made:
        site.leave()
        assert not site.wrong, site.wrong
        assert not site.strangers()


@pytest.fixture
def site(open_shared: Callable[..., Site], server: str) -> Site:
    """A page in a window of usual size."""
    return open_shared(server)


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots are kept for people to look at."""
    folder = ROOT / "out" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def led_around(page: Any, face: str, angle: float) -> None:
    """Lead the tip of an arrow around the first dial of a selector, by an angle."""
    box = page.locator(face).first.bounding_box()
    x, y, radius = box["x"] + box["width"] / 2, box["y"] + box["width"] / 2, 0.3 * box["width"]
    for step in range(17):
        at = 0.3 + angle * step / 16
        page.mouse.move(x + radius * math.cos(at), y - radius * math.sin(at))
        if not step:
            page.mouse.down()
    page.mouse.up()
