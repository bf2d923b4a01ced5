"""Half or interleaved: what the config says, what the weights say, what a probe says."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, DataError, mismatch
from posenc._core.io.checkpoints import Checkpoint, open_checkpoint
from posenc._core.spec.display import Displayed
from posenc.detect.explain import PAIRINGS
from posenc.detect.facts.fact import Contradiction, Fact, FactSource
from posenc.detect.facts.weights.evidence import Evidence, Measure, measured, summed, total
from posenc.detect.facts.weights.heads import Projections, read_model, recorded_pairing
from posenc.detect.facts.weights.projections import find

THRESHOLD = 4.5  # z value from which weights are believed
OPPOSED = 2.5  # z value of the other statistic that withdraws the claim
DOUBT = 3.0  # z value of another width that withdraws it
BLOCKS = 1.5  # z value of two blocks that withdraws interleaved
GAP = 0.05  # nats by which the loss of one pairing must be lower
MOST_SHOWN = 4  # layers
STATE = (
    f"Weights are believed from |z| = {THRESHOLD} on. State what is stored: --stored half or "
    "interleaved, `layout=Projections(stored=)`; of tools that read a config, --pairing."
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
        rests_on = f"the weights of {self.weights.groups} groups of heads, {', '.join(z)},"
        return (Fact("pairing", self.claim, source="weights", rests_on=rests_on),)

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


def detect_pairing(
    checkpoint: str | os.PathLike[str],
    *,
    probe: Callable[[str], Any] | None = None,
    layout: Projections | None = None,
    config: Any = None,
) -> PairingFinding:
    """Tell which channels of queries and keys are paired: what is stated, measured, and probed.

    The record of a conversion and the config come first: a known family says its pairing. The
    weights are measured as well, as evidence: two statistics, each in standard deviations over all
    orders of the channels. They are believed from 4.5 on, and overrule nothing: weights that
    contradict what is stated make the answer `unknown`, until a probe settles it. No weights prove
    a pairing, as those of one convention in another order are those of the other.

    Parameters
    ----------
    checkpoint : path
        A `.safetensors` file, an index of several, or a folder.
    probe : callable, optional
        The loss of the model on some text, in nats per token, with the pairing it is called with:
        `probe("half") -> float`; or logits (…, classes) and the right classes, as a pair.
    layout : Projections, optional
        What the config does not say: heads, the width that turns, how fused weights are packed.
        `stored` and the pairing of `rope` are not looked at.
    config : mapping or path, optional
        The config, where it does not stand beside the weights.

    Returns
    -------
    PairingFinding
        The answer, which may be `unknown`, and what it rests on.

    Raises
    ------
    DataError
        If the tensors or the config are not understood.

    Notes
    -----
    Of a model without positions no order of channels is special, so a false claim of one statistic
    has the probability of a normal number beyond 4.5: 7e-6. The table of what was right on trained
    models is in the documentation.

    Examples
    --------
    >>> import numpy as np, posenc, tempfile, pathlib
    >>> from safetensors.numpy import save_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "random.safetensors"
    >>> rng = np.random.default_rng(0)
    >>> save_file({f"layers.0.{n}_proj.weight": rng.standard_normal((32, 8)) for n in "qk"}, path)
    >>> layout = posenc.Projections(heads=2, rope=posenc.RoPE(16, pairing="half"))
    >>> posenc.detect_pairing(path, layout=layout).pairing
    'unknown'
    """
    caller = "detect_pairing"
    opened = open_checkpoint(checkpoint, config=config, caller=caller)
    losses = {} if probe is None else {name: _loss(probe(name), name) for name in PAIRINGS}
    return examined(opened, layout or Projections(), caller, losses=losses)


def examined(
    checkpoint: Checkpoint,
    layout: Projections,
    caller: str,
    *,
    most: int | None = None,
    losses: Mapping[str, float] = MappingProxyType({}),
) -> PairingFinding:
    """What a record or the config states, against the weights: all, or that many groups of heads.

    `DataError` is raised where names, widths or the config are not understood.
    """
    stated, source, origin = "", "", "nothing"
    if (recorded := recorded_pairing(checkpoint, layout, caller)) is not None:
        stated, source, origin = recorded, "the record of a conversion in the file", "record"
    elif checkpoint.config is not None:
        # An error here may be the pairing alone that is open; if it is more, it comes again below.
        with contextlib.suppress(DataError):
            model = read_model(checkpoint, layout._replace(stored=None, rope=None), caller)
            orders = {one.heads.channels.order for one in find(checkpoint, model, caller)}
            stated, source, origin = (
                "".join(orders if len(orders) == 1 else ()),
                model.source,
                "config",
            )
    assumed = layout._replace(stored=None if layout.rope is not None else "half")
    attentions = find(checkpoint, read_model(checkpoint, assumed, caller), caller)
    return weighed(stated, source, origin, measured(attentions, most=most), dict(losses))


def _loss(value: Any, name: str) -> float:
    """A loss, or the cross entropy of logits."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        logits = np.asarray(value[0], dtype=np.float64)
        classes = np.asarray(value[1])
        if logits.shape[:-1] != classes.shape or classes.dtype.kind not in "iu":
            expected = "logits (…, classes) and integer classes (…)"
            received = f"{logits.shape} and {classes.shape}, {classes.dtype}"
            raise ArgumentError(mismatch("detect_pairing: probe", expected, received))
        logits = logits - logits.max(-1, keepdims=True)
        log_sum = np.log(np.exp(logits).sum(-1))
        right = np.take_along_axis(logits, classes[..., None], axis=-1)[..., 0]
        return float(np.mean(log_sum - right))
    try:
        loss = float(value)
    except (TypeError, ValueError):
        received = type(value).__name__
        raise ArgumentError(
            mismatch(f"detect_pairing: probe({name!r})", "a loss, or logits and classes", received)
        ) from None
    if not math.isfinite(loss):
        raise ArgumentError(mismatch(f"detect_pairing: probe({name!r})", "a finite loss", loss))
    return loss


