"""Somebody's implementation held to the contract of a model, in a test suite."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc._core.errors import ArgumentError, mismatch, suggest
from posenc.detect.contract import Check, Contract, Part, read, tolerances
from posenc.detect.contract.asked import Asked, CannotSay, Library
from posenc.detect.contract.contract import DTYPES

__all__ = ["ContractReport", "assert_contract", "compare"]

MOST_LINES = 12
UNASKED = ("rows", "bias", "relative", "scores")


class ContractReport(NamedTuple):
    """What of a contract was compared with a side.

    Parameters
    ----------
    compared : tuple of str
        What was, in words: the part, the method, and how many positions.
    not_compared : tuple of str
        What was not, and why.
    differences : tuple of str
        Where it differs by more than the tolerance, the first of each method.
    """

    compared: tuple[str, ...]
    not_compared: tuple[str, ...]
    differences: tuple[str, ...]


class _Trial(NamedTuple):
    """A method, what it is given, and what should come back."""

    method: str
    given: tuple[Any, ...]
    expected: tuple[np.ndarray, ...]
    tolerance: np.ndarray  # broadcasts to what is expected
    names: tuple[str, ...]
    where: tuple[Any, ...]  # the positions along `axis`, for people
    length: int | None = None
    axis: int = 0
    counted: np.ndarray | None = None  # the tokens of rows that may begin to count anywhere
    spread: np.ndarray | None = None  # the pair of each channel, for sides that give one of each


def assert_contract(
    side: Any,
    contract: Contract | str | os.PathLike[str],
    *,
    dtype: str = "float32",
    layers: Sequence[str] | None = None,
    library: Library = "numpy",
) -> ContractReport:
    """Raise unless an implementation gives the numbers of a contract.

    Parameters
    ----------
    side : object
        An object with any of the methods `frequencies(layer)`, `cos_sin(positions, layer)`,
        `rotate(x, positions, layer)`, `logit_scale(positions, layer)`, `table(positions, layer)`,
        `bias(q_positions, k_positions, layer)` and `position_ids(case, layer)`, or a function that
        is one of them. `docs/golden.md` says what each returns.
    contract : Contract or path
        A contract, or the file that `posenc golden` wrote.
    dtype : {"float64", "float32", "float16", "bfloat16"}
        What the side computes in. The halves stand for angles in float32 and results that are
        rounded once more.
    layers : sequence of str, optional
        The parts to compare; all by default.
    library : {"numpy", "torch", "jax"}
        Whose arrays the side takes.

    Returns
    -------
    ContractReport
        What was compared, and what was not.

    Raises
    ------
    AssertionError
        If a number differs by more than its tolerance, or nothing could be compared.
    ArgumentError
        If the side has none of the methods, or a name is unknown.
    DataError
        If the file is no contract.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> from posenc.testing import assert_contract
    >>> def cos_sin(positions):
    ...     angles = positions[:, None] * 10_000.0 ** -(np.arange(4) / 4)
    ...     return np.cos(angles), np.sin(angles)
    >>> contract = posenc.golden(posenc.RoPE(8, pairing="half"))
    >>> assert_contract(cos_sin, contract).compared
    ('spec: cos_sin, float32, 9 positions to 1048576',)
    """
    found = compare(side, contract, dtype=dtype, layers=layers, library=library)
    name = getattr(side, "__qualname__", type(side).__name__)
    if found.differences:
        told = found.differences[:MOST_LINES]
        more = [f"… and {len(found.differences) - len(told)} more"]
        lines = [f"{name} differs from the contract:", *told, *more[: len(told) < len(found[2])]]
        raise AssertionError("\n  ".join(lines))
    if not found.compared:
        lines = [f"{name}: nothing of the contract was compared:", *found.not_compared]
        raise AssertionError("\n  ".join(lines[:MOST_LINES]))
    return found


def compare(
    side: Any,
    contract: Contract | str | os.PathLike[str],
    *,
    dtype: str = "float32",
    layers: Sequence[str] | None = None,
    library: Library = "numpy",
) -> ContractReport:
    """As `assert_contract`, which raises what this returns."""
    if dtype not in DTYPES:
        expected = f"one of {', '.join(DTYPES)}"
        raise ArgumentError(
            mismatch("assert_contract: dtype", expected, repr(dtype), suggest(dtype, DTYPES))
        )
    contract = contract if isinstance(contract, Contract) else read(contract)
    asked = Asked(side, library)
    parts = contract.parts if layers is None else [contract[name] for name in layers]
    kinds = [part.kind for part in parts]
    compared, left, differences = [], [], []
    for part in parts:
        left += [f"{part.name}: {why}" for why in part.left_out]
        left += [
            f"{part.name}: {check}: no method asks for it"
            for check in dict.fromkeys(c.check for c in contract.of(part.name))
            if check in UNASKED and not (check == "bias" and part.spec and not part.spec.shapes)
        ]
        alone = kinds.count(part.kind) == 1
        for trial in _trials(contract, part, dtype):
            state = "" if trial.length is None else f", length {trial.length}"
            case = f" ({trial.names[0]})" if trial.method == "position_ids" else ""
            name = f"{part.name}: {trial.method}{case}"
            try:
                wrong = _tried(asked, trial, part, alone)
            except CannotSay as why:
                left.append(f"{name}: {why}")
                continue
            last = f", {len(trial.where)} positions to {trial.where[-1]}" if trial.where else ""
            compared.append(f"{name}, {dtype}{state}{last}")
            differences += [] if wrong is None else [f"{name}{state}: {wrong}"]
    told = (compared, dict.fromkeys(left), differences)
    return ContractReport(*(tuple(dict.fromkeys(each)) for each in told))


def _tried(asked: Asked, trial: _Trial, part: Part, alone: bool) -> str | None:
    """The first number that is off, in words."""
    method = trial.method
    shared = method != "position_ids" and method in asked.methods
    if shared and not alone and not asked.takes(method, "layer"):
        raise CannotSay("it takes no `layer`, and several parts have one; choose one by `layers`")
    answer = asked.ask(method, *trial.given, layer=part.name, length=trial.length)
    pair = answer if isinstance(answer, tuple) else (answer,)
    for received, expected, name in zip(pair, trial.expected, trial.names, strict=True):
        wrong = _difference(trial, received, expected, name)
        if wrong is not None:
            return wrong
    return None


def _difference(trial: _Trial, received: np.ndarray, expected: np.ndarray, name: str) -> str | None:
    tolerance = np.broadcast_to(trial.tolerance, expected.shape)
    if trial.spread is not None and received.shape[-1:] == trial.spread.shape:
        # One number for each channel: in the order of the channels, or as two halves of the pairs.
        pairs = np.arange(len(trial.spread)) % expected.shape[-1]
        near = [np.abs(received - expected[..., order]).sum() for order in (trial.spread, pairs)]
        order = trial.spread if near[0] <= near[1] else pairs
        expected, tolerance = expected[..., order], tolerance[..., order]
    if received.shape[: received.ndim - expected.ndim] == (1,) * (received.ndim - expected.ndim):
        received = received.reshape(
            received.shape[received.ndim - expected.ndim :]
        )  # a batch of one
    if received.shape != expected.shape:
        return f"{name} of shape {received.shape}, expected {expected.shape}"
    if trial.counted is not None:
        begin = trial.counted.argmax(-1)[:, None]
        received = received - np.take_along_axis(received - expected, begin, -1)
    with np.errstate(invalid="ignore"):
        off = np.abs(received - expected)
    bad = ~((off <= tolerance) | (received == expected))  # also true for NaN
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    place = f" at position {trial.where[at[trial.axis]]}" if trial.where else ""
    shown = at[: trial.axis] + at[trial.axis + 1 :] if trial.where else at
    return (
        f"{name}[{', '.join(map(str, shown))}]{place} is {received[at]:.9g}, expected "
        f"{expected[at]:.9g}: off by {off[at]:.3g}, allowed {tolerance[at]:.3g}; {int(bad.sum())} "
        f"of {bad.size} numbers differ"
    )


# --- what is asked --------------------------------------------------------------------------------


def _trials(contract: Contract, part: Part, dtype: str) -> Iterator[_Trial]:
    for state in part.states:
        known = contract.of(part.name, "frequencies", state)
        if known:
            yield from _rotary(known[0], contract.of(part.name, "angles", state), dtype)
    rows = contract.of(part.name, "table")
    if rows and f"tolerance_{dtype}" in rows[0]:
        bounds = np.array([[check[f"tolerance_{dtype}"]] for check in rows])
        where, people = _places(rows)
        expected = np.stack([check["row"] for check in rows])
        yield _Trial("table", (where,), (expected,), bounds, ("row",), people)
    for check in contract.of(part.name, "bias"):
        if part.spec is not None and not part.spec.shapes:
            yield _bias(check, dtype)
    for check in contract.of(part.name, "temperature"):
        where, factors = check["positions"], check["factors"]
        yield _scale(where, factors, tuple(where.tolist()), dtype)
    for check in contract.of(part.name, "positions"):
        yield _position_ids(check)


def _places(rows: Sequence[Check]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Positions as a side takes them, (n,) or (n, axes), and for people."""
    where = np.array([check["position"] for check in rows])
    if where.shape[1] == 1:
        return where[:, 0], tuple(where[:, 0].tolist())
    return where, tuple(map(tuple, where.tolist()))


