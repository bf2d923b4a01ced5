"""The explorer as one file that computes: it opens from disk, its cursor and controls answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tools import site as pages
from tools.local_data import VIEWS

from tests.browser.conftest import Site
from tests.browser.test_views import findings


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return pages.write(tmp_path_factory.mktemp("site"))[0].as_uri()


def test_every_view_is_computed_and_can_be_read(
    open_shared: Callable[..., Site], explorer: str
) -> None:
    site = open_shared(explorer)
    for view in VIEWS:
        site.open(f"v={view}", more=False)
        before = site.page.locator("#readout").inner_text()
        site.page.keyboard.press("ArrowRight")
        site.page.wait_for_function(
            "before => document.querySelector('#readout').innerText !== before", arg=before
        )
        assert not findings(site.page), view
    assert {url.partition("#")[0] for url in site.asked} == {explorer}


def test_the_page_of_a_lesson_is_refused_where_it_is_not_computed(
    open_shared: Callable[..., Site], explorer: str
) -> None:
    site = open_shared(explorer)
    site.open("v=layers", more=False)
    assert "does not compute the view" in site.page.locator("#toast").inner_text()
    assert site.page.locator("#title").inner_text() == "What does attention see?"


def test_lessons_have_links_to_their_figures(explorer: str) -> None:
    listing = (Path(explorer.removeprefix("file://")).parent / "lessons.html").read_text()
    assert 'href="explore.html#v=rotate&amp;d=64&amp;m=40&amp;off=7"' in listing
