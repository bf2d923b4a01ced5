"""Which argument is which: by its name, then in every order of those without a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from posenc.detect.subject.code import Callee, Slot
from posenc.detect.subject.forms import OFFSETS, PLACES, SHAPES

PLACED = ("positions", "offset", "packed", "q_positions", "k_positions", "q_len", "k_len")
Roles = tuple[tuple[str, str], ...]


def assignments(code: Callee, *, biased: bool) -> Iterator[tuple[Roles, str]]:
    """What may stand for each argument: by names, then in every order of those without."""
    seen = set()
    for roles in _orders(code, biased=biased):
        for chosen, way in _ways(code, dict(roles), biased=biased):
            if (chosen, way) not in seen:
                seen.add((chosen, way))
                yield chosen, way


def _orders(code: Callee, *, biased: bool) -> Iterator[dict[str, str]]:
    named = {slot.name: str(slot.role) for slot in code.slots if slot.role}
    if biased:
        whose = {"x": "q_positions", "key": "k_positions"}
        named = {name: whose.get(role, role) for name, role in named.items()}
    blank = [slot for slot in code.slots if slot.required and not slot.role]
    if not blank:
        yield named
    else:
        yield from ({**named, **more} for more in _dealt(blank, set(named.values()), biased))
    # Names may mislead.
    required = [slot for slot in code.slots if slot.required]
    stated = {n: r for n, r in named.items() if r not in ("x", "key", *PLACED, "length", "tables")}
    free = [s for s in required if s.name not in stated]
    if 0 < len(free) <= 3 and not code.tables:
        dealt = _dealt(free, set(stated.values()), biased)
        yield from ({**stated, **more} for more in dealt
                    if all(role in MISTAKEN.get(named.get(n, ""), (named.get(n, ""),))
                           for n, role in more.items()))  # fmt: skip


# What a name may stand for beside what it says.
MISTAKEN: dict[str, tuple[str, ...]] = {
    "": ("x", "key", "positions", "offset", "length"), "x": ("x", "positions"),
    "positions": ("positions", "x", "length"), "length": ("length", "positions"),
    "q_positions": ("q_positions", "q_len"), "k_positions": ("k_positions", "k_len"),
    "tables": ("positions", "x", "length"),
}  # fmt: skip
POOLS = {
    1: (("x",), ("positions",), ("length",)),
    2: (("x", "positions"), ("x", "key"), ("x", "offset"), ("positions", "dim"),
        ("length", "dim"), ("x", "length")),
    3: (("x", "key", "positions"), ("x", "key", "offset"), ("x", "positions", "dim"),
        ("length", "dim", "base")),
}  # fmt: skip
BIASES = {
    1: (("length",),), 2: (("q_positions", "k_positions"), ("q_len", "k_len"), ("heads", "length")),
    3: (("q_positions", "k_positions", "heads"), ("q_len", "k_len", "heads")),
}  # fmt: skip


def _dealt(blank: Sequence[Slot], have: set[str], biased: bool) -> Iterator[dict[str, str]]:
    """What arguments without names may be, beside those that have one."""
    pools = list((BIASES if biased else POOLS).get(len(blank), ()))
    if not biased and len(blank) == 1 and have & {"x"}:
        pools = [("positions",), ("offset",), ("key",), ("length",), ("dim",)]
    if not biased and len(blank) == 1 and have & {"length", "positions"} and "x" not in have:
        pools = [("dim",), ("x",)]
    if not biased and len(blank) == 2 and have & {"x", *PLACED}:
        pools += [("key", "positions"), ("key", "offset")]
    if have & {"cos", "sin", "tables"}:
        pools = [("x",), ("x", "key"), ("positions",)]
    for pool in pools:
        if len(pool) == len(blank) and not have & ({*pool} - {"dim", "length"}):
            for order in itertools.permutations(pool):
                yield {slot.name: role for slot, role in zip(blank, order, strict=True)}


def _ways(code: Callee, roles: dict[str, str], *, biased: bool) -> Iterator[tuple[Roles, str]]:
    """The arguments that are given, for each way to say where tokens stand."""
    required = {slot.name for slot in code.slots if slot.required}
    inside = set(roles.values())
    of_x = "x" in inside
    ways: list[str]
    if of_x or biased:
        ways = [w for w in ("positions", "packed", "offset") if w in inside and not biased]
        if biased:
            both = {"q_positions", "q_len", "distances"}
            ways = ["counted"] if inside & both else ["length"]
        elif code.tables is None:
            ways += ["length"] * ("length" in inside) + ["counted"]
        elif "positions" not in inside:
            ways = ["tables"]
    else:
        ways = [w for w in ("positions", "length") if w in inside]
        ways += [w for w in ("offset", "counted") if "tokens" in inside]
    for way in ways:
        if any(r in PLACED and n in required and r != way and not _goes(r, way, biased)
               for n, r in roles.items()):  # fmt: skip
            continue
        chosen = []
        once: set[str] = set()
        for slot in code.slots:
            role = roles.get(slot.name, "")
            wanted = role in ("x", "key", "tokens", way)
            wanted = wanted or (role in ("cos", "sin", "tables") and code.tables is not None)
            wanted = wanted or (biased and role in ("heads", "distances", *PLACED[3:]))
            wanted = wanted or (role in ("dim", "length") and not of_x and not biased)
            if (slot.name in required or wanted) and role not in (once - {"dim", "heads"}):
                chosen.append((slot.name, role))
                once.add(role)
        if all(name in {n for n, _ in chosen} for name in required):
            yield tuple(chosen), way


def _goes(role: str, way: str, biased: bool) -> bool:
    """Whether an argument that is required can be given beside another way."""
    return biased or role == "offset" or (role == "packed" and way == "positions")


def places_of(layout: str, way: str, *, biased: bool) -> Sequence[str]:
    """How what says where tokens stand may be shaped."""
    if biased:
        return ("",)
    if way == "positions":
        if layout in ("thd", "tf", "td"):
            return ("t",)
        rows = ("bs",) if "b" in layout or not layout else ()
        return (*rows, *PLACES[1:])
    if way == "offset":
        return OFFSETS if "t" not in layout else ()
    if way == "packed":
        return ("",) if layout in ("thd", "tf", "td") else ()
    if way == "tables":
        return [shape for shape in SHAPES if "b" in layout or "b" not in shape]
    return ("",) if "t" not in layout else ()
