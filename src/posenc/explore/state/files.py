"""Encodings and embeddings of files that the command line names: read once, checked, kept."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from posenc import registry
from posenc._core.errors import bad_data, refuse_data
from posenc._core.io import files, inputs
from posenc._core.io.checkpoints import open_store
from posenc._core.spec.parameters import Init
from posenc._core.spec.spec import Spec
from posenc.encodings.table.learned import Learned
from posenc.explore.state.catalogue import entries_of, read_model
from posenc.explore.state.entry import CatalogueEntry, Embeddings, HeadsFile, Session, written
from posenc.explore.state.fields import shown

LARGEST = 2**25  # numbers of one table; the largest published one has 25 million
MOST_ENTRIES = 64
MOST_WORDS = 4096
MOST_TOKENS = 64  # of a file of queries and keys; the page draws fewer
MOST_HEADS, WIDEST_HEAD = 256, 1024
LONGEST_TOKEN = 40  # characters
LARGEST_NUMBER = 1e15  # products of two such are float32 still
SIDES = ("q", "k", "v")


def load(
    configs: Iterable[str] = (),
    tables: Iterable[str] = (),
    embeddings: str | None = None,
    heads: str | None = None,
) -> Session:
    """What the files of a command line offer."""
    entries = [entry for path in configs for entry in _of_config(Path(path))]
    entries += [entry for path in tables for entry in _of_tables(Path(path))]
    refuse_data(
        len(entries) > MOST_ENTRIES, "explore", f"at most {MOST_ENTRIES:,} encodings", len(entries)
    )
    numbered: dict[str, CatalogueEntry] = {}
    for entry in entries:
        names = (entry.id, *(f"{entry.id}-{count}" for count in range(2, MOST_ENTRIES + 1)))
        name = next(name for name in names if name not in numbered)
        numbered[name] = replace(entry, id=name)
    return Session(
        tuple(numbered.values()),
        None if embeddings is None else _embeddings(Path(embeddings)),
        None if heads is None else _heads(Path(heads)),
    )


def _id(*words: str) -> str:
    plain = re.sub(r"[^a-z0-9_.]+", "-", "-".join(words).lower()).strip("-")
    return f"file:{plain[:60]}"


def given(
    spec: Spec,
    params: Mapping[str, np.ndarray] | None = None,
    *,
    name: str = "file:given",
    label: str = "",
    read: str = "",
) -> CatalogueEntry:
    """An entry for a spec that is at hand, and for what it has learned, which `read` reads."""
    code = written(spec) + (f"\nparams = {{'weight': {read}}}" if read else "")
    label = label or type(spec).__name__
    for each, array in (params or {}).items():
        if isinstance(array, np.ndarray) and array.dtype.kind in "fiu":
            _check_numbers(array, f"explore: {label} {each}")
    return CatalogueEntry(
        id=name,
        label=label,
        group="Files",
        kind=spec.kind,
        fields=(),
        build=lambda _: spec,
        code=lambda _: code,
        params=params,
    )


# --- configs and specs ----------------------------------------------------------------------------


def _of_config(path: Path) -> list[CatalogueEntry]:
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if path.suffix in (".npy", ".npz", ".safetensors"):
        return _of_tables(path)
    spec = _spec(path)
    if spec is not None:
        return [given(spec, name=_id(path.stem), label=f"{path.name}: {type(spec).__name__}")]
    model = read_model(path)
    return list(
        entries_of(model, functools.partial(_id, getattr(model.plan, "model", "") or path.stem))
    )


def _spec(path: Path) -> Spec | None:
    """The spec of a JSON file that is one; None for any other file."""
    if path.is_dir() or path.suffix != ".json":
        return None
    data = inputs.parse(inputs.content(path, inputs.SPEC), str(path), inputs.SPEC)
    if not isinstance(data, Mapping) or data.get("type") not in registry.names():
        return None
    spec = registry.from_json(json.dumps(data))
    return spec if isinstance(spec, Spec) else None


# --- arrays ---------------------------------------------------------------------------------------


def _of_tables(path: Path) -> list[CatalogueEntry]:
    return [_table(path, name, rows) for name, rows in _arrays(path)]


def _table(path: Path, name: str, rows: np.ndarray) -> CatalogueEntry:
    length, dim = rows.shape
    return given(
        Learned(dim, length=length, init=Init()),
        {"weight": rows},
        name=_id(path.stem, name),
        label=f"{path.name}: {name}" if name else path.name,
        read={
            ".npz": "np.load({!r})[{!r}]",
            ".safetensors": "safetensors.numpy.load_file({!r})[{!r}]",
        }.get(path.suffix, "np.load({!r})").format(path.name, name),
    )


def _arrays(path: Path) -> list[tuple[str, np.ndarray]]:
    """The arrays of a file that can be tables: two axes of floating numbers."""
    fitting = [(name, rows) for name, rows in _of_file(path) if rows.size]
    refuse_data(
        not fitting,
        f"explore: {path}",
        "an array of two axes (positions, dimensions) of floating numbers",
        "none",
    )
    for name, rows in fitting:
        _check_numbers(rows, f"explore: {path} {name}".strip())
    return fitting


def _check_numbers(array: np.ndarray, caller: str) -> None:
    """Raise where numbers cannot be drawn: NaN, infinity, or so large that products overflow."""
    size = float(np.abs(array).max(initial=0.0))
    refuse_data(
        not size <= LARGEST_NUMBER,
        caller,
        f"finite numbers up to {LARGEST_NUMBER:g}",
        f"{size:.3g}" if np.isfinite(size) else "NaN or infinity",
    )


def _of_file(path: Path, names: tuple[str, ...] = ()) -> list[tuple[str, np.ndarray]]:
    """The arrays of these names, else of two axes; of a whole model, those of positions."""
    with open_store(path) as store:
        model = len(store.arrays) > MOST_ENTRIES
        fitting = [
            array
            for array in store.arrays.values()
            if array.dtype in files.FLOATS
            and array.fetch is not None
            and array.size <= LARGEST
            and (array.name in names if names else len(array.shape) == 2)
            and (names or not model or "pos" in array.name.lower())
        ]
        return [
            ("" if store.format == "npy" else array.name, array.whole())
            for array in fitting[: MOST_ENTRIES + 1]
        ]


def _embeddings(path: Path) -> Embeddings:
    arrays, caller = _arrays(path), f"explore: {path}"
    refuse_data(
        len(arrays) > 1,
        caller,
        "one array of embeddings",
        ", ".join(name for name, _ in arrays[:5]),
    )
    rows = arrays[0][1]
    refuse_data(len(rows) > MOST_WORDS, caller, f"at most {MOST_WORDS:,} rows", len(rows))
    return Embeddings(path.name, rows.astype(np.float64))


def _heads(path: Path) -> HeadsFile:
    """Queries, keys and values, each (heads, words, dim)."""
    stored = dict(_of_file(path, SIDES))
    caller = f"explore: {path}"
    refuse_data(
        not {"q", "k"} <= stored.keys(),
        caller,
        "floating arrays `q` and `k` of shape (heads, words, dim)",
        ", ".join(sorted(stored)[:8]) or "none",
    )
    q = stored["q"]
    sides = {"q": q, "k": stored["k"], "v": stored.get("v", stored["k"])}
    for name, side in sides.items():
        fits = side.ndim == q.ndim == 3 and side.size and side.shape[1] == q.shape[1] > 1
        fits = fits and not len(q) % len(side) and (name == "v" or side.shape[2] == q.shape[2])
        if not (fits and len(q) <= MOST_HEADS and side.shape[2] <= WIDEST_HEAD):
            raise bad_data(
                f"{caller}: {name}",
                "(heads, words, dim), at least two words, as many as q has, in heads that divide "
                f"its own, at most {MOST_HEADS:,}, and at most {WIDEST_HEAD:,} wide",
                f"shape {side.shape}",
            )
        _check_numbers(side, f"{caller}: {name}")
    # Where a key serves several queries, as in grouped attention, each query gets its own copy.
    few = (side[:, :MOST_TOKENS].astype(np.float64) for side in sides.values())
    each = [np.repeat(side, len(q) // len(side), axis=0) for side in few]
    return HeadsFile(
        path.name, each[0], each[1], each[2], _tokens(path, each[0].shape[1]), q.shape[1]
    )


def _tokens(path: Path, count: int) -> tuple[str, ...]:
    """The tokens that a safetensors file names, one for each word."""
    stated = (
        files.read_layout(path).metadata.get("tokens") if path.suffix == ".safetensors" else None
    )
    if stated is None:
        return ()
    tokens = inputs.parse(stated.encode(), f"{path}: tokens", inputs.SPEC)
    if not isinstance(tokens, list) or len(tokens) < count:
        raise bad_data(
            f"explore: {path}: tokens", f"a JSON list of the {count} tokens", shown(str(stated))
        )
    return tuple(_visible(str(token)) for token in tokens[:count])


def _visible(token: str) -> str:
    """A token of somebody else as one short word, all of it visible."""
    kept = "".join("?" if unicodedata.category(c)[0] == "C" else c for c in token.strip())
    return (kept if len(kept) <= LONGEST_TOKEN else f"{kept[:LONGEST_TOKEN]}…") or "␣"
