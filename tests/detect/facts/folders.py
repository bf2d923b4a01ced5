"""Folders of models, whole ones and ones whose parts contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from posenc.detect.facts.fact import Name
from tests.detect.checkpoints import folder_of, interleaved_from_half

TRAINED = Path(__file__).parents[2] / "golden" / "pairing_half.safetensors"
WIDTH, HEADS = 64, 2
Arrays = dict[str, np.ndarray]


def config_of(model_type: str = "llama", **more: Any) -> dict[str, Any]:
    """A config of the model whose weights were trained in halves."""
    return {
        "model_type": model_type, "hidden_size": 128, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "head_dim": WIDTH, "num_hidden_layers": 2,
        "rope_theta": 10000.0, "max_position_embeddings": 2048, **more,
    }  # fmt: skip


def trained() -> Arrays:
    """Queries and keys of two layers, trained in halves."""
    return dict(load_file(TRAINED))


def turned(weights: Mapping[str, np.ndarray]) -> Arrays:
    """The same with the heads of queries and keys in neighbours."""
    made = dict(weights)
    for name in (name for name in weights if "q_proj" in name or "k_proj" in name):
        heads = np.split(weights[name], HEADS)
        made[name] = np.concatenate(
            [np.stack(interleaved_from_half(list(h), 0, WIDTH)) for h in heads]
        )
    return made


def ladder(base: float = 1e4, pairs: int = WIDTH // 2, dtype: Any = np.float32) -> np.ndarray:
    """Frequencies as modules keep them."""
    return (base ** -(np.arange(pairs) / pairs)).astype(dtype)


def buffers(values: np.ndarray, layers: int = 2) -> Arrays:
    """Frequencies in each layer."""
    return {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": values for i in range(layers)}


def bert(rows: int = 512, name: str = "position_embeddings", **config: Any) -> tuple[Arrays, Any]:
    """A model with a learned table, whose config has 512 positions."""
    words = np.ones((7, 16), np.float32)
    weights = {"embeddings.word_embeddings.weight": words, "encoder.dense.weight": words}
    if rows:
        weights[f"embeddings.{name}.weight"] = np.ones((rows, 16), np.float32)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    return weights, {"model_type": "bert", "max_position_embeddings": 512, **sizes, **config}


def t5(buckets: int = 32, heads: int = 4, **config: Any) -> tuple[Arrays, Any]:
    """A model with learned biases, whose config has 32 buckets."""
    name = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    own = {
        f"{part}.{name}": np.ones((buckets, heads), np.float32) for part in ("encoder", "decoder")
    }
    weights = {"shared.weight": np.ones((7, 16), np.float32), **own}
    sizes = {"d_model": 16, "num_heads": 4, "num_layers": 1, "relative_attention_num_buckets": 32}
    return weights, {"model_type": "t5", **sizes, **config}


def shards_of_two_conversions(folder: Path) -> None:
    """Two files of one model, one of which was converted."""
    folder_of(folder, trained(), config_of(), shards=2)
    file = folder / "model-00002-of-00002.safetensors"
    record = {"posenc.conversion": '{"pairing": "interleaved"}'}
    save_file(load_file(file), file, metadata=record)


def stamped(folder: Path, order: str) -> None:
    """Weights in halves whose record says something else."""
    folder_of(folder, trained(), config_of())
    file = folder / "model.safetensors"
    save_file(trained(), file, metadata={"posenc.conversion": f'{{"pairing": "{order}"}}'})


def gpt2(rows: int = 64, **config: Any) -> tuple[Arrays, Any]:
    """A model with a learned table under another name, whose config has 64 positions."""
    weights = {"wte.weight": np.ones((7, 16), np.float32)}
    if rows:
        weights["wpe.weight"] = np.ones((rows, 16), np.float32)
    sizes = {"n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 64}
    return weights, {"model_type": "gpt2", **sizes, **config}


def opt(rows: int = 66, **config: Any) -> tuple[Arrays, Any]:
    """A model whose table has two rows more than its config has positions."""
    names = ("embed_tokens", "embed_positions")
    counts = dict(zip(names, (7, rows), strict=True))
    weights = {
        f"model.decoder.{name}.weight": np.ones((count, 16), np.float32)
        for name, count in counts.items()
        if count
    }
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    return weights, {"model_type": "opt", "max_position_embeddings": 64, **sizes, **config}


def swin(offsets: int = 169, heads: int = 3) -> tuple[Arrays, Any]:
    """A model with a table of offsets in windows of 7 by 7."""
    name = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_bias_table"
    return {name: np.ones((offsets, heads), np.float32)}, {"model_type": "swin"}


def turning(values: np.ndarray, model_type: str = "llama", **more: Any) -> tuple[Arrays, Any]:
    """A model of rotations that keeps its frequencies."""
    return {**trained(), **buffers(values)}, config_of(model_type, **more)


def cosines(base: float = 1e4, rows: int = 2048, form: str = "cached") -> Arrays:
    """Tables of cosines and sines, as modules of published code keep them."""
    angles = np.outer(np.arange(rows), ladder(base, dtype=np.float64))
    cos, sin = (np.float32(one) for one in (np.cos(angles), np.sin(angles)))
    at = "model.layers.0.self_attn.rotary_emb"
    if form == "cached":
        both = {"cos": cos, "sin": sin}
        return {f"{at}.{n}_cached": np.tile(one, 2)[None, None] for n, one in both.items()}
    if form == "cos_sin_cache":
        return {f"{at}.cos_sin_cache": np.concatenate([cos, sin], axis=-1)}
    return {"freqs_cis": np.stack([cos, sin], axis=-1)}


def tabled(*, rounding: Callable[[np.ndarray], np.ndarray] = np.asarray, **how: Any) -> Any:
    """A model of rotations that keeps tables of cosines and sines."""
    tables = {name: rounding(values) for name, values in cosines(**how).items()}
    return {**trained(), **tables}, config_of()


def begun_again(row: int) -> Any:
    """A model whose kept sines are those of position 0 from a row on."""
    weights, config = tabled()
    name = next(name for name in weights if name.endswith("sin_cached"))
    sines = weights[name].copy()
    sines[..., row:, :] = sines[..., : 2048 - row, :]
    return {**weights, name: sines}, config


def numbered(*layers: int | str, config: int, words: bool = True, **more: Any) -> Any:
    """A model whose layers have these numbers or names; the config counts some."""
    own = {n: v for n, v in trained().items() if "layers.0." in n}
    names = [one if isinstance(one, str) else f"model.layers.{one}" for one in layers]
    weights = {n.replace("model.layers.0", name): v for name in names for n, v in own.items()}
    weights |= {"model.embed_tokens.weight": np.ones((7, 128), np.float32)} if words else {}
    return weights, config_of(num_hidden_layers=config, **more)


FORMS = ("cached", "cos_sin_cache", "freqs_cis")
Case = tuple[Name, tuple[str, ...], Callable[[Path], object]]
RATE = "by config keys rope_theta and head_dim"
LINEAR = {"rope_scaling": {"type": "linear", "factor": 4.0}}
YARN = {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Numbers with the mantissa of bfloat16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)


def _of(weights: Mapping[str, np.ndarray], config: Any) -> Callable[[Path], object]:
    return lambda folder: folder_of(folder, weights, config)


def _wrong(name: Name, *words: str, made: tuple[Arrays, Any]) -> Case:
    return name, words, _of(*made)


def some_turned(*parts: str) -> Arrays:
    """Weights of which some are in neighbours and the others in halves."""
    weights = trained()
    return weights | {k: v for k, v in turned(weights).items() if any(p in k for p in parts)}


# By what contradicts what: the fact, and words of the sentence.
CONTRADICTORY: dict[str, Case] = {
    **{
        f"frequencies of {what}": _wrong("frequencies", "32 of them", *words, made=turning(*how))
        for what, words, how in (
            ("a base 100 times off", ("(1, 0.7499, 0.5623, …)", RATE, "inv_freq and 1 more"),
             [ladder(1e6)]),
            ("a base 5 % off", (RATE,), [ladder(1.05e4)]),
            ("half of the base, rounded to bfloat16", (RATE,), [bfloat16(ladder(5e3))]),
            ("half of the base, in float16", (RATE,), [ladder(5e3).astype(np.float16)]),
            ("twice the speed", (RATE,), [2 * ladder()]),
            ("the ladder reversed", (RATE,), [ladder()[::-1].copy()]),
            ("a scaling that is not stated", (RATE,), [ladder() / 4]),
            ("twice as many pairs", ("64 of them",), [ladder(pairs=64)]),
            ("half as many pairs", ("16 of them",), [ladder(pairs=16)]),
        )
    },
    **{
        f"cosines of another base, {form}": _wrong(
            "frequencies", RATE, "0.6494", made=tabled(base=1e6, form=form))
        for form in FORMS
    },
    "cosines of another base in bfloat16": _wrong(
        "frequencies", RATE, made=tabled(base=1.05e4, rounding=bfloat16)),
    "frequencies of one pair that is off": _wrong(
        "frequencies", f"in pair 7, 0.1334 {RATE}, but 0.1347 by", "inv_freq and 1 more",
        made=turning(ladder() * np.where(np.arange(32) == 7, 1.01, 1))),
    "sines that begin again": _wrong(
        "length", "2048 by config key", "1500 by", "cos_cached, whose row 1,500 does not follow",
        made=begun_again(1500)),
    "cosines that end before the length": _wrong(
        "length", "2048 by config key max_position_embeddings", "1024 by", "cos_cached",
        made=tabled(rows=1024)),
    **{
        f"heads of another {what}": _wrong(
            "heads", said, "but 128 rows by", made=(trained(), config_of(**more)))
        for what, said, more in (
            ("width", "2 heads of 32 channels by the config", {"head_dim": 32}),
            ("number", "3 heads of 64 channels", {"num_attention_heads": 3}),
            ("number of keys", "1 heads of keys of 64 channels", {"num_key_value_heads": 1}),
        )
    },
    **{
        f"frequencies of another base beside {rule}": _wrong(
            "frequencies", "scaling", made=turning(ladder(1e6), **more))
        for rule, more in (("linear", LINEAR), ("yarn", YARN))
    },
    **{
        f"frequencies of another base in {kind}": _wrong(
            "frequencies", RATE, made=turning(ladder(1e6), kind))
        for kind in ("mistral", "qwen2", "qwen3", "olmo2")
    },
    **{
        f"{rows} rows for 512": _wrong("rows", "max_position_embeddings", "(512, 16)",
                                       f"({rows}, 16)", made=bert(rows))
        for rows in (64, 511, 514, 1024)
    },
    "512 rows for 64": _wrong("rows", "(512, 16)", "(64, 16)",
                              made=bert(512, max_position_embeddings=64)),
    "rows of another width": _wrong("rows", "(512, 8)", "(512, 16)", made=bert(hidden_size=8)),
    "rows without those before the first": _wrong("rows", "(66, 16)", "(64, 16)", made=opt(64)),
    "twice the rows of wpe": _wrong("rows", "n_positions", "(128, 16)", made=gpt2(128)),
    **{
        f"{buckets} buckets for 32": _wrong("buckets", "relative_attention_num_buckets", "(32, 4)",
                                            f"({buckets}, 4)", made=t5(buckets))
        for buckets in (16, 64)
    },
    "biases of eight heads for four": _wrong("buckets", "(32, 4)", "(32, 8)", made=t5(heads=8)),
    "windows of 12 by 12 for 7 by 7": _wrong("buckets", "(169, 3)", "(529, 3)", made=swin(529)),
    **{
        f"no table in {kind}": _wrong("rows", "but none by the list of", made=made)
        for kind, made in (("bert", bert(0)), ("gpt2", gpt2(0)), ("opt", opt(0)))
    },
    **{
        f"neighbours under a config of halves, {kind}": (
            "pairing", ("says half, the weights say interleaved", "--stored"),
            _of(turned(trained()), config_of(kind)))
        for kind in ("llama", "mistral", "qwen2", "olmo2")
    },
    "halves under a config of neighbours": (
        "pairing", ("says interleaved, the weights say half",),
        _of(trained(), config_of("helium"))),
    **{
        f"{part} alone in neighbours": (
            "pairing", ("look half", "look interleaved"), _of(some_turned(part), config_of()))
        for part in ("layers.1.", "k_proj")
    },
    **{
        f"layers, {what}": _wrong(
            "layers", f"{config} by config key num_hidden_layers, but {said} by", *words,
            made=numbered(*layers, config=config, **more))
        for what, layers, config, said, words, more in (
            ("one renamed", (0, "model.blocks.1"), 2, 1,
             ("none begins with model.layers.1, but model.blocks.1",), {"words": False}),
            ("one renamed between others", (0, "model.blocks.1", 2), 3, 2,
             ("model.layers.1, but",), {}),
            ("one missing between others", (0, 1, 3), 4, 3, ("model.layers.2.",), {"words": False}),
            ("one missing, and the config counts without it", (0, 1, 3), 3, 4,
             ("up to model.layers.3",), {}),
            ("the last missing", (0, 1), 3, 2, ("none begins with model.layers.2.",), {}),
            ("more than the config has", (0, 1, 2), 2, 3,
             ("up to model.layers.2.",), {}),
            ("more than the config has with one behind", (0, 1, 2, 3), 2, 4, ("model.layers.3",),
             {"num_nextn_predict_layers": 1}),
        )
    },
    "a record that the weights contradict": (
        "pairing", ("the record of a conversion", "says interleaved, the weights say half"),
        lambda folder: stamped(folder, "interleaved")),
    "shards of two conversions": (
        "pairing", ("none by", "but interleaved by"), shards_of_two_conversions),
    "a record of no pairing": (
        "pairing", ("half or interleaved", "sideways"),
        lambda folder: stamped(folder, "sideways")),
}  # fmt: skip
NINE = (
    "frequencies of a base 100 times off", "frequencies of twice as many pairs",
    "1024 rows for 512", "64 buckets for 32", "no table in bert",
    "neighbours under a config of halves, llama", "a record that the weights contradict",
    "shards of two conversions", "a record of no pairing",
)  # fmt: skip