def _rotary(known: Check, rows: Sequence[Check], dtype: str) -> Iterator[_Trial]:
    frequencies = known["frequencies"]
    length: Any = known.data.get("length")
    unit = tolerances.UNITS.get(dtype, tolerances.UNITS["float32"])
    turning = np.where(frequencies == 0, 1.0, np.abs(frequencies))
    off = turning * (3 + np.abs(np.log(turning))) * unit
    yield _Trial("frequencies", (), (frequencies,), off, ("frequencies",), (), length)
    where, people = _places(rows)
    heads = ["rotated_query"]
    if "cos" in rows[0]:
        points = np.array([check["position"] for check in rows]) + known["start"]
        angles = points[:, known["axis"]] * frequencies
        bound = tolerances.of_angles(angles, frequencies, known["attention_factor"])[dtype]
        both = tuple(np.stack([check[name] for check in rows]) for name in ("cos", "sin"))
        spread = np.argsort(np.concatenate([known["first"], known["second"]])) % len(frequencies)
        names = ("cos", "sin")
        yield _Trial("cos_sin", (where,), both, bound, names, people, length, spread=spread)
        heads.append("rotated_key")
    given = [known[name.removeprefix("rotated_")] for name in heads]
    x = np.stack([np.tile(each, (len(rows), 1)) for each in given])[None]
    turned = np.stack([np.stack([check[name] for check in rows]) for name in heads])[None]
    bounds = np.array([[check[f"rotated_tolerance_{dtype}"]] for check in rows])
    yield _Trial("rotate", (x, where), (turned,), bounds, ("rotated",), people, length, 2)
    factors = known["logit_factor"] * np.array([check["temperature"] for check in rows])
    yield _scale(where, factors, people, dtype, length)


