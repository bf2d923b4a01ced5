"""Pictures of the explorer are the library's numbers, and so are the texts beside them."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import posenc
from posenc._core.numeric.random_vectors import random_vectors
from posenc.explore import Session, frame, unpack
from posenc.explore.frame import KEPT, Steps
from posenc.explore.server.protocol import Envelope
from posenc.explore.state import catalogue
from posenc.explore.state.catalogue import why_not
from posenc.explore.state.entry import CatalogueEntry, samples
from posenc.explore.state.files import load
from posenc.explore.views import SHAPES
from posenc.plot import palette
from posenc.plot.columns import channels_of
from posenc.plot.panels import grammar, text as words
from posenc.plot.trained import learned_rows
from posenc.plot.views import bias, loss, stretch
from posenc.plot.views.counter import BIT
from posenc.plot.views.stretch import Stretch
from tests.detect.configs import GEMMA_3, VERSION_4

ALL = tuple(SHAPES)
PLOTTED = tuple(view for view in SHAPES if view not in ("attention", "layers"))
BIG = {"w": "2000", "h": "2000"}


def shown(**state: str):
    """The header of a state and its arrays."""
    message = unpack(frame({**BIG, **state}))
    assert not message.header["problems"], message.header["problems"]
    return message.header, message.arrays


def panel(header, name):
    return next(p for p in header["panels"] if p["id"] == name)


def fact(header, label):
    return next(b["value"] for b in header["readout"] if b.get("label") == label)


def spoken(text: str) -> float:
    """The number that a text for people says."""
    plain = text.replace(",", "").replace("−", "-").split(" ")[0].lstrip("×+")
    return float(plain)


# --- the message ----------------------------------------------------------------------------------


def pack(header: dict) -> bytes:
    """A header as the message that `unpack` reads."""
    return Envelope(header).whole()


def test_a_message_comes_back_as_it_was():
    arrays = [np.arange(5, dtype=d) for d in ("u1", "i4", "f4", "f8")]
    arrays.append(np.zeros((0, 3), dtype="f4"))
    arrays.append(np.asfortranarray(np.arange(6, dtype="f8").reshape(2, 3)))
    message = unpack(pack({"a": arrays, "b": {"c": arrays[0]}, "d": float("nan"), "e": "−é"}))
    for name, array in zip(message.header["a"], arrays, strict=True):
        np.testing.assert_array_equal(message.arrays[name], array)
        assert message.arrays[name].dtype == array.dtype
    assert message.header["d"] is None
    assert message.header["e"] == "−é"


def test_arrays_begin_at_multiples_of_eight_bytes():
    data = pack({"a": np.zeros(3, "u1"), "b": np.zeros(5, "f4"), "c": np.zeros(1, "f8")})
    length = int.from_bytes(data[:4], "little")
    assert (4 + length) % 8 == 0
    assert all(place[2] % 8 == 0 for place in unpack(data).header["arrays"].values())
    assert len(data) % 8 == 0


def test_an_array_that_the_page_cannot_read_is_refused():
    with pytest.raises(TypeError, match="u1"):
        pack({"a": np.zeros(3, "i8")})


def test_big_endian_arrays_travel_little_endian():
    message = unpack(pack({"a": np.arange(4, dtype=">f4")}))
    np.testing.assert_array_equal(message.arrays[message.header["a"]], np.arange(4, dtype="f4"))


def test_one_state_one_message():
    state = {"v": "distance", "enc": "learned", "d": "16", "L": "32"}
    assert frame(state) == frame(dict(state))


def stepped(before, data):
    """What a client holds after an answer: the page's rule, written again."""
    message = unpack(data)
    header, arrays = message.header, message.arrays
    if "steps" not in header:
        return header, arrays
    whole = json.loads(json.dumps({**before[0], "id": header["id"]}))
    for path, value in header["steps"]:
        node = whole
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
    kept = {name: array for name, array in before[1].items() if name not in header["gone"]}
    return whole, {**kept, **arrays}


WALK = (
    *({"v": "table", "p": str(p), "j": str(j)} for p, j in ((40, 21), (41, 21), (90, 3))),
    {"v": "table", "d": "32", "L": "900"},
    {"v": "table", "d": "32", "L": "900", "find": "0.5 @ 3"},
    {"v": "table", "d": "0", "b.enc": "learned"},
    *({"v": view} for view in ALL),
    {"v": "rotate", "m": "9"},
    {"v": "rotate", "m": "9", "theme": "dark"},
    {"v": "bias", "tour": "2"},
)


@pytest.mark.costly
def test_a_walk_by_steps_sees_the_pictures_of_its_states():
    steps, held = Steps(Session()), ({"id": ""}, {})
    for state in WALK:
        held = stepped(held, steps.frame({**state, "since": held[0]["id"]}))
        message = unpack(frame(state))
        expected, table = message.header, message.header.pop("data_table")
        # The ids differ by the table alone, which comes where it is asked for.
        kept = {key: value for key, value in held[0].items() if key not in ("arrays", "id")}
        assert kept == {
            **{k: expected[k] for k in kept if k in expected},
            "data_table": table is not None,
        }
        assert held[1].keys() == message.arrays.keys()
        for name, array in message.arrays.items():
            np.testing.assert_array_equal(held[1][name], array)
    numbers = stepped(held, steps.frame({**state, "numbers": "1", "since": held[0]["id"]}))
    assert numbers[0]["data_table"] == table
    gone = unpack(steps.frame({**WALK[0], "since": "of another server"})).header
    assert gone["view"] == "table"


@pytest.mark.parametrize("view", ALL)
def test_a_step_of_the_cursor_is_a_few_numbers_and_never_the_picture(view):
    steps = Steps(Session())
    header = unpack(first := steps.frame({"v": view})).header
    for axis in ("x", "y"):
        if cursor := header["cursor"][axis]:
            moved = {cursor["key"]: str(cursor["value"] + cursor["step"])}
            data = steps.frame({"v": view, **moved, "since": header["id"]})
            assert len(gzip.compress(data, 1)) <= 3000 < len(first)
            assert not set(unpack(data).arrays) & set(unpack(first).arrays)


