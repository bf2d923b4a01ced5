"""What `posenc.infer_spec` returns: an encoding, and how far an implementation is from it.

Of tables and biases, which are functions of positions, it is made here: by their rows, and by what
distances get. What a rotation makes of inputs, and what arithmetic explains of that, is here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

import numpy as np

from posenc import functional
from posenc._core.spec.answers import Displayed, brief
from posenc._core.spec.spec import Spec, Value
from posenc.detect.fit import biases, tolerances
from posenc.detect.fit.frequencies import Departures, departures
from posenc.detect.fit.rotations.pairs import FLOAT32, FLOAT64, in_units
from posenc.detect.fit.rotations.rotation import MeasuredTurns
from posenc.detect.fit.rotations.rotation_specs import RotationFit
from posenc.detect.identify.identify import identify
from posenc.detect.subject import CannotAsk, Reach, Subject, Survey
from posenc.detect.subject.smallest import SmallestCall
from posenc.detect.subject.survey import survey
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5


@dataclass(frozen=True)
class Inferred(Displayed):
    """The encoding that an implementation follows.

    Parameters
    ----------
    spec : Spec or None
        The encoding; None where no spec says what the implementation does.
    params : mapping of str to numpy.ndarray
        Learned values, where the spec has any.
    difference : float
        The difference between the implementation and the spec where it is largest for its
        tolerance, among all that `reach` says.
    tolerance : float
        What the implementation's own arithmetic, float32 or float64, explains there.
    reach : Reach
        What was compared: positions, heads, sizes, calls.
    probes : int
        Calls of the implementation, the ones that it refused included; 0 for recordings.
    channels : tuple of int, optional
        Where pairs stand as no spec says: the implementation is the spec on `x[..., channels]`.
    departures : tuple of str
        What keeps the implementation from being the spec, where that can be named: frequencies that
        were rounded, pairs that turn faster or backward, a slope that is off. `difference` and
        `reach` are those of the spec with that taken into account.
    alternatives : tuple of Spec
        Other encodings that explain a recording in half precision as well: it decides nothing then,
        and a longer one, or one in float32, tells them apart.
    notes : tuple of str
        What else was seen, and why there is no spec.
    call : SmallestCall, optional
        The smallest call in which implementation and spec differ.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half", base=500_000)
    >>> found = posenc.infer_spec(lambda x, p: posenc.rotate(rope, x, positions=p), dim=64)
    >>> found.spec == rope, found.difference < found.tolerance, found.probes > 100
    (True, True, True)
    """

    spec: Spec | None
    _: KW_ONLY
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    difference: float = math.inf
    tolerance: float = 0.0
    reach: Reach = Reach()
    probes: int = 0
    channels: tuple[int, ...] | None = None
    departures: tuple[str, ...] = ()
    alternatives: tuple[Spec, ...] = ()
    notes: tuple[str, ...] = ()
    call: SmallestCall | None = None

    @property
    def matches(self) -> bool:
        """Whether the spec does what the implementation does, as far as `reach` says."""
        return (
            self.spec is not None
            and self.call is None
            and self.difference <= self.tolerance
            and not self.departures
            and not self.alternatives
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON types; of learned values their shapes."""
        return {
            "spec": None if self.spec is None else self.spec.to_dict(),
            "matches": self.matches,
            "difference": self.difference if math.isfinite(self.difference) else None,
            "tolerance": self.tolerance,
            "probes": self.probes,
            "reach": asdict(self.reach),
            "params": {name: list(np.shape(value)) for name, value in self.params.items()},
            "channels": None if self.channels is None else list(self.channels),
            "departures": list(self.departures),
            "alternatives": [spec.to_dict() for spec in self.alternatives],
            "notes": list(self.notes),
            "smallest_call": None if self.call is None else str(self.call),
        }

    def __str__(self) -> str:
        first = "No spec says what it does." if self.spec is None else brief(self.spec, _written)
        lines = [first, *(f"  but: {departure}" for departure in self.departures)]
        lines += [f"  or, as well: {brief(spec, _written)}" for spec in self.alternatives]
        if self.spec is not None:
            close = "within" if self.difference <= self.tolerance else "more than"
            beyond = "beyond that, largest" if self.departures else "largest"
            lines.append(
                f"  {beyond} difference {self.difference:.2g}, {close} the {self.tolerance:.2g} "
                "that its arithmetic explains"
            )
        rest = [
            *([] if self.call is None else [self.call]),
            *(self.reach.lines() or [f"{self.probes} calls"] * (self.probes > 0)),
            *([] if self.channels is None else [f"on the channels {_some(self.channels)}"]),
            *self.notes,
        ]
        return "\n".join([*lines, *(f"  {line}" for line in rest)])


