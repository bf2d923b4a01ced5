"""`posenc.infer_spec`: from an implementation to the spec that it follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, PosencError, explain
from posenc.detect.identify import identify
from posenc.detect.infer.angular_speed import FLOAT32
from posenc.detect.infer.implementation import (
    Probe,
    RefusedError,
    as_numpy,
    biases_of,
    needed_arguments,
    rows_of,
)
from posenc.detect.infer.pairs import NotARotationError, Turns, from_matrices, from_recording
from posenc.detect.infer.result import Inferred
from posenc.detect.infer.rotation import Found, rotation_of
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.bias.t5 import T5
from posenc.encodings.rotary.base import RotarySpec
from posenc.functional import bias as bias_of
from posenc.functional import rotate, table

__all__ = ["infer_spec"]

Kind = Literal["rotary", "table", "bias"]
KINDS = ("rotary", "table", "bias")
# Near positions count turns, far ones measure frequencies.
LADDER = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
SHORT = 63  # the last position asked for, of implementations that end before 377
SEED = 20
WIDEST = 4096
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
    positions to far ones; base, scaling and attention factor are solved for. A second call, on
    random numbers at random positions, says how far the spec is from the implementation.

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
        `spec`, `difference`, `params`, `probes`. Where nothing says what it does, the spec is None
        and `notes` say why: it is not linear in positions, its pairs are mirrored.

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
    last = LADDER[-1]
    for end in (LADDER[-1], SHORT):
        positions = _ladder(len(axes), end, unit, counted=counted)
        x = np.repeat(basis[:, None, :], len(positions), axis=1)
        last = end
        try:
            y = probe(x, positions[:, 0] if len(axes) == 1 else positions)
            break
        except RefusedError:
            if end == SHORT:
                raise
    try:
        turns = from_matrices(np.moveaxis(y, 1, 0), positions.astype(np.float64) / unit)
        found = rotation_of(turns, axes, base, unit)
    except NotARotationError as why:
        return Inferred(None, probes=probe.calls, notes=_style(probe, (f"{why}.",)))
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(2, 16, dim)).astype(np.float32)
    where = np.arange(16)[:, None] if counted else rng.integers(0, last + 1, (16, len(axes)))
    scaled = where * unit if unit != 1 else where
    given = scaled[:, 0] if len(axes) == 1 else scaled
    y = probe(x, given)
    difference = _difference(found, x, y, given)
    largest = float(np.abs(x).max())
    reach = float(np.abs(scaled).sum(axis=1).max()) * _fastest(found.spec)
    tolerance = largest * (4e-6 + 8 * FLOAT32 * reach)
    return Inferred(
        found.spec,
        params=found.params,
        difference=difference,
        tolerance=tolerance,
        probes=probe.calls,
        channels=found.channels,
        notes=_style(probe, found.notes),
    )


def _ladder(axes: int, last: int, unit: float, *, counted: bool) -> np.ndarray:
    """Positions along each axis, from near to far: (positions, axes)."""
    if counted:  # it counts 0, 1, 2, ... whatever it is told
        return np.arange(last + 1)[:, None]
    line = [p for p in LADDER if p <= last]
    along = [[p if k == a else 0 for k in range(axes)] for a in range(axes) for p in line[1:]]
    rows = np.array([[0] * axes, *along], dtype=np.int64)
    return rows if unit == 1 else (rows * unit).astype(np.float32)


def _fastest(spec: Any) -> float:
    """The largest frequency, as errors of float32 angles grow with it."""
    from posenc.functional import frequencies

    try:
        return max(1.0, float(np.abs(frequencies(spec)).max()))
    except PosencError:
        return 1.0


def _difference(found: Found, x: np.ndarray, y: np.ndarray, positions: np.ndarray) -> float:
    """How far the spec is from outputs: (batch, seq, channels)."""
    spec: RotarySpec = found.spec
    given = x.astype(np.float64)
    channels = found.channels
    inner = given if channels is None else given[..., list(channels)]
    params = found.params or None
    wide = inner if params is None else inner[:, None]
    made = rotate(spec, wide, positions=positions, role=found.role, params=params)
    made = made if params is None else made[:, 0]
    out = given.copy()
    if channels is None:
        out = made
    else:
        out[..., list(channels)] = made
    return float(np.abs(out - y).max())


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
        found = rotation_of(turns, axes, base, unit)
    except NotARotationError as why:
        return Inferred(None, notes=(f"{why}.",))
    given = where[:, 0] if len(axes) == 1 else where
    whole = bool((given == np.rint(given)).all())
    given = given.astype(np.int64) if whole and unit == 1 else given
    difference = _difference(found, flat_x, flat_y, given)
    reach = float(np.abs(where).sum(axis=1).max()) * _fastest(found.spec)
    tolerance = float(np.abs(flat_x).max()) * (4e-6 + 8 * FLOAT32 * reach)
    return Inferred(
        found.spec,
        params=found.params,
        difference=difference,
        tolerance=tolerance,
        channels=found.channels,
        notes=found.notes,
    )


# --- tables and biases ----------------------------------------------------------------------------


def _longest(
    ask: Callable[..., tuple[np.ndarray, int]],
    counts: tuple[int, ...],
    function: Callable[..., Any],
    framework: str | None,
) -> tuple[np.ndarray, int, int]:
    """What a function gives for the first number of positions that it takes; that, the calls."""
    refusals: list[RefusedError] = []
    for count in counts:
        try:
            found, calls = ask(function, count, framework)
        except RefusedError as failure:
            refusals.append(failure)
            continue
        return found, count, calls + sum(failure.calls for failure in refusals)
    raise refusals[0]


def _of_table(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A table by its rows, which `identify` explains."""
    rows, count, calls = _longest(rows_of, TABLE_ROWS, function, framework)
    [finding] = identify(rows.astype(np.float32)).findings or (None,)
    if finding is None or finding.verdict != "claimed" or finding.spec is None:
        notes = () if finding is None else finding.remarks[:2]
        told = "its rows follow no sinusoidal convention: it may be learned."
        return Inferred(None, probes=calls, notes=(told, *notes))
    spec: Any = finding.spec
    placement = finding.placement
    where = np.arange(count) if placement is None else placement.positions(0, count)
    first = int(np.ravel(where)[0])
    if first and where.ndim == 1 and hasattr(spec, "arrangement"):
        spec = spec.replace(
            arrangement=spec.arrangement.replace(start=spec.arrangement.start + first)
        )
        where = np.arange(count)
    difference = float(np.abs(np.asarray(table(spec, where, dtype="float64")) - rows).max())
    tolerance = max(float(finding.measures.get("tolerance", 0.0)), 2e-6 + 8 * FLOAT32 * count)
    return Inferred(spec, difference=difference, tolerance=tolerance, probes=calls)


