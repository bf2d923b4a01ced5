"""What `identify` says of an array and of a file, as values and in words."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, final

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc._core.io.checkpoints import Array
from posenc._core.spec.answers import Displayed, brief
from posenc._core.spec.spec import Spec, Value
from posenc.detect.fit.ladders import MARGIN
from posenc.detect.fit.tables.layout import Placement
from posenc.functional import bias, frequencies, table

Kind = Literal["table", "frequencies", "slopes", "bias", "other"]
Verdict = Literal["claimed", "close", "unknown", "by_name", "unclear", "unread"]
KINDS = {
    "table": "table of positions",
    "frequencies": "rotary frequencies",
    "slopes": "slopes of linear biases",
    "bias": "biases of relative positions",
    "other": "numbers",
}


@final
@dataclass(frozen=True)
class Finding(Displayed):
    """What one array is.

    Parameters
    ----------
    name : str
        Its name in the file.
    kind : {"table", "frequencies", "slopes", "bias", "other"}
        What it is or was looked at as: a table of positions, `inv_freq`, the slopes of linear
        biases, biases of relative positions.
    verdict : {"claimed", "close", "unknown", "by_name", "unclear", "unread"}
        `claimed`: posenc rebuilt every entry from `spec`, and the entries spell out at least 20
        bits more than the spec takes to state. `close`: `spec` is the nearest convention, and the
        array differs from it. `unknown`: no rule that posenc knows rebuilds it; it may be learned.
        `by_name`: the name and the shape say what it is, its numbers were not judged. `unclear`:
        too little to tell. `unread`: stored in a form that is not read.
    shape : tuple of int
        As stored.
    dtype : str
        As stored.
    spec : Spec, optional
        The convention, for `claimed`, `close` and `by_name`.
    placement : Placement, optional
        Which position each row belongs to. Rows may fall, or skip, or form a grid, so the spec
        alone does not say what was found: `rebuild` takes both.
    measures : mapping of str to number
        `residual`, the largest difference to what the spec gives; `tolerance`, what rounding and
        classic arithmetic allow there; `evidence` and `description` in bits; of tables that
        no rule rebuilds their `smoothness`, `effective_rank` and `nearest_residual`.
    remarks : tuple of str
        What else is to be said: what numbers cannot tell apart, the runner-up.

    Examples
    --------
    >>> import posenc
    >>> found = posenc.identify(posenc.table(posenc.Sinusoidal(64, base=500), 128)).findings[0]
    >>> found.verdict, found.spec.base, found.measures["residual"] < 1e-6
    ('claimed', 500.0, True)
    >>> found.rebuild(3).shape
    (3, 64)
    """

    name: str
    _: KW_ONLY
    kind: Kind
    verdict: Verdict
    shape: tuple[int, ...]
    dtype: str
    spec: Spec | None = None
    placement: Placement | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def rebuild(self, rows: int | None = None) -> np.ndarray:
        """The numbers that were found, made from `spec` and `placement`, float64.

        Parameters
        ----------
        rows : int, optional
            Rows of a table from its first on, or queries and keys of a bias: as many as it has
            by default, more where the rule goes on.

        Returns
        -------
        numpy.ndarray
            (rows, dim) of a table, in its order of rows; frequencies; slopes; (heads, rows, rows).

        Raises
        ------
        ArgumentError
            If no spec was found, or its learned values are in the array alone.
        """
        spec: Any = self.spec
        if spec is None or self.verdict == "by_name":
            todo = "Its numbers are in the array alone."
            raise ArgumentError(mismatch(f"{self.name}: rebuild", "a rule", self.verdict, todo))
        if self.kind in ("frequencies", "slopes"):
            return np.asarray(spec.arrays["slopes"] if self.kind == "slopes" else frequencies(spec))
        if self.kind == "bias":
            if spec.parameters():
                todo = "Its rule says which distances share a value; the values are in the array."
                raise ArgumentError(mismatch(f"{self.name}: rebuild", "a rule alone", spec, todo))
            count = self.shape[-1] if rows is None else rows
            return np.asarray(bias(spec, count, count, dtype="float64"))
        place = self.placement
        if place is None:
            return np.asarray(table(spec, self.shape[0] if rows is None else rows, dtype="float64"))
        return np.asarray(
            table(spec, place.positions(0, place.rows if rows is None else rows), dtype="float64")
        )

    def to_dict(self) -> dict[str, Any]:
        """The finding in plain JSON types."""
        placement = self.placement
        return {
            "name": self.name,
            "kind": self.kind,
            "verdict": self.verdict,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "spec": None if self.spec is None else self.spec.to_dict(),
            "positions": None if placement is None else placement.to_dict(),
            "measures": dict(self.measures),
            "remarks": list(self.remarks),
        }


def finding_of(array: Array, **fields: Any) -> Finding:
    """A finding on an array, with its name, shape and dtype."""
    return Finding(array.name, shape=array.shape, dtype=array.dtype, **fields)


@final
@dataclass(frozen=True)
class Identification(Displayed):
    """What was found in a file or array.

    Parameters
    ----------
    source : str
        The file, or the name of the array.
    findings : tuple of Finding
        In the order of the file.
    arrays : int
        Number of arrays in it; those without a finding hold no positions by name or by number.
    remarks : tuple of str
        What concerns the file as a whole.

    Examples
    --------
    >>> import posenc
    >>> found = posenc.identify({"inv_freq": posenc.frequencies(posenc.RoPE(64, pairing="half"))})
    >>> [finding.kind for finding in found]
    ['frequencies']
    """

    source: str
    _: KW_ONLY
    findings: tuple[Finding, ...]
    arrays: int
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]

    @property
    def claims(self) -> tuple[Finding, ...]:
        """The findings that are claims."""
        return tuple(finding for finding in self.findings if finding.verdict == "claimed")

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain JSON types."""
        return {
            "source": self.source,
            "arrays": self.arrays,
            "findings": [finding.to_dict() for finding in self.findings],
            "remarks": list(self.remarks),
        }


