"""What is known of a model from all its sources: read once, each tier when it is asked for."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

from posenc._core.calls import checked_call
from posenc._core.errors import DataError, PosencError, bad_argument, refuse_data
from posenc._core.io import inputs
from posenc._core.io.checkpoints import Checkpoint, folder_of, load, read_header
from posenc._core.reading import Note, Reading
from posenc._core.spec.answers import Displayed
from posenc._core.spec.spec import Spec, Value
from posenc.detect.explain import PAIRINGS, fitting, from_gguf, from_hf, in_words, part_at
from posenc.detect.facts import arrays
from posenc.detect.facts.fact import Contradiction, Fact, Name
from posenc.detect.facts.loaded import ENDINGS, opened, unused_modules
from posenc.detect.facts.plan import conflicts, header_config, of_plan, of_records, stamped
from posenc.detect.facts.weights.heads import Projections, read_model, tells_heads, text_of
from posenc.detect.facts.weights.pairing import PairingFinding, examined
from posenc.detect.facts.weights.projections import counted, counted_blocks, find
from posenc.detect.facts.weights.segments import MisfitError
from posenc.encodings.rotary.base import RotarySpec

BASE = 10_000.0  # of a rotation whose angles do not matter
GROUPS = 16  # of heads, that every tool asks; those that are about weights ask all
# What numbers at positions depend on.
ASKED: tuple[Name, ...] = (
    "spec", "pairing", "frequencies", "rows", "buckets", "window", "length", "heads", "layers",
)  # fmt: skip
HEADERS: tuple[Name, ...] = ("rows", "buckets", "frequencies", "length")
WEIGHTS = (".safetensors", ".index.json", *ENDINGS)


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
        `gguf`, `config`, or the name of another format of configs.
    words : mapping, optional
        Keys of transformers, in which `config` is, that the file calls otherwise: as it does.

    Examples
    --------
    >>> import posenc
    >>> known = posenc.facts({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4})
    >>> [(fact.value, fact.source, fact.rests_on) for fact in known.of("pairing")]
    [('half', 'row', "posenc's row for llama")]
    >>> known.contradictions
    ()
    """

    name: str
    _: KW_ONLY
    plan: Reading
    config: Mapping[str, Any] | None = None
    weights: Any = None
    settled: tuple[Name, ...] = ()
    format: str = "config"
    words: Mapping[str, str] | None = None
    unread = ""  # why weights that are there were not, once the checkpoint was asked for

    # --- what it rests on -------------------------------------------------------------------------

    @functools.cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The headers of the weights; None where there are none that can be read."""
        if self.weights is None or self.format == "gguf":
            return None
        try:
            return opened(self.weights, dict(self.config or {}), "facts")
        except (DataError, OSError) as error:
            own = self.weights
            # A folder may have a config alone, beside files of torch that are no weights.
            if not (isinstance(own, Path) and own.is_dir()) or {*WEIGHTS} & {
                file.suffix for name in ("*.safetensors", "*model*") for file in own.glob(name)
            }:
                vars(self)["unread"] = str(error).removeprefix("facts: ")
            return None

    @functools.cached_property
    def stamp(self) -> tuple[Fact, ...]:
        """The pairings that conversions recorded, by the names of the tensors they are of."""
        return () if self.checkpoint is None else tuple(of_records(self.checkpoint.layouts))

    @functools.cached_property
    def reading(self) -> Reading:
        """The plan as it holds: with the pairing that a conversion recorded."""
        plan = self.plan if "pairing" in self.settled else stamped(self.plan, self.stamp)
        unread = [self.unread] if self.checkpoint is None and self.unread else []
        notes = (Note("warning", f"the weights were not read: {why}") for why in unread)
        return plan.replace(notes=(*plan.notes, *notes))

    @functools.cached_property
    def headers(self) -> tuple[Fact, ...]:
        """What shapes of tensors and small tensors say."""
        tensors = {} if self.checkpoint is None else self.checkpoint.tensors
        shapes = {
            key: one.tensor.shape for key, one in tensors.items()
            if one.tensor.stored and not one.tensor.dtype.lower().startswith("c")
        }  # fmt: skip
        ladders = functools.partial(arrays.of_buffers, read=lambda key: tensors[key].array())
        numbers = [*ladders(shapes)]
        # Where those of a loaded model differ, one may stand unused: its forward says, run on meta.
        if len(numbers) > 1 and hasattr(self.weights, "named_parameters"):
            unused = unused_modules(self.weights, arrays.holds_ladder)
            shapes = {k: v for k, v in shapes.items() if k.rpartition(".")[0] not in unused}
            numbers = [*ladders(shapes)]
        rows = arrays.of_tables(shapes, lambda key, at, count: tensors[key].numbers(at, count))
        return (*arrays.of_shapes(shapes), *numbers, *rows)

    @functools.cached_property
    def _projections(self) -> Projections | None:
        """Which weights hold the heads that turn; None where there are none."""
        rotary = (e.layer for e in self.plan if isinstance(e.spec, RotarySpec) and not e.attention)
        parts = [*dict.fromkeys(part_at(self.config or {}, layer)[0] for layer in rotary)]
        if self.checkpoint is None or len(parts) < 2:
            return Projections() if self.checkpoint is not None and parts else None
        part, only = text_of(self.checkpoint.tensors, parts)
        return Projections(part=part, only=only)

    @functools.cached_property
    def evidence(self) -> PairingFinding | None:
        """What the weights say of the pairing; None where that is settled or cannot be asked."""
        own, checkpoint = self._projections, self.checkpoint
        if checkpoint is not None and own is not None and "pairing" not in self.settled:
            with contextlib.suppress(PosencError):
                return examined(checkpoint, self.plan, own, "facts", most=GROUPS)
        return None

    @functools.cached_property
    def _misfit(self) -> Contradiction | None:
        """Heads or layers of the config that the weights cannot have."""
        if self.format == "gguf":
            return counted_blocks(read_header(Path(self.weights)))
        own, checkpoint = self._projections, self.checkpoint
        if checkpoint is None or own is None:
            return None
        try:
            model = read_model(checkpoint, self.plan, own, "facts")
            attentions = find(checkpoint, model, "facts")
            if checkpoint.whole:
                embeds = any(map(arrays.WORDS.search, checkpoint.tensors))
                # Of a model in memory some layers may be on a disk, or taken out.
                whole = None if hasattr(self.weights, "named_parameters") else embeds
                return counted(checkpoint, attentions, model, whole=whole)
        except MisfitError as error:
            one = error.contradiction
            stored = checkpoint.tensors[one.other.rests_on].tensor
            plain = stored.dtype.lower().startswith(("f", "bf"))  # packed numbers have other rows
            is_told = tells_heads(stored.name, checkpoint.tensors, model.part)
            return one if plain and is_told else None
        except PosencError:
            pass
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
        for fact in dict.fromkeys((*of_plan(self.reading, data), *of_plan(self.plan, data))):
            yield replace(fact, rests_on=in_words(fact.rests_on, self.words or {}))
        if name in (None, *HEADERS):
            yield from self.headers
        if name in (None, "pairing") and self.evidence is not None:
            yield from self.evidence.facts

    def _cut(self) -> Iterator[Contradiction]:
        """Tables of cosines that end before the length of the config."""
        for fact in (fact for fact in self.headers if fact.name == "length"):
            if entry := arrays.short(fact.value, arrays.named(self.plan, fact.rests_on)):
                stated = next(one for one in self.of("length") if one.layer == entry.label)
                yield Contradiction(stated, fact, arrays.MEND)

    @functools.cached_property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """Facts that exclude each other, but for what the caller has stated."""
        own = self.checkpoint
        tensors = own.tensors.items() if own is not None and own.whole else ()
        every = (
            *conflicts(self.stamp),
            *arrays.contradicted(self.plan, self.headers),
            *self._cut(),
            *arrays.absent(self.plan, {key: stored.tensor.shape for key, stored in tensors}),
            self._misfit,
            None if self.evidence is None else self.evidence.contradiction,
        )
        return tuple(one for one in every if one and one.one.name not in self.settled)

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
        agreed = (
            Note("remark", f"pairing {finding.stated}: {finding.why}")
            for finding in [self.evidence]
            if finding is not None and finding.pairing != "unknown"
        )
        errors = (Note("error", one.text) for one in self.contradictions)
        return self.reading.replace(notes=(*errors, *self.reading.notes, *agreed))

    def to_json(self, *, indent: int | None = None) -> str:
        """All facts and contradictions, as JSON."""
        plain = [
            {**vars(fact), "value": fact.value.to_dict()}
            if isinstance(fact.value, Value)
            else vars(fact)
            for fact in self._facts(None)
        ]
        return json.dumps(
            {
                "name": self.name,
                "facts": plain,
                "contradictions": [one.text for one in self.contradictions],
            },
            indent=indent,
        )


@checked_call
def facts(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    config: Any = None,
) -> Facts:
    """Everything that is known of the positions of one model, each fact with its source.

    Reading runs no code: a modelling file is read as text. Of a loaded model whose modules keep
    several ladders of frequencies, two tokens go through its forward on the meta device, which has
    no numbers: that tells which modules are in use.

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
    words: dict[Name, object] = {"pairing": pairing, "frequencies": base}
    stated = tuple(name for name, value in words.items() if value is not None)
    if isinstance(source, Reading):
        return Facts(source.model, plan=source)
    if isinstance(source, Spec):
        raise bad_argument(
            "facts",
            "the config of a model",
            type(source).__name__,
            "help(type(spec)) explains an encoding. For longer texts a rotation becomes "
            "spec.replace(scaling=posenc.scaling.YaRN(…)), and a learned table grows by "
            "posenc.resize(spec, params, length, how='tile').",
        )
    weights, origin, name = _placed(source, config)
    folder = origin if isinstance(origin, Path) and origin != weights and origin.is_dir() else None
    alone = folder and not any((folder / file).is_file() for file in inputs.CONFIGS)
    expected = f"{inputs.CONFIG_FILE} beside the weights"
    refuse_data(alone, "facts", expected, f"{name} alone", inputs.reader_of(name))
    if isinstance(origin, Path) and origin.suffix == ".gguf":
        plan = from_gguf(origin, pairing=pairing, base=base, on_error="report")
        data = header_config(origin)
        return Facts(name, plan=plan, config=data, weights=origin, settled=stated, format="gguf")
    plan = from_hf(origin, pairing=pairing, base=base, on_error="report")
    data = load(origin, "facts")
    about = Facts(name, plan=plan, config=data, weights=weights, settled=stated)
    for one in fitting(data)[:1]:
        about = replace(about, config=one.config, format=one.format["name"], words=one.words)
    return about