def _scale(
    where: np.ndarray, factors: np.ndarray, people: Any, dtype: str, length: int | None = None
) -> _Trial:
    unit = tolerances.UNITS.get(dtype) or tolerances.HALVES[dtype]
    bound = 8 * unit * np.abs(factors)
    return _Trial("logit_scale", (where,), (factors,), bound, ("factor",), people, length)


def _bias(check: Check, dtype: str) -> _Trial:
    sides = [check[name].reshape(-1, check["axes"]) for name in ("q_positions", "k_positions")]
    expected = check["bias"].reshape(check["heads"], *map(len, sides))
    expected = np.where(expected == -np.finfo(np.float64).max, -np.inf, expected)
    given = tuple(side[:, 0] if side.shape[1] == 1 else side for side in sides)
    return _Trial("bias", given, (expected,), np.array(check[f"tolerance_{dtype}"]), ("bias",), ())


def _position_ids(check: Check) -> _Trial:
    shape = tuple(check["shape"])
    case = {name: value for name, value in check.data.items() if name != "positions"}
    exact = np.zeros(shape)
    if "mask" in check:
        exact[check["mask"].reshape(shape) == 0] = (
            np.inf
        )  # what padding gets is the engine's choice
    ids = check["positions"].reshape(shape).astype(np.float64)
    counted = check["mask"].reshape(shape) if "shift" in check else None
    return _Trial("position_ids", (case,), (ids,), exact, (check["case"],), (), counted=counted)
