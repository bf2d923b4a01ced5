"""No state, however wrong, raises: it gives a frame that decodes, and says what was wrong."""

from __future__ import annotations

import functools
import json
import math
import re
import tracemalloc
from urllib.parse import quote, urlencode

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from posenc.explore import Session, app, frame, unpack
from posenc.explore.state import catalogue
from posenc.explore.state.entry import CatalogueEntry
from posenc.explore.state.scene import read
from posenc.explore.views import SHAPES
from tests.asynchronous import finished
from tests.cases import CASES
from tests.drawing import drawn

KEYS = sorted(
    {"k", "v", "enc", "w", "h", "theme", "find", "tour", "reveal", "p", "j", "p0", "p1", "j0", "j1"}
    | {f.key for shape in SHAPES.values() for f in shape.fields}
    | {f.key for entry in catalogue.entries() for f in entry.fields}
)
KEYS += [f"b.{key}" for key in ("enc", "d", "n", "order", "heads", "pairing", "L", "s")]
NASTY = [
    "",
    " ",
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1e999",
    "-1e999",
    "nan",
    "NaN",
    "inf",
    "9" * 30,
    "9" * 5000,
    "1e-320",
    "0.5",
    "１２",
    "٣",
    "\ud800",
    "\x00",
    "12\n",
    "<script>alert(1)</script>",
    "⁵",
    "1_000",
    "0x10",
    "−3",
    "0.488814 @ 1088",
    "0.5 @ 3; 0.1 @ 4",
    "1 2 3",
    "@",
    "1e400 @ 2",
]
SMALL = st.sampled_from(["1", "2", "3", "8", "33", "64"])
CHOICES = [
    o.value
    for e in ("sinusoidal", "rope", "alibi")
    for f in catalogue.by_id()[e].fields
    for o in f.options
] + list(SHAPES)
CHOICES += [entry.id for entry in catalogue.entries()]
TEXTS = st.one_of(st.text(max_size=30), st.sampled_from(NASTY), st.sampled_from(CHOICES), SMALL)
STATES = st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=8)), TEXTS, max_size=12)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def checked(data: bytes) -> dict:
    """The header of a frame whose every array is there, whole and named once."""
    message = unpack(data)
    named = set()

    def look(value) -> None:
        if isinstance(value, dict):
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)
        elif isinstance(value, str) and re.fullmatch(r"@[0-9]+", value):
            named.add(value)

    look({k: v for k, v in message.header.items() if k not in ("arrays", "state", "find")})
    assert named <= set(message.arrays)
    assert len(message.arrays) >= 3
    for panel in message.header["panels"]:
        kinds = {"heatmap", "chart", "strips", "dials", "matrix", "table", "words", "chips", "arcs"}
        assert panel["kind"] in kinds | {"attention"}
        for cell in panel["cells"] if panel["kind"] == "attention" else ():
            assert message.arrays[cell["grid"]["tile"]].dtype == np.uint8
            assert (
                bool(cell["words"]) == (cell["before"] is not None) == (cell["after"] is not None)
            )
        for array in ("tile",):
            if array in panel:
                assert message.arrays[panel[array]].dtype == np.uint8
        for axis in (panel.get("x"), panel.get("y")):
            assert axis is None or (
                None not in axis["domain"] and axis["domain"][0] < axis["domain"][1]
            )
            assert axis is None or all(
                tick["at"] is not None and tick["text"] for tick in axis["ticks"]
            )
        for mark in panel.get("marks", []) + panel.get("lines", []):
            assert mark["at"] is not None
    for problem in message.header["problems"]:
        assert problem["message"]
        assert isinstance(problem["field"], str)
    json.dumps(message.header, allow_nan=False, ensure_ascii=False).encode()
    return message.header


@given(STATES)
@FEW
@pytest.mark.costly
def test_any_state_gives_a_frame(state):
    header = checked(frame(state))
    assert header["view"] in SHAPES


@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(KEYS), st.sampled_from(NASTY))
@FEW
@pytest.mark.costly
def test_any_key_of_any_view_may_be_wrong(view, key, text):
    checked(frame({"v": view, key: text}))


@given(STATES)
@example({"b.heads": "\ud800"})
@FEW
@pytest.mark.costly
def test_what_a_frame_says_of_its_state_gives_the_same_frame(state):
    """The address that a frame asks for leads back to it."""
    first = unpack(frame(state)).header
    seen = {k: v for k, v in state.items() if k in ("w", "h", "theme") and isinstance(v, str)}
    again = unpack(frame({**first["address"], **seen})).header
    assert again["state"] == first["state"]
    assert again["title"] == first["title"]
    assert again["lead"] == first["lead"]
    assert again["say"] == first["say"]


