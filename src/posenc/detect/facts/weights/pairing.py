"""Half or interleaved: what the config says, what the weights say, what a probe says."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from posenc._core.errors import DataError
from posenc._core.grouping import grouped
from posenc._core.io.checkpoints import Checkpoint
from posenc._core.reading import Reading
from posenc._core.spec.answers import Displayed
from posenc.detect.facts.fact import Contradiction, Fact, FactSource
from posenc.detect.facts.weights.evidence import Evidence, Measure, measured, summed, total
from posenc.detect.facts.weights.heads import RECORDED, Projections, read_model, recorded_pairing
from posenc.detect.facts.weights.projections import find

THRESHOLD = 4.5  # z value from which weights are believed
OPPOSED = 2.5  # z value of the other statistic that withdraws the claim
DOUBT = 3.0  # z value of another width that withdraws it
BLOCKS = 1.5  # z value of two blocks that withdraws interleaved
GAP = 0.05  # nats by which the loss of one pairing must be lower
MOST_SHOWN = 4  # layers
STATE = (
    f"Weights are believed from |z| = {THRESHOLD} on. State what is stored by --stored half or "
    "interleaved (`layout=Projections(stored=)`); to tools that read a config, by --pairing."
)
Answer = Literal["half", "interleaved", "unknown"]


@dataclass(frozen=True)
class PairingFinding(Displayed):
    """What is known about the pairing of a checkpoint, and from where.

    Parameters
    ----------
    pairing : {"half", "interleaved", "unknown"}
        The answer.
    decided_by : {"probe", "record", "config", "weights", "nothing"}
        What the answer rests on.
    stated : str
        The pairing that a record or the config states; empty where neither does.
    source : str
        Where it is stated, in words.
    weights : Evidence
        z values of the weights: positive for half, negative for interleaved.
    claim : {"half", "interleaved", "unknown"}
        What the weights alone say.
    losses : mapping of str to float
        What the probe measured.
    why : str
        The answer in a sentence.
    """

    pairing: Answer
    decided_by: Literal["probe", "record", "config", "weights", "nothing"]
    stated: str
    source: str
    weights: Evidence
    claim: Answer
    losses: dict[str, float]
    why: str

    def __str__(self) -> str:
        z, stated = self.weights, f"{self.stated}, by {self.source}" if self.stated else "nothing"
        measured = f"similarity z {z.similarity:+.1f}, balance z {z.balance:+.1f}"
        return (
            f"{self.pairing}: {self.why}\n"
            f"  stated: {stated}\n"
            f"  weights: {self.claim}; {measured}, {z.groups} groups of heads\n"
            f"  (z above 0 speaks for half, below 0 for interleaved; it counts from {THRESHOLD} on)"
        )

    @property
    def contradiction(self) -> Contradiction | None:
        """What is stated against what the weights say, where these exclude each other."""
        if not self.stated or self.pairing != "unknown":
            return None
        origin: FactSource = "stamp" if "record" in self.source else "config"
        one = Fact("pairing", self.stated, source=origin, rests_on=self.source)
        return Contradiction(one, self.facts[0], STATE, self.why)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the weights alone say, as a fact."""
        z = (f"{name} z {getattr(self.weights, name):.1f}" for name in ("similarity", "balance"))
        return (
            Fact(
                "pairing",
                self.claim,
                source="weights",
                rests_on=f"the weights of {self.weights.groups} groups of heads, {', '.join(z)},",
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "pairing": self.pairing,
            "decided_by": self.decided_by,
            "stated": self.stated,
            "source": self.source,
            "weights": {**self.weights._asdict(), "threshold": THRESHOLD, "claim": self.claim},
            "losses": self.losses,
            "why": self.why,
        }


def examined(
    checkpoint: Checkpoint,
    plan: Reading,
    layout: Projections,
    caller: str,
    *,
    most: int | None = None,
    losses: Mapping[str, float] = MappingProxyType({}),
) -> PairingFinding:
    """What a record or the plan states, against the weights: all, or that many groups of heads.

    `DataError` is raised where names or widths are not understood, or the plan leaves them open.
    """
    layout = layout._replace(stored=None)
    stated = ("", "", "nothing")  # the pairing, where it is stated, and which of the two says so
    if (recorded := recorded_pairing(checkpoint, layout, caller)) is not None:
        stated = (recorded, RECORDED, "record")
    else:
        with contextlib.suppress(DataError):  # it comes again, if it is not the pairing alone
            model = read_model(checkpoint, plan, layout._replace(rope=None), caller)
            stated = (model.order, model.source, "config") if model.order else stated
    attentions = find(checkpoint, read_model(checkpoint, plan, layout, caller), caller)
    return weighed(*stated, measured(attentions, most=most), dict(losses))


# --- weighing -------------------------------------------------------------------------------------


def claimed(weights: Evidence) -> Answer:
    """What the weights alone say: one statistic beyond its threshold, and nothing against it."""
    both = (weights.similarity, weights.balance)
    z, other = both if abs(both[0]) >= THRESHOLD else both[::-1]
    opposed = z * other < 0 and abs(other) >= OPPOSED
    if doubted(weights) or opposed or not abs(z) >= THRESHOLD:
        return "unknown"
    return "half" if z > 0 else "interleaved"


def doubted(weights: Evidence) -> str:
    """A sentence, where the weights look like heads of another width; else an empty text."""
    for name in ("narrower", "wider"):
        if (z := getattr(weights, name)) >= DOUBT:
            return f"the channels that turn look {name} than was stated (z = {z:.1f})"
    if weights.similarity < 0 and weights.blocks >= BLOCKS:
        return f"each head looks like two (z = {weights.blocks:.1f})"
    return ""


def _divided(measures: Mapping[str, list[Measure]], stated: str) -> str:
    """A sentence, where layers, or queries and keys, say two things, or one says another thing.

    Of more layers more are far from 0 by chance, so the threshold rises with their number.
    """
    bound = math.sqrt(THRESHOLD**2 + 2 * math.log(max(1, len(measures))))
    layers = {name: total([m.similarity for m in own]) for name, own in measures.items()}
    sides = {
        name: total([getattr(m, name) for own in measures.values() for m in own])
        for name in ("queries", "keys")
    }
    for parts in (layers, sides):
        orders = grouped(
            ("half" if z > 0 else "interleaved", f"{name} {z:.1f}")
            for name, z in parts.items()
            if abs(z) >= bound
        )
        if len(orders) == 2 or (stated and parts is layers and orders and stated not in orders):
            sentences = (
                f"{', '.join(names[:MOST_SHOWN])}{' …' if len(names) > MOST_SHOWN else ''}"
                f" look {order}"
                for order, names in orders.items()
            )
            return f"by their similarity z {', '.join(sentences)}"
    return ""


def weighed(
    stated: str,
    source: str,
    origin: Any,
    measures: Mapping[str, list[Measure]],
    losses: dict[str, float],
) -> PairingFinding:
    """What is stated, against what the weights say and what a probe has measured."""
    weights = summed([m for own in measures.values() for m in own])
    claim = claimed(weights)
    figures = (
        f"similarity z = {weights.similarity:.1f}, balance z = {weights.balance:.1f} over "
        f"{weights.groups} groups of heads"
        if weights.groups
        else "no head of queries or keys could be measured"
    )
    divided = _divided(measures, stated)
    figures = "; ".join(filter(None, (figures, doubted(weights), divided)))
    claim = "unknown" if divided and claim == stated else claim

    def answer(pairing: Any, by: Any, why: str) -> PairingFinding:
        return PairingFinding(pairing, by, stated, source, weights, claim, losses, why)

    if losses:
        gap = losses["interleaved"] - losses["half"]
        if abs(gap) >= GAP:
            best = "half" if gap > 0 else "interleaved"
            others = {stated, claim} - {"", "unknown", best}
            against = f", against what is {'stated' if best != stated else 'measured'}"
            why = f"the loss is {abs(gap):.2f} nats lower with {best}"
            return answer(best, "probe", why + (against if others else ""))
    sign = -1 if stated == "interleaved" else 1
    worst, best_z = sorted((sign * weights.similarity, sign * weights.balance))
    if stated and (divided or (worst <= -THRESHOLD and best_z < -worst)):
        against = "half" if sign < 0 else "interleaved"
        say = "two things" if divided and claim != against else against
        why = (
            f"{source} says {stated}, the weights say {say} ({figures}): the weights may have been "
            "permuted, or the config may be that of another model; a loss probe settles it"
        )
        return answer("unknown", "nothing", why)
    if stated:
        agree = "agree" if claim == stated else "do not tell"
        return answer(stated, origin, f"stated by {source}; the weights {agree} ({figures})")
    if claim != "unknown":
        return answer(
            claim, "weights", f"the weights say so ({figures}), which is evidence and no proof"
        )
    silent = f"the weights do not tell ({figures})"
    tie = f"nothing states it, {silent}, and the losses of both are equally good"
    asked = f"nothing states it, and {silent}; a loss probe settles it"
    return answer("unknown", "nothing", tie if losses else asked)
