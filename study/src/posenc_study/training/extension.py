"""What the rules of `posenc extend` do to a trained model, and whether its numbers foretell it.

Every rule that `posenc.extend` offers for plain rotations is put into the trained model, as
it stands, and the model reads texts of 2, 4 and 8 times the trained length. Rules with the same
angles are one rule: at a fixed length dynamic NTK is NTK.

    nats-<n>L.<rule>   bucket kL: mean over positions (k - 1/2) L to k L of texts of n L characters
    nats-last.<rule>   bucket nL: mean over the last 32 characters of these texts
    rank-<indicator>   bucket nL: rank correlation, over the rules, of a number of the planner with
                       the loss of the last characters; 1 where less of it is always less loss
    rank-within        the same for `short` and the loss of the first L characters, without the
                       unchanged model, whose `short` is 0 and which was trained for them
    regret             bucket nL: nats of the last characters under the rule that the planner
                       recommends, above those of the best other rule

The indicators are those of `posenc.detect.extend.Effect`, with `change` as `short`, and `order`,
that of the planner: by whether any pair is unseen, then by lost pairs, then by `change`.
An indicator that is the same for all rules ranks none, and has no row.

An encoding other than RoPE has no rules. Its model reads the same texts as it stands, and its rows
are those of the rule `none`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.detect.extend import Baseline, TriedRule
from posenc.detect.extend.options import layer_extension, recommended
from posenc.encodings.rotary.rope import RoPE
from posenc.functional import frequencies
from posenc_study.model.inputs import Tokens
from posenc_study.model.transformer import Transformer
from posenc_study.statistics import rank_correlation
from posenc_study.tasks.base import Batch
from posenc_study.tasks.text_lm import LAST
from posenc_study.training.run import Run

SCORES = 2**23  # of one call, all heads together
DIGITS = 6

INDICATORS: dict[str, Callable[[TriedRule], Any]] = {
    "unseen": lambda rule: rule.effect.unseen,
    "arc": lambda rule: rule.effect.arc,
    "lost": lambda rule: rule.effect.lost,
    "short": lambda rule: rule.effect.change,
    "order": lambda rule: (rule.effect.unseen > 0, rule.effect.lost, rule.effect.change),
}


def distinct(spec: Any, trained: int, length: int) -> tuple[tuple[TriedRule, ...], str]:
    """The rules for a rotation that differ at a length, and the recommended one."""
    layer = layer_extension("text", Baseline(spec, trained), length, window=False)
    rules: list[TriedRule] = []
    for rule in layer.options:
        if not any(_same(rule.spec, other.spec) for other in rules):
            rules.append(rule)
    return tuple(rules), recommended((layer,), trained, length)[0]


def _same(one: Any, other: Any) -> bool:
    near = np.allclose(frequencies(one), frequencies(other), rtol=1e-4, atol=0)
    return near and one.attention_factor == other.attention_factor


@torch.no_grad()
def compared(run: Run) -> list[dict[str, Any]]:
    """The rows of a trained model, for each length that is longer than the trained one."""
    trained = run.task.length
    spec = run.encoding.make(run.sizes, True)
    rows: list[dict[str, Any]] = []
    for test in run.task.tests():
        if test.length == trained:
            continue
        (batch,) = test.batches
        if isinstance(spec, RoPE):
            rules, best = distinct(spec, trained, test.length)
            nats = {rule.name: _nats(_under(run, rule.spec), batch) for rule in rules}
        else:
            rules, best, nats = (), "", {"none": _nats(run.model, batch)}
        last = {name: float(along[-LAST:].mean()) for name, along in nats.items()}
        measured: dict[str, float | None] = {f"nats-last.{n}": last[n] for n in last}
        for name, value in INDICATORS.items():
            measured[f"rank-{name}"] = _rank(rules, value, [last[rule.name] for rule in rules])
        changed = [rule for rule in rules if rule.name != "none"]
        within = [float(nats[rule.name][:trained].mean()) for rule in changed]
        measured["rank-within"] = _rank(changed, INDICATORS["short"], within)
        others = [value for name, value in last.items() if name != best]
        measured["regret"] = last[best] - min(others) if rules else None
        for metric, number in measured.items():
            if number is not None:
                rows.append(_row(metric, test.bucket, test.length, number))
        for name, along in nats.items():
            for k, part in enumerate(along.view(-1, trained // 2).mean(dim=1).tolist(), 1):
                metric = f"nats-{test.bucket}.{name}"
                rows.append(_row(metric, f"{k / 2:g}L", k * trained // 2, part))
    return rows


def _row(metric: str, bucket: str, length: int, value: float) -> dict[str, Any]:
    return {"metric": metric, "bucket": bucket, "length": length, "value": round(value, DIGITS)}


def _rank(
    rules: Sequence[TriedRule], indicator: Callable[[TriedRule], Any], nats: Sequence[float]
) -> float | None:
    values = [indicator(rule) for rule in rules]
    places = sorted(set(values))
    return rank_correlation([places.index(value) for value in values], nats)


def _under(run: Run, spec: Any) -> Transformer:
    """The trained model with another rotation."""
    scheme = replace(run.encoding, make=lambda sizes, causal: spec).scheme(run.sizes)  # noqa: ARG005
    model = Transformer(run.task.shape, scheme, seed=run.cell.seed)
    model.load_state_dict(run.model.state_dict())
    return model.eval()


def _nats(model: Transformer, batch: Batch) -> Tensor:
    """The mean loss at each position, (seq,) float64."""
    ids, answers = batch.target.ids, batch.answers
    count = max(1, SCORES // (model.shape.heads * ids.shape[1] ** 2))
    parts = [
        functional.cross_entropy(
            model(Tokens(ids[i : i + count])).transpose(1, 2),
            answers[i : i + count],
            reduction="none",
        ).double()
        for i in range(0, len(ids), count)
    ]
    return torch.cat(parts).mean(dim=0)
