"""The explorer as one file that computes: it opens from disk, its cursor and controls answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tools import site as pages

from posenc import learn
from posenc.explore.server.document import VIEWS, makes
from posenc.learn.tour import stops
from tests.browser.conftest import Site
from tests.browser.test_views import findings

CELLS = 25
SIDES = (("x", "width"), ("y", "height"))
CONTROLS = "all => all.map((one) => one.querySelector('select, input').id)"
PLACES = """() => [...document.querySelectorAll('#panels canvas.tile[tabindex], #panels .frame')]
  .filter((one) => !one.hidden).map((one) => one.getBoundingClientRect().toJSON())
  .filter(({ width, height }) => width > 20 && height > 20)"""
SHOWN = """() => [document.querySelector('#panels').innerHTML,
  document.querySelector('#readout').innerHTML,
  ...[...document.querySelectorAll('#panels canvas')].filter((one) => !one.hidden)
    .map((one) => one.toDataURL())].join()"""
DRAWN = "made => Number(document.body.dataset.frames) > made && !document.body.matches('.asking')"


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


def test_the_documentation_leads_to_the_story_where_there_is_one(tmp_path: Path) -> None:
    docs, site = tmp_path / "docs", tmp_path / "site"
    (docs / "learn").mkdir(parents=True)
    page = f'<a href="{{up}}index.html#a">Home</a>{"".join(pages.MARKS)}'
    (docs / "index.html").write_text(page.format(up=""))
    (docs / "learn" / "why.html").write_text(page.format(up="../"))
    pages.write(site, docs)
    for name, up in (("contents.html", ""), ("learn/why.html", "../")):
        home = f'<a href="{up}contents.html#a">Home</a>'
        links = (f'<p><a href="{up}{p}">{words}</a></p>' for p, words in pages.MARKS.values())
        link = "".join(links)
        assert (site / name).read_text() == home + link
    assert 'id="steps"' in (site / "index.html").read_text()
    first = (pages.ROOT / "docs" / "index.md").read_text("utf-8")
    assert first.count(next(iter(pages.MARKS))) == 1
    assert "index.html" not in first


def after(site: Site, act: Callable[[], Any]) -> bool:
    """Whether the picture or its readout is another one after a deed."""
    before = site.page.evaluate(SHOWN)
    made = int(site.page.evaluate("document.body.dataset.frames"))
    act()
    try:
        site.page.wait_for_function(DRAWN, arg=made, timeout=8_000)
    except Exception as error:
        if type(error).__name__ != "TimeoutError":
            raise
        return False
    return bool(site.page.evaluate(SHOWN) != before)


def computed() -> list[dict[str, str]]:
    """The states of the lessons and of the tour that the page makes."""
    states = [dict(learn.lesson(topic).see.state) for topic in learn.topics()]
    states += [dict(stop.state) for stop in stops()]
    return [state for state in states if makes(state)]


@pytest.mark.slow("explore/static", "explore/server")
def test_cells_drawn_at_random_over_figures_of_lessons_answer(
    open_shared: Callable[..., Site], explorer: str
) -> None:
    site = open_shared(explorer, {"width": 1280, "height": 1400})
    draw = random.Random(0)
    answered = 0
    for _ in range(4 * CELLS):
        site.page.mouse.move(2, 2)
        site.open(urlencode(draw.choice(computed())), more=False)
        box = draw.choice(site.page.evaluate(PLACES))
        at = [box[side] + draw.uniform(0.1, 0.9) * box[size] for side, size in SIDES]
        before, address = site.page.evaluate(SHOWN), site.page.evaluate("location.hash")
        site.page.mouse.move(*at)
        if not site.page.locator(".stage.live").count():
            continue  # beside the cells, or in a chart that has none
        site.page.mouse.click(*at)
        site.page.wait_for_timeout(300)
        site.settle()
        if site.page.evaluate("location.hash") == address:
            continue  # the cursor stood there
        assert site.page.evaluate(SHOWN) != before, (address, at)
        answered += 1
        if answered == CELLS:
            return
    raise AssertionError(f"{answered} cells were found")


@pytest.mark.slow("explore/static", "explore/server")
def test_every_control_of_a_lesson_moves_its_figure(
    open_shared: Callable[..., Site], explorer: str
) -> None:
    site = open_shared(explorer)
    silent = []
    for state in computed():
        site.open(urlencode(state), more=False)
        keys = site.page.locator(".control").evaluate_all(CONTROLS)
        for key in [key for key in keys if site.page.locator(f"#{key}").is_visible()]:
            site.open(urlencode(state), more=False)
            control = site.page.locator(f"#{key}")
            if not after(site, lambda control=control: moved(control)):
                silent.append((state, key))
    # A rotation turns at the periods of the sinusoids of its base: the waves look the same.
    assert [(state["v"], key) for state, key in silent] == [("waves", "control-enc")]


def moved(control: Any) -> None:
    """Give a control another value than it has."""
    kind = control.evaluate("one => one.tagName === 'SELECT' ? 'choice' : one.type")
    if kind == "checkbox":
        control.click()
    elif kind == "choice":
        control.evaluate("one => { one.selectedIndex = one.selectedIndex ? 0 : 1; }")
        control.dispatch_event("change")
    else:
        # Twice as much: sizes are even, and a grid of a few cells more has no row more.
        twice = str(2 * max(1, int(float(control.input_value())))) if kind == "number" else ""
        control.fill(twice or "two words")
        control.dispatch_event("change")