# --- in words -------------------------------------------------------------------------------------


def lines(result: Identification, *, most: int) -> Iterator[str]:
    """An identification for people: in full up to `most` findings, beyond that a line for each."""
    count = sum(finding.name.count(", ") + 1 for finding in result)  # cosines and sines are two
    holds = {
        f"hold{'s' * (count == 1)}"
        if one.verdict in ("claimed", "close", "by_name")
        else "could hold"
        for one in result
    }
    yield (
        f"{result.source}: {count} of {result.arrays} array{'s' * (result.arrays != 1)} "
        f"{' or '.join(sorted(holds, reverse=True)) or 'hold'} positions"
    )
    yield from (f"  {remark}" for remark in result.remarks)
    if len(result) <= most:
        yield from (line for finding in result for line in ("", *_block(finding)))
        return
    width = min(max(len(finding.name) for finding in result), 48)
    for finding in result:
        name = finding.name if len(finding.name) <= width else f"…{finding.name[1 - width :]}"
        yield f"  {name.ljust(width)}  {headline(finding)}"
    yield "  --tensor NAME explains one."


def headline(finding: Finding) -> str:
    """A finding in one line."""
    what, spec = KINDS[finding.kind], told(finding.spec)
    off = finding.measures.get("relative_rms")
    return {
        "claimed": spec,
        "close": f"close to {spec}" + (f", {100 * off:.2g} % off" if off else ""),
        "by_name": f"{spec}, by its name and shape",
        "unknown": f"{what}: no rule that posenc knows",
        "unread": f"{what}: not read: {'; '.join(finding.remarks)}",
        "unclear": f"{what}: too few numbers to tell",
    }[finding.verdict]


def _block(finding: Finding) -> Iterator[str]:
    shape = " x ".join(map(str, finding.shape))
    yield f"{finding.name}  {shape} {finding.dtype}: {KINDS[finding.kind]}"
    yield from (f"  {line}" for line in _verdict(finding))
    yield from (f"  - {remark}" for remark in finding.remarks)


def _verdict(finding: Finding) -> list[str]:
    """The verdict, and what it rests on."""
    measured = collections.defaultdict(float, finding.measures)
    bits = f"{measured['evidence']:,.0f} bits of evidence; {measured['description']:,.0f} bits"
    spec = told(finding.spec)
    placement = [] if finding.placement is None else [finding.placement.words()]
    likeness = (
        "mean cosine of neighbouring rows, less that of all rows: "
        f"{measured['smoothness']:.2f}; effective rank: {measured['effective_rank']:.0f}"
    )
    return {
        "claimed": [spec, *placement, _rebuilt(finding), f"{bits} state the spec"],
        "by_name": [f"{headline(finding)}; its numbers were not judged"],
        "close": [f"close to, but not equal to, {spec}", *placement],
        "unknown": ["no rule that posenc knows rebuilds it"]
        + [likeness] * ("effective_rank" in finding.measures),
        "unclear": [f"too few numbers to tell: no claim has {MARGIN:g} bits to spare"]
        + [f"perhaps {spec}"] * (finding.spec is not None),
        "unread": ["not read"],
    }[finding.verdict]


def _rebuilt(finding: Finding) -> str:
    residual, tolerance = (finding.measures.get(name, 0.0) for name in ("residual", "tolerance"))
    relative = "" if finding.kind in ("table", "bias") else ", relative"
    arithmetic = " in float32 arithmetic" if getattr(finding.spec, "phase", "") == "float32" else ""
    rounding = f"; rounding explains {tolerance:.2g}" if tolerance else ""
    largest = f": largest difference {residual:.2g}{relative}{rounding}"
    return f"every entry is rebuilt{arithmetic}{largest if residual else ' to the last bit'}"


def told(value: Any) -> str:
    """A spec in brief, rounded; or what stands in its place."""
    return brief(value, _plain) if isinstance(value, Value) else repr(value)


def _plain(argument: Any) -> str:
    if isinstance(argument, Value):
        return told(argument)
    if isinstance(argument, tuple):
        if len(argument) > 8:
            return f"({', '.join(map(_plain, argument[:3]))}, … {len(argument)} in all)"
        return f"({', '.join(map(_plain, argument))}{',' if len(argument) == 1 else ''})"
    return f"{argument:.10g}" if isinstance(argument, float) else repr(argument)