@pytest.mark.costly
def test_headers_are_kept_of_the_last_pictures_alone():
    steps = Steps(Session())
    before = unpack(steps.frame({"d": "8", "L": "8"})).header["id"]
    for p in range(KEPT):
        state = {"d": "8", "L": "8", "p": str(p % 8), "n": str(p + 2)}
        assert "steps" in unpack(steps.frame({**state, "since": before})).header
    for p in range(KEPT):
        steps.frame({"d": "8", "L": "8", "n": str(p + 1000)})
    assert "steps" not in unpack(steps.frame({"d": "8", "L": "8", "since": before})).header
    assert len(steps.heads) == KEPT


# --- Table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
def test_the_table_is_the_library_s_table(order):
    header, arrays = shown(v="table", d="50", n="300", L="70", order=order)
    spec = posenc.Sinusoidal(50, base=300, order=order)
    expected = palette.indices(posenc.table(spec, 70, dtype="float64"))
    np.testing.assert_array_equal(arrays[panel(header, "table")["tile"]], expected)


def test_the_curve_and_the_row_are_the_library_s():
    header, arrays = shown(v="table", d="50", L="70", p="33", j="7")
    rows = posenc.table(posenc.Sinusoidal(50), 70, dtype="float64")
    column, row = panel(header, "column")["series"][0], panel(header, "row")["series"][0]
    np.testing.assert_allclose(arrays[column["y"]], rows[:, 7], atol=1e-7)
    np.testing.assert_array_equal(arrays[column["x"]], np.arange(70) + 0.5)
    np.testing.assert_allclose(arrays[row["y"]], rows[33], atol=1e-7)


def test_the_cell_is_the_library_s_number():
    header, _ = shown(v="table", d="128", p="40", j="21")
    formula = next(b for b in header["readout"] if b["kind"] == "math")
    value = posenc.table(posenc.Sinusoidal(128), [40], dtype="float64")[0, 21]
    assert formula["value"] == words.signed(value, 6) == "−0.998157"
    assert formula["text"] == "cos(40 / 10,000^(20/128))"
    wavelength = posenc.wavelengths(posenc.Sinusoidal(128))[10]
    assert spoken(fact(header, "Wavelength")) == pytest.approx(wavelength, rel=5e-4)
    assert spoken(fact(header, "Turns so far")) == pytest.approx(40 / wavelength, rel=5e-4)
    # The mock of the design counted 5 and 2 here.
    assert fact(header, "Same value at") == "5 of 128"
    assert fact(header, "Same pair at") == "2 of 128"


def test_positions_far_away_are_exact():
    first = 2**40 - 200
    header, arrays = shown(v="table", d="8", s=str(first), L="64", p=str(first + 5), j="0")
    rows = posenc.table(posenc.Sinusoidal(8), np.arange(first, first + 64), dtype="float64")
    np.testing.assert_array_equal(arrays[panel(header, "table")["tile"]], palette.indices(rows))
    column = panel(header, "column")["series"][0]
    np.testing.assert_array_equal(arrays[column["x"]], first + np.arange(64) + 0.5)


def test_what_turns_too_fast_is_the_page_s_neutral():
    message = unpack(frame({"v": "table", "d": "50", "L": "45000", "w": "50", "h": "670"}))
    tile = message.arrays[message.header["panels"][0]["tile"]]
    assert tile.shape == (670, 50)
    assert (tile[:, :18] == 128).all()
    assert (tile[:, 18:] != 128).any(axis=0).all()
    assert "18 of 50" in message.header["lead"]


def test_a_narrowed_picture_is_a_part_of_the_whole():
    whole, arrays = shown(v="table", d="32", L="64")
    part, fewer = shown(v="table", d="32", L="64", p0="10", p1="20", j0="4", j1="12")
    np.testing.assert_array_equal(
        fewer[panel(part, "table")["tile"]], arrays[panel(whole, "table")["tile"]][10:20, 4:12]
    )
    assert panel(part, "table")["x"]["domain"] == [4, 12]


def test_never_more_pixels_than_asked():
    for state in ({"L": "5000", "d": "512"}, {"L": "100000", "enc": "learned", "d": "8"}):
        message = unpack(frame({"v": "table", "w": "60", "h": "40", **state}))
        height, width = message.arrays[message.header["panels"][0]["tile"]].shape
        assert height <= 40
        assert width <= 60


def test_a_wide_table_says_which_dimension_a_pixel_stands_for():
    message = unpack(frame({"v": "table", "d": "512", "L": "16", "w": "64", "h": "64", "j": "300"}))
    axis = message.header["panels"][0]["x"]
    to = message.arrays[axis["to"]]
    assert len(to) == 512
    assert sorted(to.tolist()) == list(range(512))
    assert to[int(axis["at"])] == 300


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_a_rotation_in_the_table_is_its_cosines_and_sines(pairing):
    header, arrays = shown(v="table", enc="rope", d="16", L="20", pairing=pairing)
    cos, sin = posenc.cos_sin(posenc.RoPE(16, pairing=pairing), 20, dtype="float64")
    expected = np.concatenate([sin, cos], axis=-1)
    if pairing == "interleaved":
        expected = np.stack([sin, cos], axis=-1).reshape(20, 16)
    np.testing.assert_array_equal(arrays[panel(header, "table")["tile"]], palette.indices(expected))


LAYOUTS = {
    "half": posenc.Pairing("half"),
    "interleaved": posenc.Pairing("interleaved"),
    "trailing": posenc.Pairing("half", part="trailing"),
    "to half": posenc.Pairing("interleaved", part="trailing", output="half"),
    "backward": posenc.Pairing("half", direction="backward"),
    "blocks": posenc.Pairing("half", blocks=(1, 5, 2)),
}
ROTATIONS = {
    **{name: posenc.RoPE(16, pairing=layout) for name, layout in LAYOUTS.items()},
    "narrow": posenc.RoPE(2, pairing="half"),
    "six": posenc.RoPE(6, pairing="half", base=7),
    "float32": posenc.RoPE(16, pairing="half", phase="float32"),
    "of two sizes": posenc.XPos(16, pairing="half"),
}


def mixed(spec, channel: int, width: int) -> int:
    """The pair that `rotate` turns a unit vector of one channel in, told by its angle."""
    unit = np.zeros((1, 1, width))
    unit[0, 0, channel + (width - spec.dim if spec.channels.part == "trailing" else 0)] = 1
    turned = posenc.rotate(spec, unit, positions=[1]).ravel()
    parts = np.sort(np.abs(turned))[-2:]
    f = posenc.frequencies(spec)
    angles = np.sort(np.abs([np.cos(f), np.sin(f)]), axis=0)
    size = np.hypot(*parts)
    return int(np.abs(angles - parts[:, None] / size).sum(axis=0).argmin())


