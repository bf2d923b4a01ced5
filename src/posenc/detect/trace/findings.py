"""What is not as expected in each attention of a run, from the turns and scores that were seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc.detect.contract.comparison.fields import words
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.biases import by_distance, of_bias
from posenc.detect.trace.compared import Fault, Question, Result, compare
from posenc.detect.trace.expected import Expected
from posenc.detect.trace.places import Places, of_keys, of_queries, with_axes
from posenc.detect.trace.result import Finding, TensorName, TracedLayer, TracedTensor
from posenc.detect.trace.scores import Scores, window_of
from posenc.detect.trace.turned import TensorTurns

CLOSE = 1e-3  # relative: scales that differ by more are others
ROOM = 64.0  # roundings that a turn and its sums may make
MOST_ROUNDED = 0.1  # of the largest number: what is off by more was not rounded
ROUNDINGS = ("round", "floor", "ceil", "trunc")


@dataclass(eq=False)
class Seen:
    """All that was seen of one attention."""

    index: int
    path: str
    call: int
    query: TensorTurns | None
    key: TensorTurns | None
    value: TensorTurns | None
    output: TensorTurns | None
    scores: Scores | None  # None where nothing was seen of them
    width: int
    tokens: tuple[int, int]  # queries, keys
    sequences: int
    cross: bool = False
    past: int = 0
    missing: tuple[str, ...] = ()  # what was not seen of it
    dtype: str = "float32"
    heads: int = 0
    others: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Told:
    """What is to be said of one attention."""

    layer: TracedLayer
    findings: list[Finding]
    unseen: list[str]
    remarks: list[str]


def told(seen: Seen, expected: Expected, places: Places) -> Told:
    """Hold an attention against what is expected of it."""
    findings: list[Finding] = []
    unseen = [f"layer {seen.index}: {text}" for text in seen.missing]
    remarks: list[str] = []
    rotary = None if seen.cross else expected.rotary
    axes = 1 if rotary is None else len(rotary.axes)
    question = Question(
        rotary, *_rows(seen, places, axes), expected.others, known=expected.known or seen.cross
    )
    query, faults_q, result_q = _tensor(seen.query, question)
    spec = result_q.spec if rotary is None and not expected.known and not seen.cross else rotary
    if spec is not None and rotary is None:  # keys are held against the queries
        question = question._replace(spec=spec, known=True)
    if seen.past and result_q.shift == -seen.past and not places.stated:
        # Keys that are none of the tokens stand behind them, such as those of summaries.
        beyond = seen.past
        again = told(dataclasses.replace(seen, past=0), expected, places)
        again.remarks.append(f"layer {seen.index}: {beyond} keys are none of the tokens")
        return again
    key_question = _of_keys(seen, question, places)
    key, faults_k, result_k = _tensor(seen.key, key_question)
    if result_q.shift or result_k.shift:
        text = _shifted(result_q, result_k, places)
        if text:
            remarks.append(f"layer {seen.index}: {text}")
        else:
            faults_q += _shift_fault(result_q)
            faults_k += _shift_fault(result_k)
    still = Question(None, question.places, question.counted, known=True)
    value, faults_v, _ = _tensor(seen.value, _of_keys(seen, still, places))
    output, faults_o, _ = _tensor(seen.output, still)
    for name, faults in (
        ("query", faults_q), ("key", faults_k), ("value", faults_v), ("output", faults_o)
    ):  # fmt: skip
        findings += [_finding(seen.index, name, fault) for fault in faults]  # type: ignore[arg-type]
    for name, turned, traced in (("query", seen.query, query), ("key", seen.key, key)):
        if turned is None:
            unseen.append(f"layer {seen.index}, {name}: no product with a weight is behind it")
        elif traced.why.startswith("not compared"):
            unseen.append(f"layer {seen.index}, {name}: {traced.why}")
        elif turned is not None:
            kept = rotary is not None or expected.known is False
            findings += [_finding(seen.index, name, f) for f in _of_numbers(turned, name) if kept]  # type: ignore[arg-type]
    unseen += [f"layer {seen.index}, key: {text}" for text in _unread(seen)]
    layer = TracedLayer(
        seen.index, seen.path, seen.call, query=query, key=key, value=value, output=output,
        heads=seen.heads,
    )  # fmt: skip
    if seen.scores is not None:
        window, mask = window_of(seen.scores.visible)
        findings += _of_scores(seen, expected, query, key, window)
        layer = replace(
            layer, scale=seen.scores.scale, bias=_bias(seen.scores), window=window, mask=mask
        )
    return Told(layer, findings, unseen, remarks)


def _rows(seen: Seen, places: Places, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of queries, and which are no padding."""
    own = of_queries(places, seen.sequences, seen.tokens[0], seen.past, axes)
    counted = np.ones(own.shape[:2], bool)
    if places.padding is not None and places.padding.shape[0] == seen.sequences:
        padding = places.padding[:, -seen.tokens[0] :]
        if padding.shape[1] == seen.tokens[0]:
            counted = ~padding
    return own, counted