def _written(argument: Any) -> str:
    """A field, with few of many numbers."""
    if isinstance(argument, Value):
        return brief(argument, _written)
    if isinstance(argument, tuple) and argument and isinstance(argument[0], Value):
        text = ", ".join(brief(item, _written) for item in argument)
        return f"({text})" if len(argument) > 1 else text
    return (
        f"({', '.join(map(str, argument[:3]))}, ..., {argument[-1]})"
        if isinstance(argument, tuple) and len(argument) > 6
        else repr(argument)
    )


def _some(values: tuple[int, ...]) -> str:
    return (
        ", ".join(map(str, values))
        if len(values) <= 12
        else f"{', '.join(map(str, values[:8]))}, ..., {values[-1]}"
    )


SHARED = 40  # distances in one bucket with another: fewer may be an accident
TABLE_ROWS = (512, 128, 64, 32)
BIAS_REACH = (256, 64, 32)


def _longest(ask: Callable[[np.ndarray], np.ndarray], counts: tuple[int, ...]) -> np.ndarray:
    """What a function gives for the first number of positions that it takes."""
    refusals: list[Exception] = []
    for count in counts:
        try:
            return ask(np.arange(count))
        except Exception as failure:  # noqa: BLE001 - whatever other people's code raises
            refusals.append(failure)
    raise CannotAsk(f"infer_spec: it refuses {counts[-1]} positions: {refusals[0]}")


def of_table(subject: Subject) -> Inferred:
    """A table by its rows, which `identify` explains."""
    rows = _longest(subject.rows, TABLE_ROWS)
    [finding] = identify(rows).findings or (None,)
    if finding is None or finding.verdict != "claimed" or finding.spec is None:
        return Inferred(
            None,
            probes=subject.calls,
            notes=(
                "its rows follow no sinusoidal convention that posenc knows.",
                *(() if finding is None else finding.remarks[:2]),
            ),
        )
    spec: Any = finding.spec
    placement = finding.placement
    first = 0 if placement is None else int(placement.starts[0])
    if placement is not None and (placement.step != 1 or len(placement.axes) > 1):
        return Inferred(
            None, probes=subject.calls, notes=(f"its rows are those of {placement.words()}",)
        )
    if first and hasattr(spec, "arrangement"):
        spec = spec.replace(
            arrangement=spec.arrangement.replace(start=spec.arrangement.start + first)
        )
    scale = float(np.abs(rows).max())
    eps = FLOAT32 if (rows == rows.astype(np.float32)).all() else FLOAT64
    start = abs(getattr(getattr(spec, "arrangement", None), "start", 0))
    # Errors of angles grow with the largest frequency.
    fastest = max(1.0, float(np.abs(functional.frequencies(spec)).max()))

    def allowed(_: Any, values: np.ndarray, positions: np.ndarray, __: str) -> np.ndarray:
        room = scale * (8 * eps + 8 * eps * fastest * (np.abs(positions) + start))
        return np.broadcast_to(room[..., None], values.shape)

    return _inferred(subject, spec, {}, survey(subject, spec, allowed=allowed))


