"""What is not as expected in each attention of a run, from the turns and scores that were seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from posenc.detect.contract.comparison.fields import words
from posenc.detect.fit.tolerances import ROUNDING
from posenc.detect.trace.compared import (
    HeadReading,
    TensorFault,
    TurnQuestion,
    compare,
    located,
    of_pairs,
)
from posenc.detect.trace.expected import Expected, ExpectedPlaces, of_keys, of_queries, with_axes
from posenc.detect.trace.result import LayerFinding, TracedLayer, TracedTensor
from posenc.detect.trace.scores import SeenScores, by_distance, of_bias, window_of
from posenc.detect.trace.turned import TensorTurns

CLOSE, COARSE = 1e-3, 1.6e-2  # relative: scales that differ by more are others, in halves too
ROOM = 64.0  # roundings that a turn and its sums may make
MOST_ROUNDED = 0.1  # of the largest number: what is off by more was not rounded
ROUNDINGS = ("round", "floor", "ceil", "trunc")
GRID = "positions along its axes are not stated, and no angles of whole ones are seen"
TENSORS: Any = ("query", "key", "value", "output")
UNSTATED = "and nothing states what is meant"
HARMLESS = "which changes no score of a rotation"


@dataclass(eq=False)
class Seen:
    """All that was seen of one attention."""

    index: int
    tensors: dict[str, TensorTurns | None]  # by name; no value or output that passes
    tokens: tuple[int, int]  # queries, keys
    sequences: int
    scores: SeenScores | None = None  # None where nothing was seen of them
    path: str = ""
    call: int = 0
    cross: bool = False  # whether queries and keys are of two sequences
    past: int = 0  # tokens before the queries


class UnstatedScale(NamedTuple):
    """What the scores of a layer are multiplied by, where nothing states it."""

    total: float
    usual: float  # what its width and its rotation make it by themselves
    room: float  # relative: by how much it may be off


@dataclass(eq=False)
class Judgement:
    """What is to be said of one attention."""

    layer: TracedLayer
    findings: list[LayerFinding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    # What layers of a list do alike, where nothing states it: by tensor and field.
    habits: dict[tuple[Any, str], str] = field(default_factory=dict)
    scale: UnstatedScale | None = None  # likewise, in numbers

    def add(self, tensor: Any, fault: TensorFault) -> None:
        """A fault of a tensor."""
        self.findings.append(
            LayerFinding(
                self.layer.index, tensor, fault.heads, fault.pairs, fault.tokens,
                field=fault.field, expected=fault.expected, found=fault.seen,
            )
        )  # fmt: skip

    def leave(self, tensor: str, why: str) -> None:
        """Something that was not seen."""
        self.unseen.append(f"layer {self.layer.index}, {tensor}: {why}")


def judge(
    seen: Seen, expected: Expected, places: ExpectedPlaces, *, read: bool = False
) -> Judgement:
    """Hold an attention against what is expected of it; `read` of a config, which omits a scale."""
    questions, readings = _readings(seen, expected, places)
    if seen.past and not places.stated and _moved(readings["query"], questions["query"], seen.past):
        # Keys that are none of the tokens stand behind them, such as those of summaries.
        again = judge(replace(seen, past=0), expected, places, read=read)
        again.remarks.append(f"layer {seen.index}: {seen.past} keys stand for no token")
        return again
    traced: dict[str, Any] = {n: _traced(seen.tensors.get(n), readings[n]) for n in TENSORS}
    judged = Judgement(
        TracedLayer(
            seen.index,
            seen.path,
            seen.call,
            tokens=seen.tokens[0],
            heads=next((t.heads for t in seen.tensors.values() if t is not None), 0),
            **traced,
        )
    )
    for name in TENSORS:
        turned, reading = seen.tensors.get(name), readings[name]
        main = name in ("query", "key")
        if turned is None and main:
            judged.leave(name, "no product with a weight is behind it")
        if turned is None or reading is None:
            continue
        if reading.why.startswith("not compared"):
            judged.leave(name, reading.why)
        numbers = _of_numbers(turned, name) if main and questions[name].spec is not None else ()
        for fault in (*([] if turned.pooled else readings[f"{name} faults"]), *numbers):
            judged.add(name, fault)
        if main and (turned.normed or turned.behind):
            judged.habits[name, "norm"] = "after the turn" if turned.behind else "before the turn"
    if expected.missing and not seen.cross:
        judged.leave("query and key", "nothing is expected of this layer")
    if seen.scores is not None:
        _judge_scores(judged, seen, expected, read=read)
    return judged


def _readings(
    seen: Seen, expected: Expected, places: ExpectedPlaces
) -> tuple[dict[str, TurnQuestion], dict[str, Any]]:
    """What each tensor is held against, what most heads of it do, and its faults."""
    rotary = None if seen.cross else expected.rotary
    query = TurnQuestion(
        rotary, *_rows(seen, places, 1 if rotary is None else len(rotary.axes)), expected.others,
        still=expected.stated or seen.cross,
    )  # fmt: skip
    questions, readings = {"query": query}, dict[str, Any]()
    for name in TENSORS:
        if name == "key":
            questions["key"], own = _of_keys(seen, query, places), readings["query"]
            if not query.still and own is not None and own.spec is not None:
                # Keys are held against the queries.
                questions["key"] = questions["key"]._replace(spec=own.spec)
        elif name != "query":
            base = questions["key" if name == "value" else "query"]
            questions[name] = base._replace(spec=_turning(rotary, name), still=True)
        turned = seen.tensors.get(name)
        readings[name], readings[f"{name} faults"] = None, []
        if turned is not None and (
            places.unseen or turned.read.shape != questions[name].counted.shape
        ):
            still = "it is not turned, and " * (not turned.groups[0].pairs)
            why = still + GRID if places.unseen else "its tokens are not those of the inputs"
            readings[name] = HeadReading(turned.groups[0], why=f"not compared: {why}")
        elif turned is not None:
            readings[name], readings[f"{name} faults"] = compare(turned, questions[name])
    return questions, readings


def _turning(spec: Any, name: str) -> Any:
    """The turn of values or the output, for a spec that has them among its targets."""
    if spec is None or {"value": "v", "output": "out"}[name] not in spec.channels.targets:
        return None
    if name == "value":
        return spec
    return spec.replace(pairing=spec.channels.replace(direction="backward"))


def _moved(reading: HeadReading | None, question: TurnQuestion, by: int) -> bool:
    """Whether queries stand so many positions before where they are expected."""
    if reading is None or reading.places is None or not question.counted.any():
        return False
    return bool((question.places - reading.places == by)[question.counted].all())


def _rows(seen: Seen, places: ExpectedPlaces, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of queries, and which are no padding."""
    own = of_queries(places, seen.sequences, seen.tokens[0], seen.past, axes)
    padding = None if places.padding is None else places.padding[:, -seen.tokens[0] :]
    fits = padding is not None and padding.shape == own.shape[:2]
    return own, ~padding if fits else np.ones(own.shape[:2], bool)  # type: ignore[operator]


