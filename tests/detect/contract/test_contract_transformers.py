"""Contracts of ten models, held against the modules of transformers themselves."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.detect.contract.checks import ruled
from posenc.testing import assert_contract

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.slow("detect/contract", "detect/explain", "testing/contract.py")

YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
SMALL: dict[str, Any] = {"num_hidden_layers": 6, "num_attention_heads": 4, "hidden_size": 256}
# Name -> class of the config, prefix of the classes of its modules, what differs from the defaults.
ROTARY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": (
        "LlamaConfig",
        "Llama",
        {
            "max_position_embeddings": 131_072,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
    ),
    "qwen3": ("Qwen3Config", "Qwen3", {"head_dim": 128}),
    "mistral": ("MistralConfig", "Mistral", {"head_dim": 32}),
    "gemma3": ("Gemma3TextConfig", "Gemma3", {"head_dim": 256}),
    "phi3": (
        "Phi3Config",
        "Phi3",
        {
            "max_position_embeddings": 131_072,
            "original_max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10_000.0,
                "partial_rotary_factor": 1.0,
                "short_factor": [1.0 + j / 64 for j in range(32)],
                "long_factor": [1.0 + j for j in range(32)],
                "original_max_position_embeddings": 4096,
                "factor": 32.0,
            },
        },
    ),
    "gpt_oss": ("GptOssConfig", "GptOss", {"head_dim": 64}),
    "deepseek_v3": (
        "DeepseekV3Config",
        "DeepseekV3",
        {
            "max_position_embeddings": 163_840,
            "rope_parameters": {
                **YARN,
                "rope_theta": 10_000.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        },
    ),
    "qwen2_5_vl": ("Qwen2_5_VLTextConfig", "Qwen2_5_VL", {"hidden_size": 512}),
}


class Module:
    """The rotary module of a model in transformers, by the protocol of contracts."""

    def __init__(self, name: str, config: Any) -> None:
        home = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        self.module = getattr(home, f"{ROTARY[name][1]}RotaryEmbedding")(config)
        interleaved = getattr(config, "rope_interleave", False)
        suffix = "_interleave" if interleaved else ""
        self.apply = getattr(home, f"apply_rotary_pos_emb{suffix}")
        self.config, self.name = config, name

    def cos_sin(self, positions: Any, layer: str, length: int | None = None) -> Any:
        ids = torch.movedim(positions, -1, 0)[:, None] if positions.ndim > 1 else positions[None]
        more = {"layer_type": layer} if self.name == "gemma3" else {}
        if self.name == "phi3":  # what `dynamic_rope_update` chooses by the largest position
            from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

            init = ROPE_INIT_FUNCTIONS[self.module.rope_type]
            inverse, self.module.attention_scaling = init(self.config, "cpu", seq_len=length)
            self.module.register_buffer("inv_freq", inverse, persistent=False)
            forward = type(self.module).forward.__wrapped__.__wrapped__
            return forward(self.module, torch.zeros(1), ids)
        return self.module(torch.zeros(1), ids, **more)

    def rotate(self, x: Any, positions: Any, layer: str, length: int | None = None) -> Any:
        cos, sin = self.cos_sin(positions, layer, length)
        return self.apply(x, x, cos, sin)[0]


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_modules_keep_the_contract(name: str) -> None:
    config_class, _, changes = ROTARY[name]
    config = getattr(transformers, config_class)(**{**SMALL, **changes})
    contract = posenc.golden(config.to_dict())
    rotary = [part.name for part in contract.parts if part.kind == "rotary"]
    assert rotary
    assert len({index for name in rotary for index in contract[name].layers or range(6)}) == 6
    report = assert_contract(Module(name, config), contract, layers=rotary, library="torch")
    for part in rotary:
        for method in ("cos_sin", "rotate"):
            done = [told for told in report.compared if told.startswith(f"{part}: {method}")]
            assert len(done) == 1, (done, report.not_compared)
            last = max(contract[part].length - 1, 4096)  # past the length of a rule, if it has one
            assert f"agrees to position {last:,} " in done[0]


def test_a_scaling_of_scores_is_that_of_the_attention() -> None:
    config = transformers.DeepseekV3Config(**{**SMALL, **ROTARY["deepseek_v3"][2]})
    home = importlib.import_module("transformers.models.deepseek_v3.modeling_deepseek_v3")
    attention = home.DeepseekV3Attention(config, layer_idx=0)
    factor = attention.scaling * config.qk_head_dim**0.5

    class Side:
        def logit_scale(self, positions: np.ndarray) -> np.ndarray:
            return np.full(len(positions), factor)

    contract = posenc.golden(config.to_dict())
    assert abs(factor - 1) > 0.1
    assert len(assert_contract(Side, contract, dtype="float64").compared) == 1


def test_mrope_ids_are_those_of_the_model() -> None:
    home = importlib.import_module("transformers.models.qwen2_5_vl.modeling_qwen2_5_vl")
    config = transformers.Qwen2_5_VLConfig(text_config={**SMALL, "hidden_size": 512})
    model = home.Qwen2_5_VLModel.__new__(home.Qwen2_5_VLModel)
    torch.nn.Module.__init__(model)
    model.config = config
    contract = posenc.golden(config.to_dict())
    merge = config.vision_config.spatial_merge_size
    done = 0
    for check in contract.checks:
        if check.check != "positions" or "layout" not in check:
            continue
        kinds: list[int] = []
        grids = []
        for frames, rows, columns in check["layout"].reshape(-1, 3).tolist():
            if not rows:
                kinds += [0] * frames
                continue
            kinds += [1 if frames == 1 else 2] * frames * rows * columns
            grids.append([frames, rows * merge, columns * merge])
        grid = torch.tensor(grids)
        told = {"image_grid_thw" if grids[0][0] == 1 else "video_grid_thw": grid}
        if grids[0][0] > 1:  # a frame for each step of the coordinate
            told["second_per_grid_ts"] = torch.tensor([1 / config.vision_config.tokens_per_second])
        ids, _ = model.get_rope_index(
            torch.zeros((1, len(kinds)), dtype=torch.long),
            mm_token_type_ids=torch.tensor([kinds]),
            **told,
        )
        expected = check["positions"].reshape(-1, 3).T
        np.testing.assert_array_equal(ids[:, 0].numpy(), expected)
        done += 1
    assert done == 2


def test_rows_of_bert_are_those_of_its_table() -> None:
    home = importlib.import_module("transformers.models.bert.modeling_bert")
    config = transformers.BertConfig(num_hidden_layers=1, hidden_size=64, num_attention_heads=2)
    contract = posenc.golden(config.to_dict())
    (check,) = [check for check in contract.checks if check.check == "rows"]
    embeddings = home.BertEmbeddings(config).eval()
    for table in (embeddings.word_embeddings, embeddings.token_type_embeddings):
        torch.nn.init.zeros_(table.weight)
    weight = embeddings.position_embeddings.weight
    assert tuple(weight.shape) == (check["length"] + check["start"], check["width"])
    embeddings.LayerNorm = torch.nn.Identity()
    ids = torch.zeros((1, 512), dtype=torch.long)
    with torch.no_grad():
        rows = embeddings(ids)[0]
    assert check["positions"].tolist() == [0, 1, 2, 257, 511]
    assert torch.equal(rows[check["positions"].tolist()], weight[check["rows"].tolist()])


def test_rows_of_whisper_are_its_sinusoids() -> None:
    home = importlib.import_module("transformers.models.whisper.modeling_whisper")
    config = transformers.WhisperConfig(d_model=64, encoder_layers=1, decoder_layers=1)
    contract = posenc.golden(config.to_dict())
    (encoder,) = {check.part for check in contract.checks if check.check == "table"}
    (decoder,) = [check for check in contract.checks if check.check == "rows"]

    class Side:
        def table(self, positions: Any) -> Any:
            return home.sinusoids(int(positions.max()) + 1, 64)[positions]

    assert_contract(Side, contract, layers=[encoder], library="torch")
    table = home.WhisperPositionalEmbedding(config.max_target_positions, 64)
    torch.nn.init.zeros_(table.weight)
    table.weight.data += torch.from_numpy(ruled(448 * 64).reshape(448, 64)).float()
    rows = table(torch.zeros((1, 448)))
    assert decoder["length"] == 448
    assert torch.equal(rows[decoder["positions"].tolist()], table.weight[decoder["rows"].tolist()])
