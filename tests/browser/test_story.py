"""The story: seven scenes beside one figure, in one file that asks for nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import site as pages

import posenc
from posenc import learn, scaling
from tests.browser.conftest import Site
from tests.browser.serving import ROOT
from tests.browser.test_views import findings

SCENES = range(1, 8)
WIDTHS = {390: 844, 820: 1180, 1440: 900}
LARGEST = 90_000  # bytes of the page, compressed: a phone has it in seconds
# The figure as it stands: texts and curves, and the pixels of its pictures.
FIGURE = """() => [document.querySelector('#panels').innerHTML,
  ...[...document.querySelectorAll('#panels canvas')].filter((one) => !one.hidden)
    .map((one) => one.toDataURL())].join()"""
SETTLED = """([scene, frames]) => !document.body.matches('.asking')
  && document.body.dataset.scene?.startsWith(scene)
  && Number(document.body.dataset.frames) > frames && !document.getAnimations().length"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("story") / pages.FIRST
    path.write_text(pages.story(), encoding="utf-8")
    return path


def go(site: Site, scene: int) -> None:
    """Go to a scene by its address, and wait for its figure."""
    site.page.goto(f"{site.address}#scene={scene}")
    site.page.locator(f'#steps [aria-current][href="#scene={scene}"]').wait_for(state="attached")
    settle(site, f"Scene {scene}.")


def settle(site: Site, scene: str = "", after: int = 0) -> None:
    """Wait until the figure of a scene stands, after so many pictures."""
    site.page.wait_for_function(SETTLED, arg=[scene, after])


def frames(site: Site) -> int:
    return int(site.page.evaluate("document.body.dataset.frames"))


def unmoved(site: Site, choices: int) -> list[str]:
    """Move each control of a scene, to some of its choices or halfway; say which moved nothing."""
    still = []
    for key in site.page.locator("#controls .control").evaluate_all(
        "all => all.map((one) => one.querySelector('select, input').id)"
    ):
        control = site.page.locator(f"#{key}")
        options = control.locator("option").evaluate_all("all => all.map((one) => one.value)")
        present = control.input_value()
        low, high = (control.get_attribute(name) or "0" for name in ("min", "max"))
        values = options or [str(round((float(low) + float(high)) / 2))]
        # The present one last, so that the controls of the scene are again what they were.
        others = [one for one in values if one != present][:choices]
        for value in [*others, present] if options else others:
            before, made = site.page.evaluate(FIGURE), frames(site)
            if options:
                control.select_option(value)
            else:
                control.fill(value)
                control.dispatch_event("change")
            settle(site, after=made)
            if site.page.evaluate(FIGURE) == before:
                still.append(f"{key}={value}")
    return still


def wrong(page: Any) -> list[str]:
    """What does not fit, or cannot be read."""
    fits = {
        "the page is too wide": "document.documentElement.scrollWidth <= innerWidth",
        "the figure does not fit": "stage.scrollHeight <= stage.clientHeight + 1",
        "there is no sentence": "document.querySelector('#outcome').textContent.length > 20",
        "three controls are enough": "document.querySelectorAll('.control').length <= 3",
    }
    return [*(why for why, holds in fits.items() if not page.evaluate(holds)), *findings(page)]


def test_every_scene_has_an_address_and_its_controls_move_the_figure(
    open_shared: Callable[..., Site], file: Path
) -> None:
    site = open_shared(file.as_uri())
    figures = set()
    for scene in SCENES:
        go(site, scene)
        figures.add(site.page.evaluate(FIGURE))
        assert not unmoved(site, 1), scene
    assert len(figures) == len(SCENES)
    assert {url.partition("#")[0] for url in site.asked} == {file.as_uri()}
    assert len(zlib.compress(file.read_bytes(), 9)) <= LARGEST


@pytest.mark.slow("explore/static")
def test_every_choice_of_a_scene_is_another_figure(
    open_shared: Callable[..., Site], file: Path
) -> None:
    site = open_shared(file.as_uri(), {"width": 390, "height": 844})
    for scene in SCENES:
        go(site, scene)
        assert not unmoved(site, 9), scene


@pytest.mark.slow("explore/static")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_scene_fits_and_can_be_read(
    open_shared: Callable[..., Site], file: Path, pictures: Path, width: int, theme: str
) -> None:
    size = {"width": width, "height": WIDTHS[width]}
    site = open_shared(file.as_uri(), size, color_scheme=theme)
    for scene in SCENES:
        go(site, scene)
        site.page.screenshot(path=pictures / f"story-{scene}-{width}-{theme}.png")
        assert not wrong(site.page), scene


