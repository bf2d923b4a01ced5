"""Checkpoints from one convention to another: pairings, tables, dialects; never in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posenc._core.calls import checked_call
from posenc._core.errors import DataError, bad_argument, bad_data, refuse_data, suggest
from posenc._core.io.checkpoints import Checkpoint, Stored, open_checkpoint
from posenc._core.spec.answers import Displayed
from posenc._names import __version__
from posenc.detect.convert.destination import Work, others, target_of
from posenc.detect.convert.edits import Change, How, Move, changed_config, table_change
from posenc.detect.convert.verification import Probe, check_whole, probe
from posenc.detect.explain import PAIRINGS
from posenc.detect.facts.model import of_weights
from posenc.detect.facts.plan import is_inside
from posenc.detect.facts.weights.evidence import measured
from posenc.detect.facts.weights.heads import Heads, Model, Projections, read_model
from posenc.detect.facts.weights.pairing import PairingFinding, weighed
from posenc.detect.facts.weights.projections import AttentionTensors, HeadTensor, find, order_of
from posenc.encodings.api import Pairing, RotarySpec, TableSpec
from posenc.presets.families import projection_names

MOST_LINES = 12  # of tensors that change, for people

KEYS, GAINS = ("k", "one_k"), ("q_gain", "k_gain")


@dataclass(frozen=True)
class Conversion(Displayed):
    """What a conversion does, or did.

    Parameters
    ----------
    source, output : str
        The files or folders; `output` is empty for a plan.
    pairing : tuple of str or None
        The pairing before and after, where it changes.
    source_of_pairing : str
        Where the pairing before was read.
    tensors : mapping of str to str
        What happens to each tensor that changes, in words.
    copied : int
        Tensors that are copied byte for byte.
    config : tuple of str
        What changes in the config, and what a reader of it must be told.
    files : mapping of str to str
        What becomes of each other file of a folder.
    probe : Probe or None
        What the forward probe saw.
    evidence : PairingFinding or None
        What states the pairing before, and what the weights say to that.
    """

    source: str
    output: str
    pairing: tuple[str, str] | None
    source_of_pairing: str
    tensors: Mapping[str, str]
    copied: int
    config: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    probe: Probe | None = None
    evidence: PairingFinding | None = None

    def __str__(self) -> str:
        shown, pairing = list(self.tensors.items()), self.pairing or ("", "")
        left_out = ", ".join(name for name, what in self.files.items() if what != "copied")
        more = len(shown) - MOST_LINES
        how = f"{pairing[0]} according to {self.source_of_pairing}"
        why = "left out, as they may hold the weights as they were"
        return "\n".join([
            f"{self.source} -> {self.output or '(nothing is written)'}",
            *([f"pairing {' -> '.join(pairing)}; {how}"] if self.pairing else []),
            *(f"  {name}  {what}" for name, what in shown[:MOST_LINES]),
            *([f"  … and {more} more (all of them with --json)"] if more > 0 else []),
            f"{len(shown)} tensors change, {self.copied} are copied byte for byte",
            *(f"config: {sentence}" for sentence in self.config),
            *([f"{why}: {left_out}"] if left_out else []),
            *self.checked(),
        ])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "source": self.source,
            "output": self.output,
            "pairing": None if self.pairing is None else list(self.pairing),
            "source_of_pairing": self.source_of_pairing,
            "tensors": dict(self.tensors),
            "copied": self.copied,
            "config": list(self.config),
            "files": dict(self.files),
            "probe": None if self.probe is None else self.probe.to_dict(),
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
        }

    def checked(self) -> list[str]:
        """What was compared, and what the pairing before rests on, for people."""
        lines = [] if self.probe is None else self.probe.words()
        if self.evidence is not None:
            lines.append(f"the source is {self.evidence.stated}: {self.evidence.why}")
        return lines


@checked_call
def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    tables: Mapping[str, tuple[TableSpec, TableSpec]] | None = None,
    method: How = "cubic_antialias",
    dialect: Literal["hf4", "hf5"] | None = None,
    layout: Projections | None = None,
    config: Any = None,
    existing: Literal["refuse", "replace"] = "refuse",
    progress: Callable[[int], object] | None = None,
) -> Conversion:
    """Write a checkpoint in another convention, to a new file or folder.

        half          [a_0 … a_n-1 | b_0 … b_n-1]
        interleaved   [a_0 b_0 a_1 b_1 …]            pair j is (a_j, b_j) in both

    Weights, biases and adapters of queries and keys, and the gains of their norms, change the order
    of the channels that turn, head by head; all other tensors are copied byte for byte. Then random
    inputs go through both, and the scores of every head must agree; `probe` says which heads could
    be compared. Converting back gives every tensor bit for bit. What was done is recorded in the
    metadata of the file, and read by the next conversion.

    The probe turns the source by the pairing that is stated, so it does not show that this is the
    right one. The weights are asked first, as by `detect_pairing`: where they look otherwise,
    nothing is written unless `layout=Projections(stored=)` states the pairing. `evidence` says what
    it rests on, also where the weights are silent.

    A model must be there as a whole: queries with keys, and every layer that the config counts. An
    adapter, or one file of several (`…-00001-of-00002.safetensors`), may hold one side alone.

    Parameters
    ----------
    source : path
        A `.safetensors` file, an index of several, or a folder with one of these. It is opened for
        reading only.
    output : path, optional
        A new `.safetensors` file, or a folder where the source is a folder or an index. It appears
        when it is complete. Without it nothing is written, and the plan returned.
    pairing : {"half", "interleaved"}, optional
        The pairing to write.
    tables : mapping of str to (TableSpec, TableSpec), optional
        Tensors that hold position tables: what they are and what they become. Computed tables of
        the same sines and cosines change the order of their channels; learned tables the number of
        rows, of reserved rows, or both.
    method : str
        For learned tables of another length: a `method` or a `how` of `posenc.resize`.
    dialect : {"hf4", "hf5"}, optional
        The dialect of the rotary parameters of the config, as in `posenc.to_hf`; of folders.
    layout : Projections, optional
        What the config does not say: heads, the stored pairing, how fused weights are packed.
    config : mapping or path, optional
        The config, where it does not stand beside the weights.
    existing : {"refuse", "replace"}
        What happens to an output that exists. Of folders only those that were written here are
        replaced.
    progress : callable, optional
        Called with numbers of bytes while they are written.

    Returns
    -------
    Conversion
        What changed, in words, and what the probe saw.

    Raises
    ------
    DataError
        If names, widths or the config are not understood, queries, keys or a layer are missing, or
        the probe fails.
    ArgumentError
        If nothing is asked for, or the output is the source.
    FileExistsError
        If the output exists.

    Examples
    --------
    >>> import numpy as np, posenc, tempfile, pathlib
    >>> from safetensors.numpy import save_file
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> weights = {f"layers.0.{n}_proj.weight": np.eye(8, dtype="float32") for n in "qk"}
    >>> save_file(weights, folder / "half.safetensors")
    >>> layout = posenc.Projections(heads=2, rope=posenc.RoPE(4, pairing="half"))
    >>> made = posenc.convert(folder / "half.safetensors", folder / "new.safetensors",
    ...                       pairing="interleaved", layout=layout)
    >>> made.pairing, made.probe.heads
    (('half', 'interleaved'), 2)
    """
    caller = "convert"
    projections = layout or Projections()
    if pairing is None and not tables and dialect is None:
        raise bad_argument(
            "convert",
            "something to change",
            "nothing",
            'Give pairing="half" or "interleaved", tables= or dialect=.',
        )
    checkpoint = open_checkpoint(source, config=config, caller=caller)
    target = None if output is None else target_of(checkpoint, Path(output), existing)
    if dialect is not None and (checkpoint.folder is None or checkpoint.config is None):
        raise bad_argument(
            "convert: dialect",
            "a folder with a config",
            "none",
            "`posenc.to_hf` translates a config by itself.",
        )
    changes: dict[str, Change] = {}
    attentions: tuple[AttentionTensors, ...] = ()
    before, source_of_pairing, left, finding = "", "", [], None
    if pairing is not None:
        about = of_weights(checkpoint, source, config=config, stored=projections.stored)
        model = read_model(checkpoint, about.plan, projections, caller)
        part = not checkpoint.whole
        attentions = find(checkpoint, model, caller, alone=(*KEYS, *(GAINS if part else ())))
        if not part:
            check_whole(checkpoint, attentions, model, caller)
        source_of_pairing, left = model.source, _left(checkpoint, model)
        left += about.require(caller)
        finding = _examined(attentions, model, projections, every=target is not None)
        refuse_data(
            (before := finding.stated) == pairing,
            "convert: pairing",
            "a pairing other than that of the source",
            f"{before}, which it is already",
            "If that is wrong, say `layout=Projections(stored=)`.",
        )
        for attention in attentions:
            changes |= _moved(attention, pairing)
    for name, specs in (tables or {}).items():
        changes[name] = table_change(name, _tensor(checkpoint, name), *_two(name, specs), method)
    new_config, remarks = changed_config(
        checkpoint.config,
        pairing=pairing if before else None,
        attention=projections.attention,
        tables=tables,
        dialect=dialect,
    )
    remarks += left
    record = _recorded(checkpoint, pairing, projections, tables, dialect)
    check = None
    if target is not None:
        work = Work(checkpoint, changes, record, new_config, progress or (lambda _: None))
        with work.written(target, existing) as result:
            if attentions:
                check = probe(attentions, result, lambda old: old.replace(order=pairing))
    return Conversion(
        str(source),
        "" if output is None else str(output),
        (before, pairing) if before and pairing else None,
        source_of_pairing,
        {name: change.what for name, change in changes.items()},
        sum(len(layout.tensors) for layout in checkpoint.layouts.values()) - len(changes),
        tuple(remarks),
        others(checkpoint),
        check,
        finding,
    )


# --- arguments ------------------------------------------------------------------------------------


def _two(name: str, specs: Any) -> tuple[TableSpec, TableSpec]:
    if not isinstance(specs, (tuple, list)) or len(specs) != 2:
        raise bad_argument(
            f"convert: tables[{name!r}]",
            "two specs, what it is and what it becomes",
            repr(specs)[:80],
        )
    return specs[0], specs[1]


def _tensor(checkpoint: Checkpoint, name: str) -> Stored:
    tensors = checkpoint.tensors
    if name not in tensors:
        close = [n for n in tensors if any(word in n.lower() for word in ("pos", "wpe", "embed"))]
        raise bad_data(
            "convert: tables",
            "the name of a tensor",
            repr(name),
            suggest(name, close[:100] or list(tensors)[:100]),
        )
    return tensors[name]


# --- plan -----------------------------------------------------------------------------------------


def _examined(
    attentions: tuple[AttentionTensors, ...], model: Model, layout: Projections, *, every: bool
) -> PairingFinding:
    """The pairing that is stated; `DataError` where the weights contradict what others state."""
    orders = sorted({attention.heads.channels.order for attention in attentions})
    refuse_data(len(orders) > 1, "convert", "one pairing in all layers", ", ".join(orders))
    finding = weighed(orders[0], model.source, "config", measured(attentions, every=every), {})
    if finding.contradiction is not None and layout.stored is None:
        raise DataError(f"convert: {finding.contradiction.text} Nothing was written.")
    return finding


def _left(checkpoint: Checkpoint, model: Model) -> list[str]:
    """What is said of attentions inside layers, which are converted by themselves."""
    there = [n for n in checkpoint.tensors if not model.layout.attention and is_inside(n)]
    notes = []
    for name in sorted({word for n in there for word in projection_names().inside if word in n}):
        entries = [e for e in model.reading or () if e.attention == name]
        orders = sorted({e.spec.channels.order for e in entries if isinstance(e.spec, RotarySpec)})
        count = sum(name in n for n in there)
        notes.append(
            f"the {name}, an attention inside the layers, pairs "
            f"{', '.join(orders) or 'in a way that is not known here'}, and its {count} tensors "
            f"stay as they are: convert it by itself, `layout=Projections(attention={name!r})` or "
            f"--attention {name}"
        )
    return notes


def _moved(
    attention: AttentionTensors, pairing: Literal["half", "interleaved"]
) -> dict[str, Change]:
    """The order of the channels of each tensor of a layer."""
    heads = attention.heads
    target = heads.channels.replace(order=pairing)
    return {
        tensor.name: Move(tensor.name, _told(tensor), tensor.view, _order(tensor, heads, target))
        for tensor in attention.tensors
        if any(segment.part in ("q", "k") for segment in tensor.segments)
    }


def _order(tensor: HeadTensor, heads: Heads, target: Pairing) -> np.ndarray:
    order = np.arange(tensor.view[1], dtype=np.int64)
    for part, begin, width in tensor.segments:
        if part in ("q", "k"):
            order[begin : begin + width] = begin + order_of(
                heads.channels, target, heads.rotated, width
            )
    return order


def _told(tensor: HeadTensor) -> str:
    widths = {s.width for part in ("q", "k") for s in tensor.of(part)}
    heads = " and ".join(
        f"{count} head{'s' if count > 1 else ''} of {word}"
        for part, word in (("q", "queries"), ("k", "keys"))
        if (count := len(tensor.of(part)))
    )
    return f"{tensor.kind}: {heads}, {'/'.join(map(str, sorted(widths)))} wide"


def _recorded(
    checkpoint: Checkpoint, pairing: Any, layout: Projections, tables: Any, dialect: Any
) -> dict[str, Any]:
    """What the metadata of the result say; the pairing of an earlier conversion stays."""
    record = {**checkpoint.record, "posenc": __version__}
    stated = record.pop("pairing_of", None)
    pairs = stated.items() if isinstance(stated, dict) else ()  # of no other: it does not travel on
    parts = {pattern: order for pattern, order in pairs if order in PAIRINGS}
    if pairing is not None and layout.pattern == "*":
        record["pairing"] = pairing
        parts = {pattern: order for pattern, order in parts.items() if is_inside(pattern)}
    elif pairing is not None:
        parts[layout.pattern] = pairing
    if parts:
        record["pairing_of"] = parts
    if tables:
        record["tables"] = record.get("tables", {}) | {
            name: specs[1].to_dict() for name, specs in tables.items()
        }
    if dialect is not None:
        record["dialect"] = dialect
    return record
