"""`posenc.infer_spec`: from an implementation to the spec that it follows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from posenc._core.calls import checked_call
from posenc._core.errors import ArgumentError, KeywordError, bad_argument, mismatch
from posenc._core.guard import foreign
from posenc.detect.fit.rotations.pairs import (
    FLOAT32,
    LADDER,
    SHORT,
    NotARotationError,
    Turns,
    from_matrices,
    from_recording,
    matrices_of,
    turns_of,
)
from posenc.detect.fit.rotations.rotation import MeasuredTurns, measured, rotations_of
from posenc.detect.fit.rotations.rotation_specs import RotationFit
from posenc.detect.infer.result import Expectation, Inferred, made_by, of_bias, of_table
from posenc.detect.subject import CannotAsk, Subject, asked, refuse_if
from posenc.detect.subject.arrays import numbers
from posenc.detect.subject.reach import Tally
from posenc.detect.subject.subject import KINDS, Kind
from posenc.detect.subject.survey import differs, survey
from posenc.encodings.rotary.xpos import XPos
from posenc.scaling.multipliers import Multipliers

UNSEEN = ("cosines and sines do not say which channels form a pair",)
FAR = 2**20
NEAR = np.array([7, 1, 40, 1001, 3])
WIDEST = 4096
DECAYING = 2**12  # sizes that shrink leave nothing to compare beyond


@foreign("infer_spec", timed=False)
@checked_call
def infer_spec(
    source: Any,
    *,
    dim: int | None = None,
    axes: tuple[str, ...] = ("position",),
    kind: Kind | None = None,
    base: float | None = None,
    unit: float = 1.0,
    library: Literal["torch", "numpy", "jax"] | None = None,
    layout: str | None = None,
    heads: int | None = None,
    **older: Any,
) -> Inferred:
    """The spec that an implementation of a rotation, a table or a bias follows.

        y = f(x, positions)      rows = f(positions)      bias = f(q_positions, k_positions)

    A rotation is asked once what becomes of every basis vector at a ladder of positions. Its pairs
    are read from where these come out, its frequencies from the angles, followed from near
    positions to far ones; base, scaling and attention factor are solved for. A survey says how far
    the spec is from the implementation, see `posenc.ask`. What it refuses narrows what is claimed;
    `reach` says what was asked.

    Parameters
    ----------
    source : object, or (x, y, positions)
        Whatever `posenc.ask` asks: a function, class, module, pair or buffers. Or recorded inputs
        and outputs of a rotation: `x` and `y` (..., seq, channels) and positions (seq,), (seq,
        axes) or of the leading shape of x; a mapping with these as `input`, `output`, `positions`
        is read too.
    dim : int, optional
        Channels of a head: what is handed to a rotation; 64 by default.
    axes : tuple of str
        Names of the coordinates of a position, in their order.
    kind : {"rotary", "cos_sin", "angles", "table", "bias"}, optional
        What it computes; found out by default. A bias goes by the names of its arguments; and what
        takes two and is nothing else is one, if no `dim` is given.
    base : float, optional
        The base that frequencies are multiples of, where they follow no known rule.
    unit : float
        The step of the positions that are asked for: 1/64, say, for real coordinates from -1 to 1.
    library : {"torch", "numpy", "jax"}, optional
        Which arrays the function takes; found out by default.
    layout : str, optional
        The order of the axes of x, as `"bshd"`; found out by default.
    heads : int, optional
        The number of heads, where the code has one of its own.
    **older
        `framework`, the older word for `library`.

    Returns
    -------
    Inferred
        `spec`, `departures`, `matches`, `difference`, `reach`, `params`, `call`. Where nothing
        says what it does, the spec is None and `notes` say why: it is not linear in positions, its
        pairs are mirrored.

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
    refuse_if(
        kind is not None and kind not in KINDS,
        mismatch("infer_spec: kind", " or ".join(KINDS), repr(kind)),
        ArgumentError,
    )
    refuse_if(
        isinstance(axes, str) or not axes,
        mismatch("infer_spec: axes", "a tuple of names", repr(axes)),
        ArgumentError,
    )
    library = older.pop("framework", library)
    for name in older:
        raise KeywordError(f"infer_spec has no argument {name!r}.")
    refuse_if(
        dim is not None and not (isinstance(dim, (int, np.integer)) and 2 <= dim <= WIDEST),
        mismatch("infer_spec: dim", f"2 to {WIDEST:,}", repr(dim)),
        ArgumentError,
    )
    if _recording(source):
        return _recorded(source, tuple(axes), base, unit)
    options = {"library": library, "layout": layout, "heads": heads, "axes": len(axes)}
    try:
        subject = _subject(source, dim, kind, options)
    except CannotAsk as why:
        if not why.answered:
            raise
        return Inferred(None, notes=(str(why),))
    of_rows = {"table": of_table, "bias": of_bias}.get(subject.kind)
    return of_rows(subject) if of_rows else _of_rotation(subject, tuple(axes), base, unit)