def said_pair(header) -> int:
    """The pair that the readout speaks of."""
    texts = [
        b["text"] if b["kind"] == "heading" else b["dial"]["label"]
        for b in header["readout"]
        if b["kind"] in ("heading", "dial")
    ]
    return next(int(m[1]) for t in texts if (m := re.search(r"\bpair (\d+)", t, re.IGNORECASE)))


@pytest.mark.costly
@pytest.mark.parametrize("name", ROTATIONS)
def test_one_dimension_is_of_one_pair_in_every_view(name):
    spec = ROTATIONS[name]
    entry = CatalogueEntry("file:one", name, "", "rotary", (), lambda _: spec, lambda _: "")
    views = [v for v in ("waves", "rotate", "stretch", "table") if not why_not(v, entry, spec)]
    if name in ("float32", "of two sizes"):  # whose table has stored numbers, and no dials
        views.remove("table")
    for j in range(spec.dim):
        whole, wider = (mixed(spec, j, spec.dim + width) for width in (0, 8))
        for view in views:
            state = {"v": view, "enc": "file:one", "j": str(j), "L": "9"}
            header = unpack(frame(state, Session((entry,)))).header
            assert said_pair(header) == whole == wider, (view, j)


def test_a_click_on_a_pair_is_a_channel_of_it_in_every_view():
    for name, spec in ROTATIONS.items():
        channels = channels_of(spec)
        assert [mixed(spec, int(j), spec.dim) for j in channels] == list(range(spec.pairs)), name


def test_a_channel_without_a_pair_says_so():
    spec = posenc.Sinusoidal(15, odd="zero_pad")
    entry = CatalogueEntry("file:one", "odd", "", "table", (), lambda _: spec, lambda _: "")
    for j in range(15):
        state = {**BIG, "v": "waves", "enc": "file:one", "j": str(j), "L": "9"}
        header = unpack(frame(state, Session((entry,)))).header
        alone = not posenc.table(spec, 9)[:, j].any()
        assert ("belongs to no pair" in header["say"]) == alone, j
        if not alone:
            assert said_pair(header) == j // 2


def test_a_learned_table_is_the_library_s_start_and_says_so():
    header, arrays = shown(v="table", enc="learned", d="12", L="30")
    spec = posenc.Learned(12, length=30, init=posenc.Init("normal", scale=1.0))
    weight = posenc.init(spec, seed=0)["weight"].astype(np.float64)
    expected = palette.indices(weight, float(np.abs(weight).max()))
    np.testing.assert_array_equal(arrays[panel(header, "table")["tile"]], expected)
    assert any("random numbers of seed 0" in note for note in header["notes"])


def test_a_window_of_the_table_as_text():
    header, _ = shown(v="table", d="64", L="128", p="100", j="60")
    table = header["data_table"]
    assert (len(table["rows"]), len(table["columns"])) == (20, 21)
    rows = posenc.table(posenc.Sinusoidal(64), 128, dtype="float64")
    for line in table["rows"]:
        for column, text in zip(table["columns"][1:], line[1:], strict=True):
            assert text == words.signed(rows[int(line[0]), int(column)])
    assert "44" in table["columns"]


# --- the other views ------------------------------------------------------------------------------


def test_wavelengths_are_the_library_s():
    header, arrays = shown(v="waves", d="64", n="500", L="100", j="9")
    series = panel(header, "wavelengths")["series"][0]
    expected = posenc.wavelengths(posenc.Sinusoidal(64, base=500))
    np.testing.assert_allclose(arrays[series["y"]], expected, rtol=1e-6)
    assert spoken(fact(header, "Wavelength")) == pytest.approx(expected[4], rel=5e-4)
    assert fact(header, "No full turn") == f"{(expected > 100).sum()} of 32"


def test_a_click_on_a_pair_leads_to_its_first_channel():
    header, arrays = shown(v="waves", d="8", order="sin_cos")
    assert arrays[panel(header, "wavelengths")["x"]["to"]].tolist() == [0, 1, 2, 3]
    header, arrays = shown(v="waves", d="8", order="interleaved")
    assert arrays[panel(header, "wavelengths")["x"]["to"]].tolist() == [0, 2, 4, 6]


def test_the_counter_counts():
    header, arrays = shown(v="waves", counter="1", d="128", L="128", p="40")
    strips = panel(header, "counter")["strips"]
    first = panel(header, "counter")["first"]
    bits = {s["label"]: arrays[s["tile"]] for s in strips if s["label"].startswith("bit")}
    for label, tile in bits.items():
        bit = int(label.split()[1].rstrip(","))
        positions = first + np.arange(len(tile))
        known = palette.indices(BIT * ((positions >> bit) & 1))
        np.testing.assert_array_equal(tile, known)
    waves = [arrays[s["curve"]] for s in strips if s["curve"]]
    assert len(waves) == len(bits)
    (link,) = header["readout"][-1]["links"]
    bits = shown(v="waves", counter="1", L="128", p="40", **link["state"])[0]
    assert all(", pair " in s["label"] for s in panel(bits, "counter")["strips"][1::2])
    why = [s["label"] for s in strips if "the shortest wavelength" in s["label"]]
    assert len(why) == 2
    assert all("6.283" in text for text in why)


def test_what_reaches_the_model_adds_up():
    state = {"v": "attention", "enc": "sinusoidal", "qk": "random", "d": "32", "sum": "1"}
    header, arrays = shown(**state, shift="7", text="the dog chased the cat")
    parts = panel(header, "sum")["cells"]
    high = spoken(parts[0]["high"])
    words, places, both = ((arrays[p["tile"]].astype(int) - 128) / 127 * high for p in parts)
    rows = posenc.table(posenc.Sinusoidal(32), range(7, 12), dtype="float64")
    np.testing.assert_allclose(places, rows, atol=high / 100)
    np.testing.assert_allclose(both, words + places, atol=high / 50)
    np.testing.assert_array_equal(words[0], words[3])  # the same word
    assert "random vectors of seed 0" in header["lead"]


MOVED = [
    ({"swap": "1"}, "0.4.2.3.1"),
    ({"swap": "1", "one": "0", "two": "2"}, "2.1.0.3.4"),
    ({"swap": "1", "text": "John likes Jane"}, "2.1.0"),  # a shorter one: the first and the last
    ({"swap": "1", "one": "x"}, "4.1.2.3.0"),
    ({}, ""),
]


