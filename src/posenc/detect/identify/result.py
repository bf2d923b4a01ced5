"""What `identify` says of an array, and of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, final

from posenc._core.spec import Spec
from posenc.detect.identify.placement import Placement

__all__ = ["Finding", "Identification", "Kind", "Verdict"]

Kind = Literal["table", "frequencies", "slopes", "bias", "other"]
Verdict = Literal["claimed", "close", "learned", "by_name", "unclear", "unread"]


@final
@dataclass(frozen=True)
class Finding:
    """What one array is.

    Parameters
    ----------
    name : str
        Its name in the file.
    kind : {"table", "frequencies", "slopes", "bias", "other"}
        What it is or was looked at as: a table of positions, `inv_freq`, the slopes of linear
        biases, biases of relative positions.
    verdict : {"claimed", "close", "learned", "by_name", "unclear", "unread"}
        `claimed`: posenc rebuilt every entry from `spec`, and the entries spell out at least 20
        bits more than the spec takes to state. `close`: `spec` is the nearest convention, and the
        array differs from it. `learned`: the numbers follow no rule. `by_name`: the name and the
        shape say what it is, its numbers are learned. `unclear`: too little to tell. `unread`:
        stored in a form that is not read.
    shape : tuple of int
        As stored.
    dtype : str
        As stored.
    spec : Spec, optional
        The convention, for `claimed`, `close` and `by_name`.
    placement : Placement, optional
        Which position each row belongs to: `posenc.table(spec, placement.positions(0, rows))`.
    measures : mapping of str to number
        `residual`, the largest difference to what the spec gives; `tolerance`, what rounding and
        classic arithmetic allow there; `evidence` and `description` in bits; of learned tables
        their `smoothness`, `effective_rank` and `nearest_residual`.
    remarks : tuple of str
        What else is to be said: what numbers cannot tell apart, the runner-up.

    Examples
    --------
    >>> import posenc
    >>> found = posenc.identify(posenc.table(posenc.Sinusoidal(64, base=500), 128)).findings[0]
    >>> found.verdict, found.spec.base, found.measures["residual"] < 1e-6
    ('claimed', 500.0, True)
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


@final
@dataclass(frozen=True)
class Identification:
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

    @property
    def claims(self) -> tuple[Finding, ...]:
        """The findings that are claims."""
        return tuple(found for found in self.findings if found.verdict == "claimed")

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain JSON types."""
        return {
            "source": self.source,
            "arrays": self.arrays,
            "findings": [found.to_dict() for found in self.findings],
            "remarks": list(self.remarks),
        }
