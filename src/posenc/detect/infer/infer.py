"""`posenc.infer_spec`: from an implementation to the spec that it follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, explain
from posenc.detect.identify import buckets_of, identify
from posenc.detect.infer.agreement import (
    DENSE,
    REACHES,
    Agreement,
    Tally,
    agreement,
    called,
    calls,
    far_positions,
    in_units,
    made_by,
)
from posenc.detect.infer.implementation import (
    Asked,
    Probe,
    RefusedError,
    as_numpy,
    needed_arguments,
)
from posenc.detect.infer.pairs import (
    FLOAT32,
    FLOAT64,
    NotARotationError,
    Turns,
    from_matrices,
    from_recording,
)
from posenc.detect.infer.result import Inferred
from posenc.detect.infer.rotation import Found, measured, rotations_of
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.decay import Decay
from posenc.encodings.bias.t5 import T5
from posenc.encodings.rotary.xpos import XPos
from posenc.functional import bias as bias_of
from posenc.functional import frequencies, table

__all__ = ["infer_spec"]

Kind = Literal["rotary", "table", "bias"]
KINDS = ("rotary", "table", "bias")
# Near positions count turns, far ones measure frequencies.
LADDER = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
SHORT = 63  # the last position asked for, of implementations that end before 377
WIDEST = 4096
DECAYING = 2**12  # sizes that shrink leave nothing to compare beyond
SHARED = 40  # distances in one bucket with another: fewer may be an accident
TABLE_ROWS = (512, 128, 64, 32)
BIAS_REACH = (256, 64, 32)


def infer_spec(
    source: Any,
    *,
    dim: int | None = None,
    axes: tuple[str, ...] = ("position",),
    kind: Literal["rotary", "table", "bias"] | None = None,
    base: float | None = None,
    unit: float = 1.0,
    framework: Literal["torch", "numpy", "jax"] | None = None,
) -> Inferred:
    """The spec that an implementation of a rotation, a table or a bias follows.

        y = f(x, positions)      rows = f(positions)      bias = f(q_positions, k_positions)

    A rotation is asked once what becomes of every basis vector at a ladder of positions. Its pairs
    are read from where these come out, its frequencies from the angles, followed from near
    positions to far ones; base, scaling and attention factor are solved for. Further calls say how
    far the spec is from the implementation: several heads that differ, odd sizes, large numbers,
    one token alone, every position to 4,096, others to 2**20, and the first call once more. What
    it refuses narrows what is claimed; `reach` says what was asked.

    Parameters
    ----------
    source : callable, or (x, y, positions)
        A function as above, of arrays of any framework, in any usual layout: batch, heads and
        sequence in either order, with or without them. Functions of other arguments are wrapped by
        a lambda. Or recorded inputs and outputs of a rotation: `x` and `y` (..., seq, channels) and
        positions (seq,), (seq, axes) or of the leading shape of x; a mapping with these as
        `input`, `output`, `positions` is read too.
    dim : int, optional
        Channels of a head: what is handed to a rotation. It makes a function a rotation.
    axes : tuple of str
        Names of the coordinates of a position, in their order.
    kind : {"rotary", "table", "bias"}, optional
        What the function is; by default a rotation if `dim` is given, else a table or a bias by
        its number of arguments.
    base : float, optional
        The base that frequencies are multiples of, where they follow no known rule.
    unit : float
        The step of the positions that are asked for: 1/64, say, for real coordinates from -1 to 1.
    framework : {"torch", "numpy", "jax"}, optional
        Which arrays the function takes; those that are loaded are tried by default.

    Returns
    -------
    Inferred
        `spec`, `matches`, `difference`, `reach`, `params`, `probes`. Where nothing says what it
        does, the spec is None and `notes` say why: it is not linear in positions, its pairs are
        mirrored.

    Raises
    ------
    ArgumentError
        If the source is neither, or cannot be called in any layout; the message has its own error.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> def mine(x, positions):
    ...     half = x.shape[-1] // 2
    ...     angle = positions[:, None] * 500_000.0 ** (-np.arange(half) / half)
    ...     a, b = x[..., :half], x[..., half:]
    ...     cos, sin = np.cos(angle), np.sin(angle)
    ...     return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    >>> found = posenc.infer_spec(mine, dim=64)
    >>> found.spec == posenc.RoPE(64, pairing="half", base=500_000), found.matches
    (True, True)
    """
    if kind is not None and kind not in KINDS:
        raise ArgumentError(explain("infer_spec: kind", " or ".join(KINDS), repr(kind)))
    if isinstance(axes, str) or not axes:
        raise ArgumentError(explain("infer_spec: axes", "a tuple of names", repr(axes)))
    if not callable(source):
        return _recorded(source, tuple(axes), base, unit)
    if kind is None:
        needed = needed_arguments(source)
        kind = "rotary" if dim is not None else "table" if needed == 1 else "bias"
    try:
        if kind == "table":
            return _of_table(source, framework)
        if kind == "bias":
            return _of_bias(source, framework)
        if dim is None:
            todo = "dim= is the width of a head that it is given."
            raise ArgumentError(explain("infer_spec: dim", "a width", None, todo))
        if not 2 <= dim <= WIDEST:
            raise ArgumentError(explain("infer_spec: dim", f"2 to {WIDEST}", dim))
        return _of_rotation(source, dim, tuple(axes), base=base, unit=unit, framework=framework)
    except RefusedError as refused:
        todo = "Wrap it in a function of x and positions that returns x turned."
        want = "a function that takes arrays in a usual layout"
        got = f"one that fails: {refused}"
        raise ArgumentError(explain("infer_spec", want, got, todo)) from None


# --- rotations ------------------------------------------------------------------------------------


def _of_rotation(
    function: Callable[..., Any],
    dim: int,
    axes: tuple[str, ...],
    *,
    base: float | None,
    unit: float,
    framework: str | None,
) -> Inferred:
    probe = Probe(function, framework, len(axes))
    counted = needed_arguments(function) == 1
    basis = np.eye(dim, dtype=np.float32)
    for last in (LADDER[-1], SHORT):
        steps = _ladder(len(axes), last, counted=counted)
        x = np.repeat(basis[:, None, None, :], len(steps), axis=2)
        first = called(probe, x, steps, unit)
        if first is not None:
            break
    else:
        raise RefusedError(probe.refusals[0])
    y = first.outputs[0]
    try:
        where = in_units(steps, unit).astype(np.float64) / unit
        turns = from_matrices(np.moveaxis(y[:, 0], 1, 0), where)
        options = rotations_of(turns, axes, base, unit)
        known = measured(turns, axes)
    except NotARotationError as why:
        return Inferred(None, probes=probe.calls, notes=_style(probe, (f"{why}.",)))
    farthest = DECAYING if isinstance(options[0].spec, XPos) else REACHES[0]
    asked, notes = calls(
        probe, dim, len(axes), last=last, unit=unit, counted=counted, farthest=farthest
    )
    again = called(probe, x, steps, unit)
    asked += [first] if again is None else [first, again]
    if again is None or np.abs(again.outputs[0] - y).max() > 0:
        notes.append("the first call, made once more, gives something else")
    found, result = _best([(f, agreement(f, known, asked, unit)) for f in options])
    return Inferred(
        found.spec,
        params=found.params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=replace(result.reach, calls=probe.calls),
        probes=probe.calls,
        channels=found.channels,
        notes=_style(probe, (*found.notes, *result.notes, *notes)),
    )


def _best(options: list[tuple[Found, Agreement]]) -> tuple[Found, Agreement]:
    """The first encoding that agrees with all calls, or the one that does farthest."""
    for found, result in options:
        if result.difference <= result.tolerance:
            return found, result
    return max(options, key=lambda option: option[1].reach.position or 0)


def _ladder(axes: int, last: int, *, counted: bool) -> np.ndarray:
    """Steps along each axis, from near to far: (positions, axes)."""
    if counted:  # it counts 0, 1, 2, ... whatever it is told
        return np.arange(last + 1)[:, None]
    line = [p for p in LADDER if p <= last]
    along = [[p if k == a else 0 for k in range(axes)] for a in range(axes) for p in line[1:]]
    return np.array([[0] * axes, *along], dtype=np.int64)


def _style(probe: Probe, notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes if probe.style is None else (probe.style.words, *notes)


# --- recordings -----------------------------------------------------------------------------------


def _recorded(source: Any, axes: tuple[str, ...], base: float | None, unit: float) -> Inferred:
    who = "infer_spec: source"
    if isinstance(source, Mapping):
        names = ("input", "output", "positions")
        if not set(names) <= set(source):
            got = f"the names {sorted(map(str, source))}"
            raise ArgumentError(explain(who, f"the names {', '.join(names)}", got))
        source = tuple(source[name] for name in names)
    if not isinstance(source, (tuple, list)) or len(source) != 3:
        want = "a function, or (x, y, positions)"
        raise ArgumentError(explain(who, want, type(source).__name__))
    x, y, positions = (as_numpy(part) for part in source)
    if x.shape != y.shape or x.ndim < 2:
        got = f"shapes {x.shape} and {y.shape}"
        raise ArgumentError(explain(who, "x and y of one shape (..., seq, channels)", got))
    where = positions if len(axes) > 1 else positions[..., None]
    if where.shape[-1] != len(axes):
        want = f"positions with a trailing axis of {len(axes)}"
        raise ArgumentError(explain(who, want, f"shape {positions.shape}"))
    try:
        where = np.broadcast_to(where, (*x.shape[:-1], len(axes))).reshape(-1, len(axes))
    except ValueError:
        got = f"shape {positions.shape} for x of shape {x.shape}"
        raise ArgumentError(explain(who, "positions for each token", got)) from None
    flat_x, flat_y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    try:
        turns: Turns = from_recording(flat_x, flat_y, where / unit)
        found = rotations_of(turns, axes, base, unit)[0]
    except NotARotationError as why:
        return Inferred(None, notes=(f"{why}.",))
    given = where[:, 0] if len(axes) == 1 else where
    whole = bool((given == np.rint(given)).all())
    given = given.astype(np.int64) if whole and unit == 1 else given
    tally = Tally()
    made = made_by(found, flat_x, given)
    steps = where / unit
    allowed = measured(turns, axes).allowed(flat_x, made, steps, FLOAT32)
    tally.add(np.abs(made - flat_y), allowed, np.abs(steps).max(axis=1))
    tally.largest = float(np.abs(flat_x).max())
    result = tally.result(0)
    return Inferred(
        found.spec,
        params=found.params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=result.reach,
        channels=found.channels,
        notes=found.notes,
    )


# --- tables and biases ----------------------------------------------------------------------------


def _longest(ask: Asked, counts: tuple[int, ...]) -> np.ndarray:
    """What a function gives for the first number of positions that it takes."""
    refusals: list[RefusedError] = []
    for count in counts:
        try:
            return ask(np.arange(count))
        except RefusedError as failure:
            refusals.append(failure)
    raise refusals[0]


def _looked(
    ask: Asked,
    expected: Callable[[np.ndarray], np.ndarray],
    allowed: Callable[[np.ndarray, np.ndarray], Any],
    *,
    first: np.ndarray,
    ends: tuple[int, ...],
) -> Agreement:
    """Compare a function of positions with a spec: the first call, far ones, the first again.

    Parameters
    ----------
    ask : Asked
        The function.
    expected, allowed : callable
        What the spec gives at positions, and by how much it may differ.
    first : numpy.ndarray
        What the first call gave.
    ends : tuple of int
        Positions up to which it is asked, the farthest first.
    """
    tally = Tally()

    def compare(positions: np.ndarray, out: np.ndarray) -> None:
        made = expected(positions)
        tally.length = max(tally.length, len(positions))
        with np.errstate(invalid="ignore"):
            off = np.where(made == out, 0.0, np.abs(made - out))
        tally.add(off, allowed(made, positions), positions)

    count = first.shape[-2]
    compare(np.arange(count), first)
    for end in ends:
        far = far_positions(np.random.default_rng(0), end, 1)[:, 0]
        positions = np.arange(min(end, DENSE) + 1) if ask.counts else far
        if end < count or (ask.counts and end > DENSE):
            continue
        try:
            compare(positions, ask(positions))
            break
        except RefusedError as refused:
            tally.notes.append(f"it refuses positions to {end:,}: {refused}")
    try:
        compare(np.arange(count), ask(np.arange(count)))
    except RefusedError:
        tally.notes.append("it refuses the first call when that is made again")
    return tally.result(ask.calls)


def _of_table(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A table by its rows, which `identify` explains."""
    ask = Asked(function, 1, framework)
    rows = _longest(ask, TABLE_ROWS)
    [finding] = identify(rows).findings or (None,)
    if finding is None or finding.verdict != "claimed" or finding.spec is None:
        notes = () if finding is None else finding.remarks[:2]
        told = "its rows follow no sinusoidal convention that is known here."
        return Inferred(None, probes=ask.calls, notes=(told, *notes))
    spec: Any = finding.spec
    placement = finding.placement
    first = 0 if placement is None else int(placement.starts[0])
    if placement is not None and (placement.step != 1 or len(placement.axes) > 1):
        told = f"its rows are those of {placement.words()}"
        return Inferred(None, probes=ask.calls, notes=(told,))
    if first and hasattr(spec, "arrangement"):
        spec = spec.replace(
            arrangement=spec.arrangement.replace(start=spec.arrangement.start + first)
        )
    scale = float(np.abs(rows).max())
    eps = FLOAT32 if (rows == rows.astype(np.float32)).all() else FLOAT64
    arrangement = getattr(spec, "arrangement", None)
    start = 0 if arrangement is None else abs(arrangement.start)
    fastest = _fastest(spec)

    def allowed(made: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return scale * (8 * eps + 8 * eps * fastest * (positions + start))[:, None] + 0 * made

    result = _looked(
        ask,
        lambda p: np.asarray(table(spec, p, dtype="float64")),
        allowed,
        first=rows,
        ends=REACHES,
    )
    return _inferred(spec, {}, result)


def _fastest(spec: Any) -> float:
    """The largest frequency, as errors of angles grow with it."""
    return max(1.0, float(np.abs(frequencies(spec)).max()))


def _inferred(
    spec: Any, params: dict[str, np.ndarray], result: Agreement, notes: tuple[str, ...] = ()
) -> Inferred:
    return Inferred(
        spec,
        params=params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=result.reach,
        probes=result.reach.calls,
        notes=(*notes, *result.notes),
    )


def _of_bias(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A bias written out for all distances up to some hundred, and for far ones."""
    ask = Asked(function, 2, framework)
    values = _longest(ask, BIAS_REACH)
    heads, count = len(values), values.shape[-1]
    with np.errstate(invalid="ignore"):
        by_key = np.abs(values - values[:, :1, :]).max() == 0
    written = values
    if by_key and values.any():  # the same for every query: a slope times the key
        k = np.arange(count)
        written = values[:, :1, 1:2] * -np.abs(k[None, :, None] - k[None, None, :])
    [finding] = identify({"relative_position_bias": written}).findings or (None,)
    spec: Any = None if finding is None else finding.spec
    params: dict[str, np.ndarray] = {}
    notes: tuple[str, ...] = ()
    parted = _by_distance(ask, values)
    if not isinstance(spec, ALiBi | Decay) and parted is not None:
        shared = (parted[0][:, 1:] == parted[0][:, :-1]).all(axis=0).sum()
        fits = buckets_of(*parted) if shared >= SHARED else []
        spec = fits[0].spec if fits else None
        if fits:
            params, notes = _weights(fits[0].spec, *parted)
            if fits[0].least < fits[0].most:
                more = f"a largest distance from {fits[0].least} to {fits[0].most} gives the same"
                notes = (*notes, more)
    if spec is None or spec.heads != heads:
        told = "it is no bias with linear slopes or logarithmic buckets of distance."
        if parted is None:
            told = "it depends on more than the distance of query and key."
        hint = "If it is a rotation of its first argument, say how wide that is: dim."
        return Inferred(None, probes=ask.calls, notes=(told, hint))
    if by_key and isinstance(spec, ALiBi):
        spec = spec.replace(form="key_only")
    masked = isinstance(spec, ALiBi) and bool((values[:, 0, 1:] == -math.inf).all())
    if masked:
        notes = (*notes, "minus infinity after the query: a causal mask was added")
    double = not (values == values.astype(np.float32)).all()

    def expected(p: np.ndarray) -> np.ndarray:
        made = np.asarray(bias_of(spec, p, p, params=params or None, dtype="float64"))
        return np.where(p[None, :] > p[:, None], -math.inf, made) if masked else made

    def allowed(made: np.ndarray, _: np.ndarray) -> np.ndarray:
        size = np.where(np.isfinite(made), np.abs(made), 0.0)
        return (2.0**-40 if double else 2.0**-21) * size + (FLOAT64 if double else FLOAT32)

    ends: tuple[int, ...] = (2**17, 2**12, 2**11, 2**10, 2**9)
    if params:  # learned values are known of the distances that were read
        ends = tuple(end for end in ends if parted is not None and end <= parted[1][-1])
    result = _looked(ask, expected, allowed, first=values, ends=ends)
    return _inferred(spec, params, result, notes)


def _by_distance(ask: Asked, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Biases by key minus query, as far as they are told; None where more than that counts."""
    count = values.shape[-1]
    if not np.isfinite(values).all() or (values[:, 1:, 1:] != values[:, :-1, :-1]).any():
        return None
    for reach in () if ask.counts else (2**14, 2**12, 2**10):
        line, zero = np.arange(reach + 1), np.array([0])
        try:
            future, past = ask(zero, line)[:, 0], ask(line, zero)[:, :, 0]
        except RefusedError:
            continue
        both = np.concatenate([past[:, :0:-1], future], axis=1)
        return both, np.arange(-reach, reach + 1)
    both = np.concatenate([values[:, :0:-1, 0], values[:, 0]], axis=1)
    return both, np.arange(1 - count, count)


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