# --- weighing -------------------------------------------------------------------------------------


def claimed(weights: Evidence) -> Answer:
    """What the weights alone say: one statistic beyond its threshold, and nothing against it."""
    if doubted(weights):
        return "unknown"
    for z, other in (
        (weights.similarity, weights.balance),
        (weights.balance, weights.similarity),
    ):
        if abs(z) >= THRESHOLD:
            if z * other < 0 and abs(other) >= OPPOSED:
                return "unknown"
            return "half" if z > 0 else "interleaved"
    return "unknown"


def doubted(weights: Evidence) -> str:
    """A sentence, where the weights look like heads of another width; else an empty text."""
    for name in ("narrower", "wider"):
        z = getattr(weights, name)
        if z >= DOUBT:
            return f"the channels that turn look {name} than was said (z = {z:.1f})"
    if weights.similarity < 0 and weights.blocks >= BLOCKS:
        return f"each head looks like two (z = {weights.blocks:.1f})"
    return ""


def _divided(measures: Mapping[str, list[Measure]], stated: str) -> str:
    """A sentence, where layers, or queries and keys, say two things, or one says another thing.

    Of more layers more are far from 0 by chance, so the threshold rises with their number.
    """
    bound = math.sqrt(THRESHOLD**2 + 2 * math.log(max(1, len(measures))))
    everything = [m for own in measures.values() for m in own]
    layers = {name: total([m.similarity for m in own]) for name, own in measures.items()}
    sides = {name: total([getattr(m, name) for m in everything]) for name in ("queries", "keys")}
    for parts in (layers, sides):
        orders: dict[str, list[str]] = {}
        for name, z in parts.items():
            if abs(z) >= bound:
                orders.setdefault("half" if z > 0 else "interleaved", []).append(f"{name} {z:.1f}")
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
    if doubt := doubted(weights):
        figures += f"; {doubt}"
    if divided := _divided(measures, stated):
        figures += f"; {divided}"
        claim = claim if claim != stated else "unknown"

    def answer(pairing: Any, by: Any, why: str) -> PairingFinding:
        return PairingFinding(pairing, by, stated, source, weights, claim, losses, why)

    if losses:
        gap = losses["interleaved"] - losses["half"]
        if abs(gap) >= GAP:
            best = "half" if gap > 0 else "interleaved"
            others = [x for x in (stated, "" if claim == "unknown" else claim) if x and x != best]
            against = f", against what is {'stated' if best != stated else 'measured'}"
            why = f"the loss is {abs(gap):.2f} nats lower with {best}"
            return answer(best, "probe", why + (against if others else ""))
    sign = -1 if stated == "interleaved" else 1
    worst, best_z = sorted((sign * weights.similarity, sign * weights.balance))
    if stated and (divided or (worst <= -THRESHOLD and best_z < -worst)):
        against = "half" if sign < 0 else "interleaved"
        say = "two things" if divided and claim != against else against
        why = (
            f"{source} says {stated}, the weights say {say} ({figures}): they may have been "
            "permuted, or the config is of another model; a loss probe settles it"
        )
        return answer("unknown", "nothing", why)
    if stated:
        agree = "agree" if claim == stated else "do not say"
        return answer(stated, origin, f"{source} says so; the weights {agree} ({figures})")
    if claim != "unknown":
        return answer(claim, "weights", f"the weights say so, as evidence: {figures}")
    silent = f"the weights do not say ({figures})"
    tie = f"nothing states it, {silent}, and both losses are as good"
    why = tie if losses else f"nothing states it, and {silent}; a loss probe settles it"
    return answer("unknown", "nothing", why)