def _of_keys(seen: Seen, question: TurnQuestion, places: ExpectedPlaces) -> TurnQuestion:
    """The same of keys."""
    turned = seen.tensors.get("key")
    shape = seen.sequences, seen.tokens[1]
    counted = np.ones(shape, bool)
    if turned is None or seen.cross:
        axes = question.places.shape[-1] if question.places.ndim > 2 else 1
        line = with_axes(np.broadcast_to(np.arange(seen.tokens[1]), shape), axes)
        return question._replace(places=line, counted=counted)
    if not seen.past and seen.tokens[1] > seen.tokens[0]:
        counted[:, seen.tokens[0] :] = False
    keys = of_keys(question.places, np.broadcast_to(turned.read, shape) & counted)
    if places.padding is not None and places.padding.shape == shape:
        counted = counted & ~places.padding
    return question._replace(places=keys, counted=counted)


def grid(seen: Seen, expected: Expected) -> np.ndarray | None:
    """The positions of queries along several axes, as their angles tell them."""
    turned, spec = seen.tensors.get("query"), expected.rotary
    if turned is None or spec is None or seen.cross:
        return None
    rows, counted = _rows(seen, ExpectedPlaces(), len(spec.axes))
    question = TurnQuestion(
        spec, 0 * rows, counted & turned.read, dtype=turned.dtype, width=turned.width
    )
    values = of_pairs(turned.groups[0], spec, question) if turned.groups[0].pairs else None
    return None if values is None else located(spec, values, question, question.counted)