@pytest.mark.slow("explore/static")
def test_what_a_scene_says_is_so(open_shared: Callable[..., Site], file: Path) -> None:
    site = open_shared(file.as_uri(), {"width": 1440, "height": 900})
    says = site.page.locator("#outcome")

    def turn(key: str, value: str) -> None:
        made = frames(site)
        site.page.locator(f"#control-{key}").fill(value)
        site.page.locator(f"#control-{key}").dispatch_event("change")
        settle(site, after=made)

    def choose(key: str, value: str) -> None:
        made = frames(site)
        site.page.locator(f"#control-{key}").select_option(value)
        settle(site, after=made)

    # The sines of whole positions, 16 to a turn.
    go(site, 4)
    sines = np.sin(2 * np.pi * np.arange(64) / 16)
    for position, each in ((2, "two"), (4, "one"), (12, "one")):
        turn("p", str(position))
        alike = np.isclose(sines, sines[position]).sum()
        assert f"{alike} of 64 positions have this sine, {each} in" in says.inner_text()
    # The dot is at the product of the two rows, not at the mean of its distance.
    go(site, 5)
    choose("rows", "learned")
    heights = {}
    for distance in ("10", "63"):  # at 63 there is one pair of rows: no range
        turn("off", distance)
        heights[distance] = site.page.evaluate("""() => [
          Number(document.querySelector('circle.cursor').getAttribute('cy')),
          ...[...document.querySelector('path.line').getAttribute('d').matchAll(/,([-.0-9]+)/g)]
            .map(([, y]) => Number(y))]""")
    dot, *means = heights["10"]
    assert abs(dot - means[10]) > 5
    dot, *means = heights["63"]
    assert abs(dot - means[63]) <= 0.1  # the path's places
    assert "All at this distance" not in says.inner_text()
    # At one distance the score of rows that are added moves, and the one of what is turned stays.
    go(site, 6)
    added, turned = site.page.evaluate("""() => [...document.querySelectorAll('path.line')]
      .map((one) => [...one.getAttribute('d').matchAll(/,([-.0-9]+)/g)].map(([, y]) => Number(y)))
      .map((all) => Math.max(...all) - Math.min(...all))""")
    assert added > 20
    assert turned <= 0.1
    # What one pairing says of the other is what the other says itself.
    scores = r"the score is (\S+), and stays as both move. Paired as \w+ it is (\S+)\."
    halves = re.search(scores, says.inner_text())
    choose("pairs", "interleaved")
    neighbours = re.search(scores, says.inner_text())
    assert halves
    assert neighbours
    assert halves.groups() == neighbours.groups()[::-1] != neighbours.groups()
    # An angle is new if none of training is within a step; distances are those beyond training.
    go(site, 7)
    pace = 10000.0 ** (-np.arange(32) / 32)
    slow = 64 * pace < 2 * np.pi
    known = np.exp(1j * np.arange(64)[:, None] * pace)
    for rule, law in (("rope", None), ("linear", scaling.Linear), ("yarn", scaling.YaRN)):
        choose("how", rule)
        for factor in (2, 8, 16):
            turn("f", str(factor))
            scaled = pace
            if law:
                own = {} if rule == "linear" else {"original_length": 64}
                rope = posenc.RoPE(64, pairing="half", scaling=law(factor, **own))
                scaled = rope.frequencies
            far = np.exp(1j * np.arange(64, 64 * factor)[:, None] * scaled)
            least = np.array([np.abs(np.angle(far / each)) for each in known]).min(0)
            new = (least > pace * (1 + 1e-9)).any(0) & slow
            expected = f"Beyond distance 63, {new.sum()} of {slow.sum()} slow pairs"
            assert says.inner_text().startswith(expected), (rule, factor)
        turn("f", "1")
        assert "no distance is new" in says.inner_text()


@pytest.mark.slow("explore/static")
def test_scrolling_moves_the_figure_until_a_control_does(
    open_shared: Callable[..., Site], file: Path
) -> None:
    site = open_shared(file.as_uri(), {"width": 1440, "height": 900})
    go(site, 3)
    position = site.page.locator("#control-p")
    before = position.input_value()
    site.page.mouse.move(200, 500)
    site.page.mouse.wheel(0, 700)
    site.page.wait_for_function(
        "before => document.querySelector('#control-p').value !== before", arg=before
    )
    position.fill("5")
    position.dispatch_event("change")
    settle(site)
    site.page.mouse.wheel(0, 60)
    site.page.wait_for_timeout(200)
    assert position.input_value() == "5"
    site.page.mouse.wheel(0, 900)
    settle(site, "Scene 4.")
    assert site.page.evaluate("location.hash") == "#scene=4"


