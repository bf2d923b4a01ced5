"""From what describes a model to its contract."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from posenc._core.errors import ArgumentError, DataError, SpecError, mismatch
from posenc._core.io import inputs
from posenc._core.plan import Entry, Plan
from posenc._core.positions import Positions
from posenc._core.reading import Layer, Note, Reading, Source
from posenc._core.spec import Spec
from posenc.detect.contract.checks import checks_of, sequences
from posenc.detect.contract.contract import FORMAT, Contract, Part
from posenc.detect.contract.read import CONTRACT, parsed, read
from posenc.detect.explain import describe, from_gguf, from_hf
from posenc.encodings.rotary.rope import RoPE

__all__ = ["described", "golden", "of_description", "parts_of"]

PREFIXES = ("preset:", "plan:")


def golden(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    dim: int | None = None,
) -> Contract:
    """The numbers that a model's positions must give, for engines and ports to check against.

    For each kind of layer: frequencies, cosines and sines, queries and keys turned, scores, rows,
    biases, at positions near and far, from float64 arithmetic, each with the error that an engine
    may have which computes angles in float32.

    Parameters
    ----------
    source : object
        A `Reading`, `Plan` or `Spec`; a config as `posenc.from_hf` takes it; the path of a config,
        of a folder that holds one, of a GGUF file, or of a contract that was saved; the JSON of any
        of these; `"preset:NAME"`, `"preset:NAME:WIDTH"` or `"plan:NAME"`.
    pairing : {"half", "interleaved"}, optional
        As of `posenc.from_hf`.
    base : float, optional
        As of `posenc.from_hf`.
    dim : int, optional
        Of a preset: its width, or number of heads.

    Returns
    -------
    Contract
        Its method `save` writes the file.

    Raises
    ------
    DataError
        If the source cannot be read, or leaves something open that changes numbers.
    ArgumentError
        If a name is unknown, or a width is missing.

    Examples
    --------
    >>> import posenc
    >>> contract = posenc.golden(posenc.ALiBi(2))
    >>> contract.of("spec", "bias")[0]["bias"][:6]
    array([ 0.    , -0.0625, -0.125 , -0.1875, -0.25  , -0.3125])
    """
    found = described(source, pairing=pairing, base=base, dim=dim)
    return found if isinstance(found, Contract) else of_description(found)


def described(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
    dim: int | None = None,
) -> Contract | Reading | Plan | Spec:
    """What a source describes, as the value that it is; parameters as of `golden`."""
    given: dict[str, Any] = {"pairing": pairing, "base": base, "on_error": "report"}
    if isinstance(source, str) and source.startswith(PREFIXES):
        return _named(source, dim)
    if dim is not None:
        raise ArgumentError(mismatch("golden: dim", "it beside preset:NAME alone", dim))
    if isinstance(source, (Contract, Reading, Plan, Spec)):
        return source
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _of_json(source, "golden: the text", None, given)
    if not isinstance(source, (str, Path)):
        return from_hf(source, **given)
    path = Path(source)
    if path.suffix == ".safetensors":
        return read(path)
    if path.suffix == ".gguf":
        return from_gguf(path, **given)
    if path.is_dir() or not path.exists():
        return from_hf(path, **given)
    return _of_json(inputs.text_of(path, CONTRACT), str(path), path, given)


def _of_json(text: str, caller: str, path: Path | None, given: Mapping[str, Any]) -> Any:
    data = inputs.parse(text, caller, CONTRACT)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return parsed(data, caller)
    if isinstance(data, dict) and isinstance(data.get("type"), str):
        from posenc.registry import from_json

        made = from_json(text)
        if isinstance(made, (Reading, Plan, Spec)):
            return made
        raise DataError(mismatch(caller, "a spec, a plan or a reading", type(made).__name__))
    return from_hf(text if path is None else path, **given)


def _named(source: str, dim: int | None) -> Plan | Reading:
    from posenc.presets import plan, row

    kind, _, name = source.partition(":")
    if kind == "plan":
        if dim is not None:
            raise ArgumentError(
                mismatch(f"golden: {source}: dim", "none, as a plan has sizes", dim)
            )
        return plan(name)
    name, _, size = name.partition(":")
    made = row(name)
    if size and (dim is not None or not size.isdecimal() or len(size) > 9):
        raise ArgumentError(
            mismatch(f"golden: {source[:80]}", f"preset:{name}:WIDTH", repr(size[:40]))
        )
    dim = int(size) if size else dim
    if dim is None:
        expected = "its width" if made.size == "dim" else f"its number of {made.size}"
        todo = f"Give `dim`, or write preset:{name}:WIDTH."
        raise ArgumentError(mismatch(f"golden: {source}: dim", expected, None, todo))
    placed = None
    with contextlib.suppress(KeyError, SpecError, TypeError):  # none, or one that no value names
        placed = Positions(made.positions["builder"], **made.positions["arguments"])
    known = (Source("spec", origin="preset", where=name),)
    entry = Layer(name, spec=made.build(dim), positions=placed, sources=known)
    return Reading((entry,), model=name)


# --- the parts of a model -------------------------------------------------------------------------


def of_description(found: Reading | Plan | Spec) -> Contract:
    """The contract of a reading, plan or spec.

    Raises
    ------
    DataError
        If a reading has errors.
    """
    notes: tuple[Note, ...] = ()
    settled, model = f"settled: a {'spec' if isinstance(found, Spec) else 'plan'} of posenc", ""
    if isinstance(found, Reading):
        if found.errors:
            todo = "A contract states numbers: settle it first, such as by `pairing` or `base`."
            expected = "a config that leaves nothing open"
            raise DataError(mismatch("golden", expected, "; ".join(found.errors), todo))
        notes, model, settled = found.notes, found.model, describe(found)["sure"]
    parts, checks = [], []
    for part in parts_of(found):
        made, left_out = checks_of(part)
        parts.append(part.replace(left_out=tuple(left_out)))
        checks += made
    return Contract(model, tuple(parts), (*checks, *sequences(parts)), notes, settled)


def parts_of(found: Contract | Reading | Plan | Spec) -> tuple[Part, ...]:
    """What a source describes, part by part, without numbers."""
    if isinstance(found, Contract):
        return found.parts
    if isinstance(found, Spec):
        every = [_of_layer(Layer("spec", spec=found))]
    elif isinstance(found, Reading):
        every = [_of_layer(entry) for entry in found]
    else:
        every = _of_plan(found)
    return tuple(_distinct(every))


def _of_layer(entry: Layer) -> Part:
    name = f"{entry.layer}:{entry.attention}" if entry.attention else entry.layer
    return _part(
        name,
        entry.spec,
        layers=entry.indices,
        length=entry.length,
        convolution=entry.convolution,
        temperature=entry.logit_scale,
        positions=entry.positions,
    )


def _of_plan(plan: Plan) -> list[Part]:
    parts = [] if plan.embeddings is None else _of_entry(plan.embeddings, plan.embeddings.name)
    for entry in plan.entries:
        indices = tuple(i for i, name in enumerate(plan.layers) if name == entry.name)
        parts += _of_entry(entry, entry.name, indices)
    return parts


def _of_entry(entry: Entry, name: str, layers: tuple[int, ...] | None = None) -> list[Part]:
    told: dict[str, Any] = {"layers": layers, "window": entry.window, "scale": entry.scale}
    made = [_part(name, spec, **told) for spec in entry.specs]
    if entry.convolution is not None:
        made.append(_part(name, None, convolution=entry.convolution, **told))
    made = made or [_part(name, None, **told)]
    made[0] = made[0].replace(temperature=entry.temperature)
    for inner in entry.attentions:
        made += _of_entry(inner, f"{name}:{inner.name}", layers)
    return made


def _part(name: str, spec: Spec | None, *, convolution: str = "", **told: Any) -> Part:
    kind = spec.kind if spec is not None else "convolution" if convolution else "none"
    scalings = spec.scalings if isinstance(spec, RoPE) else ()
    lengths = [getattr(scaling, "original_length", None) for scaling in scalings]
    original = next((length for length in lengths if length is not None), None)
    states = ("short", "long") if isinstance(spec, RoPE) and spec.needs_length else ("any",)
    told |= {"convolution": convolution, "original_length": original, "states": states}
    return Part(name, kind=kind, spec=spec, **told)


def _distinct(parts: list[Part]) -> list[Part]:
    """The parts under names of their own: a table and a bias of the same layers share one."""
    seen: Counter[str] = Counter()
    made = []
    for part in parts:
        seen[part.name] += 1
        count = seen[part.name]
        made.append(part if count == 1 else part.replace(name=f"{part.name}#{count}"))
    return made
