"""A config in another format: transformers', or one of `configs/formats.json`.

What is written is what a config says of positions and of the sizes that these depend on; a format
spells it in its own keys. The result is read again, and what that reading says otherwise is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from posenc._core.calls import checked_call
from posenc._core.errors import DataError, bad_data, refuse_data
from posenc._core.io.checkpoints import load
from posenc._core.reading import Reading
from posenc.detect.explain.config.unread_keys import speaks
from posenc.detect.explain.config.view import (
    COUNT_KEYS,
    DICTIONARIES,
    HEAD_COUNTS,
    LOCAL_BASES,
    MAIN_PARTS,
    ORIGINAL_KEYS,
    SHARE,
    TRAINED,
    WIDTHS,
    Keys,
    check_name,
)
from posenc.detect.explain.dialects import DIALECTS, Translation, differences, to_hf
from posenc.detect.explain.formats import fitting
from posenc.detect.explain.reader import from_hf
from posenc.encodings.rotary.base import RotarySpec
from posenc.presets.families import ConfigFormat, config_formats

MOST = 6  # keys that are named
HF = {"hf": "hf5", **{name: name for name in DIALECTS}}  # hf is the newer dialect
BETAS = {"beta_fast": 32, "beta_slow": 1}  # of YaRN, where none are stated
LOCAL_LAYERS = ("rope_indices", "sliding_window_indices")  # 1 for those of the local base
SIZES = ("hidden_size", "n_embd", "d_model", "dim")
PERMUTE = (
    "that format pairs other channels: permute the weights too, by `posenc convert "
    "--pairing`, or scores are wrong"
)


def targets() -> tuple[str, ...]:
    """The formats that a config can be written in."""
    return (*HF, *(name for name, row in config_formats().items() if "written" in row))


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
    >>> written = posenc.convert_config(config, "executorch")
    >>> written.config["rope_theta"], written.config["use_hf_rope"]
    (500000.0, False)
    >>> written.lost
    ('max_position_embeddings has no key there: 512',)
    """
    check_name("convert_config: to", to, targets(), optional=False)
    before = from_hf(config, pairing=pairing, base=base, on_error="report")
    if before.errors:
        raise DataError(f"convert_config: {'; '.join(before.errors)}")
    data = load(config, "convert_config")
    read = fitting(data)
    if to in HF and not read:
        return to_hf(data, HF[to])  # type: ignore[arg-type]
    words, row = _words(read[0].config if read else data, before), config_formats().get(to)
    kept = {*words} if row is None else {*row["names"], *DICTIONARIES}
    written, lost = (
        to_hf(data, HF[to])  # type: ignore[arg-type]
        if row is None
        else Translation(_spelled(row, words, before), ())
    )
    after = from_hf(written, on_error="report")
    kinds, others = ({entry.kind for entry in plan} for plan in (before, after))
    refuse_data(
        not others <= kinds,
        "convert_config",
        f"the kind of model that {to} describes, {' and '.join(sorted(others))}",
        " and ".join(sorted(kinds)),
        f"{to} cannot say that.",
    )
    sentences = [*lost, *differences(before, after)]
    sentences += [
        f"reads back with an error: {text}"
        for text in after.errors
        if text not in " ".join(sentences)
    ]
    ours, theirs = ({*filter(None, map(_order, plan))} for plan in (before, after))
    if ours and theirs and ours != theirs:
        sentences.append(PERMUTE)
    gone = [
        key
        for key in (TRAINED[0], "sliding_window", "layer_types", LOCAL_BASES[0])
        if words.get(key) is not None and key not in {*kept, *written}
    ]
    sentences += [f"{key} has no key there: {json.dumps(words[key])[:60]}" for key in gone]
    own = read[0].words.items() if read else [(word, word) for word in (*kept, *gone)]
    kept = {key for word, key in own if word in {*kept, *gone}}
    keys = read[0].keys if read else data
    if silent := [key for key in keys if key not in kept and not speaks(key)]:
        sentences.append(
            "not written, as they say nothing of it: "
            + ", ".join([*silent[:MOST], "…"][: len(silent)])
        )
    return Translation(written, tuple(dict.fromkeys(sentences)))


def _order(entry: Any) -> str | None:
    """The pairing of an entry that turns."""
    return entry.spec.channels.order if isinstance(entry.spec, RotarySpec) else None


