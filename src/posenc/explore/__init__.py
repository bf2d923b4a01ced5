"""The explorer: eight views of positional encodings in the browser, computed in Python.

`frame` turns a state into one consistent picture; `app` serves it on this machine. Everything on
the screen, numbers and words included, comes from here; the page only draws.
"""

from __future__ import annotations

from posenc.explore.frame import frame
from posenc.explore.protocol import Message, unpack
from posenc.explore.server import app
from posenc.explore.session import Session

__all__ = ["Message", "Session", "app", "frame", "unpack"]