@pytest.mark.slow("explore/static")
def test_with_reduced_motion_scrolling_only_steps(
    open_shared: Callable[..., Site], file: Path
) -> None:
    site = open_shared(file.as_uri(), {"width": 1440, "height": 900}, reduced_motion="reduce")
    go(site, 3)
    before = site.page.evaluate(FIGURE)
    site.page.mouse.move(200, 500)
    site.page.mouse.wheel(0, 300)
    site.page.wait_for_timeout(300)
    assert site.page.evaluate(FIGURE) == before
    play = site.page.get_by_role("button", name="Step: Position")
    play.press("Enter")
    site.page.wait_for_function("document.querySelector('#control-p').value === '32'")


@pytest.mark.slow("explore/static")
def test_the_keyboard_is_enough(open_shared: Callable[..., Site], file: Path) -> None:
    site = open_shared(file.as_uri())
    go(site, 1)
    grids = """() => [...document.querySelectorAll('.column')]
      .map((one) => one.querySelector('canvas').toDataURL())"""
    typed, now = site.page.evaluate(grids)
    assert typed == now
    site.page.get_by_role("button", name=re.compile("^John, place 1")).focus()
    site.page.keyboard.press("ArrowRight")
    site.page.get_by_text("The words have changed places").first.wait_for()
    assert site.page.evaluate(grids)[0] == typed  # it stays, and the other is of the new order
    assert site.page.evaluate(grids)[1] != typed
    assert site.page.locator(".join").count() == 3  # each word gets what it got
    before, after = site.page.locator(".column").nth(1).locator("[aria-hidden].tile").all()
    assert before.evaluate("one => one.toDataURL()") == after.evaluate("one => one.toDataURL()")
    names = site.page.locator(".column:nth-child(2) .stage:nth-of-type(2) text")
    assert names.all_text_contents()[2:] == ["John", "likes", "Jane"]
    go(site, 5)
    before = site.page.locator("#outcome").inner_text()
    site.page.locator("#panels canvas").first.focus()
    site.page.keyboard.press("ArrowDown")
    site.page.wait_for_function(
        "before => document.querySelector('#outcome').innerText !== before", arg=before
    )
    site.page.locator("#steps a").nth(6).focus()
    site.page.keyboard.press("Enter")
    settle(site, "Scene 7.")


@pytest.mark.slow("explore/static")
def test_without_a_script_texts_and_pictures_of_lessons_stand(
    open_site: Callable[..., Site], file: Path
) -> None:
    (file.parent / "learn" / "see").mkdir(parents=True)
    for topic in learn.topics():
        picture = file.parent / "learn" / "see" / f"{topic}.png"
        shutil.copy(ROOT / "docs" / "img" / "table.png", picture)
    page = open_site(file.as_uri(), java_script_enabled=False).page
    page.goto(file.as_uri())
    assert page.locator(".scene h2:visible").count() == len(SCENES)
    stills = page.locator(".scene img").all()
    assert len(stills) == len(SCENES) - 1
    alts = {f"learn/see/{topic}.png": learn.lesson(topic).see.alt for topic in learn.topics()}
    for still in stills:
        assert still.get_attribute("alt") == alts[str(still.get_attribute("src"))]
        assert still.bounding_box()["height"] > 100  # it has been let in, and is there
    assert not page.locator("#stage:visible").count()


@pytest.mark.slow("explore/static")
def test_firefox_draws_every_scene(file: Path) -> None:
    """By WebDriver BiDi, where Firefox, Node and its package puppeteer-core are installed."""
    browser, node = (shutil.which(name) for name in ("firefox-esr", "node"))
    if not browser or not node:
        pytest.skip("firefox-esr or node is not installed")
    check = ROOT / "tests" / "browser" / "firefox.check.cjs"
    arguments = [node, str(check), browser, file.as_uri()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    if "Cannot find module 'puppeteer-core'" in done.stderr:
        pytest.skip("puppeteer-core is not installed, or NODE_PATH does not lead to it")
    assert done.returncode == 0, done.stdout + done.stderr
