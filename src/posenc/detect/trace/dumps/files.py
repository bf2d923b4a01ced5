"""Which array of a folder is what: the layer, queries or keys, before they turn or after.

Names say so, whatever stands between the words:

    layer3.q.before.npy     blk.3.Kcur.out     model.layers.3.self_attn.k_rotated

and where they do not, `names.json` beside the files gives each array a name that does. Nothing is
executed: the pickle of a `.pt` is read without being run, and arrays of objects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import bad_data, refuse_data
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Array, open_store

ENDINGS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
NAMES = "names.json"
LARGEST = 2**26  # numbers of an array
FLOATS = ("float64", "float32", "float16", "bfloat16")
Place = tuple[int | None, str, str]
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


class Dump(NamedTuple):
    """Queries or keys of one layer: as files have them, later (rows, tokens, heads, channels)."""

    layer: int
    tensor: str  # "query" or "key"
    before: np.ndarray
    after: np.ndarray
    positions: np.ndarray | None


def read(path: Path) -> tuple[list[Dump], list[str]]:
    """The queries and keys of a file or folder, and what was not read, in words."""
    arrays: dict[Place, np.ndarray] = {}
    unread = []
    for name, array, place in _arrays(path):
        caller = f"{path}: {name[:80]}"
        if place is None or (place[1] and array.dtype not in FLOATS):
            unread.append(f"{name}, whose name or dtype does not say what it is")
            continue
        refuse_data(place in arrays, caller, "one array of its name", "several", TODO)
        refuse_data(
            array.size > LARGEST, caller, f"at most {LARGEST} numbers", array.size,
            "Write fewer tokens.",
        )  # fmt: skip
        arrays[place] = array.whole()
    shared = arrays.get((None, "", "positions"))
    dumps = [
        Dump(layer, tensor, arrays[layer, tensor, "before"], after,
             arrays.get((layer, "", "positions"), shared))
        for (layer, tensor, when), after in sorted(arrays.items(), key=lambda item: str(item[0]))
        if when == "after" and layer is not None and (layer, tensor, "before") in arrays
    ]  # fmt: skip
    if not dumps:
        received = "no such two" if arrays else "; ".join(unread[:6]) or "nothing"
        raise bad_data(str(path), "a query or key before it turns and after", received, TODO)
    both = {(dump.layer, dump.tensor) for dump in dumps}
    alone = [place for place in arrays if place[1] and place[:2] not in both]
    unread += [f"layer {layer}, {tensor}, of which only the one {when} it turns is there"
               for layer, tensor, when in alone]  # fmt: skip
    return dumps, unread


def _arrays(path: Path) -> Iterator[tuple[str, Array, Place | None]]:
    """The arrays of all files, by name, and what each is."""
    folder = path.is_dir()
    names: Any = {}
    if (other := (path if folder else path.parent) / NAMES).exists():
        names = inputs.parse(inputs.text_of(other, inputs.CONFIG), str(other), inputs.CONFIG)
        texts = isinstance(names, dict) and all(isinstance(name, str) for name in names.values())
        expected = "an object of texts, a name for the name of each array"
        refuse_data(not texts, str(other), expected, repr(names)[:80])
    for file in sorted(f for f in path.iterdir() if f.suffix in ENDINGS) if folder else [path]:
        with open_store(file) as store:
            for name, array in store.arrays.items():
                full = f"{file.stem}.{name}" if folder and file.suffix != ".npy" else name
                yield full, array, place_of(names.get(full, names.get(name, full)))


def place_of(name: str) -> Place | None:
    """The layer, `query`, `key` or nothing, and `before`, `after` or `positions`; None if unsaid.

    Positions that all layers share have no layer.
    """
    plain = name.lower()
    words = {*re.findall(r"[a-z]+", plain), *re.findall(r"[a-z_]+", plain)}
    meant = [meaning for meaning, synonyms in WORDS.items() if words & synonyms]
    numbers = {*(LAYER.findall(plain) or NUMBER.findall(plain))}
    layer = int(numbers.pop()) if len(numbers) == 1 else None
    if "positions" in meant:
        return layer, "", "positions"
    tensors = [meaning for meaning in meant if meaning in ("query", "key")]
    times = [meaning for meaning in meant if meaning in ("before", "after")]
    if layer is None or len(tensors) != 1 or len(times) != 1:
        return None
    return layer, tensors[0], times[0]
