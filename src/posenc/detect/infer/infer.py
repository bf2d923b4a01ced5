"""`posenc.infer_spec`: from an implementation to the spec that it follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, mismatch
from posenc._core.guard import foreign
from posenc.detect.fit.rotations.pairs import (
    NotARotationError,
    Turns,
    from_matrices,
    from_recording,
)
from posenc.detect.fit.rotations.rotation import measured, rotations_of
from posenc.detect.fit.rotations.rotation_specs import RotationFit
from posenc.detect.infer.agreement import (
    REACHES,
    Agreement,
    Tally,
    agreement,
    called,
    calls,
    in_units,
    made_by,
)
from posenc.detect.infer.implementation import (
    RefusedError,
    RotationProbe,
    as_numpy,
    needed_arguments,
)
from posenc.detect.infer.positions import of_bias, of_table
from posenc.detect.infer.result import Inferred
from posenc.encodings.rotary.xpos import XPos

Kind = Literal["rotary", "table", "bias"]
KINDS = ("rotary", "table", "bias")
# Near positions count turns, far ones measure frequencies.
LADDER = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
SHORT = 63  # the last position asked for, of implementations that end before 377
WIDEST = 4096
DECAYING = 2**12  # sizes that shrink leave nothing to compare beyond


@foreign("infer_spec", timed=False)
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
        raise ArgumentError(mismatch("infer_spec: kind", " or ".join(KINDS), repr(kind)))
    if isinstance(axes, str) or not axes:
        raise ArgumentError(mismatch("infer_spec: axes", "a tuple of names", repr(axes)))
    if not callable(source):
        return _recorded(source, tuple(axes), base, unit)
    if kind is None:
        needed = needed_arguments(source)
        kind = "rotary" if dim is not None else "table" if needed == 1 else "bias"
    try:
        if kind == "table":
            return of_table(source, framework)
        if kind == "bias":
            return of_bias(source, framework)
        if dim is None:
            todo = "dim= is the width of a head that it is given."
            raise ArgumentError(mismatch("infer_spec: dim", "a width", None, todo))
        if not 2 <= dim <= WIDEST:
            raise ArgumentError(mismatch("infer_spec: dim", f"2 to {WIDEST}", dim))
        return _of_rotation(source, dim, tuple(axes), base=base, unit=unit, framework=framework)
    except RefusedError as refused:
        todo = "Wrap it in a function of x and positions that returns x turned."
        expected = "a function that takes arrays in a usual layout"
        received = f"one that fails: {refused}"
        raise ArgumentError(mismatch("infer_spec", expected, received, todo)) from None


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
    probe = RotationProbe(function, framework)
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
    try:
        turns = from_matrices(
            np.moveaxis(first.outputs[0][:, 0], 1, 0),
            in_units(steps, unit).astype(np.float64) / unit,
        )
        options = rotations_of(turns, axes, base, unit)
        measurement = measured(turns, axes)
    except NotARotationError as why:
        return Inferred(None, probes=probe.calls, notes=_style(probe, (f"{why}.",)))
    farthest = DECAYING if isinstance(options[0].spec, XPos) else REACHES[0]
    asked, notes = calls(
        probe, dim, len(axes), last=last, unit=unit, counted=counted, farthest=farthest
    )
    again = called(probe, x, steps, unit)
    asked += [first] if again is None else [first, again]
    if again is None or np.abs(again.outputs[0] - first.outputs[0]).max() > 0:
        notes.append("the first call, made once more, gives something else")
    fit, result = _best((f, agreement(f, measurement, asked, unit)) for f in options)
    return Inferred(
        fit.spec,
        params=fit.params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=replace(result.reach, calls=probe.calls),
        probes=probe.calls,
        channels=fit.channels,
        departures=fit.departed,
        notes=_style(probe, (*fit.notes, *result.notes, *notes)),
    )


def _best(options: Iterable[tuple[RotationFit, Agreement]]) -> tuple[RotationFit, Agreement]:
    """The first encoding that agrees with all calls, or the one that does farthest."""
    looked = []
    for fit, result in options:
        if result.difference <= result.tolerance:
            return fit, result
        looked.append((fit, result))
    return max(looked, key=lambda option: option[1].reach.position or 0)


def _ladder(axes: int, last: int, *, counted: bool) -> np.ndarray:
    """Steps along each axis, from near to far: (positions, axes)."""
    if counted:  # it counts 0, 1, 2, ... whatever it is told
        return np.arange(last + 1)[:, None]
    line = [p for p in LADDER if p <= last]
    along = [[p if k == a else 0 for k in range(axes)] for a in range(axes) for p in line[1:]]
    return np.array([[0] * axes, *along], dtype=np.int64)


def _style(probe: RotationProbe, notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes if probe.style is None else (probe.style.words, *notes)


# --- recordings -----------------------------------------------------------------------------------


def _recorded(source: Any, axes: tuple[str, ...], base: float | None, unit: float) -> Inferred:
    caller = "infer_spec: source"
    if isinstance(source, Mapping):
        names = ("input", "output", "positions")
        if not set(names) <= set(source):
            received = f"the names {sorted(map(str, source))}"
            raise ArgumentError(mismatch(caller, f"the names {', '.join(names)}", received))
        source = tuple(source[name] for name in names)
    if not isinstance(source, (tuple, list)) or len(source) != 3:
        expected = "a function, or (x, y, positions)"
        raise ArgumentError(mismatch(caller, expected, type(source).__name__))
    x, y, positions = (as_numpy(part) for part in source)
    if x.shape != y.shape or x.ndim < 2:
        received = f"shapes {x.shape} and {y.shape}"
        raise ArgumentError(mismatch(caller, "x and y of one shape (..., seq, channels)", received))
    coordinates = positions if len(axes) > 1 else positions[..., None]
    if coordinates.shape[-1] != len(axes):
        expected = f"positions with a trailing axis of {len(axes)}"
        raise ArgumentError(mismatch(caller, expected, f"shape {positions.shape}"))
    try:
        coordinates = np.broadcast_to(coordinates, (*x.shape[:-1], len(axes))).reshape(
            -1, len(axes)
        )
    except ValueError:
        received = f"shape {positions.shape} for x of shape {x.shape}"
        raise ArgumentError(mismatch(caller, "positions for each token", received)) from None
    flat_x, flat_y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    try:
        turns: Turns = from_recording(flat_x, flat_y, coordinates / unit)
        fit = rotations_of(turns, axes, base, unit)[0]
    except NotARotationError as why:
        return Inferred(None, notes=(f"{why}.",))
    indices = coordinates[:, 0] if len(axes) == 1 else coordinates
    whole = bool((indices == np.rint(indices)).all())
    indices = indices.astype(np.int64) if whole and unit == 1 else indices
    tally = Tally()
    turned = made_by(fit, flat_x, indices)
    steps = coordinates / unit
    allowed = measured(turns, axes).allowed(flat_x, turned, steps, turns.rounding)
    tally.add(np.abs(turned - flat_y), allowed, np.abs(steps).max(axis=1))
    tally.largest = float(np.abs(flat_x).max())
    result = tally.result(0)
    return Inferred(
        fit.spec,
        params=fit.params,
        difference=result.difference,
        tolerance=result.tolerance,
        reach=result.reach,
        channels=fit.channels,
        departures=fit.departed,
        notes=fit.notes,
    )