def _of_keys(seen: Seen, question: Question, places: Places) -> Question:
    turned = seen.key
    if turned is None or seen.cross:
        line = np.broadcast_to(np.arange(seen.tokens[1]), (seen.sequences, seen.tokens[1]))
        axes = question.places.shape[-1] if question.places.ndim > 2 else 1
        return question._replace(places=with_axes(line, axes), counted=np.ones(line.shape, bool))
    read = turned.read
    if len(read) != len(question.places):
        read = np.broadcast_to(read[:1], (len(question.places), read.shape[1]))
    counted = np.ones(read.shape, bool)
    if not seen.past and seen.tokens[1] > seen.tokens[0]:
        counted[:, seen.tokens[0] :] = False
        read = read & counted
    keys = of_keys(question.places, read)
    if places.padding is not None and places.padding.shape == counted.shape:
        counted = ~places.padding
    return question._replace(places=keys, counted=counted)


def _unread(seen: Seen) -> Iterator[str]:
    """Keys that some query sees, and that come from no product of this run."""
    if seen.key is None or seen.scores is None or not seen.key.read.any():
        return
    visible = seen.scores.visible.any(axis=(1, 2))
    if visible.shape[-1] != seen.key.read.shape[-1]:
        return
    count = int((visible & ~seen.key.read).any(axis=0).sum())
    if count:
        yield f"{count} keys, because they were in a cache before the run"


def _tensor(
    turned: TensorTurns | None, question: Question
) -> tuple[TracedTensor, list[Fault], Result]:
    """What a tensor went through, and its faults."""
    if turned is None:
        return TracedTensor(), [], Result()
    if turned.read.shape != question.counted.shape:
        why = "not compared: its tokens are not those of the inputs"
        return TracedTensor(why=why, dtype=turned.dtype), [], Result(why=why)
    main, faults = compare(turned, question)
    if turned.pooled:
        faults = []  # its tokens cannot be told apart
    result = main.result
    every = {head for group in turned.groups for head in group.heads}
    turning = 2 * len(main.group.pairs)
    sizes = np.abs(main.values[turned.read]) if main.group.pairs else main.passing[turned.read]
    places = result.places if result.spec is not None else None
    traced = TracedTensor(
        result.spec, positions=places, pairs=len(main.group.pairs),
        passing=turned.width - turning, factor=float(np.median(sizes)) if sizes.size else 1.0,
        heads=tuple(sorted(every - {*main.heads})), dtype=turned.dtype,
        why="; ".join(filter(None, (result.why, turned.behind))),
    )  # fmt: skip
    return traced, faults, result


def _shift_fault(result: Result) -> list[Fault]:
    if not result.shift:
        return []
    sign = "+" if result.shift > 0 else "-"
    return [Fault("positions", "position p", f"position p {sign} {abs(result.shift)}")]


def _shifted(query: Result, key: Result, places: Places) -> str:
    """What is said of a shift that changes no score, as where a row is padded on the left."""
    if query.shift != key.shift or places.stated or places.padding is None:
        return ""
    return f"all positions are moved by {query.shift}, which changes no score of a rotation"