SETTINGS = st.fixed_dictionaries(
    {"v": st.sampled_from(sorted(SHAPES))},
    optional={
        "enc": st.sampled_from(
            ["sinusoidal", "learned", "trained:learned", "rope", "alibi", "preset:llama3"]
        ),
        "d": st.sampled_from(["2", "15", "16", "32", "128", "5000"]),
        "n": st.sampled_from(["10000", "500"]),
        "L": st.sampled_from(["1", "64", "128", "45000"]),
        "s": st.sampled_from(["0", "70"]),
        "p": st.sampled_from(["0", "40", "100", "150"]),
        "j": st.sampled_from(["2", "9", "21", "127"]),
        "j0": st.sampled_from(["0", "8"]),
        "j1": st.sampled_from(["16", "128"]),
        "heads": st.sampled_from(["1", "8"]),
        "m": st.sampled_from(["7", "9"]),
        "off": st.sampled_from(["4", "10"]),
        "Lt": st.sampled_from(["4096", "64"]),
        "loss": st.sampled_from(["0", "1"]),
        "pairing": st.sampled_from(["half", "interleaved"]),
        "order": st.sampled_from(["interleaved", "sin_cos"]),
        "b.enc": st.sampled_from(["learned", "rope"]),
    },
)


@given(SETTINGS, st.lists(st.sampled_from(sorted(SHAPES)), max_size=6))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.costly
def test_what_was_set_survives_every_way_through_the_views(state, way):
    first = frame(state)
    present = state
    for view in [*way, state["v"]]:
        # What the page does with a frame: what it had, and what the frame says of it.
        present = {**present, **unpack(frame(present)).header["address"], "v": view}
    assert {k: present[k] for k in state} == state
    assert unpack(frame(present)).header == unpack(first).header


@pytest.mark.parametrize(
    ("state", "field", "words"),
    [
        ({"d": "0"}, "d", "at least 1; 0 came"),
        ({"d": "70000"}, "d", "at most 65,536"),
        ({"d": "twelve"}, "d", "expected a whole number, got ‘twelve’"),
        ({"d": "１２"}, "d", "expected a whole number"),
        ({"d": "1.5"}, "d", "expected a whole number"),
        ({"n": "nan"}, "n", "expected a number"),
        ({"n": "1e999"}, "n", "at most"),
        ({"L": "-3"}, "L", "at least 1; −3 came"),
        ({"order": "sideways"}, "order", "not offered"),
        ({"v": "tabel"}, "v", "Did you mean 'table'?"),
        ({"enc": "sinusoid"}, "enc", "not offered"),
        ({"v": "rotate", "d": "15"}, "d", "even"),
        ({"find": "0.5"}, "find", "needs its dimension"),
        ({"find": "2 @ 500"}, "find", "0 to 127"),
        ({"v": "attention", "text": "  "}, "text", "at least 2 words"),
    ],
)
def test_a_wrong_value_is_named_at_its_field(state, field, words):
    problems = unpack(frame({"v": "table", **state})).header["problems"]
    assert [p["field"] for p in problems] == [field]
    assert words in problems[0]["message"]


def test_half_a_surrogate_pair_is_replaced_before_it_goes_anywhere():
    header = checked(frame({"v": "sentence", "text": "a \ud800 b", "find": "\udfff"}))
    assert header["state"]["text"] == "a ? b"


def test_a_stop_of_the_tour_keeps_its_answer_until_it_is_asked_for():
    asked = checked(frame({"tour": "1"}))["tour"]
    assert asked["question"]
    assert (asked["right"], asked["explanation"]) == (None, None)
    told = checked(frame({"tour": "1", "reveal": "1"}))["tour"]
    assert told["right"] in [choice["id"] for choice in told["choices"]]
    assert told["explanation"]


def test_every_stop_of_the_tour_is_a_state_without_complaint():
    from posenc.learn import stops

    for number, here in enumerate(stops(), 1):
        for state in (here.state, {**here.state, **here.reveal}):
            header = checked(frame({**state, "tour": str(number)}))
            assert not header["problems"]
            assert not any("Ignored" in note for note in header["notes"])
            assert {k: header["state"][k] for k in state if k not in ("reveal", "tour")} == {
                k: v for k, v in state.items() if k not in ("reveal", "tour")
            }