def _words(source: Mapping[str, Any], plan: Reading) -> dict[str, Any]:
    """What a config says of positions and sizes, each under the first of its names."""
    flat = to_hf(source, "hf4").config if "rope_parameters" in source else source
    words = dict(next((flat[k] for k in MAIN_PARTS if isinstance(flat.get(k), Mapping)), flat))
    keys = Keys(words)
    sizes = {names[0]: keys.first(names) for names in (SIZES, HEAD_COUNTS, COUNT_KEYS)}
    words |= {name: int(pair[1]) for name, pair in sizes.items() if pair is not None}
    if isinstance(source.get("architectures"), list):
        words["architecture"] = next(iter(source["architectures"]), None)
    if len(limits := {size for entry in plan for size, _ in entry.windows}) == 1:
        words["sliding_window"] = limits.pop()
    scaling, original = words.get(DICTIONARIES[0]), words.get(ORIGINAL_KEYS[0])
    if original is not None and isinstance(scaling, Mapping) and "long_factor" in scaling:
        # Phi-3 states it beside the dictionary.
        words[DICTIONARIES[0]] = {ORIGINAL_KEYS[0]: original, **scaling}
    turning = sorted(  # those of layers that see everything first: theirs is the base
        (one for one in plan if isinstance(one.spec, RotarySpec)),
        key=lambda one: any(size for size, _ in one.windows),
    )
    for entry in turning[:1]:
        spec: Any = entry.spec
        wide = next((int(n) for one in WIDTHS if (n := keys.evaluate(one)) and n >= 1), spec.dim)
        words |= {"rope_theta": spec.base, "head_dim": wide, SHARE: spec.dim / wide}
        words |= {} if entry.length is None else {TRAINED[0]: entry.length}
        for local in [one for one in turning if getattr(one.spec, "base", 0) != spec.base][:1]:
            every = range(words.get(COUNT_KEYS[0], 0) if local.indices else 0)
            own = [int(n in (local.indices or ())) for n in every] or None
            words = {**dict.fromkeys(LOCAL_LAYERS, own), **words}  # what is stated stays
            words[LOCAL_BASES[0]] = getattr(local.spec, "base", None)
    return words


def _spelled(row: ConfigFormat, words: Mapping[str, Any], plan: Reading) -> dict[str, Any]:
    """The keys of a format for words of transformers."""
    written = dict(row["written"][next(filter(None, map(_order, plan)), "half")])
    own = {names[0]: words[word] for word, names in row["names"].items() if word in words}
    own = {key: value for key, value in own.items() if value is not None}
    for path, value in (own | _scaled(row, words, written)).items():
        part, (*outer, key) = written, path.split(".")
        for name in outer:
            part = part.setdefault(name, {})
        part[key] = value
    if missing := [key for key in row["all"] if not {*key.split("|")} & written.keys()]:
        raise bad_data(
            "convert_config",
            f"{' and '.join(missing).replace('|', ' or ')}, which {row['title']} needs",
            "none in the config",
        )
    for key in filter(None, reversed(row.get("parts", ("",))[0].split("."))):
        written = {key: written}
    return written


def _scaled(
    row: ConfigFormat, words: Mapping[str, Any], written: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys for a scaling, by the first rule that has it, and leaves the pairing as it is."""
    scaling: Any = words.get(DICTIONARIES[0])
    by_pairing = {
        k for k, v in row["written"]["half"].items() if row["written"]["interleaved"][k] != v
    }
    for rule in row.get("writes", ()) if isinstance(scaling, Mapping) else ():
        when = rule.get("when", ())
        switches = {
            one["key"]: one["one_of"][0]
            for one in ([when] if isinstance(when, Mapping) else when)
            if one.get("one_of")
        }
        keys = _inverted(rule["write"].get(DICTIONARIES[0], {}), scaling)
        if keys and not any(written[key] != switches.get(key, written[key]) for key in by_pairing):
            beside = rule["write"].keys() & {TRAINED[0]} & words.keys()
            return switches | keys | {rule["write"][w]["key"][0]: words[w] for w in beside}
    return {}


def _inverted(template: Mapping[str, Any], scaling: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file that a template makes this scaling of; none where it cannot."""
    stated = {key: value for key, value in BETAS.items() if key in template} | {
        ("rope_type" if k == "type" else k): v for k, v in scaling.items() if v is not None
    }
    constants = {key: asked for key, asked in template.items() if not isinstance(asked, Mapping)}
    if not stated.keys() <= template.keys() or {**constants, **stated} != {**stated, **constants}:
        return {}
    keys: dict[str, Any] = {}
    for key, asked in ((k, v) for k, v in template.items() if isinstance(v, Mapping)):
        if "match" in asked:
            fits = (word for word, case in asked["cases"].items() if case == stated.get(key))
            keys[asked["match"]] = json.loads(next(fits, "null"))
        elif key in stated:
            keys[asked["numbers"] if "numbers" in asked else asked["key"][0]] = stated[key]
    return keys
