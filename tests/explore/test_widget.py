"""Notebooks: what specs, plans and findings show, and the Python side of the widget."""

from __future__ import annotations

import importlib
import re
import struct
import sys
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.spec.spec import Value
from posenc.explore import unpack
from posenc.plot import card, palette
from posenc.presets import plan
from tests.cases import CASES

LLAMA = {
    "model_type": "llama",
    "head_dim": 64,
    "num_hidden_layers": 4,
    "rope_theta": 1e4,
    "max_position_embeddings": 4096,
}
HOSTILE = '<script>alert("x")</script>&\'"'


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert not self.open, "every tag is closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> Tags:
    page = value._repr_html_()
    assert len(page.encode()) <= card.LARGEST
    tags = Tags(page)
    assert {tag for tag, _ in tags.tags} <= {"div", "strong", "code", "img", "pre"}
    for tag, attributes in tags.tags:
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "img":
            assert attributes["alt"]
            assert str(attributes["src"]).startswith("data:image/png;base64,")
    # Nothing but the picture has a colour of its own, so both themes can be read.
    assert not re.search(r"<[^>]*((?<![-\w])color\s*:|#[0-9a-f]{3})", page.partition("src=")[0])
    return tags


def pixels(tags: Tags) -> tuple[np.ndarray, np.ndarray]:
    """The indices and the colours of the picture, read without posenc."""
    data = b64decode(str(dict(tags.tags)["img"]["src"]).partition(",")[2])
    chunks, at = {}, 8
    while at < len(data):
        (size,), name = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            name + body
        )
        chunks[name] = body
        at += 12 + size
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), "u1").reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:], np.frombuffer(chunks[b"PLTE"], "u1").reshape(-1, 3)


FINDINGS = {
    "identify": lambda: posenc.identify({HOSTILE: posenc.table(posenc.Sinusoidal(8), 64)}),
    "a finding": lambda: posenc.identify(posenc.table(posenc.Sinusoidal(8), 64)).findings[0],
    "infer": lambda: posenc.infer_spec(lambda n: posenc.table(posenc.Sinusoidal(16), n)),
    "diff": lambda: posenc.diff(posenc.ALiBi(12), posenc.ALiBi(12, recipe="geometric")),
    "locate": lambda: posenc.locate(
        posenc.Sinusoidal(8), posenc.table(posenc.Sinusoidal(8), [5])[0]
    ),
    "extend": lambda: posenc.extend(LLAMA, 16384),
    "golden": lambda: posenc.golden(posenc.RoPE(8, pairing="half")),
    "explain": lambda: posenc.from_hf(LLAMA),
    "refused": lambda: posenc.from_hf({"model_type": HOSTILE}, on_error="report"),
    "a plan": lambda: plan("gemma3"),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings_and_plans_show_what_they_say(name):
    value = FINDINGS[name]()
    tags = shown(value)
    assert type(value).__name__ in tags.text
    assert len(tags.text) > 40
    if name in ("identify", "diff"):
        assert all(line in tags.text for line in value.remarks)
    if isinstance(value, posenc.Reading):
        assert all(note.text in tags.text for note in value.notes)
    if name in ("identify", "refused"):
        assert HOSTILE in tags.text


def test_a_bias_of_many_heads_is_drawn_by_its_first(monkeypatch):
    asked = []
    drawn = card.bias
    monkeypatch.setattr(
        card, "bias", lambda *args, **more: asked.append(more["heads"]) or drawn(*args, **more)
    )
    assert posenc.ALiBi(65536)._repr_html_().count("<img") == 1
    assert asked == [(0, 1)]


def test_half_a_surrogate_pair_is_shown_as_a_question_mark():
    reading = posenc.from_hf({"model_type": "\ud800odd"}, on_error="report")
    assert "?odd" in shown(reading).text


def test_every_value_and_finding_shows_itself():
    """One method for all that `posenc` exports as a dataclass, whoever wrote the class."""
    classes = [getattr(posenc, name) for name in posenc.__all__]
    classes = [c for c in classes if isinstance(c, type) and hasattr(c, "__dataclass_fields__")]
    assert len(classes) > 60
    methods = {c._repr_html_ for c in classes}
    assert methods == {Value._repr_html_}


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_every_encoding_shows_itself(case):
    tags = shown(case.spec)
    assert type(case.spec).__name__ in tags.text
    assert f"{case.spec.kind}: " in tags.text


def test_the_picture_is_the_table():
    """Each number a pixel where there are pixels enough, in the colours of plots and explorer."""
    cells, colours = pixels(shown(posenc.Sinusoidal(32)))
    assert cells.shape == (48, 32)
    np.testing.assert_array_equal(colours, palette.diverging()[:, :3])
    rows = posenc.table(posenc.Sinusoidal(32), 48, dtype="float64")
    np.testing.assert_array_equal(cells, palette.indices(rows, np.abs(rows).max()))
    scores = posenc.bias(posenc.ALiBi(8), 48)[0]
    cells, _ = pixels(shown(posenc.ALiBi(8)))
    np.testing.assert_array_equal(cells, palette.indices(scores, np.abs(scores).max()))
    layers = plan("gemma3")
    cells, _ = pixels(shown(layers))
    names = np.array([entry.name for entry in layers.entries])
    np.testing.assert_array_equal(cells > 0, names[:, None] == np.array(layers.layers))


def test_long_texts_are_cut_and_said_to_be():
    layers = tuple(
        posenc.Layer(f"layer {n} {'<' * 300}", spec=posenc.RoPE(64, pairing="half"), indices=(n,))
        for n in range(200)
    )
    tags = shown(posenc.Reading(layers, model="long"))
    assert re.search(r"… and \d[\d,]* more lines", tags.text)


# --- the widget -----------------------------------------------------------------------------------


def test_without_anywidget_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "posenc.explore.server.widget", raising=False)
    explore = importlib.import_module("posenc.explore")
    with pytest.raises(posenc.DependencyError, match=re.escape("pip install 'posenc[notebook]'")):
        _ = explore.Widget
    with pytest.raises(AttributeError, match="Wodget"):
        _ = explore.Wodget


