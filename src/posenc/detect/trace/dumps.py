"""`posenc.trace_folder`: queries and keys that another program wrote, held against a model.

Names say which array is what, whatever stands between the words:

    layer3.q.before.npy     blk.3.Kcur.out     model.layers.3.self_attn.k_rotated

and where they do not, `names.json` beside the files gives each array a name that does. Nothing is
executed: the pickle of a `.pt` is read without being run, and arrays of objects are refused.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import PosencError, refuse, refuse_data
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Array, open_store
from posenc.detect.contract.comparison.fields import variants
from posenc.detect.facts import facts
from posenc.detect.facts.plan import head_width
from posenc.detect.fit import tolerances
from posenc.detect.fit.ladders import BASES
from posenc.detect.fit.turns import PairTurns, allowed, expected as expected_turns, of_rotations
from posenc.detect.trace.compared import pairs_of
from posenc.detect.trace.expected import ExpectedPlaces, expectations, of_queries, places_of
from posenc.detect.trace.findings import Seen, judge
from posenc.detect.trace.result import Trace, TracedTensor
from posenc.detect.trace.turned import HeadTurns, TensorTurns
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

CALLER = "trace_folder"
TENSORS = ("query", "key")
ROOM = 16.0  # roundings that a turned number may be off by
UNSEEN = "scores, masks, values and outputs, because such files do not hold them"
NEITHER = "its numbers are no rotation of pairs of channels, the same in its heads or not"
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


def of_folder(path: str | os.PathLike[str], expected: Any) -> Trace:
    """`posenc.trace_folder`."""
    refuse((expected is None, f"{CALLER}: {path}: what these dumps are held against",
            "a config, a contract, a plan, a spec, or another trace", "None",
            "Give it as expected=. A folder of a model has a config.json."))  # fmt: skip
    source = inputs.named(path, CALLER)
    dumps, unseen = _read(Path(source))
    against = expectations(expected, None)
    part = "text" if "text" in against.parts else next(iter(against.parts))
    wanted = {dump.layer: against.parts[part](dump.layer) for dump in dumps}
    width = _width(expected, [e.rotary.dim for e in wanted.values() if e.rotary is not None])
    layers, findings, remarks = [], [], [f"not seen: {UNSEEN}"]
    turned = _arranged(dumps, width, f"{CALLER}: {source}")
    for layer, expectation in sorted(wanted.items()):
        own = {d.tensor: _turned(d, expectation.rotary) for d in turned if d.layer == layer}
        first = next(dump for dump in turned if dump.layer == layer)
        rows, tokens, *_ = first.before.shape
        judged = judge(
            Seen(layer, {**own}, (tokens, tokens), rows), expectation,
            ExpectedPlaces(first.positions, None, stated=True),
        )  # fmt: skip
        names = {*TENSORS, "value", "output"} - own.keys()
        absent = dict.fromkeys(names, TracedTensor(why="not seen"))
        layers.append(replace(judged.layer, **absent, mask="not seen"))  # type: ignore[arg-type]
        findings += judged.findings
        unseen += [text for text in judged.unseen if "no product with a weight" not in text]
        unseen += [f"layer {layer}: {n}, as no file holds it" for n in TENSORS if n not in own]
        remarks += judged.remarks
    return Trace(
        tuple(layers), tuple(findings), expected=against.name,
        unseen=(*against.notes, *unseen), remarks=tuple(remarks),
    )  # fmt: skip


def _width(expected: Any, turning: list[int]) -> int | None:
    """The width of a head: that of a config where it says so, or that of what turns."""
    with contextlib.suppress(PosencError):
        about = facts(expected)
        turning = [
            *filter(None, (head_width(entry, about.config or {}) for entry in about.reading))
        ] or turning
    return max(turning, default=None)


def _turned(dump: Dump, spec: RotarySpec | None) -> TensorTurns:
    """By how much each pair is turned, in the heads that are turned alike."""
    rows, tokens, heads, width = dump.before.shape
    x, y = (np.moveaxis(a, 2, 0).reshape(heads, -1, width) for a in (dump.before, dump.after))
    dtype = tolerances.seen(y)
    room = ROOM * tolerances.ROUNDING[dtype] + 1e-6
    positions: Any = dump.positions
    usual = spec if spec is not None and spec.dim <= width else RoPE(width, pairing="half")

    def group(own: list[int]) -> tuple[HeadTurns, Any]:
        chosen, factors, left = of_rotations(usual, x[own], y[own])
        pairs, outputs = pairs_of(chosen, width)
        still = (np.abs(y[own] - x[own]) <= room * np.abs(x[own])).all()
        why = NEITHER if not still and np.median(left) > room else ""
        if still or why:
            pairs, outputs, factors = [], [], factors[:, :0]
        else:
            factors = _exact(chosen, factors, np.ravel(positions), (dtype, room))
        values = factors if chosen.channels.direction == "forward" else factors.conj()
        return HeadTurns(
            tuple(own), tuple(pairs), tuple(outputs), values.reshape(rows, tokens, len(pairs)),
            np.ones((rows, tokens)), why,
        ), (left > room).any(axis=1)  # fmt: skip

    alike, odd = group([*range(heads)])
    groups = [alike]
    if odd.any():  # those by themselves, and the others without them
        several = [np.flatnonzero(~odd).tolist()] * (not odd.all())
        groups = [group(own)[0] for own in (*several, *np.flatnonzero(odd)[:, None].tolist())]
    return TensorTurns(
        width, groups, np.ones((rows, tokens), bool), dtype, np.arange(heads), pooled=False
    )


def _exact(
    spec: RotarySpec, factors: np.ndarray, positions: np.ndarray, dtype: tuple[str, float]
) -> np.ndarray:
    """The factors of the spec, or of one with one change, where rounding explains the others."""
    seen = PairTurns(positions, factors, int(positions.max(initial=0)) + 1, dtype[0])
    bases = [spec.replace(base=base) for base in BASES] if isinstance(spec, RoPE) else []
    others = (other for *_, other in variants(spec) if getattr(other, "pairs", 0) == spec.pairs)
    candidate: Any
    for candidate in (spec, *bases, *others):
        with contextlib.suppress(PosencError, ArithmeticError):
            exact = expected_turns(candidate, seen)
            if exact.shape == factors.shape and np.all(
                np.abs(exact - factors) <= allowed(candidate, seen, 1.0) + dtype[1]
            ):
                return exact
    return factors


# --- names ----------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[list[Dump], list[str]]:
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
    dumps = [
        Dump(layer, tensor, arrays[layer, tensor, "before"], after,
             arrays.get((layer, "", "positions"), arrays.get((None, "", "positions"))))
        for (layer, tensor, when), after in sorted(arrays.items(), key=lambda item: str(item[0]))
        if when == "after" and layer is not None and (layer, tensor, "before") in arrays
    ]  # fmt: skip
    refuse_data(
        not dumps, str(path), "a query or key before it turns and after",
        "no such two" if arrays else "; ".join(unread[:6]) or "nothing", TODO,
    )  # fmt: skip
    both = {(dump.layer, dump.tensor) for dump in dumps}
    return dumps, [*unread, *(
        f"layer {layer}, {tensor}, of which only the one {when} it turns is there"
        for layer, tensor, when in arrays if tensor and (layer, tensor) not in both
    )]  # fmt: skip


def _arrays(path: Path) -> Iterator[tuple[str, Array, Place | None]]:
    """The arrays of all files, by name, and what each is."""
    folder = path.is_dir()
    names: Any = {}
    if (other := (path if folder else path.parent) / NAMES).exists():
        names = inputs.parse(inputs.text_of(other, inputs.CONFIG), str(other), inputs.CONFIG)
        refuse_data(
            not isinstance(names, dict) or {*map(type, names.values())} - {str},
            str(other), "a JSON object of strings, a name for each array",
            repr(names)[:80],
        )  # fmt: skip
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
    tensors = [meaning for meaning in meant if meaning in TENSORS]
    times = [meaning for meaning in meant if meaning not in TENSORS]
    unsaid = layer is None or len(tensors) != 1 or len(times) != 1
    return None if unsaid else (layer, tensors[0], times[0])


# --- layouts --------------------------------------------------------------------------------------


def _arranged(dumps: Sequence[Dump], width: int | None, caller: str) -> list[Dump]:
    """All of some dumps in one layout; `width` is that of a head, for arrays of joined heads."""
    options = [[[*_layouts(array, width)] for array in (dump.before, dump.after)] for dump in dumps]
    counts = [{a.shape[1] for a in both[0]} & {a.shape[1] for a in both[1]} for both in options]
    stated = {dump.positions.shape[-1] for dump in dumps if dump.positions is not None}
    tokens = set.intersection(*counts, *[stated] * bool(stated))
    shapes = ", ".join(dict.fromkeys(str(dump.before.shape) for dump in dumps))
    refuse_data(
        not tokens, caller,
        f"as many positions as queries and keys have tokens, in heads of {width or '?'}",
        f"arrays of shape {shapes}",
        "Layouts that are known: (rows, heads, tokens, channels), heads and tokens exchanged, "
        "heads joined, or axes in the order of ggml.",
    )  # fmt: skip
    return [_chosen(dump, both, tokens) for dump, both in zip(dumps, options, strict=True)]


def _layouts(array: np.ndarray, width: int | None) -> Iterator[np.ndarray]:
    """An array as (rows, tokens, heads, channels), in each way that its shape allows."""
    plain = array.astype(np.float64)
    if plain.ndim < 2:
        return
    if width and plain.shape[-1] != width and plain.shape[0] == width:
        plain = plain.T  # as ggml counts axes: channels first
    channels = plain.shape[-1]
    if width and channels != width and not channels % width and plain.ndim < 4:
        plain = plain.reshape(*plain.shape[:-1], channels // width, width)
        if plain.ndim == 4:
            yield plain  # rows of joined heads
            return
    elif width and channels != width:
        return
    if plain.ndim == 2:
        yield plain[None, :, None]
    elif plain.ndim in (3, 4):
        plain = plain[None] if plain.ndim == 3 else plain
        yield from (plain, plain.swapaxes(1, 2))


def _chosen(dump: Dump, both: list[list[np.ndarray]], tokens: set[int]) -> Dump:
    """The layout in which tokens turn alike in all heads."""
    pairs = [
        (x, y) for x in both[0] for y in both[1] if x.shape == y.shape and x.shape[1] in tokens
    ]
    refuse_data(
        not pairs, f"layer {dump.layer}, {dump.tensor}", "one shape before it turns and after",
        f"{dump.before.shape} and {dump.after.shape}",
    )  # fmt: skip
    before, after = min(pairs, key=lambda pair: _unlike(*pair)) if len(pairs) > 1 else pairs[0]
    own = None if dump.positions is None else np.squeeze(dump.positions)
    rows, count, *_ = before.shape
    places = of_queries(places_of({}, own, rows), rows, count, past=0, axes=1)
    return dump._replace(before=before, after=after, positions=places)


def _unlike(x: np.ndarray, y: np.ndarray) -> float:
    """How far the turns of a token are from being the same in all heads, in the better pairing."""
    half = x.shape[-1] // 2
    likeness = 0.0
    for first, second in ((slice(0, None, 2), slice(1, None, 2)),
                          (slice(half), slice(half, None))):  # fmt: skip
        v, w = (a[..., first] + 1j * a[..., second] for a in (x, y))
        size = np.maximum((np.abs(v) * np.abs(w)).sum(), 1e-30)
        likeness = max(likeness, np.abs((w * v.conj()).sum(axis=2)).sum() / size)
    return 1 - likeness
