"""Under `auto_map` other code than the class runs: its file is read as text, never run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import posenc

BERT = {"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12,
        "num_hidden_layers": 12, "max_position_embeddings": 512}  # fmt: skip
MOSAIC = {**BERT, "alibi_starting_size": 512, "position_embedding_type": "absolute",
          "auto_map": {"AutoConfig": "configuration_bert.BertConfig",
                       "AutoModelForMaskedLM": "bert_layers.BertForMaskedLM"}}  # fmt: skip
LLAMA = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "num_attention_heads": 4,
         "max_position_embeddings": 4096}  # fmt: skip
OWN = {"AutoModelForCausalLM": "modeling_mine.Mine"}
SLOPES = """
import torch
raise SystemExit("a reader that runs this is wrong")
class Encoder:
    def __init__(self, config):
        '''No position_embeddings = nn.Embedding(config.max_position_embeddings) here.'''
        self._current_alibi_size = config.alibi_starting_size  # rotary? no
    def rebuild_alibi_tensor(self, size):
        return torch.zeros(size)
"""
TABLE = "self.position_embeddings = nn.Embedding(config.max_position_embeddings, 8)\n"
HALF = """
def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)
"""
PAIRS = """
def apply_rotary_emb(x, cos, sin):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1).flatten(-2)
"""


def folder(path: Path, config: dict[str, Any], **files: str) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in files.items():
        (path / f"{name}.py").write_text(text, encoding="utf-8")
    return path


def test_a_plan_of_class_defaults_is_refused_and_the_file_is_named() -> None:
    for config in (MOSAIC, {**BERT, "auto_map": MOSAIC["auto_map"]}):
        plan = posenc.from_hf(config, on_error="report")
        assert not plan.layers
        assert any(
            "bert_layers.py" in text and "does not lie beside" in text for text in plan.errors
        )
    base = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    with pytest.raises(posenc.DataError, match=r"modeling_mine\.py.* leaves out base"):
        posenc.from_hf({**base, "auto_map": OWN})


def test_a_plan_that_rests_on_keys_stays_equal() -> None:
    attention = {"alibi": True, "alibi_bias_max": 8}
    for config in (
        LLAMA,
        {**BERT, "position_embedding_type": "absolute"},
        {"model_type": "mpt", "d_model": 64, "n_heads": 4, "attn_config": attention},
        {"model_type": "chatglm", "hidden_size": 64, "num_attention_heads": 2, "kv_channels": 32},
    ):
        for named in (OWN, {**OWN, "AutoModel": "modeling_mine.Other"}, {"AutoConfig": "a.B"}):
            assert (
                posenc.from_hf({**config, "auto_map": named}).layers
                == posenc.from_hf(config).layers
            )


def test_what_runs_for_a_config_or_a_tokenizer_alone_is_the_class() -> None:
    named = {"AutoConfig": "configuration_x.X", "AutoTokenizer": ["tokenization_x.X", None]}
    assert posenc.from_hf({**BERT, "auto_map": named}).layers == posenc.from_hf(BERT).layers


def test_slopes_in_the_file_beside_are_the_plan_and_the_file_is_never_run(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", MOSAIC, bert_layers=SLOPES)
    for source in (path, str(path), path / "config.json"):
        (entry,) = posenc.explain(source)
        assert entry.spec == posenc.ALiBi(heads=12)
        assert ("kind", "file", "bert_layers.py") in [
            (s.field, s.origin, s.where) for s in entry.sources
        ]
    assert "bert_layers" not in sys.modules
    contract = posenc.golden(path)
    assert "alibi" in str(contract.to_dict()).lower()


def test_a_file_that_says_two_things_or_none_settles_nothing(tmp_path: Path) -> None:
    mentions = '"""alibi"""\n# alibi\nx = "alibi"\n'
    for number, text in enumerate((SLOPES + TABLE, SLOPES + HALF, mentions, "", "def :", "\0")):
        path = folder(tmp_path / str(number), MOSAIC, bert_layers=text)
        plan = posenc.from_hf(path, on_error="report")
        assert not plan.layers, text
        assert any("bert_layers.py" in text for text in plan.errors), text


def test_a_table_in_the_file_is_the_table_of_the_class(tmp_path: Path) -> None:
    config = {**BERT, "auto_map": MOSAIC["auto_map"]}
    plan = posenc.from_hf(folder(tmp_path / "m", config, bert_layers=TABLE))
    assert plan["embeddings"].spec == posenc.from_hf(BERT)["embeddings"].spec
    with pytest.raises(posenc.DataError, match=r"whose code has ALiBi.* have a rotation"):
        posenc.from_hf(folder(tmp_path / "n", {**LLAMA, "auto_map": OWN}, modeling_mine=SLOPES))


@pytest.mark.parametrize(("text", "pairing"), [(HALF, "half"), (PAIRS, "interleaved")])
def test_the_pairing_of_the_file_is_that_of_the_plan(
    tmp_path: Path, text: str, pairing: str
) -> None:
    for number, name in enumerate(("llama", "mine")):
        config = {**LLAMA, "model_type": name, "auto_map": OWN}
        plan = posenc.from_hf(folder(tmp_path / str(number), config, modeling_mine=text))
        spec = plan["attention"].spec
        assert isinstance(spec, posenc.RoPE)
        assert spec.pairing.order == pairing
        told = any("the plan follows the file" in warning for warning in plan.warnings)
        assert told == (name == "llama" and pairing == "interleaved")
    both = folder(tmp_path / "both", {**LLAMA, "auto_map": OWN}, modeling_mine=HALF + PAIRS)
    assert posenc.from_hf(both)["attention"].spec == posenc.from_hf(LLAMA)["attention"].spec


@pytest.mark.parametrize(
    "named",
    ["../../secret.X", "/etc/passwd.X", "a/../secret.X", "..secret.X", "org/repo--secret.X",
     "secret", "a\0.b", ".X", "", None, 7, ["secret.X"], {"a": 1}],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder(tmp_path: Path, named: Any) -> None:
    (tmp_path / "secret.py").write_text(SLOPES, encoding="utf-8")
    config = {**BERT, "auto_map": {"AutoModel": named}}
    path = folder(tmp_path / "m", config, secret=SLOPES if "org" in str(named) else "")
    plan = posenc.from_hf(path, on_error="report")
    assert not plan.layers
    assert plan.errors


def test_files_that_are_too_large_or_no_text_are_not_read(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", MOSAIC)
    file = path / "bert_layers.py"
    for content in (
        b"\xff\xfe\x00",
        b"#" * (2**21 + 1),
        b"(" * 100_000,
        b"a=" + b"-" * 200_000 + b"1",
    ):
        file.write_bytes(content)
        (told,) = posenc.from_hf(path, on_error="report").errors
        assert "it cannot be read" in told
    # The largest file that is read, and one behind a link, as caches of hubs hold them.
    whole = SLOPES + "#" * (2**21 - len(SLOPES) - 1) + "\n"
    (tmp_path / "blob").write_text(whole, encoding="utf-8")
    file.unlink()
    file.symlink_to(tmp_path / "blob")
    assert posenc.from_hf(path)["attention"].spec == posenc.ALiBi(heads=12)