@pytest.mark.parametrize(("more", "order"), MOVED, ids=str)
def test_an_old_address_of_a_sentence_opens_attention(more, order):
    header, _ = shown(v="sentence", d="16", n="77", t="2", scale="0", **more)
    said = header["state"]
    assert header["view"] == header["address"]["v"] == "attention"
    assert not header["notes"] + header["problems"]
    assert [said[key] for key in ("perm", "d", "n", "enc", "sum")] == [
        *(order, "16", "77", "sinusoidal", "1")
    ]
    assert panel(header, "sum")["cells"][0]["id"] == "embedding"
    assert "swap" not in header["address"]


def test_an_old_address_of_a_spectrum_opens_the_parts_of_a_table():
    header, _ = shown(v="spectrum", enc="learned", d="16", L="64", j="3")
    assert header["view"] == header["address"]["v"] == "table"
    assert header["state"]["j"] == "3"
    assert panel(header, "spectrum")["series"]
    plain, _ = shown(v="table", enc="learned", d="16", L="64")
    assert "spectrum" not in {p["id"] for p in plain["panels"]}


def test_products_are_the_library_s():
    header, arrays = shown(v="distance", d="512", L="600", p="40", off="43")
    series = panel(header, "offset")["series"][0]
    offsets = arrays[series["x"]].astype(int)
    expected = posenc.similarity(posenc.Sinusoidal(512), offsets)
    np.testing.assert_allclose(arrays[series["y"]], expected, atol=2e-5)
    value = posenc.similarity(posenc.Sinusoidal(512), 43)
    assert spoken(fact(header, "Dot product")) == pytest.approx(value, rel=1e-5)
    assert fact(header, "First rises at") == "43"
    assert fact(header, "Shift-invariance defect") == "0"


def test_the_blocks_that_shift_are_the_library_s():
    header, _ = shown(v="distance", d="8", L="64", off="3")
    moved = posenc.shift(posenc.Sinusoidal(8), 3)
    rows = panel(header, "blocks")["rows"]
    for pair, _angle, first, second in rows:
        i = 2 * int(pair)
        block = moved[i : i + 2, i : i + 2]
        for line, text in zip(block, (first, second), strict=True):
            found = [spoken(t) for t in text.strip("[] ").split("  ")]
            np.testing.assert_allclose(found, line, atol=5e-4)


def test_a_learned_table_has_a_band_and_a_defect():
    header, arrays = shown(v="distance", enc="learned", d="16", L="64")
    series = panel(header, "offset")["series"][0]
    low, high = arrays[series["lo"]], arrays[series["hi"]]
    assert (low < high)[1:-1].all()
    assert 0.1 < spoken(fact(header, "Shift-invariance defect")) < 1


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_the_terms_of_a_rotation_add_up_to_the_score(pairing):
    header, arrays = shown(v="rotate", d="16", pairing=pairing, m="700", off="12")
    terms = arrays[panel(header, "terms")["series"][0]["y"]].astype(np.float64)
    assert spoken(fact(header, "q · k")) == pytest.approx(terms.sum(), abs=1e-5)
    later, _ = shown(v="rotate", d="16", pairing=pairing, m="9700", off="12")
    assert fact(later, "q · k") == fact(header, "q · k")
    assert fact(header, "both 1,000 later") == fact(header, "q · k")


def test_dials_are_the_library_s_cosines_and_sines():
    header, _ = shown(v="rotate", d="16", m="7", off="4")
    rope = posenc.RoPE(16, pairing="half")
    sides = random_vectors(["query", "key"], 16, 0).astype(np.float64)
    places = zip(sides, (7, 3), strict=True)
    turned = [posenc.rotate(rope, x[None], positions=[at])[0] for x, at in places]
    arrows = np.stack([x.reshape(2, 8).T for x in turned])  # (sides, pairs, 2)
    reach = np.linalg.norm(arrows, axis=-1).max()
    for dial in panel(header, "dials")["dials"]:
        pair = int(dial["label"].split()[1])
        for hand, arrow in zip(dial["hands"], arrows[:, pair], strict=True):
            np.testing.assert_allclose(hand[:2], arrow / reach, atol=1e-12)
        q, k = arrows[:, pair]
        np.testing.assert_allclose(dial["shadow"], k * (q @ k) / (k @ k) / reach, atol=5e-5)
    arcs = panel(header, "arcs")
    assert arcs["pairs"] == [[n, n + 8] for n in range(8)]
    assert panel(shown(v="rotate", d="8", pairing="interleaved")[0], "arcs")["pairs"][1] == [2, 3]


def test_biases_are_the_library_s():
    header, arrays = shown(v="bias", enc="alibi", heads="4", L="40", head="2", p="30", kp="10")
    expected = posenc.bias(posenc.ALiBi(heads=4), 40, dtype="float64")
    for cell in panel(header, "matrices")["cells"]:
        head = int(cell["id"].split("-")[1])
        limit = float(np.abs(expected[head])[~np.triu(np.ones((40, 40), dtype=bool), 1)].max())
        assert cell["title"] == f"head {head}\n|b|≤{words.number(limit, 3 if limit >= 1 else 2)}"
        tile, mask = arrays[cell["tile"]], arrays[cell["mask"]]
        future = np.triu(np.ones((40, 40), dtype=bool), 1)
        np.testing.assert_array_equal(mask, future)
        known = palette.indices(expected[head], limit)
        np.testing.assert_array_equal(tile[~future], known[~future])
    assert spoken(fact(header, "Bias")) == pytest.approx(expected[2, 30, 10])


def test_biases_of_a_grid_are_the_library_s():
    header, arrays = shown(v="bias", enc="alibi2d", heads="2", L="30", mask="0", p="7", kp="23")
    cells = np.stack(np.unravel_index(np.arange(25), (5, 5)), axis=-1)
    expected = posenc.bias(posenc.ALiBi2D(heads=2), cells, dtype="float64")
    assert header["state"]["L"] == "25"
    for cell, values in zip(panel(header, "matrices")["cells"], expected, strict=True):
        known = palette.indices(values, float(np.abs(values).max()))
        np.testing.assert_array_equal(arrays[cell["tile"]], known)
    assert "query at (1, 2), key at (4, 3)" in header["say"]
    assert spoken(fact(header, "Bias")) == pytest.approx(expected[0, 7, 23], rel=1e-5)