def _of_bias(function: Callable[..., Any], framework: str | None) -> Inferred:
    """A bias written out for all distances up to some hundred."""
    values, count, calls = _longest(biases_of, BIAS_REACH, function, framework)
    heads = len(values)
    by_key = np.abs(values - values[:, :1, :]).max() == 0
    written = values
    if by_key and values.any():  # the same for every query: a slope times the key
        k = np.arange(count)
        written = values[:, :1, 1:2] * -np.abs(k[None, :, None] - k[None, None, :])
    [finding] = identify({"relative_position_bias": written.astype(np.float32)}).findings or (None,)
    spec: Any = None if finding is None else finding.spec
    usable = finding is not None and finding.verdict in ("claimed", "unclear")
    if not usable or not isinstance(spec, ALiBi | T5) or spec.heads != heads:
        told = "it is no bias with linear slopes or logarithmic buckets of distance."
        distances = values - np.roll(np.roll(values, 1, axis=1), 1, axis=2)
        if np.abs(distances[:, 1:, 1:]).max() > 1e-6 * max(float(np.abs(values).max()), 1e-30):
            told = "it depends on more than the distance of query and key."
        hint = "If it is a rotation of its first argument, say how wide that is: dim."
        return Inferred(None, probes=calls, notes=(told, hint))
    if by_key and isinstance(spec, ALiBi):
        spec = spec.replace(form="key_only")
    params: dict[str, np.ndarray] = {}
    notes: tuple[str, ...] = ()
    if isinstance(spec, T5):
        params, notes = _buckets(spec, values)
    made = np.asarray(
        bias_of(spec, np.arange(count), np.arange(count), params=params or None, dtype="float64")
    )
    difference = float(np.abs(made - values).max())
    return Inferred(
        spec,
        params=params,
        difference=difference,
        tolerance=4 * FLOAT32 * max(1.0, float(np.abs(values).max())),
        probes=calls,
        notes=notes,
    )


def _buckets(spec: T5, values: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The learned scalar of each bucket, read at a distance that falls into it."""
    count = values.shape[-1]
    rel = np.arange(1 - count, count)
    bucket = spec.bucket(rel)
    weight = np.zeros((spec.buckets, spec.heads), dtype=np.float32)
    for r, place in zip(rel.tolist(), bucket.tolist(), strict=True):
        q, k = max(0, -r), max(0, r)
        weight[place] = values[:, q, k]
    unseen = sorted(set(range(spec.buckets)) - set(bucket.tolist()))
    note = f"no distance up to {count - 1} falls into the buckets {unseen}: they are 0 here"
    return {"weight": weight}, (note,) if unseen else ()
