"""Which array of a folder is what: the layer, queries or keys, before they turn or after.

Names say so, whatever stands between the words:

    layer3.q.before.npy     blk.3.Kcur.out     model.layers.3.self_attn.k_rotated

and where they do not, `names.json` beside the files gives each array a name that does. Nothing is
executed: the pickle of a `.pt` is read without being run, and arrays of objects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posenc._core.errors import bad_data, refuse_data
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Array, open_store

ENDINGS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
NAMES = "names.json"
LARGEST = 2**26  # numbers of an array
FLOATS = ("float64", "float32", "float16", "bfloat16")
LAYER = re.compile(r"(?:layers?|blocks?|blk|h|l)[^a-z0-9]*(\d+)")
NUMBER = re.compile(r"\d+")
WORDS: Mapping[str, frozenset[str]] = {
    meaning: frozenset(words.split())
    for meaning, words in {
        "query": "q query queries qcur xq qs",
        "key": "k key keys kcur xk ks",
        "before": "before pre in input inputs raw unrotated",
        "after": "after post out output outputs rotated turned roped rope embed",
        "positions": "positions position pos position_ids",
    }.items()
}
TODO = (
    "Names hold a layer, q or k, and before or after, such as layer0.q.before; or names.json "
    "beside the files gives each array such a name."
)


class Place(NamedTuple):
    """What an array is."""

    layer: int | None  # None of positions that all layers share
    tensor: str  # "query", "key"; "" of positions
    when: str  # "before", "after" or "positions"


class Dump(NamedTuple):
    """Queries or keys of one layer, as two arrays of whatever layout."""

    layer: int
    tensor: str
    before: np.ndarray
    after: np.ndarray
    positions: np.ndarray | None


def read(path: Path) -> tuple[tuple[Dump, ...], tuple[str, ...]]:
    """The queries and keys of a file or folder, and what was not read, in words."""
    caller, arrays, unread = str(path), dict[Place, np.ndarray](), list[str]()
    for name, array, place in _arrays(path):
        if place is None or (place.when != "positions" and array.dtype not in FLOATS):
            unread.append(name)
            continue
        refuse_data(place in arrays, caller, f"one array that is {_words(place)}", "several", TODO)
        refuse_data(
            array.size > LARGEST, f"{caller}: {name[:80]}", f"at most {LARGEST} numbers",
            array.size, "Write fewer tokens.",
        )  # fmt: skip
        arrays[place] = array.whole()
    turned = [place for place in arrays if place.when == "after"]
    pairs = [place for place in turned if place._replace(when="before") in arrays]
    if not pairs:
        received = "no such two" if arrays else ", ".join(unread[:6]) or "nothing"
        raise bad_data(caller, "a query or key before it turns and after", received, TODO)
    shared = arrays.get(Place(None, "", "positions"))
    single = [_words(p) for p in arrays if p.when != "positions" and p._replace(
        when="after" if p.when == "before" else "before") not in arrays]  # fmt: skip
    dumps = (
        Dump(
            place.layer or 0, place.tensor, arrays[place._replace(when="before")], arrays[place],
            arrays.get(Place(place.layer, "", "positions"), shared),
        )
        for place in sorted(pairs)
    )  # fmt: skip
    return tuple(dumps), tuple(
        f"{what}: {', '.join(names[:6])}{', …' * (len(names) > 6)}"
        for what, names in (("not read, as their names do not say what they are", unread),
                            ("not compared, as the other of the two is missing", single))
        if names
    )  # fmt: skip


def _arrays(path: Path) -> Iterator[tuple[str, Array, Place | None]]:
    folder = path.is_dir()
    files = sorted(f for f in path.iterdir() if f.suffix in ENDINGS) if folder else [path]
    renamed = _renamed((path if folder else path.parent) / NAMES)
    for file in files:
        with open_store(file) as store:
            for name, array in store.arrays.items():
                own = file.suffix == ".npy"
                full = name if own or not folder else f"{file.stem}.{name}"
                yield full, array, place_of(renamed.get(full, renamed.get(name, full)))


def _renamed(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    names = inputs.parse(inputs.text_of(path, inputs.CONFIG), str(path), inputs.CONFIG)
    refuse_data(
        not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()),
        str(path), "an object of texts, a name for the name of each array", repr(names)[:80],
    )  # fmt: skip
    return dict(names)


def place_of(name: str) -> Place | None:
    """What an array of this name is; None where the name does not say."""
    plain = name.lower()
    words = {*re.findall(r"[a-z]+", plain), *re.findall(r"[a-z_]+", plain)}
    meant = [meaning for meaning, known in WORDS.items() if words & known]
    numbers = LAYER.findall(plain) or NUMBER.findall(plain)
    layer = int(numbers[0]) if len({*numbers}) == 1 else None
    if "positions" in meant:
        return Place(layer, "", "positions")
    tensor, when = (_only(meant, pair) for pair in (("query", "key"), ("before", "after")))
    return Place(layer, tensor, when) if tensor and when and layer is not None else None


def _only(meant: Iterable[str], pair: tuple[str, str]) -> str:
    """The one of two meanings that a name has."""
    both = [meaning for meaning in meant if meaning in pair]
    return both[0] if len(both) == 1 else ""


def _words(place: Place) -> str:
    return f"layer {place.layer}, {place.tensor} {place.when}".replace(",  ", ", ")
