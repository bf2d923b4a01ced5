"""Modules of a loaded model, as subjects, called with position ids as transformers does."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.subject import CannotAsk, Subject, refuse_if
from posenc.detect.subject.ask import protocol

# How (batch, seq, axes) becomes position ids: where the axes stand, and whether one row is asked.
PLACES = {"each": "module", "first": "module", "last": "module", "rows": "module_of_row",
          "columns": "module_of_row"}  # fmt: skip


class RotaryModule(NamedTuple):
    """A module that returns cosines and sines of position ids, for a type of layer if it asks."""

    module: Any
    layer: str | None = None
    place: str = "each"

    def answer(self, x: Any, positions: Any) -> Any:
        """What a copy of it returns, so that the module itself remembers nothing."""
        import torch

        own = apart(self.module)
        ids = positions.movedim(-1, 0) if self.place in ("first", "columns") else positions
        device = next((buffer.device for buffer in own.buffers()), torch.device("cpu"))
        refuse_if(device.type == "meta", "it is on the meta device, and has no numbers yet")
        more = {"layer_type": self.layer} if self.layer else {}
        with torch.no_grad():
            return own(x.to(device), ids.to(device), **more)

    def subject(self, dim: int, axes: int = 1, apply: Callable[..., Any] | None = None) -> Subject:
        """Something to ask: it, or the function that turns queries by what it returns."""

        def turned(x: Any, positions: Any) -> Any:
            tables = self.answer(
                x, positions if (PLACES[self.place] == "module_of_row") else positions[None]
            )
            # What turns queries expects (batch, seq, channels) of tables.
            return apply(x, x, *(t[None] if t.ndim == 2 else t for t in tables))[0]  # type: ignore[misc]

        build = functools.partial(protocol, dim=dim, axes=axes, library="torch")
        if apply is None:
            return build(self.answer, PLACES[self.place], name=type(self.module).__name__)
        line = np.zeros((3, axes)[: 1 + (axes > 1)], dtype=np.int64)
        for order in ("rotate", "rotate_tokens"):
            subject = build(turned, order, name=apply.__name__)
            with contextlib.suppress(CannotAsk):
                subject.rotate(np.ones((1, 2, 3, dim)), line)
                return subject
        raise CannotAsk(f"{apply.__name__} takes other arguments")


def answering(module: Any, layer: str | None, axes: int = 1) -> list[RotaryModule]:
    """The forms in which a module answers, those that give most first; or why there is none."""
    line = np.zeros((5, axes)[: 1 + (axes > 1)], dtype=np.int64)
    forms: list[tuple[int, RotaryModule]] = []
    why: CannotAsk | None = None
    for place in (*PLACES,)[1:] if axes > 1 else ("each",):
        asked = RotaryModule(module, layer, place)
        try:  # a form that is misunderstood drops an axis
            forms.append((asked.subject(2, axes).built(line)[0].shape[-1], asked))
        except CannotAsk as error:
            why = why or error
    refuse_if(not forms, f"it answers no positions ({why})")
    return [asked for _, asked in sorted(forms, key=lambda pair: -pair[0])]


def apart(module: Any) -> Any:
    """A module with settings and buffers of its own, which calls may change."""
    own = copy.copy(module)
    vars(own)["_buffers"] = {
        key: b if b is None else b.clone() for key, b in module._buffers.items()
    }
    return own


def rebuilt(module: Any) -> Any:
    """A module as its config makes it, on the CPU; None where that is not all it takes."""
    import torch

    # Whatever code of somebody else raises.
    with contextlib.suppress(Exception), torch.device("cpu"):
        return type(module)(module.config)
    return None