def _subject(source: Any, dim: int | None, kind: Any, options: dict[str, Any]) -> Subject:
    """What is asked; of two arguments and no width, a bias."""
    try:
        return asked(source, dim=dim, kind=kind, **options)
    except CannotAsk as why:
        if dim is None and kind is None and why.arguments == 2:
            with contextlib.suppress(CannotAsk):
                return asked(source, kind="bias", **options)
        raise


def _recording(source: Any) -> bool:
    """Whether something is recorded inputs and outputs, rather than code or buffers."""
    return (
        bool({"input", "output", "positions"} & {*source})
        if isinstance(source, Mapping)
        else isinstance(source, (tuple, list)) and not any(map(callable, source))
    )


# --- rotations ------------------------------------------------------------------------------------


def _of_rotation(
    subject: Subject, axes: tuple[str, ...], base: float | None, unit: float
) -> Inferred:
    try:
        turns = turns_of(subject, len(axes), unit)
        options = rotations_of(turns, axes, base, unit)
        measurement = measured(turns, axes)
    except NotARotationError as why:
        return Inferred(None, probes=subject.calls, notes=(subject.how, f"{why}."))
    fit = _best(subject, options, measurement, unit)
    expected = Expectation(fit, measurement, unit)
    end = (
        DECAYING if isinstance(fit.spec, XPos) else int(turns.positions.max()) if unit != 1 else FAR
    )
    rotary = subject.kind == "rotary"
    choice = survey(
        replace(subject, _unit=unit), expected if rotary else fit.spec, end=end,
        allowed=expected.allowed if rotary else None,
    )  # fmt: skip
    centred = (
        _other_centre(subject, axes, fit.spec)
        if isinstance(fit.spec, XPos) and choice.call is not None
        else ""
    )
    return Inferred(
        fit.spec,
        params=fit.params,
        difference=choice.difference,
        tolerance=choice.tolerance,
        reach=choice.reach,
        probes=subject.calls,
        channels=fit.channels,
        departures=fit.departed,
        notes=(subject.how, *fit.notes, *UNSEEN * (not rotary), *(centred,) * bool(centred)),
        call=choice.call,
    )


def _other_centre(subject: Subject, axes: tuple[str, ...], spec: XPos) -> str:
    """What is said where shorter sequences have the same encoding about another centre."""
    places = np.array([p for p in LADDER if p <= SHORT])
    try:
        turns = from_matrices(matrices_of(subject, places), places[:, None].astype(np.float64))
        short = rotations_of(turns, axes, None, 1.0)[0].spec
    except (NotARotationError, CannotAsk):
        return ""
    if short == spec or short.replace(centre=spec.centre) != spec:
        return ""
    lengths = f"{spec.centre} of {LADDER[-1] + 1} tokens, {short.centre} of {places[-1] + 1}"
    todo = "hand over a function of positions to compare the turned"
    return f"its centre follows the length of a sequence ({lengths}), which no score shows: {todo}"


