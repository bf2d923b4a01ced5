"""What are these numbers? Tables, frequencies, slopes and biases, by name and by shape."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posenc import functional, registry
from posenc._core.arrays.array import concrete, dtype_name, is_array
from posenc._core.calls import checked_call, own_arguments, refuse
from posenc._core.errors import ArgumentError, DTypeError, mismatch
from posenc._core.io.checkpoints import MOST_ENTRIES, Array, ArrayStore, open_store
from posenc._core.spec.checks import USUAL
from posenc.detect.fit.ladders import MARGIN, bend_bits
from posenc.detect.fit.tables.layout import Placement
from posenc.detect.fit.tolerances import dtype_of
from posenc.detect.fit.turns import PairTurns, estimated, expected, off_by, unit_of
from posenc.detect.identify.result import Finding, Identification, Kind, finding_of
from posenc.detect.identify.verdicts.table import EPS, LEAST_ROWS, judge_table, looks_sinusoidal
from posenc.detect.identify.verdicts.vector import LEAST, LONGEST, PAIRING, judge_bias, judge_vector

ROUND = 1e-2  # of a factor on cosines and sines, in whatever dtype
GLANCE = 512  # rows that tell the frequencies; all others are held against them
SLACK = 4.0  # roundings of an entry, as stored and as computed by another package
# What a vector is called, by what its name says.
CALLED = {name: name for name in ("frequencies", "divisors", "slopes")} | {"bias": "slopes"}
ALONE = ("array", "npy")  # what holds one array, which somebody wants to know about
# What names of tensors say, the most telling first. A name is a hint: the numbers decide.
NAMES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("divisors", r"rope_(freqs|factors)"),
        ("frequencies", r"inv_?freq|inv_?timescale|(^|[._])freqs$|rotary\S*freq"),
        ("slopes", r"slope"),
        ("bias", r"alibi|relative_(attention|position)_bias(_table)?|(rel|relative)_?pos\w*bias"),
        ("table", r"pos(ition)?s?_?(al)?[_.]?(emb|enc|table)|embed(ding)?s?[_.]?pos"),
        ("table", r"(^|[._])(wpe|pe)([._]|$)|sin(usoid)?[_.]?(emb|table)|sinusoid|timing_signal"),
    )
)


@checked_call
@own_arguments
def identify(
    source: Any,
    *,
    tensor: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    **older: Any,
) -> Identification:
    """Say which convention tables, frequencies, slopes and biases follow.

    Arrays are chosen by name (`pos_embed`, `inv_freq`, `relative_attention_bias`, …) and by what
    their first rows look like, whatever they are called; cosines and sines of RoPE are told
    together, by names that differ in `cos` and `sin` alone. A convention is claimed only after
    posenc has rebuilt every entry from a spec, and only if the entries spell out at least 20 bits
    more than the spec takes to state. Bases, starts and factors are solved for, not looked up.

    Parameters
    ----------
    source : path, array, or mapping of str to array
        A `.safetensors` file, its index or folder, a `.npy`, `.npz`, `.gguf`, or a zip of
        `torch.save`, whose pickle is read without running it; an array of any library; or several
        by name, such as a state dict.
    tensor : str, optional
        The array to look at, whatever it is called; all of them by default.
    progress : callable, optional
        Called with the number of arrays done and of all.

    Returns
    -------
    Identification
        A finding for each array that holds positions, in order.

    Raises
    ------
    DataError
        If a file is not what it claims to be.
    ArgumentError
        If there is no array of that name, or the source is none of the kinds above.

    Notes
    -----
    From a file, headers are read first, then the first rows of what may be a table, then all rows
    of what is one. float16 and bfloat16 are recognised also after they were widened. A table fixes
    the ratio between neighbouring frequencies: where a base with one denominator equals another
    base with another, the round one is named, and the other in `remarks`.

    Encodings of other packages (`posenc.register`) are tried where no rule of ours holds: at the
    size of the array, with the fields of their `example` and with their defaults.

    Not found: tables that rotate or mix axes, interleaved tables whose cosines come first,
    positions beyond about 4 million, grids with an axis of length 1 or with more than 4 million
    entries.

    Examples
    --------
    >>> import posenc
    >>> table = posenc.table(posenc.Sinusoidal(64, base=500, order="sin_cos"), 128)
    >>> [finding] = posenc.identify(table)
    >>> finding.verdict, finding.spec.order, finding.spec.base
    ('claimed', 'sin_cos', 500.0)
    >>> finding.placement.words()
    'positions 0 to 127, a row each'
    """
    name = older.pop("name", None) if tensor is None else tensor  # as it was called
    refuse(identify, (source,), older)
    if isinstance(source, (str, os.PathLike)):
        with open_store(source) as store:
            return _identified(store, name, progress)
    several = isinstance(source, Mapping)
    named = source if several else {"array": source}
    arrays = {str(key): in_memory(str(key), value) for key, value in named.items()}
    form = "arrays" if several else "array"
    return _identified(ArrayStore(Path(form), form, arrays, {}), name, progress)


def in_memory(name: str, value: Any) -> Array:
    """An array of any library as if it were in a file."""
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (ValueError, TypeError):
            raise ArgumentError(mismatch(f"identify: {name}", "numbers", "others")) from None
    if not is_array(value):
        raise ArgumentError(
            mismatch(
                "identify",
                "a path, an array, or a mapping of names to arrays",
                type(value).__name__,
            )
        )
    dtype = dtype_name(value.dtype)
    value = value.detach() if hasattr(value, "detach") else value
    if dtype == "bfloat16":
        value = value.float() if hasattr(value, "float") else np.asarray(value).astype(np.float32)
    array = concrete(value)
    if array is None:
        raise ArgumentError(mismatch(f"identify: {name}", "an array with values", "a traced one"))
    array = np.asarray(array)
    if array.dtype.hasobject or array.dtype.kind not in "fiub":
        raise DTypeError(mismatch(f"identify: {name}", "real numbers", str(array.dtype)))
    flat = np.ascontiguousarray(array).reshape(-1)
    return Array(name, dtype, tuple(array.shape), lambda begin, end: flat[begin:end])


DIGITS = str.maketrans("123456789", "0" * 9)


@functools.lru_cache(2**10)  # layers and experts differ in numbers
def _called(name: str) -> str | None:
    """What a name says, its digits as zeros."""
    return next((kind for kind, pattern in NAMES if pattern.search(name)), None)


def _identified(
    store: ArrayStore, name: str | None, progress: Callable[[int, int], object] | None
) -> Identification:
    chosen = store.arrays if name is None else {name: store.pick(name)}
    findings = []
    for number, array in enumerate(chosen.values()):
        asked = name is not None or store.format in ALONE
        finding = _judged_pair(array, store.arrays) or _judged(array, store, asked=asked)
        if finding is not None:
            findings.append(finding)
        if progress is not None:
            progress(number + 1, len(chosen))
    return Identification(
        str(store.path), findings=tuple(findings), arrays=len(store.arrays), remarks=store.remarks
    )


def _judged(array: Array, store: ArrayStore, *, asked: bool) -> Finding | None:
    """The finding on one array; `asked` if it is to be looked at whatever it is called."""
    kind = _called(array.name.translate(DIGITS))
    if array.dtype not in EPS:
        return (
            _unread(array, kind, array.why_not or f"its numbers are {array.dtype}")
            if asked
            else None
        )
    if array.fetch is None:
        return _unread(array, kind, array.why_not) if asked or kind is not None else None
    longest = max(array.shape, default=0)
    if array.size == longest:
        if LEAST <= longest <= LONGEST:
            called = CALLED.get(kind or "")
            vector = judge_vector(array, called=called, facts=store.facts)
            vector = _or_example(array, "frequencies", vector) if called or asked else vector
            return _nothing(array, asked=asked) if vector is None else vector
        return _nothing(array, asked=asked)
    if kind == "bias":
        return _or_example(array, "bias", judge_bias(array))
    return (
        _or_example(array, "table", judge_table(array, named=kind == "table" or asked))
        if kind == "table" or asked or looks_sinusoidal(array)
        else None
    )


def _judged_pair(cos: Array, arrays: Mapping[str, Array]) -> Finding | None:
    """The rotation of cosines and the sines beside them; None where they are no such pair.

    The names of both differ in `cos` and `sin` alone.
    """
    sin, shape = arrays.get(cos.name.replace("cos", "sin"), cos), [n for n in cos.shape if n > 1]
    if (
        sin is cos
        or not {cos.dtype, sin.dtype} <= EPS.keys()
        or len(shape) != 2
        or cos.size > MOST_ENTRIES
    ):
        return None
    both = f"{cos.name}, {sin.name}"
    if sin.shape != cos.shape:
        odd = _unread(cos, None, f"cosines of shape {cos.shape} beside sines of {sin.shape}")
        return replace(odd, name=both)
    real, imaginary = (np.asarray(a.read(), np.float64).reshape(shape) for a in (cos, sin))
    if not (finite := (np.isfinite(real) & np.isfinite(imaginary)).all(1)).all():
        row = f"row {int(np.argmin(finite))} holds NaN or infinity"
        return replace(_unread(cos, None, row), name=both)
    values, half = real + 1j * imaginary, shape[1] // 2
    layouts = (
        ("columns j and j + d/2", values[:, :half], values[:, half:]),
        ("columns 2j and 2j + 1", values[:, ::2], values[:, 1::2]),
        ("column j", values, values),
    )
    alike = (layout for layout in layouts if np.array_equal(*layout[1:]))
    columns, values, _ = next(alike, layouts[-1])
    size, rows = float(np.abs(values[0]).mean()), shape[0]
    uneven = not np.allclose(np.abs(values), size, rtol=ROUND)
    if uneven or rows < LEAST_ROWS or values.shape[1] < LEAST:
        return None
    dtype = dtype_of(real, cos.dtype)
    seen = PairTurns(np.arange(rows), unit_of(values), rows, dtype, sized=False)
    speeds = estimated(seen.rows(np.arange(min(rows, GLANCE))))
    vector = Array(both, cos.dtype, speeds.shape, lambda a, b: speeds[a:b])
    finding = judge_vector(vector, called="frequencies", facts={})
    if finding is None or finding.spec is None:
        return finding
    spec: Any = finding.spec
    wanted = expected(spec, seen)
    off, wrong = off_by(spec, seen, wanted)
    factor, worst = size / float(np.abs(wanted[0]).mean()), int(np.argmax(wrong))
    remarks = [
        *(text for text in finding.remarks if text != PAIRING),
        f"pair j has {columns} of these cosines and sines; 'half' stands here for any pairing",
        *[f"they are multiplied by {factor:.6g}, which the spec leaves out"]
        * (abs(factor - 1) > ROUND),
        *[f"row p is taken for position p, and row {worst} is off by {off[worst]:.2g}"]
        * bool(wrong.any()),
    ]
    verdict = "close" if wrong.any() and finding.verdict == "claimed" else finding.verdict
    return replace(finding, shape=cos.shape, verdict=verdict, remarks=tuple(remarks))


def _or_example(array: Array, kind: Kind, finding: Finding | None) -> Finding | None:
    """What an encoding of another package makes of it where no rule that posenc knows does."""
    return (
        finding
        if finding is not None and finding.verdict not in ("unknown", "unclear", "close")
        else judge_example(array, kind, EPS[array.dtype]) or finding
    )


def _unread(array: Array, kind: str | None, why: str) -> Finding:
    return finding_of(
        array,
        kind=kind if kind in ("table", "frequencies", "slopes", "bias") else "other",
        verdict="unread",
        remarks=(why,),
    )


def _nothing(array: Array, *, asked: bool) -> Finding | None:
    remark = (
        "no rule of frequencies or slopes that posenc knows gives these numbers"
        if LEAST <= array.size <= LONGEST
        else f"a vector of {LEAST} to {LONGEST:,} numbers, or a table, can be told"
    )
    return finding_of(array, kind="other", verdict="unclear", remarks=(remark,)) if asked else None


# --- encodings of other packages ------------------------------------------------------------------

# Their fields are not solved for: an array is held beside an encoding at its own size, with the
# fields of its `example` and with its defaults.


class Likeness(NamedTuple):
    """What an encoding gives beside what an array holds."""

    spec: Any
    residual: float
    tolerance: float
    evidence: float


def judge_example(array: Array, kind: Kind, eps: float) -> Finding | None:
    """The encoding of another package that gives an array, if there is one."""
    shape = tuple(n for n in array.shape if n != 1)
    if array.size > MOST_ENTRIES or len(shape) != {"table": 2, "bias": 3}.get(kind, 1):
        return None
    candidates = list(_candidates(kind, shape))
    values = np.asarray(array.read(), dtype=np.float64).reshape(shape)
    likely = list(filter(None, (_likeness(spec, values, eps) for spec in candidates)))
    if not likely:
        return None
    best, *others = sorted(likely, key=lambda like: like.residual)
    description = math.log2(len(candidates))
    claimed = not others and best.evidence - description >= MARGIN
    name = type(best.spec).__name__
    return finding_of(
        array,
        kind=kind,
        verdict="claimed" if claimed else "unclear",
        spec=best.spec,
        placement=Placement(("position",), shape[:1], (1,), (0,)) if kind == "table" else None,
        measures={
            "residual": best.residual,
            "tolerance": best.tolerance,
            "evidence": round(best.evidence, 1),
            "description": round(description, 1),
        },
        remarks=(
            f"{name} was tried with the fields of its example and its defaults",
            *(f"{like.spec} gives it too" for like in others),
        ),
    )


def _candidates(kind: Kind, shape: tuple[int, ...]) -> Iterator[Any]:
    """The encodings of other packages at the size of an array."""
    acts, size = {
        "table": ("table", {"dim": shape[-1]}),
        "bias": ("bias", {"heads": shape[0]}),
    }.get(kind, ("rotary", {"dim": 2 * shape[0]}))
    seen = set()
    for cls in registry.others():
        if cls.kind != acts:
            continue
        for fields in (cls.example.fields, {}):
            try:
                spec: Any = cls(**{**USUAL[acts], **fields, **size})
            except Exception:  # noqa: BLE001, S112 - a size that it does not have
                continue
            if spec not in seen and not spec.shapes and len(spec.axes) == 1:
                seen.add(spec)
                yield spec


def _likeness(spec: Any, values: np.ndarray, eps: float) -> Likeness | None:
    """How near an encoding comes to an array; None where an entry is another."""
    try:
        made = _numbers(spec, values.shape)
    except Exception:  # noqa: BLE001 - code of others
        return None
    if made.shape != values.shape:
        return None
    same = made == values  # what a bias forbids is minus infinity
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(made - values))
    slack = SLACK * eps * np.where(same, 1.0, np.maximum(np.abs(made), 1.0))
    if not (off <= slack).all():
        return None
    worst = np.unravel_index(int(np.argmax(off)), off.shape)
    return Likeness(spec, float(off[worst]), float(slack[worst]), _evidence(values, eps))


def _numbers(spec: Any, shape: tuple[int, ...]) -> np.ndarray:
    verbs: dict[str, Any] = {"table": functional.table, "bias": functional.bias}
    if spec.kind in verbs:
        return np.asarray(
            verbs[spec.kind](
                spec, *(shape[:1] if spec.kind == "table" else shape[1:]), dtype="float64"
            )
        )
    return np.asarray(functional.frequencies(spec))


def _evidence(values: np.ndarray, eps: float) -> float:
    """Bits beyond lines that go on as they did; of a bias, those of its first and last query."""
    lines = np.moveaxis(values[:, [0, -1]], -1, 0) if values.ndim == 3 else values
    with np.errstate(invalid="ignore"):
        bits = bend_bits(lines, SLACK * eps * np.maximum(np.abs(lines[2:]), 1.0))
    return float(bits[np.isfinite(bits)].sum())
