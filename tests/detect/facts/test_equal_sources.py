"""Sources of one model: none contradicts itself, and no two of them differ."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import posenc
from tests.detect.checkpoints import folder_of
from tests.detect.facts.folders import (
    FORMS as TABLES,
    LINEAR,
    YARN,
    bert,
    bfloat16,
    config_of,
    cosines,
    ladder,
    numbered,
    opt,
    t5,
    trained,
    turned,
)

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}  # fmt: skip
DYNAMIC = {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": config_of(),
    "linear": config_of(**LINEAR),
    "yarn": config_of(**YARN),
    "llama3": config_of(rope_scaling=LLAMA3),
    "dynamic": config_of(**DYNAMIC),
    "part of a head": config_of("phi", partial_rotary_factor=0.5),
    "neighbours": config_of("helium"),
    "windows": config_of("qwen2", use_sliding_window=True, max_window_layers=1, sliding_window=64),
    "two bases": config_of(
        "gemma3_text", num_hidden_layers=6, sliding_window=64, rope_local_base_freq=1e4,
        rope_theta=1e6),
    "a table": bert()[1],
    "a table with an offset": opt()[1],
    "buckets": t5()[1],
}  # fmt: skip


def golden(folder: Path, config: dict[str, Any]) -> Any:
    posenc.golden(config).save(path := folder / "golden.json")
    return path


def plan(folder: Path, config: dict[str, Any]) -> Any:
    return posenc.to_json(posenc.from_hf(config))


def older(folder: Path, config: dict[str, Any]) -> Any:
    return posenc.to_hf(config, "hf4").config


def newer(folder: Path, config: dict[str, Any]) -> Any:
    return posenc.to_hf(config, "hf5").config


def ladders(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """The frequencies of each type of layer, as modules keep them."""
    turns = [e for e in posenc.from_hf(config) if e.kind == "rotary"]
    names = [f"{e.layer}_inv_freq" if len(turns) > 1 else "inv_freq" for e in turns]
    return {
        f"model.rotary_emb.{name}": posenc.frequencies(entry.spec.at(1)).astype(np.float32)  # type: ignore[union-attr]
        for name, entry in zip(names, turns, strict=True)
    }


def with_buffers(folder: Path, config: dict[str, Any]) -> Any:
    kinds = {"bert": bert, "opt": opt, "t5": t5}
    if (kind := config["model_type"]) in kinds:
        return folder_of(folder, kinds[kind]()[0], config)
    # Weights that were trained with all channels turning say so, of which `phi` turns half.
    weights = {"helium": turned(trained()), "phi": {}}.get(kind, trained())
    return folder_of(folder, {**weights, **ladders(config)}, config)


FORMS: dict[str, Callable[[Path, dict[str, Any]], Any]] = {
    "golden file": golden, "plan": plan, "dialect of version 4": older,
    "dialect of version 5": newer, "folder": with_buffers,
}  # fmt: skip
ROWS = [*itertools.product(CONFIGS, FORMS)]


def test_there_are_forty() -> None:
    assert len(ROWS) >= 40


@pytest.mark.parametrize(("name", "form"), ROWS)
def test_two_sources_of_one_model(tmp_path: Path, name: str, form: str) -> None:
    config = CONFIGS[name]
    other = FORMS[form](tmp_path, config)
    found = posenc.diff(config, other)
    assert found.rows == ()
    assert found.compared
    if isinstance(other, Path) and other.is_dir():
        known = posenc.facts(other)
        assert known.contradictions == ()
        assert known.headers


@pytest.mark.parametrize("rounded", [bfloat16, lambda x: x.astype(np.float16)])
@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
def test_frequencies_that_were_rounded(tmp_path: Path, rounded: Any, base: float) -> None:
    config = config_of(rope_theta=base)
    values = {name: rounded(numbers) for name, numbers in ladders(config).items()}
    folder = folder_of(tmp_path, {**trained(), **values}, config)
    assert posenc.facts(folder).contradictions == ()


@pytest.mark.parametrize("rounded", [np.float32, bfloat16, np.float16])
def test_tables_of_the_same_cosines(tmp_path: Path, rounded: Any) -> None:
    for number, (form, rows) in enumerate(itertools.product(TABLES, (2048, 5000))):
        kept = {key: rounded(v) for key, v in cosines(rows=rows, form=form).items()}
        folder = folder_of(tmp_path / str(number), {**trained(), **kept}, config_of())
        known = posenc.facts(folder)
        assert known.contradictions == ()
        assert [fact.value for fact in known.of("length") if fact.source == "header"] == [rows]


def test_tables_of_a_scaling_and_of_its_original_length(tmp_path: Path) -> None:
    config = config_of(rope_scaling=LLAMA3)
    spec: Any = posenc.from_hf(config)["attention"].spec
    cos, sin = posenc.cos_sin(spec, np.arange(512), dtype="float32")
    folder = folder_of(tmp_path, {"cos_sin_cache": np.concatenate([cos, sin], -1)}, config)
    known = posenc.facts(folder)
    assert (len(known.headers), known.contradictions) == (2, ())


def test_heads_of_another_module_or_packed_ones_contradict_nothing(tmp_path: Path) -> None:
    beside = {"resampler.layers.0.self_attn.q_proj.weight": np.ones((48, 8), np.float32)}
    packed = {key: np.ones((96, 1), np.uint8) for key in trained() if "q_proj" in key}
    for name, more in (("a", beside), ("b", packed)):
        folder = folder_of(tmp_path / name, {**trained(), **more}, config_of())
        assert posenc.facts(folder).contradictions == ()


def heads_of(*rows: int, stem: str = "model.layers", **more: Any) -> tuple[Any, Any]:
    """Layers whose queries have so many rows, under a config of two heads of 64 channels."""
    shapes = {
        f"{stem}.{i}.self_attn.{n}_proj.weight": (r, 128) for i, r in enumerate(rows) for n in "qk"
    }
    return {n: np.ones(shape, np.float32) for n, shape in shapes.items()}, config_of(**more)


@pytest.mark.parametrize(("case", "count"), [
    (heads_of(256, 256), 1),
    (heads_of(256, 128), 0),  # types of layers may differ
    (heads_of(256, 256, swa_num_attention_heads=4), 0),
    (heads_of(256, 256, kv_lora_rank=32), 0),
    (heads_of(256, 256, stem="model.audio_tower.layers"), 0),
    (heads_of(256, 256, stem="model.qformer.layer"), 0),
    (heads_of(128, 128, num_key_value_heads=1), 1),
    # A class that gives each head its own keys does not read the number.
    (heads_of(128, 128, model_type="gpt_neox", num_key_value_heads=1), 0),
    (heads_of(256, 256, model_type="gpt_neox", num_key_value_heads=1), 1),
])  # fmt: skip
def test_heads_are_those_of_all_layers_of_the_text(
    tmp_path: Path, case: tuple[Any, Any], count: int
) -> None:
    """Towers, and layers of several kinds, have heads of their own."""
    names = [one.one.name for one in posenc.facts(folder_of(tmp_path, *case)).contradictions]
    assert names == ["heads"] * count


def _foreseeing(weights: dict[str, Any]) -> dict[str, Any]:
    """The same with a layer that predicts further tokens, in a list of its own."""
    more = {n.replace("model.layers.0", "mtp.layers.0"): v for n, v in weights.items()}
    return {**weights, **{n: v for n, v in more.items() if n.startswith("mtp")}}


HONEST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all": numbered(0, 1, 2, config=3),
    "the first, without a table of words": numbered(0, 1, config=32, words=False),
    "one behind the last": numbered(0, 1, 2, config=2, num_nextn_predict_layers=1),
    "one behind the last that is left out": numbered(0, 1, config=2, num_nextn_predict_layers=1),
    "one that is shared": numbered(0, config=12, num_hidden_groups=1),
    "groups that share": numbered(0, 1, 3, config=4, share_layers=True),
    "keys that are shared": numbered(0, 1, config=2, num_kv_shared_layers=1),
    "tied words": numbered(0, 1, config=2, tie_word_embeddings=True),
    "a config that counts nothing": numbered(0, 1, 3, config=None),
    "encoder and decoder": numbered(
        *(f"model.{part}.layers.{n}" for part, last in (("encoder", 4), ("decoder", 2))
          for n in range(last)), config=2),
    "attentions with numbers in their names": numbered(
        0, 1, "model.vq.mid.attn_1", config=2),
    "layers with numbers in their names": numbered("layers_0", "layers_1", config=2),
    "further tokens in a list of their own": (
        _foreseeing(numbered(0, 1, config=2)[0]), numbered(config=2)[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_layers_that_are_all_there(tmp_path: Path, name: str) -> None:
    known = posenc.facts(folder_of(tmp_path, *HONEST[name]))
    assert known.evidence is not None
    assert known.contradictions == ()


def test_layers_of_a_part_of_a_model(tmp_path: Path) -> None:
    """One file of several, an adapter, a model in memory, and layers that have no attention."""
    weights, config = numbered(0, 1, 3, config=5)
    folder = folder_of(tmp_path / "a", weights, config)
    (folder / "model.safetensors").rename(shard := folder / "model-00001-of-00002.safetensors")
    adapter = {n.replace("weight", "lora_B.weight"): v for n, v in weights.items()}
    kinds = ["full_attention", "conv", "full_attention", "conv"]
    mixed, own = numbered(0, 2, config=4)
    own |= {"model_type": "lfm2", "layer_types": kinds}
    mixed |= {f"model.layers.{n}.conv.in_proj.weight": np.ones((9, 128)) for n in (1, 3)}
    for source in (
        shard, folder_of(tmp_path / "b", adapter, config), folder_of(tmp_path / "c", mixed, own),
    ):  # fmt: skip
        assert posenc.facts(source).contradictions == ()


def test_frequencies_from_before_a_scaling(tmp_path: Path) -> None:
    """Files of older classes keep the ladder that the rule starts from."""
    for number, rule in enumerate((LINEAR, YARN, {"rope_scaling": LLAMA3}, DYNAMIC)):
        values = ladders(config_of())
        folder = folder_of(tmp_path / str(number), {**trained(), **values}, config_of(**rule))
        assert posenc.facts(folder).contradictions == ()


def test_what_is_left_out_is_no_contradiction(tmp_path: Path) -> None:
    """One file of several, an adapter, and tables under other names have no table to miss."""
    weights, config = bert(0)
    alone = tmp_path / "alone"
    folder_of(alone, weights, config)
    shard = alone / "model-00001-of-00002.safetensors"
    (alone / "model.safetensors").rename(shard)
    assert posenc.facts(shard).contradictions == ()
    names = ("lora_A.weight", "my_pos_table.weight")
    for name in names:
        more = {f"encoder.{name}": np.ones((4, 16), np.float32)}
        folder = folder_of(tmp_path / name, {**weights, **more}, config)
        assert posenc.facts(folder).contradictions == ()


@pytest.mark.parametrize("rounding", [np.float32, np.float16, bfloat16])
def test_every_row_of_right_tables_follows(tmp_path: Path, rounding: Any) -> None:
    """Of angles in float32 too, whose error grows with the row."""
    rows = np.arange(40_000, dtype=np.float32)
    angles = np.float32(rows[:, None] * ladder())
    names = {"cos_cached": np.cos(angles), "sin_cached": np.sin(angles)}
    tables = {f"model.rotary_emb.{n}": rounding(np.tile(v, 2)) for n, v in names.items()}
    known = posenc.facts(
        folder_of(tmp_path, {**trained(), **tables}, config_of(max_position_embeddings=40_000))
    )
    assert known.contradictions == ()
    assert [fact.value for fact in known.headers if fact.name == "length"] == [40_000]


def test_computed_rows_are_not_held_against_learned_ones(tmp_path: Path) -> None:
    rows = {"encoder": 1500, "decoder": 448}
    weights = {
        f"model.{part}.embed_positions.weight": np.ones((count, 16), np.float32)
        for part, count in rows.items()
    }
    folder = folder_of(tmp_path / "a", weights, {"model_type": "whisper", "d_model": 16})
    known = posenc.facts(folder)
    assert known.contradictions == ()
    assert sorted(fact.value for fact in known.of("rows")) == [(448, 16), (1500, 16)]
    shorter = folder_of(
        tmp_path / "b", weights,
        {"model_type": "whisper", "d_model": 16, "max_target_positions": 64},
    )  # fmt: skip
    assert [c.other.value for c in posenc.facts(shorter).contradictions] == [(448, 16)]


def test_weights_that_cannot_be_read_leave_the_config(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, trained(), config_of())
    (folder / "model.safetensors").write_bytes(b"broken")
    known = posenc.facts(folder)
    assert (known.checkpoint, known.contradictions) == (None, ())
    plain = posenc.from_hf(config_of())
    assert known.reading.replace(notes=()) == plain
    said = f"the weights were not read: {folder}/model.safetensors: expected a"
    for tool in (posenc.explain(folder), posenc.golden(folder), posenc.extend(folder, factor=2)):
        assert [note for note in map(str, tool.notes) if said in note], tool
    assert posenc.doctor(folder).not_compared[0].startswith(said.partition("read: ")[2], 9)
    (folder / "pytorch_model.bin").write_bytes(b"broken")
    folder_of(folder, trained(), config_of())
    assert posenc.facts(folder).checkpoint is not None  # of both, what is safe
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors").rename(folder / "model-00002-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert posenc.facts(folder).checkpoint is None
    found = posenc.explain(folder)
    assert found["attention"].spec == known.reading["attention"].spec
    assert "got no 'model-00001-of-00002.safetensors'" in found.warnings[-1]
    for file in folder.glob("*model*-of-*"):
        file.unlink()
    (folder / "pytorch_model.bin").unlink()
    assert posenc.explain(folder) == plain  # an index alone is no weights


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F4", "I8"])
def test_numbers_that_cannot_be_read_contradict_nothing(tmp_path: Path, dtype: str) -> None:
    folder = folder_of(tmp_path, trained(), config_of())
    size = 16 if dtype == "F4" else 32
    entry = {"dtype": dtype, "shape": [32], "data_offsets": [0, size]}
    head = json.dumps({"model.rotary_emb.inv_freq": entry}).encode()
    content = len(head).to_bytes(8, "little") + head + bytes(size)
    (folder / "model.safetensors").write_bytes(content)
    names = [one.one.name for one in posenc.facts(folder).contradictions]
    assert names == (["frequencies"] if dtype == "I8" else [])


def test_a_list_of_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, trained(), config_of(), shards=2)
    files = sorted(folder.glob("*.safetensors"))
    known = posenc.facts(files)
    assert known.of("pairing")[-1].value == posenc.facts(folder).of("pairing")[-1].value == "half"
    files[1].write_bytes(b"broken")
    (told,) = posenc.facts(files).reading.warnings
    assert f"the weights were not read: {files[1]}" in told
    (told,) = posenc.facts([files[0], folder / "lost.safetensors"]).reading.warnings
    assert "expected each file that the index or the list names, got no 'lost.safetensors'" in told


def test_files_of_a_folder_that_are_weights_by_no_name(tmp_path: Path) -> None:
    """Two of them are weights of which none says that it is the model's; settings of torch none."""
    folder = folder_of(tmp_path, {}, config_of())
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / "training_args.bin").write_bytes(b"broken")
    assert not posenc.facts(folder).reading.warnings
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(b"broken")
    (told,) = posenc.facts(folder).reading.warnings
    assert told.endswith("got a.safetensors, b.safetensors. Name one of these files.")
    save_file(turned(trained()), tmp_path / "a.safetensors")
    alone = posenc.facts(tmp_path / "a.safetensors")
    assert [one.one.name for one in alone.contradictions] == ["pairing"]
