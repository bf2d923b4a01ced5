"""What is known of a model from all its sources: read once, each tier when it is asked for."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

from posenc._core.errors import DataError
from posenc._core.io.checkpoints import Checkpoint, folder_of, load, open_checkpoint
from posenc._core.reading import Note, Reading
from posenc._core.spec.display import Displayed
from posenc._core.spec.spec import Value
from posenc.detect.explain import from_gguf, from_hf
from posenc.detect.facts import arrays, loaded
from posenc.detect.facts.fact import Contradiction, Fact, Name
from posenc.detect.facts.plan import header_config, of_plan
from posenc.detect.facts.stamp import conflicts, of_records, stamped
from posenc.detect.facts.weights.heads import Projections, text_of
from posenc.detect.facts.weights.pairing import PairingFinding, examined
from posenc.encodings.rotary.base import RotarySpec

GROUPS = 16  # of heads, that every tool asks; those that are about weights ask all
# What numbers at positions depend on.
ASKED: tuple[Name, ...] = ("spec", "pairing", "frequencies", "rows", "buckets", "window")
HEADERS: tuple[Name, ...] = ("rows", "buckets", "frequencies")
TORCH = "pytorch_model.bin"  # of which no pickle is run
WEIGHTS = (".safetensors", ".safetensors.index.json")


@final
@dataclass(frozen=True, eq=False)
class Facts(Displayed):
    """What is known of one model.

    Nothing but the config is read before it is asked for: then headers and small tensors, then
    evidence of the weights, of a few heads spread over the layers.

    Parameters
    ----------
    name : str
        The model, as it was named.
    plan : Reading
        What its config or header says, before what a conversion recorded.
    config : mapping, optional
        The config.
    weights : object, optional
        Where its weights are: a path, as `posenc.convert` takes them, several, or a loaded model.
    settled : tuple of str
        What the caller has stated; nothing contradicts it.
    format : str
        `gguf`, or `config`.

    Examples
    --------
    >>> import posenc
    >>> known = posenc.facts({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4})
    >>> [(fact.value, fact.source, fact.rests_on) for fact in known.of("pairing")]
    [('half', 'row', 'the family row of llama')]
    >>> known.contradictions
    ()
    """

    name: str
    _: KW_ONLY
    plan: Reading
    config: Mapping[str, Any] | None = None
    weights: Any = None
    settled: tuple[Name, ...] = ()
    format: Literal["config", "gguf"] = "config"

    # --- what it rests on -------------------------------------------------------------------------

    @functools.cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The headers of the weights; None where there are none that can be read."""
        config = dict(self.config or {})
        if hasattr(self.weights, "named_parameters"):
            return loaded.of_model(self.weights, config)
        try:
            if isinstance(self.weights, Path) and (self.weights / TORCH).is_file():
                return loaded.of_file(self.weights / TORCH, config)
            return self.weights and open_checkpoint(self.weights, config=config, caller="facts")
        except (DataError, OSError):
            return None

    @functools.cached_property
    def stamp(self) -> tuple[Fact, ...]:
        """The pairings that conversions recorded, by the names of the tensors they are of."""
        return () if self.checkpoint is None else tuple(of_records(self.checkpoint.layouts))

    @functools.cached_property
    def reading(self) -> Reading:
        """The plan as it holds: with the pairing that a conversion recorded."""
        return self.plan if "pairing" in self.settled else stamped(self.plan, self.stamp)

    @functools.cached_property
    def headers(self) -> tuple[Fact, ...]:
        """What shapes of tensors and small tensors say."""
        if self.checkpoint is None:
            return ()
        tensors = self.checkpoint.tensors
        shapes = {key: stored.tensor.shape for key, stored in tensors.items()}
        numbers = arrays.of_buffers(shapes, lambda key: tensors[key].array())
        return (*arrays.of_shapes(shapes), *numbers)

    @functools.cached_property
    def evidence(self) -> PairingFinding | None:
        """What the weights say of the pairing; None where they cannot be asked."""
        rotary = (e for e in self.plan if isinstance(e.spec, RotarySpec) and not e.attention)
        parts = [*dict.fromkeys(entry.layer.rpartition(".")[0] for entry in rotary)]
        if self.checkpoint is None or not parts:
            return None
        layout = Projections()
        if len(parts) > 1:
            part, only = text_of(self.checkpoint.tensors, parts)
            layout = layout._replace(part=part, only=only)
        try:
            return examined(self.checkpoint, layout, "facts", most=GROUPS)
        except DataError:
            return None

    # --- what is asked ----------------------------------------------------------------------------

    def of(self, name: Name, layer: str | int | None = None) -> tuple[Fact, ...]:
        """The facts of a name, what holds first; of one layer, or of all.

        Parameters
        ----------
        name : str
            As of `Fact`.
        layer : str or int, optional
            A type of layer, or the number of a layer.

        Returns
        -------
        tuple of Fact
            None where nothing is known.
        """
        own = [fact for fact in self._facts(name) if fact.name == name]
        if isinstance(layer, str):
            own = [fact for fact in own if fact.layer in ("", layer)]
        elif layer is not None:
            own = [fact for fact in own if fact.layers is None or layer in fact.layers]
        return tuple(own)

    def _facts(self, name: Name | None) -> Iterator[Fact]:
        data = self.config or {}
        yield from dict.fromkeys((*of_plan(self.reading, data), *of_plan(self.plan, data)))
        if name in (None, *HEADERS):
            yield from self.headers
        if name in (None, "pairing") and self.evidence is not None:
            yield from self.evidence.facts

    @functools.cached_property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """Facts that exclude each other, but for what the caller has stated."""
        if self.checkpoint is None:
            return ()
        shapes = {key: stored.tensor.shape for key, stored in self.checkpoint.tensors.items()}
        found: list[Contradiction | None] = [
            *conflicts(self.stamp),
            *arrays.contradicted(self.plan, self.headers),
        ]
        found += arrays.absent(self.plan, shapes) if self.checkpoint.whole else []
        found += [] if self.evidence is None else [self.evidence.contradiction]
        return tuple(one for one in found if one and one.one.name not in self.settled)

    def require(self, caller: str, *names: Name) -> tuple[str, ...]:
        """Stop at facts that exclude each other.

        Parameters
        ----------
        caller : str
            Who asks.
        *names : str
            What the answer depends on.

        Returns
        -------
        tuple of str
            What excludes each other without a name of these.

        Raises
        ------
        DataError
            If two facts of one of the names exclude each other.
        """
        for one in self.contradictions:
            if one.one.name in names:
                raise DataError(f"{caller}: {one.text}")
        return tuple(one.text for one in self.contradictions)

    @property
    def explained(self) -> Reading:
        """The plan as it holds, with contradictions as errors and evidence as a remark."""
        notes = [Note("error", one.text) for one in self.contradictions]
        if self.evidence is not None and self.evidence.pairing != "unknown":
            told = f"pairing {self.evidence.stated}: {self.evidence.why}"
            return self.reading.replace(notes=(*notes, *self.reading.notes, Note("remark", told)))
        return self.reading.replace(notes=(*notes, *self.reading.notes))

    def to_json(self, *, indent: int | None = None) -> str:
        """All facts and contradictions, as JSON."""
        data = {
            "name": self.name,
            "facts": [_plain(fact) for fact in self._facts(None)],
            "contradictions": [one.text for one in self.contradictions],
        }
        return json.dumps(data, indent=indent)