def _of_numbers(turned: TensorTurns, name: str) -> Iterator[Fault]:
    """Faults that no graph shows: numbers that are other than the map makes of its inputs."""
    if turned.pooled:
        yield Fault("tokens", "each token by itself", f"each {name} mixes several tokens")
    elif turned.behind.endswith(ROUNDINGS):
        yield Fault("dtype", turned.dtype, "rounded after the turn")
    elif ROOM * ROUNDING.get(turned.dtype, 0.0) < turned.residual < MOST_ROUNDED:
        off = f"numbers that are off by {turned.residual:.2g} of the largest"
        yield Fault("dtype", turned.dtype, f"rounded after the turn: {off}")
    order = np.argsort(turned.starts, kind="stable")
    if (np.diff(turned.starts[turned.starts < np.iinfo(int).max]) < 0).any():
        moved = np.flatnonzero(turned.starts != turned.starts[order])
        ranks = np.unique(turned.starts, return_inverse=True)[1]
        text = ", ".join(str(ranks[h]) for h in moved[:8].tolist())
        yield Fault("heads", "in the order of the projection", f"in the order {text}",
                    tuple(moved.tolist()))  # fmt: skip


def _finding(index: int, name: TensorName, fault: Fault) -> Finding:
    return Finding(
        index, name, fault.heads, fault.pairs, fault.tokens,
        field=fault.field, expected=fault.expected, found=fault.found,
    )  # fmt: skip


# --- scores ---------------------------------------------------------------------------------------


def _bias(scores: Scores) -> str:
    parts = ["numbers that depend on the position"] if scores.bias is not None else []
    parts += [f"{scores.others} products of their own"] if scores.others else []
    return " and ".join(parts)


def _of_scores(
    seen: Seen, expected: Expected, query: TracedTensor, key: TracedTensor, window: int | None
) -> Iterator[Finding]:
    scores = seen.scores
    if scores is None:
        return
    total = scores.scale
    for turned, traced in ((seen.query, query), (seen.key, key)):
        total *= 1.0 if turned is None or turned.sized else traced.factor
    spec: Any = expected.rotary
    usual = seen.width**-0.5 if expected.scale is None else expected.scale
    if spec is not None and spec.plain and not spec.needs_length:
        usual *= spec.attention_factor**2 * spec.logit_factor
    known = expected.scale is not None or spec is not None or expected.bias is not None
    # With a norm of queries or keys any scale may be meant that nothing states.
    known &= expected.scale is not None or not any(
        t is not None and t.normed for t in (seen.query, seen.key)
    )
    off = abs(total / usual - 1) if usual and total else 0.0
    if known and not seen.cross and not expected.tempered and off > CLOSE * _coarse(seen.dtype):
        yield Finding(
            seen.index, "scores", field="scale", expected=f"{usual:.6g}", found=f"{total:.6g}"
        )
    if not seen.cross:
        yield from (
            _finding(seen.index, "scores", fault) for fault in _biased(seen, scores, expected)
        )
    if expected.windows_known and not seen.cross:
        reach = seen.tokens[1]
        wanted = expected.window if expected.window and expected.window < reach else None
        if wanted != window and not (window is None and wanted is None):
            yield Finding(
                seen.index, "mask", field="window", expected=words(wanted),
                found=words(window),
            )  # fmt: skip


def _biased(seen: Seen, scores: Scores, expected: Expected) -> list[Fault]:
    """Faults of what is added to the scores."""
    if expected.bias is not None and len(expected.bias.axes) == 1:
        queries = np.arange(seen.past, seen.past + seen.tokens[0])
        return of_bias(scores, expected.bias, queries, np.arange(seen.tokens[1]))
    quiet = expected.bias is not None or expected.relative or not expected.known
    if quiet or not by_distance(scores):
        return []
    return [Fault("bias", "none", "numbers that depend on the distance of query and key")]


def _coarse(dtype: str) -> float:
    return 16.0 if dtype in ("bfloat16", "float16") else 1.0
