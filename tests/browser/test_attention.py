"""Words that are dragged, a shift that plays, and the cell under the pointer."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Site, led_around
from tests.browser.test_views import findings


def words(site: Site) -> list[str]:
    """The words as they stand on the page."""
    site.settle()
    return site.page.locator(".chip").all_inner_texts()


def middle(chip: Locator) -> tuple[float, float]:
    """The point of the page in the middle of a word."""
    box = chip.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_words_are_dragged_and_moved_by_keys(site: Site) -> None:
    site.open("v=attention&qk=random&softmax=0&text=John likes Jane today")
    page = site.page
    chips = page.locator(".chip")
    expect(chips).to_have_count(4)
    page.mouse.move(*middle(chips.first))
    page.mouse.down()
    for place in (1, 2):  # the word has arrived at a place before it is carried on
        page.mouse.move(*middle(chips.nth(place)), steps=4)
        expect(chips.nth(place)).to_have_text("John")
    page.mouse.up()
    assert words(site) == ["likes", "Jane", "John", "today"]
    page.locator(".chip").nth(2).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chip").nth(1)).to_be_focused()
    assert words(site) == ["likes", "John", "Jane", "today"]
    expect(page.locator(".chip").nth(1)).to_have_accessible_name(
        "John, place 2 of 4; the left and right arrows move it"
    )
    expect(page).to_have_url(re.compile(r"perm=1\.0\.2\.3"))  # which is written after a pause
    page.get_by_role("button", name="Jane likes John today").click()
    expect(page.locator(".column").first).to_contain_text("a bag of words")
    assert words(site) == ["Jane", "likes", "John", "today"]
    assert findings(page, "#panels") == []


def test_the_cell_under_the_pointer_is_explained(site: Site) -> None:
    site.open("v=attention&qk=random&softmax=0")
    page = site.page
    grid = page.locator(".column").nth(1).locator("canvas").first
    box = grid.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.1)
    readout = page.locator("#readout")
    expect(readout.locator("h2").first).to_have_text("“John” looks at “Jane”")
    expect(readout).to_contain_text("word · place")
    expect(readout).to_contain_text("slope × distance")
    page.mouse.down()
    page.mouse.up()
    site.settle()
    assert (site.value("qw"), site.value("kw")) == ("0", "2")
    page.keyboard.press("ArrowDown")
    expect(readout.locator("h2").first).to_have_text("“likes” looks at “Jane”")


def test_another_encoding_is_chosen_above_its_grid(site: Site) -> None:
    site.open("v=attention&qk=random&softmax=0&shift=600")
    page = site.page
    page.locator(".column select").first.select_option("learned")
    expect(page.locator(".column").first).to_contain_text("0 to 511")
    page.locator(".column select").first.select_option("shaw")
    expect(page.locator("#readout")).to_contain_text("query and place")
    assert [*findings(page, "#panels"), *findings(page, "#readout")] == []


def test_a_slider_plays_until_anything_happens(site: Site) -> None:
    site.open("v=attention&qk=random&softmax=0&shift=0")
    page = site.page
    play = page.get_by_role("button", name="Play: Shift by")
    play.click()
    expect(page.get_by_role("button", name="Stop: Shift by")).to_be_visible()
    for _ in range(100):
        page.wait_for_timeout(50)
        if int(site.value("shift")) > 3:
            break
    page.keyboard.press("Shift")
    expect(play).to_be_visible()
    site.settle()
    last = site.value("shift")
    page.wait_for_timeout(300)
    assert site.value("shift") == last
    assert int(page.evaluate("document.body.dataset.frames")) >= int(last)


def test_reduced_motion_goes_one_step(open_shared: Callable[..., Site], server: str) -> None:
    site = open_shared(server, reduced_motion="reduce")
    site.open("v=table&p=10")
    site.page.get_by_role("button", name="Step: Position").click()
    site.settle()
    site.page.wait_for_timeout(200)
    assert site.value("p") == "11"


def test_a_dial_of_the_readout_is_dragged(site: Site) -> None:
    site.open("v=table&p=10&j=4")
    page = site.page
    led_around(page, ".dial-block .dial-face", 1.6)  # a position turns pair 2 by 0.75
    expect(page.locator("#control-p")).to_have_value("12")
