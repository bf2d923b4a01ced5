"""A config in another format: transformers', or one of `configs/formats.json`.

What is written is what a config says of positions and of the sizes that these depend on; a format
spells it in its own keys. The result is read again, and what that reading says otherwise is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from posenc._core.calls import checked_call
from posenc._core.errors import bad_data
from posenc._core.io.checkpoints import load
from posenc._core.reading import Reading
from posenc.detect.explain.config.unread_keys import speaks
from posenc.detect.explain.config.view import (
    COUNT_KEYS,
    DICTIONARIES,
    HEAD_COUNTS,
    MAIN_PARTS,
    SHARE,
    WIDTHS,
    Keys,
    check_name,
)
from posenc.detect.explain.dialects import DIALECTS, Translation, differences, to_hf
from posenc.detect.explain.formats import config_of, fitting
from posenc.detect.explain.reader import from_hf
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets.config_formats import PREFIX, ConfigFormat, config_formats

MOST = 6  # keys that are named
HF = {"hf": "hf5", **dict.fromkeys(DIALECTS, "")}  # hf is the newer dialect
SIZES = ("hidden_size", "n_embd", "d_model", "dim")
SCALING = "rope_scaling"
PERMUTE = (
    "the pairing of channels is another there: permute the weights too, by `posenc convert "
    "--pairing`, or scores are wrong"
)


def targets() -> tuple[str, ...]:
    """The formats that a config can be written in."""
    return (*HF, *(name for name, row in config_formats().items() if row.written))


@checked_call
def convert_config(
    config: Any,
    to: str,
    *,
    pairing: Literal["half", "interleaved"] | None = None,
    base: float | None = None,
) -> Translation:
    """Write the positions of a config in another format, as `posenc convert-config` does.

    Parameters
    ----------
    config : mapping, str, path, or config object
        What `posenc.explain` reads, but for GGUF files.
    to : str
        `hf` or `hf5` (`rope_parameters`), `hf4` (`rope_theta`, `rope_scaling`), or a format:
        `meta`, `mistral`, `torchchat`, `executorch`, `litgpt`, `neox`, `olmo` or `trtllm`.
    pairing : {"half", "interleaved"}, optional
        The pairing of channels, for families that are not known.
    base : float, optional
        The base, for sources that do not state it.

    Returns
    -------
    Translation
        `config`, with the keys that concern positions, and sizes; `lost`, a sentence for each thing
        that is read back otherwise, or was not written. JSON is YAML, too.

    Raises
    ------
    ArgumentError
        If there is no such format.
    DataError
        If the config leaves something open, or lacks a key that the format needs.

    Examples
    --------
    >>> import posenc
    >>> config = {"dim": 64, "n_heads": 4, "n_layers": 2, "rope_base": 5e5, "block_size": 512}
    >>> made = posenc.convert_config(config, "executorch")
    >>> made.config["rope_theta"], made.config["use_hf_rope"], made.lost
    (500000.0, False, ('max_position_embeddings has no key there: 512',))
    """
    check_name("convert_config: to", to, targets(), optional=False)
    before = from_hf(config, pairing=pairing, base=base)
    data = load(config, "convert_config")
    source = config_of(data)
    foreign = str(source.get("model_type", "")).startswith(PREFIX)
    if to in HF and not foreign:
        return to_hf(source, HF[to] or to)  # type: ignore[arg-type]
    words = _words(source, before)
    if to in HF:
        family = config_formats()[str(source["model_type"]).removeprefix(PREFIX)].family
        dialect: Any = HF[to] or to
        made, lost = to_hf({**source, **words, "model_type": family}, dialect)
        kept = {*words}
    else:
        row, lost = config_formats()[to], ()
        made, kept = _spelled(row, words, before), {*row.names, SCALING, *DICTIONARIES}
    after = from_hf(made, on_error="report")
    found = [*lost, *differences(before, after)]
    if any(_order(one) != _order(other) for one, other in zip(before, after, strict=False)):
        found.append(PERMUTE)
    found += [
        f"{key} has no key there: {json.dumps(words[key])[:60]}"
        for key in ("max_position_embeddings", "sliding_window", "layer_types")
        if words.get(key) is not None and key not in kept
    ]
    read = {key for one in fitting(data) for key in one.words.values()} if foreign else kept
    if silent := [key for key in data if key not in read and not speaks(key)]:
        more = ", …" if len(silent) > MOST else ""
        found.append(f"not written, as they say nothing of it: {', '.join(silent[:MOST])}{more}")
    return Translation(made, tuple(dict.fromkeys(found)))


def _order(entry: Any) -> str | None:
    """The pairing of an entry that turns."""
    return entry.spec.channels.order if isinstance(entry.spec, RotarySpec) else None


def _words(source: Mapping[str, Any], plan: Reading) -> dict[str, Any]:
    """What a config says of positions and sizes, each under the first of its names."""
    flat = to_hf(source, "hf4").config if "rope_parameters" in source else source
    part = next((flat[key] for key in MAIN_PARTS if isinstance(flat.get(key), Mapping)), flat)
    keys = Keys(part)
    entry = next((one for one in plan if isinstance(one.spec, RotarySpec)), None)
    words: dict[str, Any] = {**part}
    for name, spellings in (
        ("hidden_size", SIZES), ("num_attention_heads", HEAD_COUNTS),
        ("num_hidden_layers", COUNT_KEYS),
    ):  # fmt: skip
        if (found := keys.first(spellings)) is not None:
            words[name] = int(found[1])
    if entry is not None:
        spec: Any = entry.spec
        words["rope_theta"] = spec.base
        wide = next((n for one in WIDTHS if (n := keys.evaluate(one)) is not None), spec.dim)
        words |= {"head_dim": int(wide), SHARE: spec.dim / int(wide)}
        if entry.length is not None:
            words["max_position_embeddings"] = entry.length
    architectures = source.get("architectures")
    if isinstance(architectures, list) and architectures:
        words["architecture"] = architectures[0]
    return words


def _spelled(row: ConfigFormat, words: Mapping[str, Any], plan: Reading) -> dict[str, Any]:
    """The keys of a format for words of transformers."""
    order = next((o for o in map(_order, plan) if o is not None), "half")
    part: dict[str, Any] = dict(row.written.get(order, {}))
    for word, names in row.names.items():
        if words.get(word) is not None:
            _put(part, names[0], words[word])
    scaling = words.get(SCALING)
    if isinstance(scaling, Mapping) and scaling.get("rope_type", scaling.get("type")) != "default":
        for rule in row.writes:
            if SCALING in rule["write"]:
                pairs, switches = _inverted(rule["write"][SCALING], scaling), [*_switches(rule)]
                if pairs is not None and not any(_contradicts(row, part, *s) for s in switches):
                    for key, value in [*switches, *pairs]:
                        _put(part, key, value)
                    break
    missing = [key for key in row.all if not any(k in part for k in key.split("|"))]
    if missing:
        expected = f"{row.title} has {' and '.join(missing)}"
        raise bad_data("convert_config", expected, "none in the config")
    for key in reversed(row.parts[0].split(".") if row.parts[0] else ()):
        part = {key: part}
    return part


def _contradicts(row: ConfigFormat, part: Mapping[str, Any], key: str, value: Any) -> bool:
    """Whether a key that says the pairing would have to say another."""
    told = [written.get(key) for written in row.written.values()]
    return part.get(key, value) != value and len({*map(str, told)}) > 1


def _put(part: dict[str, Any], path: str, value: Any) -> None:
    """A value under a key, or under one of a dictionary: `yarn.factor`."""
    *outer, key = path.split(".")
    for name in outer:
        part = part.setdefault(name, {})
    part[key] = value


def _switches(rule: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys that turn a rule on."""
    when = rule.get("when", ())
    for one in [when] if isinstance(when, Mapping) else when:
        if one.get("one_of"):
            yield one["key"], one["one_of"][0]


def _inverted(
    template: Mapping[str, Any], scaling: Mapping[str, Any]
) -> list[tuple[str, Any]] | None:
    """The keys of a file that a template makes this scaling of; None where it cannot."""
    stated = {("rope_type" if key == "type" else key): value for key, value in scaling.items()}
    stated = {key: value for key, value in stated.items() if value is not None}
    pairs: list[tuple[str, Any]] = []
    if not stated.keys() <= template.keys():
        return None
    for key, asked in template.items():
        if not isinstance(asked, Mapping):
            if stated.get(key, asked) != asked:
                return None
        elif "match" in asked:
            word = next((w for w, case in asked["cases"].items() if case == stated.get(key)), None)
            pairs += [] if word is None else [(asked["match"], json.loads(word))]
        elif key in stated:
            pairs.append((asked["key"][0], stated[key]))
    return pairs