def _plain(fact: Fact) -> dict[str, Any]:
    """A fact as plain JSON types."""
    value = fact.value.to_dict() if isinstance(fact.value, Value) else fact.value
    return {**vars(fact), "value": value}


def facts(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    config: Any = None,
) -> Facts:
    """Everything that is known of the positions of one model, each fact with its source.

    Reading runs no code: a modelling file is read as text.

    Parameters
    ----------
    source : object
        A folder, the path of its weights or of a config, a GGUF file; a config as `posenc.from_hf`
        takes it; a loaded model; the files of a model, as a list; a `Reading`.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels: what is stated here, nothing contradicts.
    base : float, optional
        The base, likewise.
    config : mapping or path, optional
        The config, where it does not stand beside the weights.

    Returns
    -------
    Facts
        The config is read; headers and weights are when they are asked.

    Raises
    ------
    DataError
        If the config cannot be read.

    Examples
    --------
    >>> import posenc
    >>> known = posenc.facts({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4})
    >>> known.of("spec", "attention")[0].value == posenc.RoPE(64, pairing="half")
    True
    """
    settled: list[Name] = ["pairing"] if pairing is not None else []
    settled += ["frequencies"] if base is not None else []
    if isinstance(source, Reading):
        return Facts(source.model, plan=source)
    if hasattr(source, "named_parameters"):
        known = facts(source.config, pairing=pairing, base=base)
        return replace(known, name=type(source).__name__, weights=source)
    if isinstance(source, (list, tuple)):
        first = Path(source[0]).parent if config is None else config
        return replace(facts(first, pairing=pairing, base=base), weights=source)
    path = Path(source) if folder_of(source) is not None else None
    name = type(source).__name__ if path is None else str(path)
    if path is not None and path.suffix == ".gguf":
        plan = from_gguf(path, pairing=pairing, base=base, on_error="report")
        data = header_config(path)
        return Facts(name, plan=plan, config=data, settled=tuple(settled), format="gguf")
    weights = path if path is not None and (path.is_dir() or path.name.endswith(WEIGHTS)) else None
    beside = weights.parent if weights is not None and not weights.is_dir() else source
    given = beside if config is None else config
    plan = from_hf(given, pairing=pairing, base=base, on_error="report")
    data = load(given, "facts")
    return Facts(name, plan=plan, config=data, weights=weights, settled=tuple(settled))
