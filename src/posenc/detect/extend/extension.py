"""A plan for a longer context: what each rule does to a model, and what to write where."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from posenc._core.calls import checked_call
from posenc._core.errors import DataError, bad_argument, suggest
from posenc._core.numeric.counts import counted
from posenc._core.reading import Layer
from posenc._core.spec.answers import Displayed
from posenc.detect.extend.engines import LAYERS, Wanted, lines_of, patched
from posenc.detect.extend.options import LayerExtension, layer_extension, recommended
from posenc.detect.extend.rules import (
    check_numbers,
    new_length,
    stated_factor,
    stretching,
    trained_rotation,
    why_no_rotation,
)
from posenc.detect.facts import Facts, facts
from posenc.encodings.rotary.base import RotarySpec

TOWERS = ("vision", "audio", "encoder")  # their positions are cells and frames
SHARED = (
    "The config has one rule for all layers, so it reaches {} too, which do not need it: their "
    "scores change as well."
)
UNKNOWN = (
    "Quality is not predicted: no config says what the weights learned. Measure it on texts of "
    "both lengths: the loss at each position, and a task that needs distant text."
)
ORDER = (
    "This order is arithmetic. A registered study of small models contradicted two claims: that "
    "the order ranks rules by their loss, and that its first rule reads long texts better than "
    "every other. The table is in docs/extend.md. --rule takes another rule."
)


@dataclass(frozen=True)
class Extension(Displayed):
    """What `extend` found.

    Parameters
    ----------
    model : str
        The family, as the plan has it.
    trained, length : int
        The trained length, and the one that is asked for.
    layers : tuple of LayerExtension
        The kinds of layers that rotate.
    rule : str
        The first rule by the order below; "none" where none is needed, empty where none suffices.
    reasons : tuple of str
        Why, and what a config cannot tell.
    notes : tuple of str
        Doubts: of the reader, about lengths, about parts without rotations.
    source : mapping or None
        The config that was read.
    architecture : str
        Of a GGUF file.
    asked : str, optional
        The rule that the caller wants in place of the first.
    pairings : dict
        What the config says of the channels of each kind of layer; weights may record another.

    Notes
    -----
    Methods take one of `rules`, by default `asked`, else `rule`. They raise `ArgumentError` where
    that is empty and none is named, or the name is of none that applies; `config` also where
    no config was read, or no dialect of transformers can say the rule. What a line puts into a
    config is read back first.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}
    >>> found = posenc.extend({**config, "max_position_embeddings": 4096}, 16384)
    >>> found.rule, found.layers[0].option("linear").effect.lost
    ('llama3', 11)
    >>> found.lines("yarn")["llama.cpp"].split(" --ctx")[0]
    '--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 4096'
    """

    model: str
    trained: int
    length: int
    layers: tuple[LayerExtension, ...]
    rule: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    source: Mapping[str, Any] | None
    architecture: str
    asked: str | None = None
    pairings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def factor(self) -> float:
        """The new length over the trained one."""
        return self.length / self.trained

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of all rules that apply to some layer, in order."""
        return tuple(
            dict.fromkeys(
                o.name for layer in self.layers if not layer.window for o in layer.options
            )
        )

    def wanted(self, rule: str | None = None, *, everywhere: bool = False) -> Wanted:
        """What engines are to be told; `everywhere` puts the rule into layers with a window too."""
        name = rule or self.asked or self.rule
        if name not in self.rules and name != "none":
            todo = suggest(name, self.rules) if name else "Name one of " + ", ".join(self.rules)
            raise bad_argument("extend: rule", "a rule that applies to the model", repr(name), todo)
        changed = {
            layer.name: option
            for layer in self.layers
            if (everywhere or not layer.window) and (option := layer.option(name)) is not None
        }
        specs = {
            layer.name: spec.replace(pairing=self.pairings.get(layer.name, spec.pairing))
            for layer in self.layers
            for spec in [(changed.get(layer.name) or layer.baseline).spec]
        }
        if (first := next(iter(changed.values()), None)) is None or name == "none":
            return Wanted(specs, frozenset(), None, None, self.length)
        rule_of = stretching(first.spec) if first.base is None else None
        return Wanted(specs, frozenset(changed), first.base, rule_of, self.length)

    def switches(self, rule: str | None = None) -> str:
        """Whether frequencies change during generation, and what a KV cache must do there."""
        if self.wanted(rule).growing:
            return (
                f"Above {self.trained:,} positions, each length has its own frequencies, so keys "
                "in a KV cache become wrong as the text grows. Move them with posenc.rerotate, or "
                "fix one length for the sequence."
            )
        return "No frequency changes during generation, so the keys in a KV cache stay valid."

    def lines(self, rule: str | None = None) -> dict[str, str]:
        """What to write or type, by the engine; one that cannot be told is left out."""
        return self.written(rule)[0]

    def remarks(self, rule: str | None = None) -> tuple[str, ...]:
        """What an engine cannot be told, and what else its user should know."""
        return self.written(rule)[1]

    def written(self, rule: str | None = None) -> tuple[dict[str, str], tuple[str, ...]]:
        """Both of `lines` and `remarks`, at the cost of one."""
        lines, remarks = lines_of(self.source, self.wanted(rule), self.architecture)
        windows = [layer.name for layer in self.layers if layer.window]
        if not windows or self.source is None or any("transformers" in name for name in lines):
            return lines, remarks
        lines, remarks = lines_of(
            self.source, self.wanted(rule, everywhere=True), self.architecture
        )
        if lines.pop("llama.cpp", None):  # it takes the numbers of such layers from the file
            remarks = (*remarks, LAYERS)
        return lines, (SHARED.format(" and ".join(windows)), *remarks)

    def config(self, rule: str | None = None) -> dict[str, Any]:
        """A copy of the config with the rule, in its own dialect, or the other that can say it."""
        if self.source is None:
            raise bad_argument(
                "extend",
                "a config to write",
                "none",
                "Give a config.json, as `posenc convert-config` writes it; lines() has the options "
                "of llama.cpp.",
            )
        parts = [part for part in (self.source, *self.source.values()) if isinstance(part, Mapping)]
        dialects = sorted(("hf4", "hf5"), reverse=any("rope_parameters" in p for p in parts))
        for everywhere, dialect in itertools.product((False, True), dialects):
            if written := patched(self.source, dialect, self.wanted(rule, everywhere=everywhere)):
                return written.config
        raise bad_argument(
            "extend",
            "a rule that a config of transformers can say",
            rule or self.asked or self.rule,
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON types, as `posenc extend --json` prints it."""
        chosen = self.asked or self.rule
        words, remarks = self.written(chosen) if chosen else ({}, ())
        return {
            **{key: getattr(self, key) for key in ("model", "trained", "length")},
            "layers": [
                {
                    "layer": layer.name,
                    "spec": layer.baseline.spec.to_dict(),
                    "pairs": layer.baseline.steps.size,
                    "slow": int(layer.baseline.slow.sum()),
                    "fast": int(layer.baseline.fast.sum()),
                    "rules": [
                        {"rule": option.name}
                        | {key: getattr(option, key) for key in ("factor", "base", "smallest")}
                        | asdict(option.effect)
                        | {"spec": option.spec.to_dict()}
                        for option in (() if layer.window else layer.options)
                    ],
                    "window": layer.window,
                    "left_out": layer.left_out,
                }
                for layer in self.layers
            ],
            "recommended": self.rule or None,
            "reasons": list(self.reasons),
            "rule": chosen or None,
            "switches": self.switches(chosen) if chosen else None,
            "lines": words,
            "remarks": list(remarks),
            "notes": list(self.notes),
        }


@checked_call
def extend(
    source: Any,
    to: int | str | None = None,
    *,
    factor: float | None = None,
    trained: int | str | tuple[int, ...] | None = None,
    rule: str | None = None,
    size: str | tuple[int, int] | None = None,
    frames: int | None = None,
    tokens: bool = False,
) -> Extension:
    """Plan a longer context for a model, or larger pictures and longer films.

    Every rule that needs nothing but a factor and the trained length is tried on every kind of
    layer that rotates: how many pairs meet angles that training did not show, how many lose their
    step between neighbours, what happens to short texts. The first rule leaves no pair
    at an unseen angle, then has the fewest lost pairs, then the smallest change of scores within
    the trained length, and is the same at every length. A registered study of small models
    contradicted the claim that this order ranks rules by their loss.

    Parameters
    ----------
    source : config, path, or Reading
        What `posenc.from_hf` reads, a GGUF file, or a plan that was read.
    to : int or str, optional
        The new length, in positions; `"128k"` is 131,072.
    factor : float, optional
        The new length over the trained one, in place of `to`.
    trained : int, str or tuple, optional
        The trained length, where the config states none or another. For a diffusion model what
        its weights were trained on, which no config of diffusers states: "1024x1024", a number of
        frames, or "832x480x81", as is asked for.
    rule : str, optional
        A rule to write in place of the first.
    size : str or tuple, optional
        Of a diffusion model: width and height of the picture, "2048x2048", in pixels.
    frames : int, optional
        Of a diffusion model: frames of the film.
    tokens : bool
        Whether sizes are tokens; else the config of the VAE beside the transformer is needed.

    Returns
    -------
    Extension
        The numbers, the first rule by that order, and the lines for engines. Of a diffusion model
        an `AxesExtension`: what each rule does to each axis, none of them first.

    Raises
    ------
    ArgumentError
        If not exactly one of `to` and `factor` is given, a factor is below 1, or the new length is
        not above the trained one, the rule is of none that applies, or it is handed a table.
    DataError
        If no layer rotates, the config leaves the rotation open, states no trained length, or
        states lengths that contradict each other.

    Notes
    -----
    A scaling in the config is taken as trained where the declared length is above its original
    length; else the model was trained at the original length, without it.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5}
    >>> found = posenc.extend(config, 131072, trained=8192)
    >>> unchanged = found.layers[0].option("none").effect
    >>> unchanged.unseen, round(unchanged.arc, 2)
    (29, 0.93)
    """
    if size is not None or frames is not None:
        from posenc.detect.extend.axes import extend_axes

        if (to, factor) != (None, None):
            raise bad_argument("extend", "size= and frames= alone", "to= or factor= beside")
        return extend_axes(
            facts(source), size=size, frames=frames, trained=trained, tokens=tokens, rule=rule
        )
    wanted, last = counted(to), counted(trained)
    check_numbers(wanted, factor, last)
    last = None if last is None else int(last)
    about = facts(source)
    others = about.require("extend", "spec", "frequencies", "length", "window", "heads")
    plan, config = about.reading, about.config if about.format == "config" else None
    turning = [layer for layer in plan if layer.kind == "rotary"]
    rotary = [layer for layer in turning if layer.layer.startswith("text.")] or [
        layer for layer in turning if not any(name in layer.layer for name in TOWERS)
    ]
    if not rotary:
        raise DataError(why_no_rotation(plan))
    doubts = "".join(f" ({note.text})" for note in plan.notes if "is no length" in note.text)
    baselines = [trained_rotation(layer, last, doubts) for layer in rotary]
    start = max(baseline.trained for baseline in baselines)
    length = new_length(start, wanted, factor)
    layers = tuple(
        layer_extension(layer.label, baseline, length, window=_is_near(about, layer))
        for layer, baseline in zip(rotary, baselines, strict=True)
    )
    first, why = recommended(layers, start, length)
    notes = [*others, *(note.text for note in plan.notes if note.level != "remark")]
    notes += _switching(rotary)
    pairings = {e.label: e.spec.pairing for e in about.plan if isinstance(e.spec, RotarySpec)}
    notes += dict.fromkeys(
        f"A conversion recorded that the weights pair {one.baseline.spec.channels.order}. No line "
        "here says so: what reads them must pair so by itself."
        for one in layers
        if one.baseline.spec.pairing != pairings[one.name]
    )
    notes += {stated_factor(layer, length / start) for layer in rotary} - {""}
    if not any(layer.window for layer in layers):
        notes += dict.fromkeys(text for layer in rotary for text in _windows(about, layer))
    if any(baseline.own for baseline in baselines):
        notes.append(
            f"The model is taken to be trained with the config's own scaling, up to {start:,} "
            "positions. If that scaling was added after training, give the trained length: "
            "trained."
        )
    extension = Extension(
        plan.model,
        start,
        length,
        layers,
        first,
        (*why, *([ORDER] if first not in ("", "none") else []), UNKNOWN),
        tuple(notes),
        config,
        plan.model or "ARCH" if about.format == "gguf" else "ARCH",
        rule,
        pairings,
    )
    if rule is not None:
        extension.wanted()  # an unknown rule is told at once
    return extension


def _switching(layers: list[Layer]) -> list[str]:
    """Where the config's own rule has other frequencies from a length on."""
    specs: list[Any] = [layer.spec for layer in layers]
    return [
        *dict.fromkeys(
            f"The config's {type(rule).__name__} has other frequencies above {rule.lengths[0]:,} "
            "positions, so keys that were cached below do not fit queries above. Fix one length "
            "for a sequence, or move the keys with posenc.rerotate."
            for spec in specs
            for rule in spec.scalings
            if rule.lengths is not None
        )
    ]


def _is_near(about: Facts, layer: Layer) -> bool:
    """Whether none of the layers sees the whole sequence."""
    windows = [fact for fact in about.of("window", layer.label) if fact.layers != ()]
    return bool(windows) and all(fact.value is not None for fact in windows)


def _windows(about: Facts, layer: Layer) -> Iterator[str]:
    """Windows of some of the layers of a rotation, and chunks that are of none."""
    for fact in about.of("window", layer.label):
        if fact.layers == ():
            key = fact.rests_on.removeprefix("config key ")
            yield (
                f"The config has {key}={fact.value}, a chunk and no window. Which layers read it "
                "is not known here. Those that do need no rule: distances stay within it."
            )
        elif fact.value is not None and fact.layers:
            yield (
                f"Layers {', '.join(map(str, fact.layers))} have a window of {fact.value}. They "
                "need no rule: distances stay within it. The rule reaches them too, as they share "
                "the rotation of the others."
            )
