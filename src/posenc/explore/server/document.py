"""The explorer as one file that needs no Python: the page, and all that it computes from.

A state that the page does not compute is there as its picture and its data, and stands still.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from posenc._core.errors import bad_argument, refuse_data
from posenc.explore.frame import SERIES, VIEWS as EVERY, header_of
from posenc.explore.page import opened
from posenc.explore.server.assets import whole
from posenc.explore.server.bundle import MORE, SCRIPT, STYLE, together
from posenc.explore.server.protocol import Envelope
from posenc.explore.state.entry import Session
from posenc.explore.state.fields import ASKED, MOST_KEYS, Field
from posenc.explore.state.scene import read
from posenc.explore.views import SHAPES
from posenc.learn.tour import stop, stops
from posenc.plot import content, palette

# What the page computes; of the vectors of heads, those that need no file.
VIEWS = ("attention", "table", "waves", "distance", "rotate", "bias", "stretch")
ENTRIES = {
    **dict.fromkeys(("sinusoidal", "rope", "alibi"), VIEWS),
    "learned": ("distance",),
    "preset:mae": ("table",),
}
OFFERED = {"qk": ("random", "previous", "content")}
SEARCH = ("find", "d", "n", "order", "ladder")  # what the answer of a search depends on
MAPS = {
    "diverging": palette.diverging,
    "sequential": palette.sequential,
    "parts": palette.parts,
}
MOST_STATES = 400
SIZE = {"w": "640", "h": "400", "numbers": "1"}
# What only Python could do more of.
STILL: dict[str, Any] = {
    "controls": [],
    "cursor": {"x": None, "y": None},
    "zoom": None,
    "compares": False,
    "tour": None,
    "save": [],
}
NOTE = (
    "This page does not compute this picture: it was saved with its data, and stands still. "
    "posenc explore moves it."
)
# What stands on a line of the page with such a mark needs Python.
LIVE = re.compile(r'^.*(data-live="python"|id="show-python").*\n', re.MULTILINE)


def state_of(text: str) -> dict[str, str]:
    """The state of an address, or of what stands behind its `#` or `?`."""
    parts = urlsplit(text.strip())
    query = parts.fragment or parts.query or ("" if parts.scheme else parts.path)
    try:
        pairs = parse_qsl(query.lstrip("#?"), keep_blank_values=True, max_num_fields=MOST_KEYS)
    except ValueError:
        most = f"a state of at most {MOST_KEYS:,} keys, such as v=table&d=64"
        raise bad_argument("explore", most, text[:60]) from None
    return dict(pairs)


def default_states(present: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """The present state, and every view."""
    return [*([dict(present)] if present else []), *({"v": view} for view in SHAPES)]


def document(
    states: Sequence[Mapping[str, str]] = (),
    session: Session | None = None,
    *,
    done: Callable[[int], object] = lambda _: None,
) -> bytes:
    """The page, which opens on the first of some states and has links to the others.

    Within a frame of another page it is the picture and its readout alone. `done` is told of every
    state that is.
    """
    if len(states) > MOST_STATES:
        raise bad_argument("freeze", f"1 to {MOST_STATES:,} states", len(states))
    files = whole()
    saved = []
    for state in states:
        saved.append(_saved(state, session or Session()))
        done(1)
    shown = {*VIEWS, *(one["state"]["v"] for one in saved)}
    data = json.loads(files["compute.json"]) | more() | {"saved": saved}
    data["views"] = [view for view in EVERY if view["id"] in shown]
    data["finds"] += [answered(one["state"]) for one in saved if one["state"].get("find")]
    return _page(
        LIVE.sub("", files["index.html"]),
        together(files[SCRIPT], files[MORE]),
        files[STYLE],
        json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    ).encode()


def _saved(state: Mapping[str, str], session: Session) -> dict[str, Any]:
    """A state, with its picture and data where the page does not compute them."""
    own = {key: text for key, text in state.items() if key not in (*ASKED, "k")}
    header = header_of({**own, **SIZE}, session)
    if makes(own, session):
        return {"state": {**own, "v": header["view"]}}
    header |= {**STILL, "notes": [*header["notes"], NOTE], "palette": None}
    return {"state": header["address"], "frame": _text(zlib.compress(Envelope(header).whole(), 9))}


def makes(state: Mapping[str, str], session: Session | None = None) -> bool:
    """Whether the page makes a state as Python does; any other it refuses."""
    one = read(opened(state), SHAPES, session or Session())
    return (
        one.b is None
        and not any(one.values.get(key) for key in ("parts", "loss"))
        and all(
            {text, state.get(field.key, text).strip().lower()} <= _values(field, one.shape.id)
            for field, text in one.fields
            if field.kind == "choice"
        )
    )


def _values(field: Field, view: str) -> set[str]:
    """The values of a choice that the page has."""
    if field.key in ("enc", "e1", "e2", "e4"):
        return {"none", *(entry for entry, views in ENTRIES.items() if view in views)}
    usual = VIEWS if field.key == "v" else [option.value for option in field.options]
    return {*OFFERED.get(field.key, usual)}


def answered(state: Mapping[str, str]) -> dict[str, Any]:
    """The answer to the search of a state, with what it depends on."""
    header = json.loads(Envelope(header_of(state, Session())).text)
    return {**{key: header["state"].get(key) for key in SEARCH}, "answer": header["find"]}


def more() -> dict[str, Any]:
    """What a page computes with beside its own file: the tour, colours, the small model."""
    colours = {
        theme: {**{name: _array(make(theme)) for name, make in MAPS.items()}, "series": series}
        for theme, series in SERIES.items()
    }
    weights = {name: _array(rows, "<f2") for name, rows in content._weights().items()}
    heads = {"about": content._about(), "weights": weights}
    tour = [
        (own := stop(n), {k: v for k, v in stop(n, revealed=True).items() if v != own[k]})
        for n in range(1, len(stops()) + 1)
    ]
    return {"tour": tour, "palette": colours, "heads": heads}


def _array(array: np.ndarray, dtype: str = "|u1") -> dict[str, Any]:
    return {"data": _text(np.ascontiguousarray(array, dtype).tobytes()), "shape": array.shape}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(html: str, script: str, style: str, data: str) -> str:
    """The page with its style, script and data inside, and a policy that admits only these."""
    refuse_data(
        "</script" in script or "</style" in style,
        "freeze",
        "a script and a style without closing tags",
        "one",
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    block = f'<script type="application/json" id="computes">{data}</script>\n'
    for pattern, text in {
        r'<meta charset="utf-8">': f'<meta charset="utf-8">\n{meta}',
        r'<link rel="stylesheet"[^>]*>': f"<style>{style}</style>",
        r'<script type="module"[^>]*></script>': f'{block}<script type="module">{script}</script>',
    }.items():
        html, count = re.subn(pattern, lambda _, text=text: text, html)  # type: ignore[misc]
        refuse_data(count != 1, "freeze: index.html", f"one {pattern}", count)
    return html
