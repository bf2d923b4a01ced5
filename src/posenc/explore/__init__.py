"""The explorer: nine views of positional encodings in the browser, computed in Python.

`frame` turns a state into one consistent picture; `app` serves it on this machine. Everything on
the screen, numbers and words included, comes from here; the page only draws. `Widget` is the same
page in a notebook.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from posenc._core.foreign import Package as _Package
from posenc.explore.frame import frame
from posenc.explore.server.protocol import Message, unpack
from posenc.explore.server.server import app
from posenc.explore.state.entry import Session

if TYPE_CHECKING:
    from posenc.explore.server.widget import Widget

sys.modules[__name__].__class__ = _Package

__all__ = ["Message", "Session", "Widget", "app", "frame", "unpack"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "Widget":
            raise AttributeError(f"module 'posenc.explore' has no attribute {name!r}")
        from posenc.explore.server.widget import Widget

        return Widget