def _placed(source: Any, config: Any) -> tuple[Any, Any, str]:
    """Where the weights of a source are, if it has any, and its config; and its name."""
    if isinstance(source, str) and not source.strip():
        inputs.named(source, "facts")
    if hasattr(source, "named_parameters"):
        own = getattr(source, "config", None)
        # Of a dictionary the class of the model says what it is; of none, that there is none.
        own = source if own is None or isinstance(own, Mapping) else own
        return source, own if config is None else config, type(source).__name__
    several = isinstance(source, (list, tuple)) and bool(source)
    one = inputs.named(source[0], "facts") if several else source
    if folder_of(one) is None:
        return None, source if config is None else config, type(source).__name__
    path = Path(one)
    has_weights = several or path.is_dir() or path.name.endswith(WEIGHTS)
    beside = path if path.is_dir() or not has_weights else path.parent
    weights = (source if several else path) if has_weights else None
    return weights, beside if config is None else config, str(beside if several else path)


def of_weights(checkpoint: Checkpoint, source: Any, *, config: Any, stored: Any) -> Facts:
    """What is known of a checkpoint of a source, whose config may be absent.

    A base, and a pairing that nothing states, are filled in where no entry is left without them:
    which channels turn does not depend on them. Whoever asks compares the pairing itself.
    """
    about = Facts(_placed(source, config)[2], plan=Reading(()), weights=source)
    orders = (stored, *(fact.value for fact in of_records(checkpoint.layouts)))
    both: dict[str, Any] = {
        "base": BASE,
        "pairing": next((order for order in orders if order in PAIRINGS), None),
    }
    for words in ({}, {"base": BASE}, both) if checkpoint.config is not None else ():
        about = facts(source, config=config, **words)
        if any(isinstance(entry.spec, RotarySpec) for entry in about.plan):
            break
    about = replace(about, settled=(*about.settled, "pairing"))
    vars(about)["checkpoint"] = checkpoint
    return about