def test_a_table_of_a_grid_is_the_library_s():
    header, arrays = shown(v="table", enc="preset:mae", d="64", L="30")
    cells = np.stack(np.unravel_index(np.arange(25), (5, 5)), axis=-1)
    expected = posenc.table(posenc.preset("mae", 64), cells, dtype="float64")
    tile = arrays[panel(header, "table")["tile"]]
    np.testing.assert_array_equal(tile, palette.indices(expected, float(np.abs(expected).max())))
    assert "grid of 5 × 5" in header["lead"]


def test_what_alibi_adds_at_distance_100():
    header, _ = shown(v="bias", heads="8", p="120", kp="20", head="0")
    assert fact(header, "Bias") == "−50"
    assert "A key 100 positions back gets −50 in head 0" in header["lead"]


def test_stretching_is_the_library_s():
    header, arrays = shown(v="stretch", d="128", Lt="4096", f="8", rule="yarn", j="60")
    plain = posenc.wavelengths(posenc.RoPE(128, pairing="half"))
    rules = {
        "linear": posenc.scaling.Linear(8),
        "NTK base": posenc.scaling.NTK(8),
        "YaRN, code": posenc.scaling.YaRN(8, original_length=4096),
        "YaRN, paper": posenc.scaling.YaRN(8, original_length=4096, ramp="turns"),
        "Llama 3": posenc.scaling.Llama3(8, original_length=4096),
    }
    series = {s["label"]: arrays[s["y"]] for s in panel(header, "stretch")["series"]}
    for label, scaling in rules.items():
        after = posenc.wavelengths(posenc.RoPE(128, pairing="half", scaling=scaling))
        np.testing.assert_allclose(series[label], after / plain, rtol=1e-6, err_msg=label)
    counts = {row[0]: row[1:3] for row in panel(header, "counts")["rows"]}
    assert counts["unchanged"] == ["18 of 18", "0 of 21"]
    assert counts["NTK base"] == ["17 of 18", "20 of 21"]
    assert counts["YaRN, code"] == ["0 of 18", "0 of 21"]
    assert counts["linear"] == ["0 of 18", "21 of 21"]
    factor = posenc.RoPE(128, pairing="half", scaling=rules["YaRN, code"]).attention_factor
    told = {row[0]: row[3] for row in panel(header, "counts")["rows"]}
    assert spoken(told["YaRN, code"]) == pytest.approx(factor, rel=1e-4)
    told = " ".join(b.get("text", "") for b in header["readout"])
    assert "at pair 36 they stretch ×4.99 and ×2.17" in told


def test_a_token_of_a_picture_stands_where_each_model_puts_it():
    header, arrays = shown(v="scene", side="7", ref="4", tokens="5", row="2", col="6")
    assert fact(header, "FLUX.1 Kontext") == "t 0, y 2, x 6"
    assert fact(header, "FLUX.2") == "t 0, h 2, w 6, l 0"
    assert fact(header, "Qwen-Image-Edit") == "t 0, h −2, w 2"
    assert fact(header, "LongCat-Image-Edit") == "t 1, y 7, x 11"
    assert fact(header, "Lumina 2") == "t 5, h 2, w 6"
    assert fact(header, "HunyuanVideo") == "t 0, h 2, w 6"
    cells = {cell["title"]: cell for cell in panel(header, "scene")["cells"]}
    first = {"Qwen-Image-Edit": -4, "LongCat-Image-Edit": 5}
    for title, cell in cells.items():
        begin = first.get(title, 0)
        for axis, key, at in ((cell["x"], "col", 6), (cell["y"], "row", 2)):
            low, high = map(int, axis["domain"])
            assert (axis["key"], axis["at"]) == (key, begin + at), title
            # What a click at each coordinate chooses: the nearest row or column.
            expected = [min(max(n - begin, 0), 6) for n in range(low, high)]
            np.testing.assert_array_equal(arrays[axis["to"]], expected, err_msg=title)
    assert {c["key"] for c in header["controls"] if not c["more"]} == {"side", "ref", "tokens"}
    assert "enc" not in {c["key"] for c in header["controls"]}
    assert not header["notes"]


def test_a_scene_leaves_an_encoding_of_the_address_to_other_views():
    header, _ = shown(v="scene", enc="alibi", ref="0")
    assert header["address"]["enc"] == "alibi"
    assert header["command"] == (
        "posenc plot scene --text 6 --image 8,8 --reference 0,0 -o scene.png"
    )
    assert "reference" not in header["lead"]


@pytest.mark.parametrize("rule", stretch.RULES)
def test_losses_are_drawn_under_every_rule(rule):
    message = unpack(frame({**BIG, "v": "stretch", "loss": "1", "rule": rule}))
    header, arrays = message.header, message.arrays
    drawn = {"dynamic": "ntk", "yarn_paper": "yarn", "given": "yarn"}.get(rule, rule)
    told = [p["message"] for p in header["problems"]]
    assert [("was not measured" in text) for text in told] == [True] * (
        rule in ("yarn_paper", "given")
    )
    curves = panel(header, "loss")["series"]
    assert len(curves) == 8
    assert [s["label"] for s in curves if s.get("lo") is not None] == [loss.LABELS[drawn]]
    grids = panel(header, "pairs")["cells"]
    assert len(grids) == (1 if rule == "none" else 2)
    assert arrays[grids[0]["tile"]].any()
    assert {c["key"] for c in header["controls"]} == {"rule", "loss"}
    assert header["command"].endswith(f"--rules {drawn} --loss -o stretch.png")
    last = curves[list(loss.LABELS).index(drawn)]
    value = float(arrays[last["y"]][-1])
    assert f"{value:.2f}" in header["lead"]


def test_the_trained_table_is_what_a_model_learned():
    header, _ = shown(v="table", enc="trained:learned")
    assert control(header, "L") == "64"
    assert "--table" in header["command"]
    names: dict[str, object] = {}
    exec(header["python"], names)
    rows = names["rows"]
    np.testing.assert_array_equal(rows, learned_rows())
    # Neighbours are nearer to each other than to rows far off, as nothing told the model.
    near = np.linalg.norm(np.diff(rows, axis=0), axis=1).mean()
    assert near < 0.8 * np.linalg.norm(rows[:32] - rows[32:], axis=1).mean()


def counts_of(header) -> list[list[str]]:
    return [row[:3] for row in panel(header, "counts")["rows"]]


def plotted(found: Stretch) -> list[list[str]]:
    return [
        [r.label, f"{r.effect.unseen} of {found.slow}", f"{r.effect.lost} of {found.fast}"]
        for r in found.rules
    ]