def test_a_stop_that_is_not_there_is_named():
    header = checked(frame({"tour": "99"}))
    assert header["tour"] is None
    assert header["problems"][0]["field"] == "tour"


def test_a_bias_that_is_costly_is_drawn_smaller_and_says_so():
    header = checked(frame({"v": "bias", "enc": "fire", "L": "2000", "heads": "1"}))
    assert [p["field"] for p in header["problems"]] == ["L"]
    assert "512 positions" in header["problems"][0]["message"]


@pytest.mark.parametrize("view", drawn([*SHAPES], 4, "explore", "plot"))
@pytest.mark.costly
def test_no_number_of_an_address_costs_much_memory(view):
    scene = read({"v": view}, SHAPES, Session())
    keys = [f.key for f, _ in scene.fields if f.kind in ("integer", "real") and f.key != "tour"]
    frame({"v": view})  # what is kept for all frames does not count
    tracemalloc.start()
    try:
        frame({"v": view, "w": "200", "h": "200", **dict.fromkeys(keys, "9" * 19)})
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_unknown_keys_are_named_and_keys_of_other_views_are_kept():
    header = unpack(frame({"v": "table", "color": "red", "Lt": "512"})).header
    assert any("‘color’" in note for note in header["notes"])
    assert header["state"]["Lt"] == "512"
    assert "color" not in header["state"]


def test_an_encoding_that_a_view_cannot_show_says_which_can():
    header = unpack(frame({"v": "bias", "enc": "sinusoidal"})).header
    assert header["state"]["enc"] == "alibi"
    assert any("Table" in note and "sinusoidal is a table" in note for note in header["notes"])


def test_every_encoding_of_the_registry_is_shown_or_says_why_not():
    from posenc._names import SPECS

    offered = {entry.id for view in SHAPES for entry in catalogue.offered(view)}
    for name in SPECS:
        if name.lower() in offered:
            continue
        header = checked(frame({"v": "table", "enc": name, "d": "8", "L": "8"}))
        assert name in header["notes"][0], name
        assert header["problems"] == []


@pytest.mark.costly
@pytest.mark.parametrize("view", ["table", "waves", "bias"])
def test_any_spec_of_a_file_is_drawn_to_its_last_dimension(view):
    for case in CASES:
        spec = case.spec
        entry = CatalogueEntry(
            "file:x", case.name, "", spec.kind, (), lambda _, s=spec: s, lambda _: ""
        )
        if catalogue.why_not(view, entry, spec):
            continue
        state = {"v": view, "enc": "file:x", "L": "33", "j": "9" * 9, "w": "100", "h": "100"}
        header = unpack(frame(state, Session((entry,)))).header
        if view != "bias" and not header["problems"]:
            assert header["cursor"]["x"]["value"] == header["cursor"]["x"]["max"], case.name
        sides = catalogue.grid_of(spec, 33)
        if sides:
            assert catalogue.grid_of(spec, math.prod(sides)) == sides, case.name


def test_more_keys_than_a_page_ever_sends_are_left_out():
    header = unpack(frame({f"x{n}": "1" for n in range(500)})).header
    assert any("first 80 keys" in note for note in header["notes"])


@functools.cache
def preset_views(parts):
    """The views that draw each preset: one of so many that offer it, at least one."""
    offering = {}
    for view in SHAPES:
        for entry in catalogue.offered(view):
            if entry.id.startswith("preset:"):
                offering.setdefault(entry.id, []).append(view)
    return {
        name: views[number % min(parts, len(views)) :: parts]
        for number, (name, views) in enumerate(offering.items())
    }


@pytest.mark.parametrize(
    "parts", [8, pytest.param(1, marks=pytest.mark.slow("explore", "plot", "presets"))]
)
@pytest.mark.parametrize("view", SHAPES)
@pytest.mark.costly
def test_every_encoding_that_a_view_offers_is_drawn_without_complaint(view, parts):
    for entry in catalogue.offered(view):
        if view not in preset_views(parts).get(entry.id, [view]):
            continue
        header = checked(frame({"v": view, "enc": entry.id, "w": "100", "h": "80"}))
        assert header["state"]["enc"] == entry.id, entry.id
        assert not header["problems"], (entry.id, header["problems"])


@pytest.mark.parametrize("view", [name for name, shape in SHAPES.items() if shape.compares])
def test_every_view_compares_what_it_offers(view):
    for entry in catalogue.offered(view)[:5]:
        header = checked(frame({"v": view, "b.enc": entry.id, "w": "100", "h": "80"}))
        assert header["compare"] is not None
        assert header["state"]["b.enc"] == entry.id