def _best(
    subject: Subject, options: Iterable[RotationFit], turns: MeasuredTurns, unit: float
) -> RotationFit:
    """The first encoding that agrees with calls near and far."""
    options = list(options)
    for fit in options if len(options) > 1 else ():
        expected = Expectation(fit, turns, unit)
        if subject.kind != "rotary" or not any(
            differs(replace(subject, _unit=unit), expected, expected.allowed, places)
            for places in (np.arange(300), NEAR * 3)
        ):
            return fit
    return options[0]


# --- recordings -----------------------------------------------------------------------------------


def _recorded(source: Any, axes: tuple[str, ...], base: float | None, unit: float) -> Inferred:
    caller = "infer_spec: source"
    if isinstance(source, Mapping):
        names = ("input", "output", "positions")
        refuse_if(not set(names) <= set(source), mismatch(
            caller, f"the names {', '.join(names)}", f"the names {sorted(map(str, source))}",
        ), ArgumentError)  # fmt: skip
        source = tuple(source[name] for name in names)
    refuse_if(
        not isinstance(source, (tuple, list)) or len(source) != 3,
        mismatch(caller, "a function, or (x, y, positions)", type(source).__name__),
        ArgumentError,
    )
    x, y, positions = (_numbers(part) for part in source)
    refuse_if(x.shape != y.shape or x.ndim < 2, mismatch(
        caller, "x and y of one shape (..., seq, channels)", f"shapes {x.shape} and {y.shape}",
    ), ArgumentError)  # fmt: skip
    coordinates = positions if len(axes) > 1 else positions[..., None]
    refuse_if(coordinates.shape[-1] != len(axes), mismatch(
        caller, f"positions with a trailing axis of {len(axes)}", f"shape {positions.shape}",
    ), ArgumentError)  # fmt: skip
    try:
        coordinates = np.broadcast_to(coordinates, (*x.shape[:-1], len(axes))).reshape(
            -1, len(axes)
        )
    except ValueError:
        raise bad_argument(
            caller, "positions for each token", f"shape {positions.shape} for x of shape {x.shape}"
        ) from None
    flat_x, flat_y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    try:
        turns: Turns = from_recording(flat_x, flat_y, coordinates / unit)
        fit = rotations_of(turns, axes, base, unit)[0]
    except NotARotationError as why:
        return Inferred(None, notes=(f"{why}.",))
    if (
        any(isinstance(rule, Multipliers) for rule in getattr(fit.spec, "scaling", ()))
        and turns.rounding > FLOAT32
    ):
        todo = "record it in float32, or at more positions"
        return Inferred(None, notes=(f"numbers of few digits follow no rule known here: {todo}.",))
    indices = coordinates[:, 0] if len(axes) == 1 else coordinates
    if unit == 1 and (indices == np.rint(indices)).all():
        indices = indices.astype(np.int64)
    tally = Tally()
    turned = made_by(fit, flat_x, indices)
    steps = coordinates / unit
    allowed = measured(turns, axes).allowed(flat_x, turned, steps, turns.rounding)
    tally.add(
        np.where(np.isfinite(flat_y), np.abs(turned - flat_y), np.inf),
        allowed,
        np.abs(steps).max(axis=1),
        (1,),
    )
    return Inferred(
        fit.spec,
        params=fit.params,
        difference=tally.worst[1],
        tolerance=tally.worst[2],
        reach=replace(tally.reach(), dense=0, largest=float(np.abs(flat_x).max())),
        channels=fit.channels,
        departures=fit.departed,
        alternatives=fit.rivals,
        notes=fit.notes,
    )


def _numbers(part: Any) -> np.ndarray:
    """Recorded real numbers."""
    array = numbers(part)
    refuse_if(
        array.dtype.kind == "c",
        mismatch("infer_spec", "an array of real numbers", "complex ones"),
        ArgumentError,
    )
    return array
