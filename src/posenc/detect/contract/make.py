"""From what describes a model to its contract."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

from posenc import registry
from posenc._core.calls import checked_call
from posenc._core.errors import (
    DataError,
    KeywordError,
    SpecError,
    bad_argument,
    bad_data,
    refuse_data,
    suggest,
)
from posenc._core.foreign_names import CALLS
from posenc._core.io import inputs
from posenc._core.positions.builder import Positions
from posenc._core.reading import Layer, Reading, Source
from posenc._core.spec.plan import Entry, Plan
from posenc._core.spec.spec import Spec, from_dict
from posenc._names import VALUES
from posenc.detect.contract.checks import records
from posenc.detect.contract.contract import FORMAT, Contract, Part
from posenc.detect.contract.files import CONTRACT, parsed, read
from posenc.detect.explain import describe
from posenc.detect.explain.config.unread_keys import NOTHING
from posenc.detect.facts import ASKED, facts
from posenc.detect.facts.engines import ENGINE
from posenc.encodings.rotary.rope import RoPE

PREFIXES = ("preset:", "plan:")
OBJECT = "a config, a spec, a plan or a contract, as a JSON object"
NO_CONFIG = "Give the config.json of the model, its folder, or a file of `posenc golden`."


@checked_call
def golden(
    source: Any,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
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
        of these; `"preset:NAME:WIDTH"` (or heads) or `"plan:NAME"`; `"engine:NAME=CONFIG"` for what
        vLLM, SGLang or llama.cpp makes of a config, by a table of its own numbers, and for what
        the class of MLX computes, which is asked.
    pairing : {"half", "interleaved"}, optional
        As of `posenc.from_hf`.
    base : float, optional
        As of `posenc.from_hf`.

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
    model = described(source, "golden", pairing=pairing, base=base)
    if isinstance(model, Contract):
        return model
    numbers = records(parts_of(model))
    if isinstance(model, Reading):
        return Contract(model.model, *numbers, model.notes, describe(model)["sure"])
    kind = "spec" if isinstance(model, Spec) else "plan"
    return Contract("", *numbers, settled=f"settled: a {kind} of posenc")


def _instead(*_: Any, **__: Any) -> NoReturn:
    """Refuse what the command has as `golden write`, as people write it in Python."""
    raise KeywordError(f"posenc.golden is a function. {CALLS['golden']}")


vars(golden).update(dict.fromkeys(("write", "save", "create", "check", "load", "read"), _instead))


def described(source: Any, caller: str, **settled: Any) -> Contract | Reading | Plan | Spec:
    """What a source describes, as the value that it is; parameters and errors as of `golden`."""
    if isinstance(source, str) and source.startswith(PREFIXES):
        return _named(source, caller)
    if isinstance(source, str) and source.startswith(ENGINE):
        from posenc.detect.contract.sides.sides import contract_of

        return contract_of(source, caller)
    if isinstance(source, (Contract, Plan, Spec)):
        return source
    if isinstance(source, Reading):
        return _settled(source, caller)
    text = source if isinstance(source, str) and source.lstrip().startswith(("{", "[")) else None
    path = None
    if text is None and isinstance(source, (str, Path)):
        path = inputs.named(source, caller)
        if path.suffix == ".safetensors":
            return read(path)
        plain = path.suffix not in (".gguf", *inputs.OTHERS)
        if plain and path.exists() and not path.is_dir():
            caller, text = str(path), inputs.text_of(path, CONTRACT)
    if text is None:  # an object, a folder, a header, or a path of nothing, which is told so
        return _known(source, caller, **settled)
    data = inputs.parse(text, caller, CONTRACT)
    if isinstance(data, dict) and {"auto_map", "_class_name"} & {*data} and text is not source:
        return _known(source, caller, **settled)  # code, or a pipeline, may lie beside it
    received = {list: "a list", str: "a text", type(None): "null"}.get(type(data), "a number")
    refuse_data(not isinstance(data, dict), caller, OBJECT, received, NO_CONFIG)
    if data.get("format") == FORMAT:
        return parsed(text.encode(errors="surrogatepass"), caller) if path is None else read(path)
    name = "" if "model_type" in data else data.get("type", "")
    if name and suggest(name, (*registry.names(), *VALUES)).startswith("Did"):
        return _value(data, caller)
    inputs.check_count(text, caller, inputs.CONFIG)
    return _known(data, caller, **settled)


def _known(source: Any, caller: str, **settled: Any) -> Reading:
    """What a model says, if nothing in it contradicts that and nothing is left open."""
    about = facts(source, **settled)
    about.require(caller, *ASKED)
    return _settled(about.reading, caller, about.config)


def _settled(model: Reading, caller: str, data: Any = None) -> Reading:
    """A reading without errors, or what is wrong with its config."""
    if model.errors == (NOTHING,) and isinstance(data, Mapping) and "model_type" not in data:
        keys = ", ".join(sorted(map(str, data))[:8])
        received = f"an object with the keys {keys}" if keys else "an empty object"
        raise bad_data(caller, OBJECT, f"{received}, which is no config", NO_CONFIG)
    if model.errors:
        received = "; ".join(model.errors)
        # An error that names an argument has said what to do.
        todo = "" if re.search(r"\b(pairing|base)=", received) else "State it in the config."
        raise DataError(f"{caller}: the config leaves something open: {received}. {todo}".rstrip())
    return model


def _value(data: dict[str, Any], caller: str) -> Any:
    """The spec, plan or reading that plain JSON types stand for."""
    with inputs.understood(caller, OBJECT):
        value = from_dict(data, registry.lookup, caller)
    kinds = (Reading, Plan, Spec)
    refuse_data(
        not isinstance(value, kinds), caller, "a spec, a plan or a reading", type(value).__name__
    )
    return _settled(value, caller) if isinstance(value, Reading) else value


def _named(source: str, caller: str) -> Plan | Reading:
    from posenc.presets import plan, row

    kind, _, name = source.partition(":")
    if kind == "plan":
        return plan(name)
    name, _, size = name.partition(":")
    preset = row(name)
    if not size.isdecimal() or len(size) > 9:
        what = "its width" if preset.size == "dim" else f"its number of {preset.size}"
        raise bad_argument(
            f"{caller}: {source[:80]}", f"preset:{name}:WIDTH, with {what}", repr(size[:40])
        )
    placed = None
    with contextlib.suppress(KeyError, SpecError, TypeError):  # none, or one that no value names
        rule = preset.positions
        placed = Positions(rule["builder"], **rule["arguments"])
    sources = (Source("spec", origin="preset", where=name),)
    layer = Layer(name, spec=preset.build(int(size)), positions=placed, sources=sources)
    return Reading((layer,), model=name)


# --- the parts of a model -------------------------------------------------------------------------


def parts_of(model: Contract | Reading | Plan | Spec) -> tuple[Part, ...]:
    """What a source describes, part by part, without numbers."""
    if isinstance(model, Contract):
        return model.parts
    if isinstance(model, Spec):
        parts = [_part("spec", model)]
    elif isinstance(model, Reading):
        parts = [part for entry in model for part in _of_layer(entry)]
    else:
        first = model.embeddings
        parts = [] if first is None else _of_entry(first, first.name)
        for entry in model.entries:
            parts += _of_entry(
                entry,
                entry.name,
                tuple(i for i, name in enumerate(model.layers) if name == entry.name),
            )
    # A table and a bias of the same layers share a name.
    names = [part.name for part in parts]
    return tuple(
        part.replace(name=f"{part.name}#{1 + earlier}")
        if (earlier := names[:i].count(part.name))
        else part
        for i, part in enumerate(parts)
    )


def _of_layer(entry: Layer) -> Iterator[Part]:
    """The part of an entry; one for each window where its layers have several."""
    for size, layers in entry.windows or ((None, None),):
        told = f", window {size}" if size is not None and len(entry.windows) > 1 else ""
        yield _part(
            f"{entry.label}{told}", entry.spec, layers=layers or entry.indices, window=size,
            whole=bool(entry.windows) and size is None, length=entry.length,
            convolution=entry.convolution, temperature=entry.logit_scale, positions=entry.positions,
            permuted=entry.permuted,
        )  # fmt: skip


def _of_entry(entry: Entry, name: str, layers: tuple[int, ...] | None = None) -> list[Part]:
    shared: dict[str, Any] = {"layers": layers, "window": entry.window, "scale": entry.scale}
    parts = [_part(name, spec, **shared) for spec in entry.specs]
    if entry.convolution is not None or not parts:
        parts.append(_part(name, None, convolution=entry.convolution or "", **shared))
    parts[0] = parts[0].replace(temperature=entry.temperature)
    for inner in entry.attentions:
        parts += _of_entry(inner, f"{name}:{inner.name}", layers)
    return parts


def _part(name: str, spec: Spec | None, *, convolution: str = "", **fields: Any) -> Part:
    kind = spec.kind if spec is not None else "convolution" if convolution else "none"
    scalings = spec.scalings if isinstance(spec, RoPE) else ()
    return Part(
        name, kind=kind, spec=spec, convolution=convolution,
        original_length=next(
            (n for s in scalings if (n := getattr(s, "original_length", None)) is not None), None
        ),
        states=("short", "long") if isinstance(spec, RoPE) and spec.needs_length else ("any",),
        **fields,
    )  # fmt: skip
