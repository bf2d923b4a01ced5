"""The address holds the state; views, Compare, Find, the tour and the dialogs change it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from posenc.explore import frame, unpack
from posenc.explore.server.document import NOTE, document
from tests.browser.conftest import Site
from tests.browser.test_cursor import centre
from tests.browser.test_views import findings, screen


def test_an_address_is_a_picture(open_shared: Callable[..., Site], server: str) -> None:
    site = open_shared(server)
    site.open("v=table&d=48&L=96&p=30&j=7&n=500")
    expect(site.page).to_have_url(re.compile(r"#k=1&v=table&L=96&d=48&j=7&n=500&p=30$"))
    address, shown = site.page.url, screen(site.page)
    site.leave()
    again = open_shared(server)  # as a reader who has seen nothing of it
    again.page.goto(address)
    again.settle()
    assert (shown == screen(again.page)).all()
    assert [again.value(key) for key in ("d", "L", "p", "j", "n")] == ["48", "96", "30", "7", "500"]


def test_what_was_set_stays_and_strangers_are_noted(site: Site) -> None:
    site.open("k=1&v=table&d=128&colour=red")
    expect(site.page).to_have_url(re.compile(r"v=table&colour=red&d=128$"))
    assert "colour" in site.page.locator("#notes").inner_text()


def test_settings_survive_views_with_other_defaults(site: Site) -> None:
    site.open("v=table")
    page = site.page
    for key, text in (("d", "16"), ("p", "100"), ("j", "9")):
        page.locator(f"#control-{key}").fill(text)
        page.keyboard.press("Enter")
        site.settle()
    for view in ("rotate", "bias", "stretch", "distance", "table"):
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#tab-{view}")).to_have_attribute("aria-selected", "true")
        site.settle()
    assert [site.value(key) for key in ("d", "p", "j")] == ["16", "100", "9"]


def test_the_tour_shows_its_own_picture_and_gives_back_the_reader_s(site: Site) -> None:
    site.open("v=bias&enc=alibi&heads=4&L=64")
    page = site.page
    page.locator("#tour-start").click()
    bar = page.locator("#tour")
    expect(bar.locator(".question")).to_be_visible()
    expect(page.locator("#tab-attention")).to_have_attribute("aria-selected", "true")
    site.settle()
    assert site.value("d") == "64"
    page.locator("#tab-waves").click()
    expect(bar.locator(".question")).to_have_count(0)
    bar.get_by_role("button", name="Show the picture of this stop").click()
    expect(bar.locator(".question")).to_be_visible()
    page.reload()
    site.settle()
    bar.get_by_role("button", name="Leave the tour").click()
    expect(page.locator("#tab-bias")).to_have_attribute("aria-selected", "true")
    expect(bar).to_be_hidden()
    site.settle()
    assert [site.value(key) for key in ("heads", "L")] == ["4", "64"]


def test_back_returns_to_the_view_before(site: Site) -> None:
    site.open("v=table&d=64")
    page = site.page
    page.keyboard.press("]")
    site.settle()
    expect(page.locator("#tab-waves")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    site.settle()
    page.wait_for_timeout(250)
    page.go_back()
    site.settle()
    expect(page.locator("#tab-table")).to_have_attribute("aria-selected", "true")
    assert site.value("d") == "64"
    page.go_forward()
    site.settle()
    expect(page.locator("#tab-waves")).to_have_attribute("aria-selected", "true")


def test_tabs_follow_the_arrow_keys(site: Site) -> None:
    site.open("v=table")
    page = site.page
    page.locator("#tab-table").focus()
    for key, view in (("ArrowRight", "waves"), ("End", "layers"), ("ArrowRight", "attention")):
        page.keyboard.press(key)
        site.settle()
        expect(page.locator(f"#tab-{view}")).to_be_focused()
        expect(page.locator(f"#tab-{view}")).to_have_attribute("aria-selected", "true")


def test_a_mistake_keeps_the_picture_and_is_told_at_its_field(site: Site) -> None:
    site.open("v=table&d=64&L=50")
    page = site.page
    before = screen(page, ".stage")
    field = page.locator("#control-d")
    field.fill("0")
    field.press("Enter")
    site.settle()
    problem = page.locator("#problem-d")
    expect(problem).to_be_visible()
    assert "at least" in problem.inner_text()
    assert "Drawn" not in problem.inner_text(), "the last picture stays"
    assert "problem-d" in (field.get_attribute("aria-describedby") or "")
    assert field.get_attribute("aria-invalid") == "true"
    assert field.input_value() == "0"
    assert (screen(page, ".stage") == before).all()
    expect(page).to_have_url(re.compile("d=64"))
    assert findings(page, "#settings") == []
    field.fill("32")
    field.press("Enter")
    site.settle()
    expect(problem).to_be_hidden()
    assert field.get_attribute("aria-invalid") is None
    assert (screen(page, ".stage").shape != before.shape) or (
        screen(page, ".stage") != before
    ).any()


def test_a_mistake_of_an_address_shows_what_is_drawn(site: Site) -> None:
    site.open("v=table&d=0")
    assert site.value("d") == "1"
    assert "at least 1" in site.page.locator("#problem-d").inner_text()
    site.open("v=attention&qk=random&d=7")
    assert site.value("d") == "64"


def test_keys_are_named_where_they_do_something(site: Site) -> None:
    does = {"table": "cursor find compare", "scene": "cursor", "layers": "compare"}
    for view, keys in does.items():
        site.open(f"v={view}")
        named = site.page.locator("#foot [data-does]:visible").evaluate_all(
            "all => all.map((one) => one.dataset.does)"
        )
        assert named == keys.split(), view


def test_compare_pins_and_ends(site: Site) -> None:
    site.open("v=table&d=32&L=64")
    page = site.page
    page.keyboard.press("c")
    site.settle()
    expect(page.locator("#versus")).to_be_visible()
    expect(page).to_have_url(re.compile(r"b\.enc=sinusoidal"))
    page.locator("#control-n").fill("100")
    page.keyboard.press("Enter")
    site.settle()
    assert page.locator("canvas.tile:visible").count() == 3, "A, B and A - B"
    assert findings(page) == []
    page.locator("#compare").click()
    site.settle()
    expect(page.locator("#versus")).to_be_hidden()
    assert "b." not in page.url


def test_find_tells_places_and_goes_there(site: Site, pictures: object) -> None:
    site.open("v=table&d=32&L=512")
    page = site.page
    page.keyboard.press("f")
    expect(page.locator("#control-find")).to_be_focused()
    page.keyboard.type("0.841471 @ 0")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_be_visible()
    site.settle()
    found = page.locator("#found")
    expect(found.locator(".answered")).to_have_text("Position 1.")
    assert found.bounding_box()["height"] < 260
    found.locator("summary").click()
    expect(found.locator("details p").first).to_be_visible()
    assert findings(page, "#found") == []
    page.keyboard.press("Tab")
    page.locator("#figure").focus()
    page.keyboard.press("ArrowDown")
    site.settle()
    expect(found.locator("details p").first).to_be_visible()
    found.locator(".link").first.click()
    site.settle()
    assert "p=" in page.url
    page.locator("#figure").focus()
    page.keyboard.press("Escape")
    site.settle()
    expect(page.locator("#found")).to_be_hidden()


def test_an_encoding_is_found_by_its_name(site: Site) -> None:
    site.open("v=table")
    search = site.page.locator("#search-enc")
    for typed, chosen in (("whisper", "preset:whisper"), ("rotations modern", "preset:modernbert")):
        search.fill(typed)
        search.press("Enter")
        site.settle()
        expect(site.page.locator("#control-enc")).to_have_value(chosen)
        expect(search).to_have_value("")
    search.fill("no such thing")
    search.press("Enter")
    expect(search).to_have_attribute("aria-invalid", "")
    assert site.page.locator("#search-ladder").is_hidden()


def test_without_a_script_nothing_is_offered_that_does_nothing(
    open_site: Callable[..., Site], server: str
) -> None:
    page = open_site(server, java_script_enabled=False).page
    page.goto(server)
    assert "JavaScript" in page.locator("noscript").inner_text()
    for button in page.locator("button").all():
        assert not button.is_visible()


def test_settings_on_a_phone_leave_the_picture_in_sight(
    open_shared: Callable[..., Site], server: str
) -> None:
    site = open_shared(server, viewport={"width": 390, "height": 844})
    site.open("v=table")
    page = site.page
    page.locator("#settings-toggle").click()
    page.wait_for_timeout(100)
    picture, sheet = (
        page.locator(name).first.bounding_box() for name in ("canvas.tile", "#settings")
    )
    assert picture["y"] >= 0
    assert picture["y"] + picture["height"] <= sheet["y"]
    assert sheet["y"] + sheet["height"] <= 844 + 1
    assert findings(page, "#settings") == []
    field = page.locator("#control-d")
    field.fill("32")
    field.press("Enter")
    site.settle()
    assert page.locator("canvas.tile").first.bounding_box()["y"] >= 0


def test_the_theme_follows_the_system_until_it_is_chosen(
    open_shared: Callable[..., Site], server: str
) -> None:
    site = open_shared(server, color_scheme="dark")
    site.open("v=table")
    page = site.page
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    assert "theme=dark" in site.asked[-1]
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    page.keyboard.press("t")
    site.settle()
    expect(root).to_have_attribute("data-theme", "dark")
    assert "theme=dark" in site.asked[-1]
    assert "theme" not in page.url
    page.reload()
    site.settle()
    expect(root).to_have_attribute("data-theme", "dark")


def test_the_snippet_of_show_python_runs(site: Site) -> None:
    page, codes = site.page, []
    for view in ("table", "stretch"):
        site.open(f"v={view}")
        page.locator("#show-python").click()
        code = page.locator("#python-code").inner_text()
        assert findings(page, "dialog") == []
        exec(compile(code, "snippet", "exec"), {})
        assert "posenc" in code
        codes.append(code)
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)
    assert codes[0] != codes[1]


def test_help_table_link_and_files(site: Site) -> None:
    site.open("v=table&d=24")
    page = site.page
    page.keyboard.press("?")
    expect(page.locator("dialog h2")).to_have_text("Keys and pointer")
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.locator("#data-table").click()
    table = page.locator("dialog table")
    expect(table.locator("tbody tr")).to_have_count(20)
    assert table.locator("caption").inner_text()
    page.keyboard.press("Escape")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy-link").click()
    expect(page.locator("#toast")).to_have_text("Link copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.context.clear_permissions()
    page.locator("#save").click()
    with page.expect_download() as download:
        page.locator(".menu a", has_text="CSV").click()
    assert download.value.suggested_filename.endswith(".csv")
    assert len(download.value.path().read_text().splitlines()) > 100


def test_a_stop_of_the_tour_asks_before_it_tells(site: Site) -> None:
    site.open("v=table")
    page = site.page
    page.locator("#tour-start").click()
    bar = page.locator("#tour")
    expect(bar).to_contain_text("1 of")
    site.settle()
    assert findings(page) == []
    expect(bar.locator(".explanation")).to_have_count(0)
    bar.locator(".answer").first.click()
    expect(bar.locator(".explanation")).to_be_visible()
    assert bar.locator(".answer.right").count() == 1
    assert findings(page, "#tour") == []
    address = page.url
    bar.get_by_role("button", name="Next stop").click()
    expect(bar).to_contain_text("2 of")
    page.go_back()
    site.settle()
    expect(bar).to_contain_text("1 of")
    assert "tour=1" in address
    bar.get_by_role("button", name="Leave the tour").click()
    expect(bar).to_be_hidden()
    assert "tour" not in page.url


READ = """() => [document.querySelector("#readout").innerText,
  ...[...document.querySelectorAll("#panels [aria-label]")].map((node) => node.ariaLabel),
  ...[...document.querySelectorAll("#panels svg text")].map((node) => node.textContent)]"""


def test_a_page_of_its_own_reads_as_the_live_one(
    site: Site, open_site: Callable[..., Site], tmp_path: Path
) -> None:
    start = {"v": "table", "d": "16", "L": "16", "p": "3", "j": "4"}
    other = {"v": "distance", "d": "8", "L": "16", "off": "3", "p": "4"}
    learned = {"v": "table", "enc": "learned", "d": "8", "L": "12"}
    file = tmp_path / "own.html"
    file.write_bytes(document([start, other, learned]))
    live, site = site, open_site(file.as_uri(), permissions=["clipboard-read"])
    page = site.page
    page.goto(file.as_uri())
    live.open("v=table&d=16&L=16&p=3&j=4")
    site.settle()
    assert findings(page) == []

    def alike(more: int = 3) -> None:
        for one in (site, live):
            one.settle()
            one.page.wait_for_timeout(50)
        own, expected = page.evaluate(READ), live.page.evaluate(READ)
        assert own[1:] == expected[1:]
        lines, told = own[0].splitlines(), expected[0].splitlines()
        assert [line for line in lines[: len(lines) - more] if line] == [
            line for line in told if line
        ]

    alike()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Shift+ArrowDown"):
        for one in (site, live):
            one.page.keyboard.press(key)
        alike()
    assert (site.value("p"), site.value("j")) == ("14", "6")
    for one in (site, live):
        one.page.mouse.move(*centre(one, 9, 12, 16, 16))
    alike()
    assert (site.value("p"), site.value("j")) == ("9", "12")
    page.mouse.move(5, 5)
    for gone in ("#compare", "#save", "#show-python"):
        assert page.locator(gone).count() == 0, gone
    page.locator(".more").evaluate("more => more.open = true")
    for key in ("d", "L", "s", "n", "p", "j"):
        field, drawn = page.locator(f"#control-{key}"), page.locator("#panels").inner_html()
        field.fill(str(float(field.input_value()) * 2 + 2))
        field.press("Enter")
        page.wait_for_function(
            "html => document.querySelector('#panels').innerHTML !== html", arg=drawn
        )
        expect(page.locator("#toast")).to_be_hidden()
    page.locator("#tab-distance").click()
    expect(page.locator("#tab-distance")).to_have_attribute("aria-selected", "true")
    site.settle()
    assert (site.value("off"), site.value("p")) == ("3", "4")
    page.locator("#copy-link").click()
    page.get_by_role("button", name="Line for a web page").click()
    line = page.evaluate("navigator.clipboard.readText()")
    assert set(site.asked) == {file.as_uri()}, "one file and nothing else"
    around = tmp_path / "around.html"
    around.write_text(line)
    page.goto(around.as_uri())
    inside = page.frame_locator("iframe")
    expect(inside.locator("canvas.tile").first).to_be_visible()
    expect(inside.locator(".tools")).to_be_hidden()
    expect(inside.locator("#title")).to_have_text("What does the model see between two positions?")


def test_what_a_page_of_its_own_does_not_compute_stands_still_and_says_so(
    open_shared: Callable[..., Site], tmp_path: Path
) -> None:
    learned = {"v": "table", "enc": "learned", "d": "8", "L": "12", "p": "3"}
    file = tmp_path / "own.html"
    file.write_bytes(document([{"v": "waves"}, learned, {"v": "table"}, {"v": "layers"}]))
    site = open_shared(file.as_uri())
    page = site.page
    site.open("v=waves", more=False)
    page.locator("#tab-table").click()
    expect(page.locator("#notes")).to_contain_text(NOTE)
    expect(page.locator("canvas.tile").first).to_be_visible()
    assert page.locator("#settings input").count() == 0
    assert findings(page) == []
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    site.settle()
    assert findings(page) == []
    page.locator("#data-table").click()
    table = unpack(frame({**learned, "numbers": "1"})).header["data_table"]
    expect(page.locator("dialog table")).to_contain_text(table["rows"][3][1])
    page.keyboard.press("Escape")
    page.mouse.click(*centre(site, 9, 5, 12, 8))
    expect(page.locator("#toast")).to_contain_text("does not compute")
    page.get_by_role("button", name="first settings").click()
    expect(page.locator("#notes")).to_be_hidden()
    assert site.value("d") == "128"
    page.locator("#tab-layers").click()
    expect(page.locator("#title")).to_have_text("What does each layer know of positions?")
    expect(page.locator("#notes")).to_contain_text(NOTE)


def test_every_stop_of_the_tour_opens(site: Site) -> None:
    site.open("v=table")
    page = site.page
    page.locator("#tour-start").click()
    bar = page.locator("#tour")
    expect(bar.locator(".count")).to_contain_text("1 of")
    last = int(bar.locator(".count").inner_text().split()[-1])
    assert last >= 8
    for number in range(1, last + 1):
        expect(bar.locator(".count")).to_have_text(f"{number} of {last}")
        site.settle()
        expect(bar.locator(".explanation")).to_have_count(0)
        expect(page.locator("#notes")).to_be_hidden()
        bar.get_by_role("button", name="Show the answer").click()
        expect(bar.locator(".explanation")).to_be_visible()
        expect(bar.locator(".answer.right")).to_have_count(1)
        site.settle()
        expect(page.locator("#notes")).to_be_hidden()
        if number < last:
            bar.get_by_role("button", name="Next stop").click()
    assert bar.get_by_role("button", name="Next stop").count() == 0
