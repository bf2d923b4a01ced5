"""Headers of published models: the plan against llama.cpp's loops, and against the config.

`tests/golden/gguf/headers.jsonl` has a row for each: `read` as they stand in public repositories
(dumps and test data of engines), or made by llama.cpp's converter (`make_gguf.py` there) of a
config that stands in one. Keys of other matters are left out, of both.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.presets.families import families
from tests.detect.explain.test_gguf import written
from tests.oracles import ggml

FILE = Path(__file__).parents[2] / "golden" / "gguf" / "headers.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
NAMES = [f"{row['architecture']}: {row['model']}" for row in ROWS]
# Rows that are refused, with the words of the reason.
REFUSED = {
    "baichuan": "block_count tells the model",
}
# Rows whose file is not what the config says, with words of the note that says so.
DIFFERENT = {
    "exaone4": "in models of 64 layers",
    "gpt-oss": "rounds the bounds",
    "laguna": "yarn_beta_fast=64 is not read",
    "deepseek2: moonshotai/Kimi-K2-Instruct": "yarn_beta_fast=1 is not read",
    "qwen: qwen": "neither use_dynamic_ntk nor use_logn_attn",
}
# llama.cpp gives these pairs of some rows the fourth position; the plan says so.
FOURTH = "gives pairs 61, 62 the fourth position"


def texts(plan: posenc.Reading) -> str:
    return " ".join(note.text for note in plan.notes)


def planned(row: dict[str, Any], folder: Path) -> posenc.Reading:
    keys = {key.replace(".", "__"): value for key, value in row["keys"].items() if value != []}
    tensors = {name: np.array(found, np.float32) for name, found in row.get("tensors", {}).items()}
    return posenc.from_gguf(
        written(folder / "a.gguf", row["architecture"], tensors, words=5, **keys),
        on_error="report",
    )


def depth(row: dict[str, Any]) -> int:
    count: int = row["keys"]["block_count"] - row["keys"].get("nextn_predict_layers", 0)
    return count


def main(plan: posenc.Reading, layer: int) -> posenc.Layer:
    (entry,) = (entry for entry in plan[layer] if not entry.attention)
    return entry


def fixed(spec: posenc.RoPE, length: int) -> posenc.RoPE:
    needs = any(getattr(scaling, "needs_length", False) for scaling in spec.scalings)
    return spec.at(length) if needs else spec


def test_rows_say_where_they_were_read() -> None:
    assert sum(row["made"] in ("read", "converter") for row in ROWS) >= 30
    for row in ROWS:
        assert set(row["source"]) == {"repository", "path", "commit"}
        assert len(row["source"]["commit"]) == 40
        assert row["made"] == "read" or "config" in row


def test_the_page_counts_the_rows() -> None:
    made = [row["made"] for row in ROWS]
    page = " ".join((Path(__file__).parents[3] / "docs" / "configs.md").read_text().split())
    for words in (
        f"{len(families('gguf'))} architectures",
        f"{len(ROWS)} headers of {len({row['architecture'] for row in ROWS})} architectures",
        f"{made.count('read')} as they stand in public repositories",
        f"{made.count('converter')} that its converter made of published configs",
        f"{made.count('converter of a test config')} of the configs of other projects' tests",
    ):
        assert words in page, words


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_header_is_what_llama_cpp_computes(row: dict[str, Any], tmp_path: Path) -> None:
    plan = planned(row, tmp_path)
    arch = row["architecture"]
    if arch in REFUSED:
        assert any(REFUSED[arch] in text for text in plan.errors)
        return
    assert not plan.errors
    if not any(isinstance(entry.spec, posenc.RoPE) for entry in plan):
        assert all(entry.kind in ("none", "table", "bias") for entry in plan)
        return
    keys = {k: float(str(np.float32(v))) if type(v) is float else v for k, v in row["keys"].items()}
    original = keys.get("rope.scaling.original_context_length", keys["context_length"])
    seen = set()
    for long in (False, True):
        length = original + long
        calls = ggml.ropes(arch, keys, row.get("tensors", {}), long)
        assert len(calls) == depth(row)
        for layer, call in enumerate(calls):
            entry = main(plan, layer)
            if call is None:
                assert entry.spec is None
                continue
            assert isinstance(entry.spec, posenc.RoPE)
            if (repr(call), entry.layer) not in seen:
                seen.add((repr(call), entry.layer))
                compare(fixed(entry.spec, length), call, length, FOURTH in texts(plan))


def compare(spec: posenc.RoPE, call: ggml.Rope, length: int, fourth: bool) -> None:
    """cos, sin and a turned vector of one call, at positions around the original length."""
    assert spec.dim == call.dims
    assert (spec.pairing.order == "interleaved") == (call.mode == "norm")
    positions = [0, 1, 257, 4097, length - 1, length, length + 1]
    where = np.array(positions)
    axes = len(spec.arrangement.axes)
    given = where if axes == 1 else np.stack([where] * axes, -1)
    random = np.random.default_rng(7)
    x = random.standard_normal((len(positions), call.dims))
    turned = posenc.rotate(spec, x, positions=given)
    exact = [
        # Where llama.cpp departs from the model, the fourth position is made the first.
        ggml.rotate(list(x[i]), call, (p, p, p, p if fourth else 0))
        for i, p in enumerate(positions)
    ]
    # The oracle is float64 throughout, of angles up to 2**20: 2**-32 of a turn.
    np.testing.assert_allclose(turned, np.array(exact), rtol=0, atol=2e-8)
    # The factor on scores does not depend on the position below the length of a temperature.
    scores = posenc.logit_scale(spec, [0])
    np.testing.assert_allclose(np.ravel(scores)[0], call.scores, rtol=2e-7)


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if "config" in r],
    ids=[n for n, r in zip(NAMES, ROWS, strict=True) if "config" in r],
)
def test_a_header_is_what_its_config_says(row: dict[str, Any], tmp_path: Path) -> None:
    """Pairings apart, which converters permute."""
    plan, read = planned(row, tmp_path), posenc.from_hf(row["config"], on_error="report")
    if any(entry.layer.partition(".")[0] == "text" for entry in read):
        read = read.part("text")
    read = read.replace(layers=tuple(e for e in read if not e.layer.startswith("vision.")))
    if plan.errors or read.errors:
        pytest.skip("; ".join(plan.errors + read.errors)[:200])
    told = next(
        (v for k, v in DIFFERENT.items() if f"{row['architecture']}: {row['model']}".startswith(k)),
        "",
    )
    if not any(isinstance(entry.spec, posenc.RoPE) for entry in plan):
        # A file of the encoder alone has no entry of the decoder.
        kinds = [entry.kind for entry in read]
        assert [entry.kind for entry in plan] == kinds[: len(plan)]
        return
    same = all(alike(main(plan, i), main(read, i)) for i in range(depth(row)))
    assert same != bool(told)
    assert told in texts(plan)


def alike(ours: posenc.Layer, other: posenc.Layer) -> bool:
    """Whether two entries have the same frequencies, magnitudes and arrangement."""
    if ours.spec is None or other.spec is None:
        return ours.spec is None and other.spec is None
    assert isinstance(ours.spec, posenc.RoPE)
    assert isinstance(other.spec, posenc.RoPE)
    for length in (1000, 10**6):
        a, b = fixed(ours.spec, length), fixed(other.spec, length)
        if (a.dim, a.arrangement) != (b.dim, b.arrangement):
            return False
        # float32 in the file: bases as short decimal numbers, factors of tensors as they are.
        if not np.allclose(posenc.frequencies(a), posenc.frequencies(b), rtol=3e-7, atol=1e-25):
            return False
        if abs(a.attention_factor - b.attention_factor) > 1e-6 * b.attention_factor:
            return False
        far = [0, 2**17]
        if not np.allclose(posenc.logit_scale(a, far), posenc.logit_scale(b, far), rtol=1e-5):
            return False
    return True


# Keys that rules choose by, for architectures of which no header was found.
BARE = {"block_count": 12, "context_length": 131072, "embedding_length": 512}
BARE |= {"attention.head_count": 8, "rope.dimension_count": 48, "rope.freq_base": 5e5}
WINDOWS = {"attention.sliding_window": 512}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0}
YARN |= {"rope.scaling.original_context_length": 4096}
BETAS = {"rope.scaling.yarn_beta_fast": 40.0, "rope.scaling.yarn_beta_slow": 2.0}
LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
CASES: dict[str, dict[str, Any]] = {
    "bare": {},
    "linear": {**LINEAR, "rope.scaling.attn_factor": 1.25},
    "yarn": YARN,
    "yarn, all its keys": {
        **YARN,
        **BETAS,
        "rope.scaling.attn_factor": 1.25,
        "rope.scaling.yarn_log_multiplier": 0.0707,
    },
    "windows": WINDOWS,
    "no windows": {"attention.sliding_window": 0, "rope.freq_base_swa": 2e4},
    "windows with bases": {**WINDOWS, **LINEAR, "rope.freq_base_swa": 2e4},
    "windows and YaRN": {**WINDOWS, **YARN},
    "a pattern": {**WINDOWS, "attention.sliding_window_pattern": 5},
    "a list": {**WINDOWS, "attention.sliding_window_pattern": [True, False, False] * 4},
    "64 layers": {**WINDOWS, "block_count": 64},
    "a lead": {**WINDOWS, "leading_dense_block_count": 2},
    "drafts": {**WINDOWS, "nextn_predict_layers": 2},
    "off": {"rope.scaling.finetuned": False, "full_attention_interval": 3},
    "per layer": {"attention.head_count_kv": [2, 0, 2, 2] * 3},
}
PATTERN = "attention.sliding_window_pattern"
LISTED = {"gemma4", "mimo2", "step35", "maple", "spark2_5", "granite_swa", "dflash"}
SECTIONS = {"qwen2vl", "paddleocr", "qwen3vl", "qwen3vlmoe", "qwen3tts", "qwen35", "qwen35moe"}
SECTIONS |= {"glm4", "glm4moe"}
ROTARY = sorted(
    name for name, row in families("gguf").items() if any("rotary" in rule for rule in row.entries)
)


def of_case(arch: str, more: dict[str, Any]) -> dict[str, Any]:
    """The keys of a case, with those that an architecture must have."""
    keys = {**BARE, **more}
    count = keys["block_count"] = 32 if arch == "baichuan" else keys["block_count"]
    if arch in LISTED:
        keys[PATTERN] = [True, True, False]
    if arch in SECTIONS:
        keys["rope.dimension_sections"] = [8, 8, 8, 0]
    if arch in ("hunyuan_vl", "hunyuan-dense"):
        keys["rope.scaling.alpha"] = 50.0
    for key in (PATTERN, "attention.head_count_kv"):
        if isinstance(keys.get(key), list):
            keys[key] = (keys[key] * count)[:count]
    return keys


def packed(arch: str, keys: dict[str, Any]) -> bytes:
    """A header of keys alone, of which the rows above have those of the reference writer."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def of(value: Any) -> tuple[int, bytes]:
        if isinstance(value, list):
            kinds, items = zip(*map(of, value), strict=True)
            assert len({*kinds}) == 1
            return 9, struct.pack("<IQ", kinds[0], len(items)) + b"".join(items)
        if isinstance(value, str):
            return 8, text(value)
        code = {bool: "?", int: "I", float: "f"}[type(value)]
        return {"?": 7, "I": 4, "f": 6}[code], struct.pack(f"<{code}", value)

    pairs = [("general.architecture", arch), *((f"{arch}.{k}", v) for k, v in keys.items())]
    body = b"".join(
        text(key) + struct.pack("<I", kind) + data for key, v in pairs for kind, data in [of(v)]
    )
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


@pytest.mark.parametrize("arch", ROTARY)
def test_rules_are_llama_cpps(arch: str, tmp_path: Path) -> None:
    """Each rule against the loops, with keys that rules of some architectures choose by."""
    seen = set()
    for name, more in CASES.items():
        keys = of_case(arch, more)
        (tmp_path / "a.gguf").write_bytes(packed(arch, keys))
        plan = posenc.from_gguf(tmp_path / "a.gguf", on_error="report")
        assert not plan.errors, (name, plan.errors)
        for layer, call in enumerate(ggml.ropes(arch, keys, {}, False)):
            entry = main(plan, layer)
            assert (entry.spec is None) == (call is None), (name, layer)
            if call is not None and (repr(call), entry.spec) not in seen:
                seen.add((repr(call), entry.spec))
                assert isinstance(entry.spec, posenc.RoPE)
                compare(entry.spec, call, 4096, FOURTH in texts(plan))
    # A rule of no scaling has one set of numbers.
    assert len(seen) >= (1 if arch in ggml.FIXED else 5)
