"""One page in one file: the same front end, with stored pictures in place of a server.

Of each state the file has the picture, and for every stop of its cursor what differs there: texts
and arrays to be looked up, by column, by row or by both. So the page computes nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from posenc._core.errors import bad_argument, refuse_data
from posenc.explore.frame import header_of
from posenc.explore.server.bundle import SCRIPT, STYLE
from posenc.explore.server.protocol import Envelope, changes
from posenc.explore.server.server import whole
from posenc.explore.state.entry import Session
from posenc.explore.views import SHAPES
from posenc.plot.panels.text import whole as whole_number

MOST_STATES = 400
MOST_BYTES = 64 * 2**20
STOPS = (512, 256, 128, 64, 32)  # of the cursor: as many as fit in the bytes of a state
STATE_BYTES = 60_000
FARTHEST = 16  # from one stop to the next; a longer axis has the stops around its cursor alone
NOUNS = {"j": "dimensions", "off": "distances"}  # of the places of a cursor
LARGEST = 2**20  # an axis of more places is said to have none in particular
SWEEP = tuple(str(d) for d in (8, 16, 32, 64, 256))
SIZE = {"w": "640", "h": "400"}
# What only Python could do more of.
FIXED: dict[str, Any] = {"zoom": None, "tour": None, "save": [], "data_table": False, "fixed": True}


def state_of(text: str) -> dict[str, str]:
    """The state of an address, or of what stands behind its `#` or `?`."""
    parts = urlsplit(text.strip())
    query = parts.fragment or parts.query or ("" if parts.scheme else parts.path)
    try:
        pairs = parse_qsl(query.lstrip("#?"), keep_blank_values=True, max_num_fields=80)
    except ValueError:
        raise bad_argument("freeze", "a state such as v=table&d=64", text[:60]) from None
    return {key: value for key, value in pairs if key != "k"}


def default_states(present: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """The present state, every view, and a sweep over the width of the table."""
    usual = [{"v": view} for view in SHAPES] + [{"v": "table", "d": d} for d in SWEEP]
    return [dict(present), *usual] if present else usual


def frozen(
    states: Iterable[Mapping[str, str]],
    session: Session | None = None,
    *,
    stops: int = STOPS[0],
    done: Callable[[int], object] = lambda _: None,
) -> bytes:
    """The page with the pictures of some states, in both themes, whose cursor moves.

    Within a frame of another page it is the picture and its readout alone. `done` is told of every
    state that is.
    """
    stored, files = _stored(list(states), session or Session(), stops, done), whole()
    refuse_data(
        "index.html" not in files, "freeze", "the files of the page", "none in this installation"
    )
    # What stands on a line with this mark needs Python.
    return _page(
        re.sub(r"^.*data-live.*\n", "", files["index.html"], flags=re.MULTILINE),
        files[SCRIPT],
        files[STYLE],
        json.dumps({"states": stored}, separators=(",", ":")).replace("<", "\\u003c"),
    ).encode()


def _stored(
    states: Sequence[Mapping[str, str]],
    session: Session,
    stops: int,
    done: Callable[[int], object],
) -> list[dict[str, Any]]:
    if not 1 <= len(states) <= MOST_STATES:
        raise bad_argument("freeze", f"1 to {MOST_STATES:,} states", len(states))
    kept: list[_FrozenState] = []
    for state in states:
        one = _fitting(state, session, stops)
        if all((one.view, one.keys) != (other.view, other.keys) for other in kept):
            kept.append(one)
        done(1)
    stored = [one.written(kept) for one in kept]
    if sum(len(one["data"]) for one in stored) > MOST_BYTES:
        raise bad_argument("freeze", f"at most {MOST_BYTES:,} bytes", "more")
    return stored


def _fitting(state: Mapping[str, str], session: Session, most: int) -> _FrozenState:
    """A state with as many stops of its cursor as there is room for."""
    for stops in [count for count in STOPS if count <= most] or [max(1, most)]:
        one = _FrozenState(state, session, stops)
        if len(one.packed({})) <= STATE_BYTES:
            break
    return one


class _FrozenState:
    """One state: its picture, and what differs from it at the stops of its cursor."""

    def __init__(self, state: Mapping[str, str], session: Session, stops: int) -> None:
        header = header_of({**state, **SIZE}, session)
        self.view, self.state = header["view"], {**state, "v": header["view"]}
        self.controls = {control["key"]: control for control in header["controls"]}
        self.cursor = _stopping(header["cursor"], stops)
        self.stops = {place["key"]: place["stops"] for place in self.cursor.values()}
        # What tells this state from another; where its cursor stands does not.
        self.keys = {key: header["state"][key] for key in self.controls if key not in self.stops}
        self.defaults = {key: header["defaults"][key] for key in self.keys}
        self.arrays: dict[str, np.ndarray] = {}

        def tree(theme: str, x: int | None, y: int | None) -> dict[str, Any]:
            moved = ((axis, at) for axis, at in (("x", x), ("y", y)) if at is not None)
            places = {self.cursor[axis]["key"]: str(at) for axis, at in moved}
            header = {**header_of({**state, **places, **SIZE, "theme": theme}, session), **FIXED}
            header["controls"] = [one for one in header["controls"] if one["key"] in self.stops]
            envelope = Envelope(header)
            self.arrays |= envelope.arrays
            return self._answerable(json.loads(envelope.text))

        x, y = (self.cursor.get(axis, {"value": None, "stops": [None]}) for axis in ("x", "y"))
        self.tree = tree("light", x["value"], y["value"])
        self.dark = list(changes(self.tree, tree("dark", x["value"], y["value"])))
        trees = [[tree("light", left, top) for left in x["stops"]] for top in y["stops"]]
        for name in ("panels", "readout"):
            _align(name, [self.tree, *(one for row in trees for one in row)])
        lists: dict[str, int] = {}  # each once: a caption and a label often say the same
        self.leaves = [
            [path, along, lists.setdefault(json.dumps(leaves), len(lists))]
            for path, along, leaves in _leaves(trees)
        ]
        self.lists = [json.loads(leaves) for leaves in lists]
        self.arrays = {name: _plainer(array) for name, array in self.arrays.items()}

    def _answerable(self, tree: dict[str, Any]) -> dict[str, Any]:
        """A header without what only Python could answer."""

        def stored(link: Mapping[str, Any]) -> bool:
            return all(to in map(str, self.stops.get(key, ())) for key, to in link["state"].items())

        for block in tree["readout"]:
            if block["kind"] == "links":
                block["links"] = list(filter(stored, block["links"]))
        for axis, place in self.cursor.items():
            tree["cursor"][axis]["stops"] = place["stops"]
        if tree["find"]:
            tree["find"]["hits"] = []
        return {
            **tree,
            "panels": _unbound(tree["panels"], self.stops),
            "readout": [
                _unbound(block, self.stops) for block in tree["readout"] if block.get("links", True)
            ],
            "notes": [*tree["notes"], *_coarse(self.cursor)],
        }

    def _choices(self, kept: Sequence[_FrozenState]) -> Iterator[dict[str, Any]]:
        """A control for each key in which other states differ from this one, and in no other."""
        for key, text in self.keys.items():
            alike = [
                one.keys[key]
                for one in kept
                if one.view == self.view
                and key in one.keys
                and all(one.keys.get(k, v) == v for k, v in self.keys.items() if k != key)
            ]
            control = self.controls[key]
            names = {option["value"]: option["label"] for option in control["options"]}
            options = [
                {"value": value, "label": names.get(value, value) or "as typed", "group": ""}
                for value in dict.fromkeys(alike)
            ]
            if len(options) > 1:
                shown = {"section": "view"} if control["section"] == "page" else {}
                yield {**control, **shown, "kind": "choice", "options": options, "value": text}

    def packed(self, more: Mapping[str, Any]) -> bytes:
        """The header, with what is said over it, and the arrays under short names."""
        picture = Envelope(
            {**self.tree, "dark": self.dark, "leaves": self.leaves, "lists": self.lists, **more}
        )
        short = {name: f"@{number}" for number, name in enumerate(self.arrays)}
        picture.arrays = {short[name]: array for name, array in self.arrays.items()}
        picture.text = re.sub(r'"(@[\w-]{12})"', lambda at: f'"{short[at[1]]}"', picture.text)
        return zlib.compress(picture.whole(), 9)

    def written(self, kept: Sequence[_FrozenState]) -> dict[str, Any]:
        """What the page holds of it, beside the other states."""
        first = {one.view: one.state for one in reversed(kept)}
        more = {
            "views": [
                {**v, "state": first[v["id"]]} for v in self.tree["views"] if v["id"] in first
            ],
            # The leaves know the controls of the cursor by their places.
            "controls": [*self.tree["controls"], *self._choices(kept)],
        }
        return {
            "view": self.view,
            "state": self.state,
            "keys": self.keys,
            "defaults": self.defaults,
            "data": base64.b64encode(self.packed(more)).decode(),
        }


def _stopping(cursor: Mapping[str, Any], stops: int) -> dict[str, dict[str, Any]]:
    """The axes of a cursor, with the places where it can stop."""
    axes = {axis: place for axis, place in cursor.items() if place}
    sizes = {axis: place["max"] - place["min"] + 1 for axis, place in axes.items()}
    across = max(math.isqrt(stops), stops // sizes.get("y", 1))
    most = {"x": across, "y": stops // min(sizes.get("x", 1), across)}
    return {axis: {**place, "stops": _stops(place, most[axis])} for axis, place in axes.items()}


def _stops(place: Mapping[str, int], most: int) -> list[int]:
    low, high, value = place["min"], place["max"], place["value"]
    step = -(-(high - low + 1) // most)
    if step <= FARTHEST:
        return list(range(low + (value - low) % step, high + 1, step))
    start = min(max(low, value - most // 2), high - most + 1)
    return list(range(start, start + most))


def _coarse(cursor: Mapping[str, Any]) -> list[str]:
    """What readers should know of a cursor that does not stop everywhere."""
    words = []
    for place in cursor.values():
        stops, size = len(place["stops"]), place["max"] - place["min"] + 1
        if stops < size:
            whole = f" of {whole_number(size)}" if size <= LARGEST else ""
            words.append(f"{stops}{whole} {NOUNS.get(place['key'], 'positions')}")
    return [f"The cursor of this file stops at {' and '.join(words)}."] if words else []


def _unbound(node: Any, keys: Container[str]) -> Any:
    """Panels whose clicks set what the file knows, and nothing else."""
    if isinstance(node, list):
        return [_unbound(item, keys) for item in node]
    if isinstance(node, float) and abs(node) < 1e4:
        return float(f"{node:.5g}")  # of marks and hands, which are only drawn
    if not isinstance(node, dict):
        return node
    plain = {name: _unbound(item, keys) for name, item in node.items()}
    key = plain.get("key")  # of the address; a picture with a legend has a list there
    return {**plain, "key": ""} if isinstance(key, str) and key not in keys else plain


def _align(name: str, trees: Sequence[dict[str, Any]]) -> None:
    """Give a list of panels or blocks the same places in all headers; null where one has none."""
    every = []
    for tree in trees:
        named: dict[Any, Any] = {}
        for item in tree[name]:
            what = (item["kind"], item.get("id") or item.get("label", ""))
            named[what, sum(what == other for other, _ in named)] = item
        every.append(named)
    order = dict.fromkeys(what for named in every for what in named)
    for tree, named in zip(trees, every, strict=True):
        tree[name] = [named.get(what) for what in order]


def _plainer(array: np.ndarray) -> np.ndarray:
    """Curves to 12 binary places, which no screen shows: what is random beyond takes room."""
    return (
        array
        if array.dtype != np.float32
        else ((array.view(np.uint32) + np.uint32(0x400)) & np.uint32(0xFFFFF800)).view(np.float32)
    )


def _leaves(trees: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """What differs among the headers of rows and columns: its path, and its value at each stop.

    What follows from the column alone is kept for each column, `x`; from the row alone, `y`.
    """
    base = trees[0][0]
    paths = {path for row in trees for tree in row for path, _ in changes(base, tree)}
    for path in sorted(
        [path for path in paths if not any(path[:n] in paths for n in range(len(path)))], key=str
    ):
        plane = [
            [functools.reduce(lambda node, key: node[key], path, tree) for tree in row]
            for row in trees
        ]
        if all(row == plane[0] for row in plane):
            yield [path, "x", plane[0]]
        elif all(leaf == row[0] for row in plane for leaf in row):
            yield [path, "y", [row[0] for row in plane]]
        else:
            yield [path, "xy", [leaf for row in plane for leaf in row]]


# --- the page -------------------------------------------------------------------------------------


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(html: str, script: str, style: str, data: str) -> str:
    """The page with its style, script and pictures inside, and a policy that admits only these."""
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
    block = f'<script type="application/json" id="frames">{data}</script>\n'
    for pattern, text in {
        r'<meta charset="utf-8">': f'<meta charset="utf-8">\n{meta}',
        r'<link rel="stylesheet"[^>]*>': f"<style>{style}</style>",
        r'<script type="module"[^>]*></script>': f'{block}<script type="module">{script}</script>',
    }.items():
        html, count = re.subn(pattern, lambda _, text=text: text, html)  # type: ignore[misc]
        refuse_data(count != 1, "freeze: index.html", f"one {pattern}", count)
    return html