def control(header, key) -> str:
    return next(c["value"] for c in header["controls"] if c["key"] == key)


@pytest.fixture
def counts_alone(monkeypatch):
    """Rules without their change of scores, which takes long and which nothing here asks."""
    from posenc.detect.extend import rules
    from posenc.explore.views.stretch import _stretch

    monkeypatch.setattr(rules, "_change", lambda *_: 0.0)
    _stretch.cache_clear()
    yield
    _stretch.cache_clear()


@pytest.mark.costly
@pytest.mark.usefixtures("counts_alone")
def test_the_page_and_the_plot_stretch_every_preset_alike():
    for entry in catalogue.offered("stretch"):
        header, _ = shown(v="stretch", enc=entry.id)
        found = stretch.data(entry.build(samples(entry)))
        assert counts_of(header) == plotted(found), entry.id
        asked = (int(control(header, "Lt")), float(control(header, "f")))
        assert asked == (found.original_length, found.factor), entry.id


@pytest.mark.usefixtures("counts_alone")
@pytest.mark.parametrize("name", [*VERSION_4, "gemma 3"])
def test_a_config_is_stretched_from_the_length_of_its_model(name, tmp_path):
    config = GEMMA_3 if name == "gemma 3" else VERSION_4[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    session = load([str(path)])
    for entry in session.entries:
        spec = entry.build({})
        if len(spec.axes) > 1:
            continue
        header = unpack(frame({"v": "stretch", "enc": entry.id}, session)).header
        trained = int(control(header, "Lt"))
        own = {getattr(s, "original_length", None) for s in spec.scalings} - {None}
        expected = own or ({config["max_position_embeddings"]} if not spec.scalings else {4096})
        assert {trained} == expected, entry.label
        assert counts_of(header) == plotted(stretch.data(spec, original_length=trained))


def test_meta_s_own_rule_meets_no_unseen_angle():
    header, _ = shown(v="stretch", enc="preset:llama3")
    assert control(header, "Lt") == "8192"
    assert counts_of(header)[-1][:2] == ["Llama3, as given", "0 of 29"]


# --- Compare and Find -----------------------------------------------------------------------------


def test_two_tables_share_a_scale_and_have_a_difference():
    state = {"b.enc": "sinusoidal", "b.d": "32", "b.n": "100"}
    header, arrays = shown(v="table", d="32", L="40", **state)
    cells = panel(header, "table")["cells"]
    a = posenc.table(posenc.Sinusoidal(32), 40, dtype="float64")
    b = posenc.table(posenc.Sinusoidal(32, base=100), 40, dtype="float64")
    largest = float(np.abs(a - b).max())
    for cell, values, limit in zip(cells, (a, b, a - b), (1.0, 1.0, largest), strict=True):
        np.testing.assert_array_equal(arrays[cell["tile"]], palette.indices(values, limit))
    # A difference beyond the scale of both has its own, which is said.
    assert [cell["title"] for cell in cells] == ["A", "B", f"A − B, ±{words.number(largest, 3)}"]
    assert header["compare"] == {"a": "Sinusoidal(32)", "b": "Sinusoidal(32, base=100.0)"}
    assert words.number(largest) in panel(header, "table")["caption"]


def test_tables_of_two_widths_are_compared_without_a_difference():
    header, _ = shown(v="table", d="32", L="40", **{"b.enc": "sinusoidal", "b.d": "16"})
    assert [c["title"] for c in panel(header, "table")["cells"]] == ["A", "B"]
    assert "different sizes" in panel(header, "table")["caption"]


def test_curves_lie_on_each_other():
    header, arrays = shown(v="waves", d="32", **{"b.enc": "sinusoidal", "b.d": "32", "b.n": "50"})
    a, b = panel(header, "wavelengths")["series"]
    np.testing.assert_allclose(
        arrays[b["y"]], posenc.wavelengths(posenc.Sinusoidal(32, base=50)), rtol=1e-6
    )
    assert a["style"] != b["style"]
    assert (a["label"][:2], b["label"][:2]) == ("A:", "B:")


@pytest.mark.costly
def test_the_inverse_question_of_the_sources():
    header, _ = shown(v="table", d="5120", find="0.488814 @ 1088", w="300", h="64")
    found = header["find"]
    assert (
        found["answer"] == "Position 7, if the exponent is i/d and the digits are cut, not rounded."
    )
    texts = [hit["text"] for hit in found["hits"]]
    assert any("position 7 (the exponent is i/d; the digits are cut" in text for text in texts)
    assert any("929,505 (as stated" in text for text in texts)
    seventh = next(hit for hit in found["hits"] if "position 7 " in hit["text"])
    changed = {k: v for k, v in seventh["state"].items() if v is not None}
    assert changed["ladder"] == "exponent i/d"
    there, _ = shown(v="table", d="5120", j="1088", w="300", h="64", **changed)
    formula = next(b for b in there["readout"] if b["kind"] == "math")
    assert formula["value"] == "0.488815"
    stated = next(hit for hit in found["hits"] if "929" in hit["text"])
    changed = {k: v for k, v in stated["state"].items() if v is not None}
    there, _ = shown(v="table", d="5120", j="1088", w="300", h="64", **changed)
    assert there["state"]["p"] == "929505"
    assert next(b for b in there["readout"] if b["kind"] == "math")["value"] == "0.488814"


def test_a_whole_row_is_found():
    row = posenc.table(posenc.Sinusoidal(32), [123_456])[0]
    header, _ = shown(v="table", d="32", find=" ".join(map(str, row.tolist())))
    assert header["find"]["answer"] == "Position 123,456."
    assert header["find"]["hits"][0]["text"].startswith("position 123,456 (as stated")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        ({"d": "8", "n": "10"}, "0.84 0.54 0.53 0.85"),  # the first of a row, as the quiz prints it
        ({"d": "4"}, "0.84 0.54 0.01 1.00"),  # a whole row, printed short
        ({"d": "12"}, "[0.8415, 0.5403, 0.2138]"),
        ({"d": "7"}, "0.8415 0.5403 0.0719 0.9974 0.0052 1.0000"),  # one column is always 0
    ],
    ids=lambda part: str(part)[:20],
)
def test_rows_are_found_by_their_first_numbers_as_they_are_printed(state, numbers):
    header, _ = shown(v="table", find=numbers, **state)
    assert header["find"]["answer"].partition(",")[0].rstrip(".") == "Position 1"
    assert header["find"]["hits"][0]["state"]["p"] == "1"
    wide = unpack(frame({"v": "table", "d": "2", "find": numbers})).header
    assert "Raise its width" in wide["problems"][0]["message"]


