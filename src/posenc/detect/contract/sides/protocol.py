"""Methods whose names say what they answer, as subjects: no form of a call has to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posenc.detect.subject import Subject
from posenc.detect.subject.ask import subject_of
from posenc.detect.subject.code import Callee, Slot
from posenc.detect.subject.discovery import Found, Search
from posenc.detect.subject.forms import CallCounter, Form

# A method -> its kind, its arguments, the order of axes of x, how positions are shaped.
PROTOCOL = {
    "rotate": ("rotary", ("x", "positions"), "bhsd", "s"),
    "rotate_tokens": ("rotary", ("x", "positions"), "bshd", "s"),
    "cos_sin": ("cos_sin", ("positions",), "", "s"),
    "table": ("table", ("positions",), "", "s"),
    "bias": ("bias", ("q_positions", "k_positions"), "", ""),
    "tokens": ("rotary", ("positions", "x", "key"), "tf", "t"),  # of all rows, as engines have them
    "module": ("cos_sin", ("x", "positions"), "bsd", "bs"),
    "module_of_row": ("cos_sin", ("x", "positions"), "bsd", "s"),
}


def protocol(
    function: Callable[..., Any], method: str, *, dim: int, axes: int, library: str, name: str = ""
) -> Subject:
    """A method of the protocol, or another function of its form, to be asked."""
    kind, names, layout, place = PROTOCOL[method]
    slots = tuple(Slot(name, name, required=True, positional=True) for name in names)  # type: ignore[arg-type]
    code = Callee(function, name or method, slots, (library,))
    roles = tuple((name, name) for name in names)
    form = Form(code, roles, library, layout, place, "positions", dim)
    search = Search(
        CallCounter(), dim=dim, heads=None, kind=kind, library=library, layout=None, axes=axes
    )
    return subject_of(Found(kind, form), search, None, None)
