"""`posenc.trace_folder`: queries and keys that another program wrote, held against a model."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from posenc._core.errors import ArgumentError, PosencError, mismatch
from posenc._core.io import inputs
from posenc.detect.contract.comparison.fields import variants
from posenc.detect.facts import facts
from posenc.detect.facts.plan import head_width
from posenc.detect.fit import tolerances
from posenc.detect.fit.ladders import BASES
from posenc.detect.fit.turns import PairTurns, allowed, of_rotations
from posenc.detect.fit.turns import expected as expected_turns
from posenc.detect.trace.compared import pairs_of
from posenc.detect.trace.dumps.files import Dump, read
from posenc.detect.trace.dumps.layouts import arranged
from posenc.detect.trace.expected import expectations
from posenc.detect.trace.findings import Seen, judge
from posenc.detect.trace.places import Places
from posenc.detect.trace.result import Trace, TracedTensor
from posenc.detect.trace.turned import HeadTurns, TensorTurns
from posenc.encodings.rotary.base import RotarySpec
from posenc.encodings.rotary.rope import RoPE

CALLER = "trace_folder"
NAMES = ("query", "key")
ROOM = 16.0  # roundings that a turned number may be off by
UNSEEN = "scores, masks, values and outputs, because such files do not hold them"
NEITHER = "its numbers are no rotation of pairs of channels, the same in its heads or not"


def trace_folder(path: str | os.PathLike[str], expected: Any) -> Trace:
    """See what another program did to queries and keys, by the files that it wrote.

        q' = R(p) q   for each token and head, with q and q' as they were written

    Each layer has queries before and after they turn, or keys, or both. Names say which; layouts
    are told by shapes; numbers are float64, float32, float16 or bfloat16. What is too small for the
    dtype of the numbers is not seen.

    Parameters
    ----------
    path : path
        A folder of `.npy`, `.npz`, `.safetensors` or `.pt` files, or one such file. Names hold the
        number of the layer, `q` or `k`, and `before` or `after`: `layer0.q.before`. A `names.json`
        beside the files may map other names to such. `positions`, or `layer0.positions`, are the
        positions of tokens, (tokens,) or (rows, tokens); 0, 1, 2, … by default.
    expected : object
        What the layers are held against: a config (mapping or path), a contract that
        `Trace.save` or `posenc.golden` wrote, a `Reading`, `Plan` or `Spec`, or another `Trace`.

    Returns
    -------
    Trace
        Its layers have the numbers of the names; `unseen` says what such files do not hold.

    Raises
    ------
    DataError
        If a file is not what it claims to be or holds objects, if no layer has both arrays, or if
        shapes do not fit together. Nothing of a file is executed.
    ArgumentError
        If what is expected is none of these.

    Examples
    --------
    >>> import numpy as np, posenc, tempfile
    >>> rope = posenc.RoPE(16, pairing="half", base=500_000)
    >>> q = np.random.default_rng(0).normal(size=(1, 4, 32, 16)).astype("float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/layer0.q.before.npy", q)
    ...     np.save(f"{folder}/layer0.q.after.npy", posenc.rotate(rope, q))
    ...     trace = posenc.trace_folder(folder, posenc.RoPE(16, pairing="half"))
    >>> print(trace.first)
    layer 0, query: base: expected 10000, found 500000
    """
    if expected is None:
        sides = "a config, a contract, a plan, a spec, or another trace"
        raise ArgumentError(mismatch(f"{CALLER}: expected", sides, "None"))
    source = inputs.named(path, CALLER)
    dumps, unseen = read(Path(source))
    against = expectations(expected, None)
    part = "text" if "text" in against.parts else next(iter(against.parts))
    wanted = {dump.layer: against.of(part, dump.layer) for dump in dumps}
    width = _width(expected, [e.rotary.dim for e in wanted.values() if e.rotary is not None])
    layers, findings, remarks = [], [], [f"not seen: {UNSEEN}"]
    turned = arranged(dumps, width, f"{CALLER}: {source}")
    for layer, expectation in sorted(wanted.items()):
        own = {d.tensor: _turned(d, expectation.rotary) for d in turned if d.layer == layer}
        first = next(dump for dump in turned if dump.layer == layer)
        rows, tokens, *_ = first.before.shape
        seen = Seen(layer, {**own}, (tokens, tokens), rows)
        judged = judge(seen, expectation, Places(first.positions, None, stated=True))
        absent = dict.fromkeys(
            {*NAMES, "value", "output"} - own.keys(), TracedTensor(why="not seen")
        )
        layers.append(replace(judged.layer, **absent, mask="not seen"))  # type: ignore[arg-type]
        findings += judged.findings
        unseen += [text for text in judged.unseen if "no product with a weight" not in text]
        unseen += [f"layer {layer}: {n}, as no file holds it" for n in NAMES if n not in own]
        remarks += judged.remarks
    return Trace(
        tuple(layers), tuple(findings), expected=against.name,
        unseen=(*against.notes, *unseen), remarks=tuple(remarks),
    )  # fmt: skip


def _width(expected: Any, turning: list[int]) -> int | None:
    """The width of a head: that of a config where it says so, or that of what turns."""
    with contextlib.suppress(PosencError):
        about = facts(expected)
        own = (head_width(entry, about.config or {}) for entry in about.reading)
        turning = [*filter(None, own)] or turning
    return max(turning, default=None)


def _turned(dump: Dump, spec: RotarySpec | None) -> TensorTurns:
    """By how much each pair is turned, in the heads that are turned alike."""
    rows, tokens, heads, width = dump.before.shape
    x, y = (np.moveaxis(a, 2, 0).reshape(heads, -1, width) for a in (dump.before, dump.after))
    dtype = tolerances.seen(y)
    room = ROOM * tolerances.ROUNDING[dtype] + 1e-6
    usual = spec if spec is not None and spec.dim <= width else RoPE(width, pairing="half")

    positions = np.ravel(dump.positions)  # type: ignore[arg-type]

    def group(own: list[int]) -> tuple[HeadTurns, Any]:
        chosen, factors, left = of_rotations(usual, x[own], y[own])
        still = (np.abs(y[own] - x[own]) <= room * np.abs(x[own])).all()
        pairs, outputs = pairs_of(chosen, width)
        why = NEITHER if not still and np.median(left) > room else ""
        if still or why:
            pairs, outputs, factors = [], [], factors[:, :0]
        else:
            factors = _exact(chosen, factors, positions, (dtype, room))
        values = factors if chosen.channels.direction == "forward" else factors.conj()
        values = values.reshape(rows, tokens, len(pairs))
        turns = HeadTurns(
            tuple(own), tuple(pairs), tuple(outputs), values, np.ones((rows, tokens)), why
        )
        return turns, (left > room).any(axis=1)

    alike, odd = group([*range(heads)])
    groups = [alike]
    if odd.any():  # those by themselves, and the others without them
        several = [np.flatnonzero(~odd).tolist()] * (not odd.all())
        groups = [group(own)[0] for own in (*several, *np.flatnonzero(odd)[:, None].tolist())]
    whole = np.ones((rows, tokens), bool)
    return TensorTurns(width, groups, whole, dtype, np.arange(heads), pooled=False)


def _exact(
    spec: RotarySpec, factors: np.ndarray, positions: np.ndarray, dtype: tuple[str, float]
) -> np.ndarray:
    """The factors of the spec, or of one with one change, where rounding explains the others."""
    seen = PairTurns(positions, factors, int(positions.max(initial=0)) + 1, dtype[0])
    bases = [spec.replace(base=base) for base in BASES] if isinstance(spec, RoPE) else []
    others = (other for *_, other in variants(spec) if getattr(other, "pairs", 0) == spec.pairs)
    candidates: Any = (spec, *bases, *others)
    for candidate in candidates:
        with contextlib.suppress(PosencError, ArithmeticError):
            exact = expected_turns(candidate, seen)
            if exact.shape == factors.shape and np.all(
                np.abs(exact - factors) <= allowed(candidate, seen, 1.0) + dtype[1]
            ):
                return exact
    return factors
