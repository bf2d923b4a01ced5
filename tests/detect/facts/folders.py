"""Folders of models, whole ones and ones whose parts contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

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


def resaved(folder: Path) -> None:
    """A converted folder whose record was lost when the weights were saved again."""
    folder_of(folder, turned(trained()), config_of())


def stamped(folder: Path, order: str) -> None:
    """Weights in halves whose record says something else."""
    folder_of(folder, trained(), config_of())
    file = folder / "model.safetensors"
    save_file(trained(), file, metadata={"posenc.conversion": f'{{"pairing": "{order}"}}'})


def _of(weights: Mapping[str, np.ndarray], config: Any) -> Callable[[Path], object]:
    return lambda folder: folder_of(folder, weights, config)


# By what contradicts what: the fact, and words of the sentence.
CONTRADICTORY: dict[str, tuple[str, tuple[str, ...], Callable[[Path], object]]] = {
    "frequencies of a base 100 times off": (
        "frequencies", ("(1, 0.7499, 0.5623, …), 32 of them by config key rope_theta",
                        "rotary_emb.inv_freq and 1 more"),
        _of({**trained(), **buffers(ladder(1e6))}, config_of())),
    "frequencies of twice as many pairs": (
        "frequencies", ("32 of them", "64 of them"),
        _of({**trained(), **buffers(ladder(pairs=64))}, config_of())),
    "1,024 rows for 512": (
        "rows", ("max_position_embeddings", "(512, 16)", "(1024, 16)"), _of(*bert(1024))),
    "64 buckets for 32": (
        "buckets", ("relative_attention_num_buckets", "(32, 4)", "(64, 4)"), _of(*t5(64))),
    "no table at all": ("rows", ("(512, 16)", "but none by the list of 2 tensors"), _of(*bert(0))),
    "neighbours under a config of halves": (
        "pairing", ("says half, the weights say interleaved", "--stored"), resaved),
    "a record that the weights contradict": (
        "pairing", ("the record of a conversion", "says interleaved, the weights say half"),
        lambda folder: stamped(folder, "interleaved")),
    "shards of two conversions": (
        "pairing", ("none by", "but interleaved by"), shards_of_two_conversions),
    "a record of no pairing": (
        "pairing", ("half or interleaved", "sideways"),
        lambda folder: stamped(folder, "sideways")),
}  # fmt: skip
