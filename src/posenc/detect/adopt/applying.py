"""Attention that turns queries and keys by the fused kernel, on one instance of a model.

A model's attention gets cosines and sines and turns by them with a function of its module. A copy
of its forward, with globals of its own, has another function under that name (`FusedTurn`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from posenc import functional
from posenc._core.errors import PosencError
from posenc.encodings.rotary.base import RotarySpec
from posenc.torch.adopted import FormedCosSin, FusedTurn

__all__ = ["put_turns_in", "take_turns_out"]

CALL = ["q", "k", "cos", "sin"]
MARK = "_posenc_copy"  # of a function
PLACES = (0, 1, 7, 1023, 4095)
ROOM = 4e-6  # of values near 1, turned by cosines and sines that are the same


def put_turns_in(model: nn.Module, formed: Iterable[FormedCosSin]) -> int:
    """Give attention whose function turns as a form says the fused kernel; how many there are."""
    forms = [one for one in formed if one.plain and getattr(one.form.spec, "phase", "") == "exact"]
    copies: dict[type, FunctionType | None] = {}
    count = 0
    for module in model.modules():
        kind = type(module)
        if kind not in copies:
            copies[kind] = _copy(kind.forward, forms) if forms else None
        forward = copies[kind]
        if forward is not None and "forward" not in vars(module):
            module.__dict__["forward"] = MethodType(forward, module)
            count += 1
    return count


def take_turns_out(model: nn.Module) -> None:
    """Give attention its own forward again."""
    for module in model.modules():
        forward = vars(module).get("forward")
        if isinstance(forward, MethodType) and forward.__self__ is module:
            own = forward.__func__ is type(module).forward  # as it comes out of a file
            if own or MARK in vars(forward.__func__):
                del module.__dict__["forward"]


def _copy(forward: Any, forms: list[FormedCosSin]) -> FunctionType | None:
    """A copy of a forward that turns by the fused kernel; None where it has no such function."""
    if not isinstance(forward, FunctionType):
        return None
    names, cells = forward.__globals__, forward.__closure__ or ()
    if hasattr(forward, "__wrapped__"):  # by a decorator, which has it in a cell
        within = _copy(forward.__wrapped__, forms)
        if within is None or not any(c.cell_contents is forward.__wrapped__ for c in cells):
            return None
        cells = tuple(
            CellType(within) if cell.cell_contents is forward.__wrapped__ else cell
            for cell in cells
        )
        more = {**vars(forward), "__wrapped__": within}
    else:
        turns = {name: FusedTurn(own) for name, own in _functions(forward) if _fit(own, forms)}
        if not turns:
            return None
        # Without the name of its module, where a compiler would look for the functions.
        names = {k: v for k, v in names.items() if k != "__name__"} | turns
        more = vars(forward)
    copied = FunctionType(
        forward.__code__, names, forward.__name__, forward.__defaults__, cells or None
    )
    for name in ("__kwdefaults__", "__module__", "__annotations__", "__doc__", "__qualname__"):
        setattr(copied, name, getattr(forward, name))
    vars(copied).update(more, **{MARK: True})
    return copied


def _functions(forward: FunctionType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(name, function) of what a forward calls with queries, keys, cosines and sines."""
    for name in forward.__code__.co_names:
        function = forward.__globals__.get(name)
        if isinstance(function, FunctionType):
            own = inspect.signature(function).parameters
            optional = all(p.default is not p.empty for p in [*own.values()][len(CALL) :])
            if [*own][: len(CALL)] == CALL and optional:
                yield name, function


def _fit(own: Callable[..., Any], forms: list[FormedCosSin]) -> bool:
    """Tell each form which width of heads a function turns as it does; whether there is any."""
    for formed in forms:
        if own not in formed.fused and _turns_alike(own, formed):
            formed.fused[own] = formed.form.spec.dim
    return any(own in formed.fused for formed in forms)


def _turns_alike(own: Callable[..., Any], formed: FormedCosSin) -> bool:
    spec: RotarySpec = formed.form.spec
    generator = torch.Generator().manual_seed(0)
    ids = torch.tensor([PLACES])
    q, k = (torch.randn(2, n, len(PLACES), spec.dim, generator=generator) for n in (2, 1))
    cos, sin = formed(q, ids)
    try:
        theirs = own(q, k, cos, sin)
        ours = functional.rotate_together(spec, ((q, "query"), (k, "key")), positions=ids)
        return all(
            a.shape == b.shape and float((a - b).abs().max()) <= ROOM * float(b.abs().max())
            for a, b in zip(theirs, ours, strict=True)
        )
    except PosencError:
        raise
    except Exception:  # noqa: BLE001 - other people's functions raise anything
        return False