@pytest.fixture
def widget_class():
    pytest.importorskip("anywidget", reason="the widget needs anywidget: posenc[notebook]")
    from posenc.explore import Widget

    return Widget


@pytest.mark.costly
def test_a_widget_answers_with_frames(widget_class):
    rope = posenc.RoPE(64, pairing="half", base=1234.0)
    widget = widget_class(rope, state={"v": "waves"})
    assert widget.state == {"v": "waves", "enc": "file:given"}
    sent: list[tuple[dict, list[bytes]]] = []
    widget.send = lambda content, buffers=(): sent.append((content, list(buffers)))
    widget._answer(None, {"id": "1", "query": dict(widget.state)}, [])
    ((content, (data,)),) = sent
    assert content == {"id": "1"}
    message = unpack(data)
    series = message.header["panels"][0]["series"][0]["y"]
    np.testing.assert_allclose(message.arrays[series], posenc.wavelengths(rope), rtol=1e-6)
    widget._answer(None, {"id": "2", "query": {"v": 1}}, [])
    assert "expected at most 80 keys and texts" in sent[1][0]["error"]
    widget._answer(None, None, [])
    assert len(sent[2][1]) == 1


def test_a_widget_takes_plans_tables_and_states(widget_class):
    import traitlets

    assert widget_class().state == {}
    assert widget_class(plan("gemma3")).state == {"v": "layers", "enc": "file:local"}
    assert widget_class(posenc.from_hf(LLAMA)).state["v"] == "layers"
    learned = posenc.Learned(8, length=16)
    widget = widget_class(learned, params={"weight": np.ones((16, 8))})
    assert widget.state["v"] == "table"
    widget.state = {"v": "spectrum", "enc": "file:given"}
    with pytest.raises((posenc.ArgumentError, traitlets.TraitError)):
        widget.state = {"v": 3}
    assert widget.state == {"v": "spectrum", "enc": "file:given"}
    with pytest.raises(posenc.ArgumentError, match="expected a spec, a plan or a session, got int"):
        widget_class(3)


@pytest.mark.parametrize("seed", [0, 7])
def test_a_learned_bias_is_drawn_with_the_parameters_that_are_given(widget_class, seed):
    spec = posenc.T5(4)
    params = posenc.init(spec, seed)
    widget = widget_class(spec, params=params)
    message = unpack(widget._steps.frame(dict(widget.state)))
    drawn = np.concatenate([np.ravel(array) for array in message.arrays.values()])
    exact = posenc.bias(spec, 8, params=params)[0, -1]  # the causal mask hides the other side
    assert widget.state["v"] == "bias"
    assert len(np.unique(exact)) == 8
    assert np.isclose(drawn[:, None], exact, rtol=1e-6, atol=0).any(0).all()


def test_the_widget_s_page_is_one_module(widget_class):
    module = widget_class._esm
    text = str(module)
    assert len(re.findall(r"^export default", text, re.MULTILINE)) == 1
    assert not re.search(r"^import ", text, re.MULTILINE)
