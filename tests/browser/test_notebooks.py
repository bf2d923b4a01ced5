"""The widget where people use it: its state changes the page, and the page its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.notebooks import CELLS, jupyterlab, marimo, missing

pytestmark = pytest.mark.slow("explore")
READY = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
RUN = """place => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = place;
  notebook.deselectAll();
  window.jupyterapp.commands.execute("notebook:run-cell");
}"""


def opened(chromium: Any, address: str) -> tuple[Any, list[str]]:
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(address)
    return page, wrong


def chosen(page: Any, view: str) -> None:
    """Wait until the page shows a view, and has drawn it."""
    page.locator(f"#tab-{view}[aria-selected=true]").wait_for()
    page.locator(".page:not(.asking) #title").wait_for()
    assert page.locator("#title").inner_text().endswith("?")


@pytest.mark.skipif(bool(missing("jupyterlab")), reason=missing("jupyterlab"))
def test_the_widget_in_jupyterlab(chromium: Any, tmp_path: Path, pictures: Path) -> None:
    with jupyterlab(tmp_path) as address:
        page, wrong = opened(chromium, address)
        count = f"window.jupyterapp?.shell?.currentWidget?.content?.widgets?.length >= {len(CELLS)}"
        page.wait_for_function(count)
        page.wait_for_function(READY)
        page.evaluate(RUN, 0)
        chosen(page, "stretch")
        page.screenshot(path=pictures / "jupyterlab.png")
        page.evaluate(RUN, 1)
        chosen(page, "waves")
        page.locator("#tab-distance").click()
        chosen(page, "distance")
        page.keyboard.press("t")  # the theme of the page, and no command of the notebook
        page.wait_for_timeout(500)  # what a drag writes is held back a little
        page.evaluate(RUN, 2)
        page.get_by_text("view: distance").wait_for()
        page.evaluate(RUN, 3)
        page.locator("img[src^='data:image/png']").wait_for()
        page.close()
        assert not wrong


@pytest.mark.skipif(bool(missing("marimo")), reason=missing("marimo"))
def test_the_widget_in_marimo(chromium: Any, tmp_path: Path, pictures: Path) -> None:
    with marimo(tmp_path) as address:
        page, wrong = opened(chromium, address)
        chosen(page, "stretch")
        page.locator("img[src^='data:image/png']").wait_for()
        page.get_by_text("view: stretch").wait_for()
        page.get_by_role("button", name="to waves").click()
        chosen(page, "waves")
        page.locator("#tab-distance").click()
        chosen(page, "distance")
        page.get_by_text("view: distance").wait_for()
        page.screenshot(path=pictures / "marimo.png")
        page.close()
        assert not wrong
