"""What a page that computes needs of Python: fields, labels, defaults of panels.

`explore/static/local.js` makes frames of it. Everything here is read from what the explorer has, so
no word of a control or a title is written twice; `tools/generate.py` writes it to
`explore/static/compute.json`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from posenc._core.numeric.ladder import Ladder
from posenc._core.spec.answers import brief
from posenc.detect.extend.rules import enlarged
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.explore.server.document import ENTRIES, OFFERED, SEARCH, VIEWS, answered, more
from posenc.explore.state import catalogue, fields, scene
from posenc.explore.state.rows import EXPONENTS
from posenc.explore.views import SHAPES, stretch as view
from posenc.learn import lesson, topics
from posenc.learn.tour import stops
from posenc.plot.panels import grammar
from posenc.plot.views import stretch


def data() -> dict[str, Any]:
    """All that a page without saved states computes from, in plain types."""
    return {**json.loads(text()), **more()}


def text() -> str:
    """What of it no file of the package has, as JSON with a line for each part."""
    own = frozenset(f.key for shape in SHAPES.values() for f in shape.fields)
    common = (scene.P, scene.J, scene.FIND, scene.TOUR, scene.REVEAL)
    parts = {
        "grammar": {n: _defaults(c) for n, c in vars(grammar).items() if _is_sent(c)},
        "shapes": {view: _shape(SHAPES[view]) for view in VIEWS},
        "entries": {name: _entry(name) for name in ENTRIES},
        "fields": {field.key: _field(field) for field in common},
        "known": sorted(scene._known(own)),
        "none": "no positions",
        "stretching": {"labels": stretch.RULES, "lines": _lines()},
        "ladders": {name: _ladder(own) for name, own in EXPONENTS.items()},
        "seed": _seed(),
        "finds": list(_finds()),
    }
    lines = [f"{json.dumps(name)}: {_written(part)}" for name, part in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _written(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    return dict(value) if isinstance(value, Mapping) else list(value)


def _is_sent(cls: object) -> bool:
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _defaults(cls: Any) -> dict[str, Any]:
    """The fields of a class that are sent, with their defaults; null where there is none."""
    sent = [f for f in dataclasses.fields(cls) if not f.metadata.get("here")]
    return {
        **{f.name: None if f.default is dataclasses.MISSING else f.default for f in sent},
        **{name: getattr(cls, name, None) for name in getattr(cls, "SENT", ()) if name == "kind"},
        **({"ticks": None} if cls is grammar.Axis else {}),
    }


def _shape(shape: scene.ViewShape) -> dict[str, Any]:
    names = ("id", "label", "title", "encoding", "defaults", "cursor", "zoom", "most", "first")
    own = {name: getattr(shape, name) for name in names}
    return {**own, "fields": [_field(field) for field in shape.fields]}


def _entry(name: str) -> dict[str, Any]:
    entry = catalogue.by_id()[name]
    own = {key: getattr(entry, key) for key in ("id", "label", "group", "kind", "note")}
    views = [v for v in ENTRIES[name] if entry in catalogue.offered(v)]
    return {**own, "views": views, "fields": [_field(field) for field in entry.fields]}


SAMPLE: dict[str, Any] = {
    "n": 7919.5,
    "f": 6.5,
    "trained": 7411,
}  # stand for others


def _lines() -> dict[str, Any]:
    """What engines are told for each rule, with marks for the numbers of a state."""
    spec = RoPE(64, pairing="half", base=SAMPLE["n"])
    data = stretch.data(spec, original_length=SAMPLE["trained"], factor=SAMPLE["f"])
    rules: dict[str, Any] = {}
    none = ""
    for rule in data.rules:
        _, *blocks = view._lines(data, rule.name)
        facts = [b for b in blocks if isinstance(b, grammar.Datum)]
        written = {fact.label: _marked(fact.value, data.length) for fact in facts}
        remarks = [b.text for b in blocks if isinstance(b, grammar.Prose)]
        if written:
            rules[rule.name] = (written, remarks)
        else:
            (none,) = remarks
    return {"heading": "What to write", "none": none, "rules": rules}


def _marked(text: str, length: int) -> str:
    """A line with marks in place of its numbers."""
    base = enlarged(RoPE(64, pairing="half", base=SAMPLE["n"]), SAMPLE["f"])
    marks = {
        f"--rope-scale {SAMPLE['f']:g}": "--rope-scale ⟨g⟩",
        f"--rope-freq-base {base:.9g}": "--rope-freq-base ⟨baseG⟩",
        str(base): "⟨base⟩",
        str(length): "⟨length⟩",
        **{str(value): f"⟨{key}⟩" for key, value in SAMPLE.items()},
    }
    for number, mark in marks.items():
        text = text.replace(number, mark)
    return text


def _finds() -> Iterator[dict[str, Any]]:
    """The answers of the searches in lessons and stops, and in the states that these lead to."""
    states = [lesson(topic).see.state for topic in topics()]
    states += [{**here.state, **here.reveal} for here in stops()]
    for state in [state for state in states if state.get("find")]:
        asked, seen = [dict(state)], set()
        while asked:
            one = asked.pop()
            own = answered(one)
            if (key := tuple(own[name] for name in SEARCH)) not in seen:
                seen.add(key)
                yield own
                links = [hit["state"] for hit in own["answer"]["hits"]]
                asked += [{**one, **{k: v for k, v in link.items() if v}} for link in links]


def _ladder(ladder: Ladder) -> dict[str, Any]:
    """The exponent (j + start) / divisor, whose divisor is linear in the width and the pairs."""
    at = [float(ladder.divisor(count=n, width=d)) for d, n in ((0, 0), (1, 0), (0, 1))]
    written = brief(Sinusoidal(2, ladder=ladder)).partition(", ")[2][:-1]
    own = {name: getattr(ladder, name) for name in ("first", "start", "cos_shift")}
    return {**own, "divisor": [at[0], at[1] - at[0], at[2] - at[0]], "text": written}


def _seed() -> dict[str, str]:
    """Where the random numbers begin that stand in for what an encoding has learned."""
    own: Any = np.random.default_rng([0, 0]).bit_generator.state["state"]
    return {"state": str(own["state"]), "increment": str(own["inc"])}


def _field(field: fields.Field) -> dict[str, Any]:
    some = OFFERED.get(field.key)
    options = [o._asdict() for o in field.options if some is None or o.value in some]
    return {**dataclasses.asdict(field), "options": options}