# --- over HTTP ------------------------------------------------------------------------------------


def asked(queries: list[str], path: str = "/api/frame") -> list[httpx.Response]:
    """Answers of the application itself, without a socket."""

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app(Session(), port=8000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as it:
            return [await it.get(f"{path}?{query}") for query in queries]

    return finished(run())


@pytest.mark.parametrize("text", ["1e400", "-1e999", "9" * 30])
def test_a_cursor_beyond_all_numbers_is_named(text):
    header = unpack(frame({"v": "table", "p": text})).header
    assert [problem["field"] for problem in header["problems"]] == ["p"]
    assert "farther than anything" in header["problems"][0]["message"]
    assert header["cursor"]["y"]["value"] in (0, 127)


@given(st.lists(STATES, max_size=4), st.sampled_from(["/api/frame", "/api/save"]))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.costly
def test_no_state_is_an_error_of_the_server(states, path):
    queries = []
    for state in states:
        fit = {k.encode("utf-8", "replace"): v.encode("utf-8", "replace") for k, v in state.items()}
        queries.append(urlencode({**fit, b"format": b"npz"}))
    for answer in asked(queries, path):
        assert answer.status_code < 500
        if path == "/api/frame":
            checked(answer.content)


@pytest.mark.costly
@given(st.text(max_size=200))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_address_is_an_error_of_the_server(text):
    query = quote(text.encode("utf-8", "replace"), safe="&=%+;?/:@!$'()*,")
    (answer,) = asked([query])
    assert answer.status_code < 500


@pytest.mark.parametrize(
    "query", ["%", "%ff%fe=%00", "d=%zz", "&&&&", "=", "d", "d=1;d=2", "d=8&d=9", "%u1234=1"]
)
def test_a_malformed_address_is_drawn_or_answered_in_words(query):
    (answer,) = asked([query])
    assert answer.status_code == 200
    checked(answer.content)


def test_too_long_an_address_and_too_many_keys_get_a_sentence():
    long, many = asked(["find=" + "1" * 62_000, "&".join(f"a{n}=1" for n in range(200))])
    assert (long.status_code, many.status_code) == (414, 400)
    assert "too long" in long.text
    assert "at most 80 keys" in many.text


# --- controls -------------------------------------------------------------------------------------

SET = [
    *({"v": view} for view in SHAPES),
    *({"v": "attention", "qk": source} for source in ("random", "content")),
    {"v": "attention", "e2": "none", "e4": "rope", "enc": "lrpe"},
    {"v": "waves", "counter": "1"},
    {"v": "distance", "log": "1", "enc": "rope"},
    {"v": "rotate", "enc": "preset:glm-5-indexer"},  # of one layout
    {"v": "bias", "softmax": "1", "mask": "0"},
]
OTHERS = [
    {"v": view, "enc": entry.id}
    for view in SHAPES
    for entry in catalogue.offered(view, ())
    if ":" not in entry.id
]


def pictured(state):
    """What a person sees of a state, but for its controls."""
    header = unpack(frame({"w": "64", "h": "48", **state})).header
    shown = ("lead", "panels", "readout", "title")
    return json.dumps([header[key] for key in shown], sort_keys=True), header["controls"]


def others(control):
    """Values that a control may have beside its own, as texts."""
    value, low, high = control["value"], control["min"], control["max"]
    if control["kind"] == "choice":
        return [one["value"] for one in control["options"] if one["value"] != value]
    if control["kind"] == "switch":
        return ["0" if value == "1" else "1"]
    if control["kind"] != "number":
        return []
    near = (float(value) + n * control["step"] for n in (1, -1, 7, 64, 1000))
    return [f"{x:g}" for x in (*near, low, high) if low <= x <= min(high, 2**20)]


@pytest.mark.costly
@pytest.mark.parametrize(
    "state",
    [*SET, *(pytest.param(state, marks=pytest.mark.slow("explore")) for state in OTHERS)],
    ids=lambda state: "-".join(state.values()),
)
def test_every_control_that_is_drawn_changes_the_picture(state):
    before, controls = pictured(state)
    dead = [
        control["key"]
        for control in controls
        if control["key"] not in ("enc", "find")
        and (values := others(control))
        and all(pictured({**state, control["key"]: value})[0] == before for value in values)
    ]
    assert not dead