def _inferred(
    subject: Subject,
    spec: Any,
    params: dict[str, np.ndarray],
    choice: Survey,
    notes: tuple[str, ...] = (),
    departed: tuple[str, ...] = (),
) -> Inferred:
    return Inferred(
        spec,
        params=params,
        difference=choice.difference,
        tolerance=choice.tolerance,
        reach=choice.reach,
        probes=subject.calls,
        departures=departed,
        notes=(subject.how, *notes),
        call=choice.call,
    )


def of_bias(subject: Subject) -> Inferred:
    """A bias written out for all distances up to some hundred, and for far ones."""
    values = _longest(lambda p: subject.bias(p, p), BIAS_REACH)
    heads, count = len(values), values.shape[-1]
    # Of masked keys: minus infinity, or a number in its place.
    floor = values[0, 0, -1] if values[0, 0, -1] <= biases.MASKED else -math.inf
    values = np.where(values == floor, -math.inf, values)
    k = np.arange(count)
    with np.errstate(invalid="ignore"):
        # A number for each query changes no softmax: slope * (key - query) is as slope * key.
        step = values[:, 1:2, :1] - values[:, :1, :1]
        off = np.abs(values - values[:, :1, :] - step * k[:, None]).max()
    by_key = bool(off <= 8 * FLOAT32 * np.abs(values).max())
    written = values
    if by_key and values.any():  # the same for every query: a slope times the key
        written = values[:, :1, 1:2] * -np.abs(k[None, :, None] - k[None, None, :])
    [finding] = identify({"relative_position_bias": written}).findings or (None,)
    spec: Any = None if finding is None else finding.spec
    params: dict[str, np.ndarray] = {}
    notes: tuple[str, ...] = ()
    parted = _by_distance(subject, values)
    if not isinstance(spec, ALiBi | Decay) and parted is not None:
        shared = (parted[0][:, 1:] == parted[0][:, :-1]).all(axis=0).sum()
        fits = biases.buckets_of(*parted) if shared >= SHARED else []
        spec = fits[0].spec if fits else None
        for fit in fits[:1]:
            params, notes = _weights(fit.spec, *parted)
            more = f"a largest distance from {fit.least} to {fit.most} gives the same"
            notes += (more,) * (fit.least < fit.most)
        if spec is None and (kernel := biases.kernel_of(*parted)):
            spec, params = kernel
    if spec is None or spec.heads != heads:
        buckets = (
            "neither linear in the distance, nor a logarithm or power of it, nor constant in "
            "logarithmic buckets: of biases, ALiBi, Decay, T5 and KERPLE are fitted"
        )
        return Inferred(
            None,
            probes=subject.calls,
            notes=(
                "it depends on more than the distance of query and key."
                if parted is None
                else f"it is {buckets}.",
                "If it is a rotation of its first argument, say how wide that is: dim.",
            ),
        )
    if by_key and isinstance(spec, ALiBi):
        spec = spec.replace(form="key_only")
        notes += ("a number is added for each query, which changes no softmax",) * bool(step.any())
    exact, departed = spec, Departures()
    if isinstance(spec, ALiBi):
        slopes = -written[:, 1, 0]
        departed = departures(slopes, spec.arrays["slopes"], dtype="float32") or departed
    if departed.odd:
        exact = ALiBi(heads, recipe=tuple(slopes.tolist()), form=spec.form)
    masked = isinstance(spec, ALiBi) and bool((values[:, 0, 1:] == -math.inf).all())
    notes += (biases.CAUSAL,) * masked
    double = not (values == values.astype(np.float32)).all()

    def expected(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        values = np.asarray(functional.bias(exact, q, k, params=params or None, dtype="float64"))
        if by_key and step.any():
            values = values - functional.bias(exact, 0 * q[:1], q, dtype="float64").swapaxes(1, 2)
        return np.where(k[None, :] > q[:, None], floor, values) if masked else values

    def allowed(_: Any, values: np.ndarray, __: Any, ___: str) -> np.ndarray:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        return (2.0**-40 if double else 2.0**-21) * size + (FLOAT64 if double else FLOAT32)

    # Learned values are known of the distances that were read.
    return _inferred(
        subject,
        spec,
        params,
        survey(
            subject,
            expected,
            end=int(parted[1][-1]) if isinstance(spec, T5) and parted is not None else 2**17,
            allowed=allowed,
        ),
        notes,
        departed.sentences(slopes=True),
    )


def _by_distance(subject: Subject, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Biases by key minus query, as far as they are told; None where more than that counts."""
    count = values.shape[-1]
    if not np.isfinite(values).all() or (values[:, 1:, 1:] != values[:, :-1, :-1]).any():
        return None
    for reach in (2**14, 2**12, 2**10) if not subject._found.aligned else ():
        line, zero = np.arange(reach + 1), np.array([0])
        try:
            future, past = subject.bias(zero, line)[:, 0], subject.bias(line, zero)[:, :, 0]
        except Exception:  # noqa: BLE001, S112 - whatever other people's code raises
            continue
        return np.concatenate([past[:, :0:-1], future], axis=1), np.arange(-reach, reach + 1)
    return np.concatenate([values[:, :0:-1, 0], values[:, 0]], axis=1), np.arange(1 - count, count)


def _weights(
    spec: T5, by_distance: np.ndarray, distances: np.ndarray
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The learned scalar of each bucket, read at a distance that falls into it."""
    bucket = spec.bucket(distances)
    weight = np.zeros((spec.buckets, spec.heads), dtype=np.float32)
    weight[bucket] = by_distance.T
    unseen = sorted(set(range(spec.buckets)) - set(bucket.tolist()))
    note = f"no distance up to {distances[-1]:,} falls into the buckets {unseen}: they are 0 here"
    return {"weight": weight}, (note,) if unseen else ()


# --- what an encoding makes of inputs -------------------------------------------------------------


class Expectation:
    """What a fit makes of queries and keys at steps of some unit, and what arithmetic explains."""

    def __init__(self, fit: RotationFit, turns: MeasuredTurns, unit: float) -> None:
        self.fit, self.turns, self.unit = fit, turns, unit

    def __call__(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Queries (batch, heads, seq, channels) at rows of positions, turned."""
        return self._made(x, rows, self.fit)

    def keys(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The same of keys."""
        other: Any = "key" if self.fit.role == "query" else "query"
        return self._made(x, rows, self.fit._replace(role=other))

    def _made(self, x: np.ndarray, rows: np.ndarray, fit: RotationFit) -> np.ndarray:
        places = in_units(rows, self.unit)
        return (
            made_by(fit, x, places[0])
            if (places == places[:1]).all()
            else np.concatenate([made_by(fit, x[[b]], row) for b, row in enumerate(places)])
        )

    def allowed(
        self, x: np.ndarray, wanted: np.ndarray, rows: np.ndarray, dtype: str
    ) -> np.ndarray:
        """The difference that the arithmetic of the implementation explains."""
        steps = rows[..., None] if rows.ndim == 2 else rows
        # Coordinates that are no integers are handed over in float32.
        eps = self.turns.eps if self.unit == 1 and dtype not in tolerances.HALVES else FLOAT32
        room = self.turns.allowed(x, wanted, steps[:, None], eps)
        return (
            room
            if dtype not in tolerances.HALVES
            else room + 4 * tolerances.ROUNDING[dtype] * np.abs(wanted).max(axis=-1, keepdims=True)
        )


def made_by(fit: RotationFit, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """What the encoding makes of x (..., seq, channels), float64."""
    inputs = x.astype(np.float64)
    inner = inputs if fit.channels is None else inputs[..., list(fit.channels)]
    # Learned values are those of one head, whatever the axes of x.
    flat = inner.reshape(-1, 1, *inner.shape[-2:]) if fit.params else inner
    turned = functional.rotate(
        fit.exact if fit.departed else fit.spec, flat, positions=positions, role=fit.role,
        params=fit.params or None,
    ).reshape(inner.shape)  # fmt: skip
    if fit.channels is None:
        return np.asarray(turned)
    out = inputs.copy()
    out[..., list(fit.channels)] = turned
    return out