def _traced(turned: TensorTurns | None, reading: HeadReading | None) -> TracedTensor:
    """What a tensor went through, for people."""
    if turned is None or reading is None:
        return TracedTensor()
    group = reading.group
    sizes = np.abs(group.values) if group.pairs else group.passing
    sizes = sizes[turned.read] if sizes.shape[:2] == turned.read.shape else sizes
    return TracedTensor(
        reading.spec, positions=reading.places, pairs=len(group.pairs),
        passing=turned.width - 2 * len(group.pairs),
        factor=float(np.median(sizes)) if sizes.size else 1.0,
        heads=tuple(sorted({*range(turned.heads)} - {*group.heads})), dtype=turned.dtype,
        why="; ".join(filter(None, (reading.why, turned.behind))),
    )  # fmt: skip


def _of_numbers(turned: TensorTurns, name: str) -> Iterator[TensorFault]:
    """Faults of tokens, of numbers that were rounded, and of heads."""
    if turned.pooled:
        yield TensorFault("tokens", "each token by itself", f"each {name} mixes several tokens")
    elif turned.behind.endswith(ROUNDINGS):
        yield TensorFault("dtype", turned.dtype, "rounded after the turn")
    elif ROOM * ROUNDING.get(turned.dtype, 0.0) < turned.residual < MOST_ROUNDED:
        yield TensorFault(
            "dtype", turned.dtype, "rounded after the turn: numbers that are off by "
            f"{turned.residual:.2g} of the largest",
        )  # fmt: skip
    moved = np.flatnonzero(turned.starts != np.sort(turned.starts))
    if len(moved):
        ranks = np.unique(turned.starts, return_inverse=True)[1][moved]
        yield TensorFault(
            "heads", "in the order of the projection",
            f"in the order {words(tuple(ranks.tolist()))}", tuple(moved.tolist()),
        )  # fmt: skip


# --- scores ---------------------------------------------------------------------------------------


def _judge_scores(judged: Judgement, seen: Seen, expected: Expected, *, read: bool) -> None:
    """Scale, bias, window and mask of an attention."""
    scores: Any = seen.scores
    # Keys behind the tokens are none of them.
    ends = seen.tokens[0] if not seen.past and not seen.cross else None
    window, mask = window_of(scores.visible[..., :ends])
    if count := _unread(seen, scores):
        judged.leave("key", f"{count} keys, because they come from no product of this run")
    if not seen.cross:
        _judge_scale(judged, seen, expected, read=read)
        for fault in _biased(seen, scores, expected):
            judged.add("scores", fault)
        reach = expected.window if (expected.window or seen.tokens[1]) < seen.tokens[1] else None
        if expected.windows_stated and window != reach:
            judged.add("mask", TensorFault("window", words(reach), words(window)))
    judged.habits["mask", "mask"] = mask.partition(",")[0]
    judged.habits["scores", "cap"] = "none" if scores.cap is None else f"{scores.cap:.3g}"
    bias = [
        *["numbers that depend on the position"] * (scores.bias is not None),
        *[f"{scores.others} products of their own"] * bool(scores.others),
    ]
    judged.layer = replace(
        judged.layer,
        scale=None if math.isnan(scores.scale) else scores.scale,
        bias=" and ".join(bias),
        window=window,
        mask=mask,
    )


def _judge_scale(judged: Judgement, seen: Seen, expected: Expected, *, read: bool) -> None:
    """The scale of scores, with the factors of queries and keys."""
    scores: Any = seen.scores
    turned = [(seen.tensors.get(n), getattr(judged.layer, n)) for n in ("query", "key")]
    total = math.prod(
        (1.0 if own is None or own.sized else traced.factor for own, traced in turned),
        start=scores.scale,
    )
    width = next((own.width for own, _ in turned if own is not None), 1)
    spec: Any = expected.rotary
    usual = width**-0.5 if expected.scale is None else expected.scale
    if spec is not None and spec.plain and not spec.needs_length:
        usual *= spec.attention_factor**2 * spec.logit_factor
    if expected.tempered or (spec is None and expected.bias is None and not read):
        return
    coarse = any(own is not None and own.dtype in ("bfloat16", "float16") for own, _ in turned)
    room = COARSE if coarse else CLOSE
    if math.isnan(total):
        judged.leave("scores", "their scale, because no key is seen, or its numbers are NaN")
    elif expected.scale is None and read and total:
        judged.scale = UnstatedScale(total, usual, room)
    elif abs(total / usual - 1) > room:
        judged.add("scores", TensorFault("scale", f"{usual:.6g}", f"{total:.6g}"))


