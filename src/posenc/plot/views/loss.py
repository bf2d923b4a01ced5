"""Loss: where small trained models fail beyond their trained length, and what repairs RoPE.

It is a part of the picture `stretch`. The losses come from the study; the angles that training did
not show are computed for its rotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.detect.extend.rules import RULES, Baseline
from posenc.functional import frequencies
from posenc.plot import palette
from posenc.plot.columns import Table
from posenc.plot.panels.grammar import (
    Axis,
    Chart,
    Heatmap,
    Mark,
    Matrix,
    Series,
    cells,
    float32,
    values,
)
from posenc.plot.panels.text import Described, count, number, signed, spread, whole
from posenc.plot.rows import require
from posenc.plot.trained import LossCurve, TrainedLosses, trained_losses

USUAL = "yarn"
COLUMNS = 32  # of a picture of pairs
# Names of curves: the encodings, then RoPE under each rule. Their places are numbers of styles.
LABELS = {
    "yarn": "RoPE, YaRN",
    "llama3": "RoPE, Llama 3",
    "ntk": "RoPE, NTK base",
    "linear": "RoPE, linear",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "alibi": "ALiBi",
    "none": "RoPE, unchanged",
}


@dataclass(frozen=True)
class LossView(Described):
    """The losses, one rule that is shown beside unchanged RoPE, and the pairs under both."""

    rule: str
    losses: TrainedLosses
    unseen: dict[str, np.ndarray]  # (pairs, columns) by rule
    slow: int

    def at(self, name: str, times: float) -> float:
        """The mean loss before a position, in trained lengths."""
        return float(
            self.losses.curves[name].mean[
                round(times * self.losses.trained / self.losses.stretch) - 1
            ]
        )


def data(rule: str = USUAL) -> LossView:
    """The losses, with one rule in front."""
    losses = trained_losses()
    measured = [name for name in LABELS if name in RULES]
    require(
        rule in measured,
        " stretch: rules",
        "a rule whose loss was measured",
        rule,
        f"Losses were measured under {', '.join(measured)}.",
    )
    baseline = Baseline(losses.spec, losses.trained)
    unseen = {name: _unseen(baseline, name, losses) for name in dict.fromkeys(("none", rule))}
    slow = int(baseline.slow.sum())
    return LossView(
        rule,
        losses,
        unseen,
        slow,
        title=f"Trained on {losses.trained} characters, read at {losses.length}",
        caption=_caption(losses, baseline),
    )


def _unseen(baseline: Baseline, rule: str, losses: TrainedLosses) -> np.ndarray:
    """The share of the distances up to a position at which a slow pair has an unseen angle."""
    scaling = RULES[rule].make(losses.length / losses.trained, losses.trained)
    steps = np.asarray(frequencies(baseline.spec.replace(scaling=scaling)), dtype=np.float64)
    distances = np.arange(losses.length)
    beyond = baseline.slow & (
        np.mod(distances[:, None] * steps, 2 * np.pi)
        >= baseline.steps * baseline.trained * (1 - 1e-9)
    )
    shares = np.cumsum(beyond, axis=0) / (distances + 1)[:, None]
    every = losses.length // COLUMNS
    return np.asarray(shares[every - 1 :: every].T)


def _widest(curve: LossCurve) -> float:
    return float((curve.largest - curve.least).max())


def _caption(losses: TrainedLosses, baseline: Baseline) -> tuple[str, ...]:
    seeds = sorted({curve.seeds for curve in losses.curves.values()})
    counted = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    widest = max(losses.curves, key=lambda name: _widest(losses.curves[name]))
    apart = number(_widest(losses.curves[widest]), 2)
    about_losses = (
        f"Loss: means of {counted} seeds over {losses.stretch} characters each, of texts of "
        f"{losses.length}. Shaded, and before the dashed lines: the trained length. The band is "
        f"the least and the largest of the seeds; they lie {apart} apart at most, with "
        f"{LABELS[widest]}."
    )
    about_models = (
        f"Models: {losses.layers} layers, {whole(losses.parameters)} parameters, "
        f"{whole(losses.steps)} steps on one text, the Python reference. A rule is put in after "
        "training, with no step more. Learned rows beyond the trained length are as they were "
        "drawn. Models of this size are no advice for large ones."
    )
    about_pairs = (
        f"Pairs: {count(int(baseline.slow.sum()), len(baseline.slow))} never finished a turn in "
        "training. The colour is the share of the distances up to a position at which a pair has "
        "an angle that training did not show. Known angles are not enough: linear interpolation "
        "brings no new one, and brings neighbours closer than training did."
    )
    return about_losses, about_models, about_pairs


def lead(view: LossView) -> str:
    """What the picture shows, in two sentences of its numbers."""
    far = view.losses.length // view.losses.trained
    first, last, other, before, after = (
        signed(view.at(name, times), 2)
        for name, times in (
            ("none", 1),
            ("none", far),
            (view.rule, far),
            ("alibi", 1),
            ("alibi", far),
        )
    )
    repaired = f" Under {LABELS[view.rule]} it is {other}." if view.rule != "none" else ""
    return (
        f"Beyond the {view.losses.trained} characters of training the loss of unchanged RoPE goes "
        f"from {first} to {last} nats per character, as {view.slow} slow pairs meet angles that "
        f"training did not show.{repaired} That of ALiBi goes from {before} to {after}."
    )


def rows(view: LossView) -> Table:
    """The numbers of a .csv."""
    return ["encoding", "from", "to", "nats", "least", "largest"], (
        [LABELS[name], place * view.losses.stretch, (place + 1) * view.losses.stretch, *numbers]
        for name, curve in view.losses.curves.items()
        for place, numbers in enumerate(zip(curve.mean, curve.least, curve.largest, strict=True))
    )


# --- panels ---------------------------------------------------------------------------------------


def panels(view: LossView) -> tuple[Chart | Matrix, ...]:
    """The losses along a text, and the pairs of RoPE along the same positions."""
    return _losses(view), Matrix(
        "pairs",
        "",
        tuple(_pairs(view)),
        across=2,
        caption=view.caption[2],
    )


def _losses(view: LossView) -> Chart:
    losses = view.losses
    places = (np.arange(len(losses.curves["none"].mean)) + 0.5) * losses.stretch
    front = losses.curves[view.rule]
    low = min(float(curve.mean.min()) for curve in losses.curves.values())
    high = max(float(curve.mean.max()) for curve in losses.curves.values())
    low, high = min(low, float(front.least.min())), max(high, float(front.largest.max()))
    return Chart(
        id="loss",
        title="loss, nats per character",
        x=Axis("position in the text", (0, losses.length)),
        y=values("", *spread(low, high)),
        series=tuple(
            Series(
                LABELS[name],
                places,
                float32(curve.mean),
                list(LABELS).index(name),
                lo=float32(curve.least) if name == view.rule else None,
                hi=float32(curve.largest) if name == view.rule else None,
                front=name in ("none", view.rule),
            )
            for name, curve in losses.curves.items()
        ),
        marks=(
            Mark(
                "x",
                0.0,
                f"shaded: trained length {losses.trained}",
                to=losses.trained,
                style="band",
            ),
        ),
        height=240,
        caption=" ".join(view.caption[:2]),
        label="Loss of each encoding by position in the text",
    )


def _pairs(view: LossView) -> Iterator[Heatmap]:
    for name, shares in view.unseen.items():
        yield Heatmap(
            id=f"pairs-{name}",
            title=f"{LABELS[name]}: unseen angles",
            tile=palette.shares(shares),
            lut="sequential",
            x=Axis("position in the text", (0, view.losses.length), most=4),
            y=cells("pair", 0, len(shares)),
            low="0",
            high="1",
            lines=(Mark("x", view.losses.trained),),
            values=shares,
            label=f"Share of unseen angles of each pair by position, {LABELS[name]}",
        )
