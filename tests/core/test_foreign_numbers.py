"""Numbers that no config or spec should hold: an error of this package comes, or a result."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import posenc
from posenc import registry
from posenc.detect.explain import to_hf

HUGE = 10**400
# As JSON writes them, except the last, which is built by hand.
STRANGE: list[Any] = [
    HUGE,
    -HUGE,
    -(10**30),
    10**30,
    float("nan"),
    float("inf"),
    5e-324,
    -1.5,
    0,
    True,
    None,
    "9" * 5000,
    "\ud800",
    "",
    [],
    [[1, [2]]],
    [HUGE],
    {},
    {"type": "Ladder"},
]

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "phi3": {
        "model_type": "phi3",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "original_max_position_embeddings": 32,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0,
        "rope_scaling": {"type": "longrope", "long_factor": [1.0] * 8, "short_factor": [1.0] * 8},
    },
    "yarn": {
        "model_type": "qwen2",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 4,
        "max_position_embeddings": 64,
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 2,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 4.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "original_max_position_embeddings": 16,
        },
    },
    "t5": {
        "model_type": "t5",
        "d_model": 64,
        "num_heads": 4,
        "d_kv": 16,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    },
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 64, "n_layer": 2},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in nested dictionaries and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another thing in one place."""
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return made


READERS: tuple[Callable[[Any], Any], ...] = (
    lambda config: posenc.from_hf(config, on_error="report"),
    posenc.from_hf,
    lambda config: to_hf(config, "hf4"),
)


@pytest.mark.costly
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(False, id="one-reader"),
        pytest.param(True, id="every-reader", marks=pytest.mark.slow("detect", "_core")),
    ],
)
@pytest.mark.parametrize("name", CONFIGS)
def test_configs_of_strange_numbers(name: str, every: bool) -> None:
    """Each number in each place, for one reader after the other or for every one."""
    config, failed = CONFIGS[name], []
    assert posenc.from_hf(config, on_error="report").errors == ()
    for row, path in enumerate(places(config)):
        for column, new in enumerate(STRANGE):
            strange = replaced(config, path, new)
            for read in READERS if every else [READERS[(row + column) % len(READERS)]]:
                try:
                    read(strange)
                except posenc.PosencError:
                    pass
                except Exception as error:  # noqa: BLE001
                    failed.append(f"{path} = {str(new)[:40]!r}: {type(error).__name__}: {error}")
    assert not failed, failed


@pytest.mark.costly
def test_specs_of_strange_numbers() -> None:
    specs = [
        posenc.Sinusoidal(8, ladder=posenc.Ladder(denominator="n-1", first=2.0, start=1.0)),
        posenc.preset("llama3", 64),
        posenc.ALiBi(4),
        posenc.Decay(4),
        posenc.IRPE(8),
        posenc.LearnedFourier(8, features=4, hidden=6),
    ]
    for spec in specs:
        data = spec.to_dict()
        for path in places(data):
            for new in STRANGE:
                strange = replaced(data, path, new)
                try:
                    registry.from_json(json.dumps(strange))
                except posenc.PosencError:
                    pass
                except Exception as error:  # noqa: BLE001
                    pytest.fail(f"{path} = {str(new)[:40]!r}: {type(error).__name__}: {error}")


@pytest.mark.parametrize(
    "number", ["1" * 5000, "-1" + "0" * 30, "1" + "0" * 400, "1e999", "-1e-400", "NaN"]
)
@pytest.mark.parametrize("field", ["dim", "base", "ladder"])
def test_numbers_as_they_stand_in_a_text(field: str, number: str) -> None:
    value = f'{{"type":"Ladder","start":{number}}}' if field == "ladder" else number
    fields = {"dim": "8", "base": "10000", field: value}
    text = ",".join(f'"{key}":{value}' for key, value in fields.items())
    try:
        posenc.from_json('{"type":"Sinusoidal",' + text + "}")
    except posenc.PosencError:
        return
    assert number == "-1e-400"
    assert field == "ladder", "0 is no width and no base"


def test_a_config_names_the_number_that_is_beyond_every_float() -> None:
    config = replaced(CONFIGS["phi3"], ("rope_scaling", "long_factor", 0), HUGE)
    with pytest.raises(posenc.DataError, match="long_factor"):
        posenc.from_hf(config)
