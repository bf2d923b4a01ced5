"""Which argument is which: by its name, then in every order of those without a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from posenc.detect.subject.code import Callee, Slot
from posenc.detect.subject.forms import OFFSETS, PLACES, SHAPES

PLACED = ("positions", "offset", "packed", "q_positions", "k_positions", "q_len", "k_len")
TOKENS = ("x", "qkv", "tokens", "shape")  # what code that counts by itself counts along
Roles = tuple[tuple[str, str], ...]

# What a name may stand for beside what it says.
MISTAKEN: dict[str, tuple[str, ...]] = {
    "": ("x", "key", "positions", "offset", "length"), "x": ("x", "positions", "tokens", "dim"),
    "positions": ("positions", "x", "length"), "length": ("length", "positions"),
    "q_positions": ("q_positions", "q_len"), "k_positions": ("k_positions", "k_len"),
    "tables": ("positions", "x", "length"),
}  # fmt: skip
# What arguments without names may be, the likeliest first.
POOLS = {
    1: (("x",), ("positions",), ("length",), ("tokens",)),
    2: (("x", "positions"), ("x", "key"), ("x", "offset"), ("positions", "dim"),
        ("length", "dim"), ("x", "length")),
    3: (("x", "key", "positions"), ("x", "key", "offset"), ("x", "positions", "dim"),
        ("length", "dim", "base")),
}  # fmt: skip
BIASES = {
    1: (("batch",), ("length",)),
    2: (("q_positions", "k_positions"), ("q_len", "k_len"), ("heads", "length")),
    3: (("q_positions", "k_positions", "heads"), ("q_len", "k_len", "heads")),
}  # fmt: skip


def assignments(code: Callee, *, biased: bool) -> Iterator[tuple[Roles, str]]:
    """What may stand for each argument: by names, then in every order of those without."""
    yield from dict.fromkeys(
        each for roles in _orders(code, biased) for each in _ways(code, roles, biased)
    )


def _orders(code: Callee, biased: bool) -> Iterator[dict[str, str]]:
    named = {slot.name: str(slot.role) for slot in code.slots if slot.role}
    if biased and "key" in named.values():
        whose = {"x": "q_positions", "key": "k_positions"}
        named = {name: whose.get(role, role) for name, role in named.items()}
    required = [slot for slot in code.slots if slot.required]
    yield from (
        {**named, **more}
        for more in _dealt([slot for slot in required if not slot.role], {*named.values()}, biased)
    )
    # Names may mislead.
    loose = ("x", "key", *PLACED, "length", "tables")
    stated = {name: role for name, role in named.items() if role not in loose}
    free = [slot for slot in required if slot.name not in stated]
    if 0 < len(free) <= 3 and not code.tables:
        for more in _dealt(free, {*stated.values()}, biased):
            own = {name: named.get(name, "") for name in more}
            if all(role in MISTAKEN.get(own[n], (own[n],)) for n, role in more.items()):
                yield {**stated, **more}


def _dealt(blank: Sequence[Slot], have: set[str], biased: bool) -> Iterator[dict[str, str]]:
    """What arguments without names may be, beside those that have one."""
    pools = list((BIASES if biased else POOLS).get(len(blank), ((),)[len(blank) :]))
    if not biased and len(blank) == 1 and "x" in have:
        pools = [("positions",), ("offset",), ("key",), ("length",), ("dim",)]
    elif not biased and len(blank) == 1 and have & {"length", "positions"}:
        pools = [("dim",), ("x",)]
    if not biased and len(blank) == 2 and have & {"x", *PLACED}:
        pools += [("key", "positions"), ("key", "offset")]
    if blank and have & {"cos", "sin", "tables"}:
        pools = [("x",), ("x", "key"), ("positions",)]
    for pool in pools:
        if len(pool) == len(blank) and not have & ({*pool} - {"dim", "length"}):
            names = [slot.name for slot in blank]
            yield from (
                dict(zip(names, order, strict=True)) for order in itertools.permutations(pool)
            )


def _ways(code: Callee, roles: dict[str, str], biased: bool) -> Iterator[tuple[Roles, str]]:
    """The arguments that are given, for each way to say where tokens stand."""
    required = {slot.name for slot in code.slots if slot.required}
    inside = {*roles.values()}
    for way in _said(code, inside, biased):
        needed = {roles.get(name, "") for name in required}
        beside = {"tables": {"offset"}, "positions": {"packed"}}.get(way, set())
        beside |= {"offset"} if way in needed else set()
        if not biased and needed & {*PLACED} - {way, *beside}:
            continue
        wanted = {"x", "qkv", "key", "tokens", "shape", way}.union(
            ("cos", "sin", "tables") if code.tables is not None else (),
            ("heads", "distances", *PLACED[3:]) if biased else (),
            ("dim", "length") if not biased and not inside & {"x", "qkv"} else (),
        )
        chosen: dict[str, str] = {}
        for slot in code.slots:
            role = roles.get(slot.name, "")
            if (role not in chosen.values() or role in ("dim", "heads")) and (
                slot.required or role in wanted
            ):
                chosen[slot.name] = role
        if required <= chosen.keys():
            yield tuple(chosen.items()), way


def _said(code: Callee, inside: set[str], biased: bool) -> list[str]:
    """What may say where tokens stand, the widest first."""
    if biased:
        named = "counted" if inside & {"q_positions", "q_len", "distances"} else "length"
        return ["positions"] if "x" in inside and "positions" in inside else [named]
    turned = inside & {"x", "qkv"}
    if turned and code.tables is not None:
        # Positions pick rows of whole tables, or are an argument that nobody reads any more.
        return ["positions", "tables"] if "positions" in inside else ["tables"]
    ways = next(ways for holds, ways in (
        (turned, ("positions", "packed", "offset", "length", "counted")),
        (inside & {*TOKENS}, ("positions", "length", "offset", "counted")),
        (True, ("positions", "length")),
    ) if holds)  # fmt: skip
    return [way for way in ways if way in {*inside, "tables", "counted"}]


def places_of(layout: str, way: str, *, biased: bool) -> Sequence[str]:
    """How what says where tokens stand may be shaped."""
    tokens = "t" in layout
    return {
        "positions": ("t",) if tokens else PLACES["b" not in layout and bool(layout) :],
        "offset": () if tokens else OFFSETS,
        "packed": ("",) if tokens else (),
        "tables": [shape for shape in SHAPES if "b" in layout or "b" not in shape],
    }.get(way, () if tokens and not biased else ("",))
