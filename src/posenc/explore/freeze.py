"""One page in one file: the same front end, with stored pictures in place of a server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import parse_qsl, quote, urlsplit

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc.explore.bundle import SCRIPT, STYLE
from posenc.explore.frame import frame
from posenc.explore.protocol import unpack
from posenc.explore.server import whole
from posenc.explore.session import Session
from posenc.explore.views import SHAPES

__all__ = ["default_states", "frozen", "name_of", "state_of"]

MOST_STATES = 400
MOST_BYTES = 64 * 2**20
SWEEP = tuple(str(d) for d in (8, 16, 32, 64, 256))
SIZE = {"w": "640", "h": "400"}
THEMES = ("light", "dark")
UNQUOTED = "!~*'()-_."  # as `encodeURIComponent` leaves them


def state_of(text: str) -> dict[str, str]:
    """The state of an address, or of what stands behind its `#` or `?`.

    Parameters
    ----------
    text : str
        An address that `Copy link` gave, or a part of one such as `v=table&d=64`.

    Returns
    -------
    dict of str to str
        The state.

    Examples
    --------
    >>> from posenc.explore.freeze import state_of
    >>> state_of("http://127.0.0.1:8000/#k=1&v=waves&d=64")
    {'v': 'waves', 'd': '64'}
    """
    parts = urlsplit(text.strip())
    query = parts.fragment or parts.query or ("" if parts.scheme else parts.path)
    try:
        pairs = parse_qsl(query.lstrip("#?"), keep_blank_values=True, max_num_fields=80)
    except ValueError:
        raise ArgumentError(mismatch("freeze", "a state such as v=table&d=64", text[:60])) from None
    return {key: value for key, value in pairs if key != "k"}


def name_of(state: Mapping[str, str], defaults: Mapping[str, str], theme: str) -> str:
    """The name of a picture: the keys that differ from their defaults, sorted, and the theme."""
    kept = sorted(key for key in state if key != "k" and defaults.get(key) != state[key])
    pieces = [f"{quote(key, UNQUOTED)}={quote(state[key], UNQUOTED)}" for key in kept]
    return "&".join([*pieces, "theme=dark"] if theme == "dark" else pieces)


def default_states(present: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """The present state, every view, and a sweep over the width of the table."""
    states: list[dict[str, str]] = [dict(present)] if present else []
    states += [{"v": view} for view in SHAPES]
    states += [{"v": "table", "d": d} for d in SWEEP]
    return states


def frozen(states: Iterable[Mapping[str, str]], session: Session | None = None) -> bytes:
    """The page with the pictures of some states, in both themes.

    Parameters
    ----------
    states : iterable of mapping
        What the page can show; the first is what it opens with.
    session : Session, optional
        The encodings and embeddings of files.

    Returns
    -------
    bytes
        HTML that loads nothing.

    Raises
    ------
    ArgumentError
        If there are no states, too many, or states of too many bytes.

    Examples
    --------
    >>> from posenc.explore.freeze import frozen
    >>> page = frozen([{"v": "table", "d": "8", "L": "8"}])
    >>> b"https://" in page
    False
    """
    state = Session() if session is None else session
    pictures, first = _pictures(list(states), state)
    files = whole()
    if "index.html" not in files:
        raise DataError(mismatch("freeze", "the files of the page", "none in this installation"))
    script, style = files[SCRIPT], files[STYLE]
    data = json.dumps({"first": first, "frames": pictures}, separators=(",", ":"))
    return _page(files["index.html"], script, style, data.replace("<", "\\u003c")).encode()


def _pictures(states: list[Mapping[str, str]], session: Session) -> tuple[dict[str, str], str]:
    if not 1 <= len(states) <= MOST_STATES:
        raise ArgumentError(mismatch("freeze", f"1 to {MOST_STATES} states", len(states)))
    pictures: dict[str, str] = {}
    first = ""
    size = 0
    for state in states:
        for theme in THEMES:
            data = frame({**state, **SIZE, "theme": theme}, session)
            header = unpack(data).header
            name = name_of(header["state"], header["defaults"], theme)
            if not first:
                view = quote(header["view"], UNQUOTED)
                first = "#" + "&".join(filter(None, (f"k=1&v={view}", name)))
            if name in pictures:
                continue
            pictures[name] = base64.b64encode(data).decode()
            size += len(pictures[name])
            if size > MOST_BYTES:
                raise ArgumentError(mismatch("freeze", f"at most {MOST_BYTES} bytes", "more"))
    return pictures, first


# --- the page -------------------------------------------------------------------------------------


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _page(html: str, script: str, style: str, data: str) -> str:
    """The page with its style, script and pictures inside, and a policy that admits only these."""
    if "</script" in script or "</style" in style:
        raise DataError(mismatch("freeze", "a script and a style without closing tags", "one"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    block = f'<script type="application/json" id="frames">{data}</script>'
    replacements = (
        (r'<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}'),
        (r'<link rel="stylesheet"[^>]*>', f"<style>{style}</style>"),
        (
            r'<script type="module"[^>]*></script>',
            f'{block}\n<script type="module">{script}</script>',
        ),
    )
    for pattern, text in replacements:
        html, count = re.subn(pattern, lambda _, text=text: text, html)  # type: ignore[misc]
        if count != 1:
            raise DataError(mismatch("freeze: index.html", f"one {pattern}", count))
    return html