def test_the_first_numbers_of_a_learned_row_have_a_nearest_row():
    spec = posenc.Learned(8, length=30, init=posenc.Init("normal", scale=1.0))
    start = " ".join(f"{x:.4f}" for x in posenc.init(spec, seed=0)["weight"][17][:3])
    header, _ = shown(v="table", enc="learned", d="8", L="30", find=start)
    assert header["find"]["answer"].startswith("The nearest is position 17, off by 3.11")


def test_what_chance_explains_is_said_to_be_perhaps_chance():
    header, _ = shown(v="table", find="2.5 @ 3")
    assert header["find"]["answer"].endswith("chance alone may give this.")


@pytest.mark.parametrize(
    ("state", "note"),
    [
        (
            {"v": "table", "p": "150"},
            "Position 150 is not drawn here; the cursor stands at 127, of 0",
        ),
        ({"v": "attention", "qw": "9"}, "Query 9 is not drawn here"),
        ({"v": "distance", "p": "120", "off": "50"}, "Position 120 is not drawn here"),
        ({"v": "bias", "kp": "500"}, "Key position 500 is not drawn here"),
    ],
)
def test_a_cursor_that_cannot_stand_where_it_was_set_says_so(state, note):
    assert note in " ".join(unpack(frame(state)).header["notes"])
    assert not unpack(frame({"v": state["v"], "p": "3", "j": "2"})).header["notes"]


def test_a_head_that_is_not_there_is_a_problem_of_its_control():
    (problem,) = unpack(frame({"v": "bias", "head": "9"})).header["problems"]
    assert problem == {"field": "head", "message": "Head must be at most 7; 9 came. Drawn with it."}


def test_a_softmax_has_one_scale_for_all_rows_and_heads():
    header, arrays = shown(v="bias", softmax="1", L="40")
    data = bias.data(posenc.ALiBi(heads=8), 40, mask="causal", softmax="rows")
    for cell, values in zip(panel(header, "matrices")["cells"], data.values, strict=True):
        assert (cell["low"], cell["high"]) == ("0", words.number(data.limit))
        known = palette.shares(values, data.limit)
        np.testing.assert_array_equal(arrays[cell["tile"]], known)


@pytest.mark.parametrize(("m", "off"), [(7, 4), (900, 200), (900, 700), (3, -20)])
def test_the_curve_of_scores_holds_the_distance_of_query_and_key(m, off):
    chart = panel(shown(v="rotate", m=str(m), off=str(off))[0], "scores")
    assert chart["x"]["domain"][0] <= off <= chart["x"]["domain"][1]
    assert chart["marks"][0]["at"] == off


def test_what_fits_nowhere_gets_the_nearest_three_and_the_reason():
    header, _ = shown(v="table", d="32", find="9.5 @ 3")
    assert header["find"]["answer"].startswith("No position gives this. The nearest is position ")
    told = " ".join(header["find"]["story"])
    assert "exceeds 1" in told
    assert len(header["find"]["hits"]) == 3
    assert all("off by 8.5" in hit["text"] for hit in header["find"]["hits"])


def test_a_row_of_a_learned_table_is_found():
    spec = posenc.Learned(8, length=30, init=posenc.Init("normal", scale=1.0))
    weight = posenc.init(spec, seed=0)["weight"]
    text = ", ".join(f"{x:.4f}" for x in weight[17])
    header, _ = shown(v="table", enc="learned", d="8", L="30", find=text)
    assert header["find"]["hits"][0]["text"].startswith("position 17")


# --- what is said and saved -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        {"v": "table"},
        {"v": "table", "enc": "rope", "d": "16"},
        {"v": "table", "enc": "preset:whisper", "d": "64"},
        {"v": "table", "enc": "preset:mae", "d": "64"},
        {"v": "table", "enc": "summed", "d": "16", "L": "36"},
        {"v": "table", "enc": "concatenated", "d": "16"},
        {"v": "bias", "enc": "alibi2d"},
        {"v": "bias", "enc": "windowtable"},
        {"v": "table", "enc": "learned", "d": "16", "L": "64"},
        {"v": "table", "ladder": "exponent i/d", "order": "sin_cos", "d": "16", "n": "77"},
        {"v": "waves"},
        {"v": "distance", "d": "16"},
        {"v": "distance", "enc": "learned", "d": "16", "L": "16"},
        {"v": "distance", "enc": "rope", "d": "16"},
        {"v": "rotate"},
        {"v": "rotate", "enc": "pope"},
        {"v": "rotate", "enc": "xpos"},
        {"v": "bias"},
        {"v": "bias", "enc": "t5"},
        {"v": "bias", "enc": "fire"},
        *({"v": "stretch", "rule": rule} for rule in ("none", "linear", "dynamic", "yarn_paper")),
        {"v": "stretch", "loss": "1", "rule": "given"},
        {"v": "table", "enc": "trained:learned"},
        {"v": "scene", "tokens": "3"},
    ],
    ids=str,
)
def test_the_python_that_is_shown_runs(state):
    code = unpack(frame(state)).header["python"]
    exec(compile(code, "snippet", "exec"), {})


def test_the_python_of_a_table_gives_the_number_under_the_cursor():
    header, _ = shown(v="table", d="64", n="900", p="17", j="11", order="sin_cos")
    *lines, last = header["python"].splitlines()
    scope: dict = {}
    exec("\n".join(lines), scope)
    value = next(b for b in header["readout"] if b["kind"] == "math")["value"]
    assert words.signed(float(eval(last, scope)), 6) == value


PAINTED = ({"v": "table"}, {"v": "bias", "theme": "dark"}, {"v": "waves", "b.enc": "rope"})


