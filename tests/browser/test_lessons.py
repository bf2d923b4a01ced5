"""Figures of lessons come alive in their page; the quiz asks, judges and explains by keys alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from posenc.explore.server.document import document
from posenc.learn import Number, judge, lesson, pages, question, quiz_page
from posenc.learn.pages import SEEDS
from tests.browser.conftest import Site
from tests.browser.serving import ROOT
from tests.browser.test_views import findings

LINES = [
    "",
    "abc",
    "2,5",
    "1,000",
    "1,00",
    "-1.5",
    "\N{MINUS SIGN}1.5",
    "2_0",
    "1e3",
    "1e999",
    "0x1",
]


@pytest.fixture(scope="module")
def quiz_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quiz") / "quiz.html"
    path.write_text(quiz_page(), encoding="utf-8")
    return path


def opened(open_page: Callable[..., Site], path: Path, topic: str = "", **settings: Any) -> Any:
    page = open_page(path.as_uri(), **settings).page
    page.goto(f"{path.as_uri()}#{topic}")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_against_the_quiz(
    open_shared: Callable[..., Site], quiz_file: Path, scheme: str
) -> None:
    page = opened(open_shared, quiz_file, "rope", color_scheme=scheme)
    for wanted in ("picture", "value", "options"):
        page.evaluate(f"while (!asked.{wanted}) {{ place += 1; show(false); }}")
        assert not findings(page)
    page.evaluate("solve('wrong')")
    assert not findings(page)


def test_the_keyboard_is_enough(open_shared: Callable[..., Site], quiz_file: Path) -> None:
    page = opened(open_shared, quiz_file, "attention")
    seen = set()
    for turn in range(4):
        asked = page.evaluate("asked")
        seen.add(asked["id"])
        page.locator("#answer input").first.focus()
        if "options" in asked:
            names = [name for name, _ in asked["options"]]
            for _ in range(names.index(asked["right"]) or len(names)):
                page.keyboard.press("ArrowDown")
        else:
            page.keyboard.type(repr(asked["value"]))
        page.keyboard.press("Enter")
        said = page.locator("#said").inner_text()
        assert said.startswith("Right.")
        assert asked["explanation"].replace("`", "") in said
        assert page.locator("#check").text_content() == asked["check"]
        page.keyboard.press("Enter")  # the button for the next one has the focus
        assert page.locator("#count").inner_text() == f"{turn + 1} of {turn + 1} right so far"
        assert page.evaluate("document.activeElement.id") == "prompt"
    assert seen == {"weight", "which-sharper"}


def test_a_wrong_answer_gets_the_right_one_and_the_reason(
    open_shared: Callable[..., Site], quiz_file: Path
) -> None:
    page = opened(open_shared, quiz_file, "why")
    asked = page.evaluate("asked")
    texts = dict(asked["options"])
    wrong = next(text for name, text in texts.items() if name != asked["right"])
    page.get_by_label(wrong, exact=True).check()
    page.get_by_role("button", name="Answer").click()
    said = page.locator("#said").inner_text()
    assert said.startswith(f"No, not {wrong}. The answer: {texts[asked['right']]}")
    assert asked["explanation"] in said
    page.get_by_role("button", name="Next question").click()
    assert page.locator("#count").inner_text() == "0 of 1 right so far"


def test_the_page_judges_as_the_command_does(
    open_shared: Callable[..., Site], quiz_file: Path
) -> None:
    page = opened(open_shared, quiz_file)
    for topic, name in (("attention", "weight"), ("binary", "flips"), ("biases", "alibi-distance")):
        asked = question(topic, name, SEEDS[0])
        assert isinstance(asked.answer, Number)
        value, margin = asked.answer.value, asked.answer.margin
        lines = [*LINES, repr(value), repr(value + 0.99 * margin), repr(value + 1.01 * margin + 1)]
        about = {"value": value, "margin": margin}
        judged = page.evaluate(
            "([asked, lines]) => lines.map((l) => judge(asked, l)[0])", [about, lines]
        )
        assert judged == [judge(asked, line).kind for line in lines]


def test_every_draw_is_in_the_page() -> None:
    text = quiz_page().partition('id="questions">')[2].partition("</script>")[0]
    asked = json.loads(text)["questions"]
    assert {(one["topic"], one["id"]) for one in asked} == {
        (topic, name) for topic in pages.topics() for name in pages.question_ids(topic)
    }
    assert len(asked) > 2 * len({(one["topic"], one["id"]) for one in asked})


def test_a_figure_comes_alive(
    open_site: Callable[..., Site], open_shared: Callable[..., Site], tmp_path: Path
) -> None:
    """Without a script the picture stays; with one the page that computes takes its place."""
    see = lesson("rope").see
    for name in ("seen", "learn", "learn/see"):
        (tmp_path / name).mkdir()
    (tmp_path / "seen" / "rope.html").write_bytes(document([see.state]))
    shutil.copy(ROOT / "docs" / "img" / "table.png", tmp_path / "learn" / "see" / "rope.png")
    shutil.copy(ROOT / "docs" / "_static" / "lessons.js", tmp_path / "learn")
    figure = (ROOT / "docs" / "learn" / "rope.md").read_text("utf-8")
    figure = figure[figure.index("<figure") : figure.index("</figure>") + 9]
    path = tmp_path / "learn" / "rope.html"
    path.write_text(
        "<!doctype html><html lang=en><title>RoPE</title><style>p { height: 3000px }</style>"
        f'<script src="lessons.js"></script><main><p>Far down.</p>{figure}</main></html>',
        encoding="utf-8",
    )
    still = opened(open_site, path, java_script_enabled=False)
    assert still.locator("img").get_attribute("alt") == unescape(see.alt)
    page = opened(open_shared, path)
    assert page.locator("iframe").count() == 0
    page.locator("figure").scroll_into_view_if_needed()
    page.locator("iframe").wait_for()
    inside = page.frame_locator("iframe")
    inside.locator("body[data-frames], .page[data-frames]").first.wait_for(timeout=60_000)
    assert page.locator("img").count() == 0
    assert page.locator("iframe").get_attribute("title") == see.alt
