"""Numbers of a config that mean nothing: an error that names the key, and soon."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import posenc
from posenc._core.errors import PosencError
from posenc.detect.extend import extend

VALUES = (-1, 0, 1e308, math.inf, math.nan, "5", True, None, 2**70, 1e-320)
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 8192,
        "rope_theta": 5e5,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 2048,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "attention_factor": 1.1,
            "mscale": 1.0,
        },
    },
    "gemma": {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "num_hidden_layers": 12,
        "max_position_embeddings": 8192,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "sliding_window": 1024,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "plain": {
        "model_type": "qwen2",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "max_position_embeddings": 8192,
        "rope_theta": 1e6,
    },
    "part": {
        "model_type": "qwen2_vl",
        "text_config": {
            "model_type": "qwen2_vl_text",
            "head_dim": 128,
            "rope_theta": 1e6,
            "max_position_embeddings": 8192,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
    },
    "learned": {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_head": 12},
    "buckets": {
        "model_type": "t5",
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    },
}


def places(config: dict[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from places(value, (*path, key))
        elif isinstance(value, list):
            yield (*path, key, 0)
        elif not isinstance(value, str):
            yield (*path, key)


def changed(config: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(config)
    part: Any = made
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return made


def extended(config: dict[str, Any]) -> None:
    found = extend(config, 2**20)
    for rule in found.rules:
        found.lines(rule)


VERBS: tuple[Callable[[Any], Any], ...] = (posenc.from_hf, posenc.explain, posenc.golden, extended)
EVERY = [(name, path) for name, config in CONFIGS.items() for path in places(config)]


def refusals(name: str, path: tuple[Any, ...], value: Any) -> list[str]:
    """What each verb says against the config; any other exception is a failure."""
    said = []
    for verb in VERBS:
        try:
            verb(changed(CONFIGS[name], path, value))
        except PosencError as error:
            said.append(str(error))
    return said


@pytest.mark.slow("detect/explain", "detect/extend", "detect/contract")
@pytest.mark.parametrize(("name", "path"), EVERY)
def test_any_number_ends_soon_in_an_error_of_this_package(name: str, path: tuple[Any, ...]) -> None:
    for value in VALUES:
        refusals(name, path, value)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("plain", ("rope_theta",), 1e308),
        ("plain", ("rope_theta",), 1e-320),
        ("llama", ("rope_scaling", "factor"), 1e308),
        ("llama", ("rope_scaling", "beta_fast"), 1e308),
        ("part", ("text_config", "rope_theta"), 1e308),
    ],
)
def test_a_number_beyond_meaning_is_named(name: str, path: tuple[Any, ...], value: float) -> None:
    told = refusals(name, path, value)
    assert len(told) == len(VERBS)
    for text in told:
        assert f"{'.'.join(path)}: expected 0, or a number from 1e-30 to 1e+30" in text
        assert f"got {value!r}" in text


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "path", "whole"),
    [
        ("plain", ("hidden_size",), 512.0),
        ("plain", ("num_attention_heads",), 4.0),
        ("plain", ("max_position_embeddings",), 8192.0),
        ("llama", ("num_hidden_layers",), 2.0),
        ("part", ("text_config", "head_dim"), 128.0),
    ],
)
def test_a_count_is_whole(name: str, path: tuple[Any, ...], whole: float) -> None:
    told = refusals(name, path, 2.5)
    assert len(told) == len(VERBS)
    assert all(f"{'.'.join(path)}: expected a whole number, got 2.5" in text for text in told)
    assert not refusals(name, path, whole)


@pytest.mark.parametrize("value", [-1, -(2**40)])
@pytest.mark.parametrize(("name", "path"), [("plain", ()), ("part", ("text_config",))])
def test_a_length_below_zero_is_none(name: str, path: tuple[str, ...], value: int) -> None:
    config = changed(CONFIGS[name], (*path, "max_position_embeddings"), value)
    with pytest.raises(PosencError, match=f"max_position_embeddings={value} is no length"):
        extend(config, 2**20)
    assert extend(config, 2**15, trained=8192).length == 2**15


def test_large_numbers_that_models_state_are_read() -> None:
    config = {**CONFIGS["plain"], "rope_theta": 1e12, "max_position_embeddings": 10_485_760}
    found = extend(config, 2**31)
    assert found.lines("linear")
    # A number that nobody reads is nobody's business.
    config["attention_mask_value"] = -3.4028234663852886e38
    assert posenc.from_hf(config).layers