def _unread(seen: Seen, scores: SeenScores) -> int:
    """How many keys some query sees that come from no product of this run."""
    key = seen.tensors.get("key")
    visible = scores.visible.any(axis=(1, 2))
    if key is None or key.pooled or not key.read.any() or visible.shape[-1] != key.read.shape[-1]:
        return 0
    return int((visible & ~key.read).any(axis=0).sum())


def _biased(seen: Seen, scores: SeenScores, expected: Expected) -> list[TensorFault]:
    """Faults of what is added to the scores."""
    if expected.bias is not None and len(expected.bias.axes) == 1:
        queries = np.arange(seen.past, seen.past + seen.tokens[0])
        return of_bias(scores, expected.bias, queries, np.arange(seen.tokens[1]))
    quiet = expected.bias is not None or expected.relative or not expected.stated
    fault = TensorFault("bias", "none", "numbers that depend on the distance of query and key")
    return [fault] * (not quiet and by_distance(scores))


# --- layers of a list -----------------------------------------------------------------------------


def compare_layers(stacks: Mapping[Any, Sequence[Judgement]], *, read: bool, stated: bool) -> None:
    """Find layers that differ from most of their list; what all do alike becomes a remark."""
    for layers in stacks.values():
        _compare_habits(layers)
        _compare_scales([one for one in layers if one.scale is not None])
        findings = [finding for one in layers for finding in one.findings]
        alike = Counter(replace(finding, layer=0) for finding in findings)
        shifts = Counter(finding.found for finding in findings if _shifts(finding))
        excuses = {
            finding: HARMLESS for finding in findings  # of queries and keys
            if _shifts(finding) and shifts[finding.found] == 2 * len(layers) and not stated
        } | {
            finding: UNSTATED for finding in findings
            if finding.field == "heads" and alike[replace(finding, layer=0)] == len(layers) and read
        }  # fmt: skip
        for one in layers:
            one.remarks += dict.fromkeys(
                f"all {len(layers)} layers, {str(finding).partition(', ')[2]}, {excuses[finding]}"
                for finding in one.findings if finding in excuses
            )  # fmt: skip
            one.findings = [finding for finding in one.findings if finding not in excuses]


def _compare_habits(layers: Sequence[Judgement]) -> None:
    """What a layer does otherwise than most of its list."""
    for key in dict.fromkeys(key for one in layers for key in one.habits):
        every = [one.habits.get(key, "none") for one in layers]
        ((usual, most),) = Counter(every).most_common(1)
        for one, own in zip(layers, every, strict=True):
            if own != usual and 2 * most > len(layers):
                one.add(key[0], TensorFault(key[1], usual, own))


def _compare_scales(layers: Sequence[Judgement]) -> None:
    """What most layers of a list have: the same scale, or the same multiple of what is usual.

    Where widths differ these are two; it is the one from which fewer layers differ.
    """
    totals, usual, rooms = np.array([one.scale for one in layers]).reshape(-1, 3).T
    options = []
    for units in (np.ones_like(usual), usual) if layers else ():
        middle = np.median(totals / units)  # that of most, where most have one
        options.append((np.abs(totals / units - middle) > rooms * abs(middle), middle * units))
    odd, wanted = min(options, key=lambda pair: pair[0].sum(), default=(np.zeros(0, bool), ()))
    for number in np.flatnonzero(odd & (2 * odd.sum() < len(odd))).tolist():
        layers[number].add(
            "scores", TensorFault("scale", f"{wanted[number]:.6g}", f"{totals[number]:.6g}")
        )


def _shifts(finding: LayerFinding) -> bool:
    """Whether all positions are moved by a number."""
    return finding.field == "positions" and finding.found.startswith("position p ")