@pytest.fixture
def unpainted(state, monkeypatch):
    """Pictures are laid out but not painted, save a few; tests of the plots paint each of them."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from posenc.plot.draw.picture import Picture

    def laid_out(picture, format="png"):  # noqa: A002
        assert picture.figure.axes
        return b"\x89PNG" if format == "png" else b"no picture"

    if state not in PAINTED:
        monkeypatch.setattr(Picture, "to_bytes", laid_out)


@pytest.mark.parametrize(
    "state",
    [{"v": view} for view in PLOTTED]
    + [
        {"v": "table", "d": "24", "n": "77", "order": "cos_sin", "p0": "5", "p1": "40"},
        {"v": "table", "ladder": "exponent i/d", "d": "16"},
        {"v": "table", "enc": "preset:whisper", "d": "64"},
        {"v": "table", "enc": "learned", "d": "16", "L": "32"},
        {"v": "waves", "counter": "1"},
        {"v": "bias", "enc": "t5", "softmax": "1"},
        {"v": "bias", "enc": "windowtable"},
        {"v": "rotate", "pairing": "interleaved"},
        {"v": "stretch", "loss": "1", "rule": "linear"},
        {"v": "table", "enc": "trained:learned", "j": "3"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("unpainted")
def test_the_command_that_is_shown_draws(state, tmp_path):
    import shlex

    from click.testing import CliRunner

    from posenc.cli import app

    line = unpack(frame(state)).header["command"]
    first, *arguments = shlex.split(line)
    assert first == "posenc"
    assert ("--softmax rows" in line) == (state.get("softmax") == "1")
    name = arguments.pop()
    assert name.endswith(".png")
    done = CliRunner().invoke(app, [*arguments, str(tmp_path / name)])
    assert done.exit_code == 0, (line, done.output)
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_every_view_is_the_module_of_a_row():
    """Nothing but the row of its picture names a view."""
    files = Path(catalogue.__file__).parents[1].joinpath("views").glob("[!_]*.py")
    assert {path.stem for path in files} == set(ALL), "plot/rows.py: view"


@pytest.mark.parametrize("view", ALL)
@pytest.mark.parametrize("wanted", ["csv", "npz"])
def test_numbers_are_saved_as_they_are_drawn(view, wanted):
    from posenc.explore import Session
    from posenc.explore.save import save

    file = save({"v": view}, wanted, Session())
    assert file.name == f"posenc-{view}.{wanted}"
    assert save({"v": view}, wanted, Session()) == file
    if wanted == "npz":
        with np.load(io.BytesIO(file.data)) as held:
            assert len(held.files) >= 1
            if view == "table":
                expected = posenc.table(posenc.Sinusoidal(128), 128, dtype="float64")
                np.testing.assert_allclose(held["table"], expected, atol=1e-15)
    else:
        assert file.data.startswith(b"# ")


COMPARED = {"bias": "alibi", "table": "rope", "waves": "rope"}
COMPARED |= dict.fromkeys(("distance", "rotate", "stretch"), "rope")


@pytest.mark.parametrize(
    "state",
    [{"v": view} for view in SHAPES]
    + [{"v": view, "theme": "dark"} for view in ("table", "bias")]
    + [{"v": "waves", "counter": "1"}, {"v": "table", "enc": "learned", "d": "8", "L": "16"}]
    + [{"v": view, "b.enc": other} for view, other in COMPARED.items()],
    ids=str,
)
@pytest.mark.usefixtures("unpainted")
def test_pictures_are_saved_by_the_plots(state):
    from posenc.explore import Session
    from posenc.explore.save import save

    png = save(state, "png", Session())
    assert png.data.startswith(b"\x89PNG")
    assert png.media_type == "image/png"


@pytest.mark.costly
def test_a_picture_is_the_same_file_each_time():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from posenc.explore import Session
    from posenc.explore.save import save

    first = save({"v": "table", "d": "16"}, "svg", Session()).data
    assert b"</svg>" in first
    assert save({"v": "table", "d": "16"}, "svg", Session()).data == first


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch):
    import importlib.util

    from posenc.explore import Session
    from posenc.explore.save import save

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name)
    )
    with pytest.raises(posenc.DependencyError, match=r"pip install 'posenc\[plot\]'"):
        save({"v": "table"}, "png", Session())
    offered = {f["format"]: f for f in unpack(frame({"v": "table"})).header["save"]}
    assert not offered["png"]["ok"]
    assert "pip install" in offered["svg"]["why"]
    assert offered["npz"]["ok"]
    assert offered["npz"]["ok"]


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (8.0, "8"),
        (-8.0, "−8"),
        (26.4963, "26.5"),
        (54410.3, "54,410"),
        (-0.00012345, "−0.0001234"),
        (1.5e-7, "1.500 × 10⁻⁷"),
        (2.5e20, "2.500 × 10²⁰"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not a number"),
        (99999.99, "100,000"),
        (1e14, "100,000,000,000,000"),
    ],
)
def test_numbers_are_written_for_people(x, text):
    assert words.number(x) == text


def test_minus_zero_has_no_sign():
    assert words.signed(-0.00001) == "0.0000"
    assert words.signed(-0.0) == "0.0000"


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 127), (-1, 1), (5, 5.0001), (0, 2**40), (-3e-9, 7e-9), (3, 3)]
)
def test_ticks_are_few_and_inside(low, high):
    made = words.ticks(low, high)
    assert len(made) <= 8
    assert all(low - 1e-9 <= tick.at <= high * (1 + 1e-9) + 1e-9 for tick in made)
    assert len({tick.text for tick in made}) == len(made)


def test_ticks_of_logarithmic_axes_are_powers():
    assert [t.text for t in words.log_ticks(5, 200_000)] == [
        "10",
        "100",
        "1,000",
        "10,000",
        "100,000",
    ]
    assert [t.at for t in words.log_ticks(0.9, 9)] == [1, 2, 5]
    # A factor is marked where it doubles, and at every other doubling where it is large.
    assert [t.at for t in words.log_ticks(0.92, 9, base=2)] == [1, 2, 4, 8]
    assert [t.at for t in words.log_ticks(1, 2**20, 6, base=2)] == [1, 16, 256, 4096, 2**16, 2**20]


def test_a_short_axis_has_both_of_its_ends_and_cells_go_by_powers_of_two():
    """Zero alone says no scale; every 43rd position is no place of a bit."""
    for limit in (0.177, 1.0, 9.0):
        texts = [tick.text for tick in grammar.values("value", -limit, limit, most=3).marks(3)]
        assert "0" in texts
        assert len(texts) == 3
    assert [tick.text for tick in grammar.values("value", 0, 0.9).marks(1)] == ["0", "0.9"]
    numbers = grammar.Axis("position", (0, 256), cells=True, names=tuple(map(str, range(256))))
    assert [tick.text for tick in numbers.marks(6)] == ["0", "64", "128", "192"]
    assert [tick.text for tick in numbers.marks(256)] == list(numbers.names)
