"""Broken folders and ports, each drawn from a public thread, and the line that they end in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.detect.checkpoints import folder_of
from tests.detect.doctor import ports
from tests.detect.facts import folders
from tests.detect.facts.folders import config_of

LLAMA = config_of()
THETA = {**LLAMA, "rope_theta": 500000.0}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
MSCALE = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}
NEOX = config_of("gpt_neox", rotary_pct=0.25)
GLM = {key: value for key, value in config_of("glm").items() if key != "rope_theta"}
NESTED = {
    **GLM, "model_type": "llama",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}  # fmt: skip
MISTRAL = config_of("mistral", sliding_window=4096)
GPTJ = {"model_type": "gptj", "n_embd": 128, "n_head": 2, "rotary_dim": 64, "n_positions": 2048}
LOCAL = {"rope_local_base_freq": 1e4, "num_hidden_layers": 6, "sliding_window": 512}
GEMMA = config_of("gemma3_text", rope_theta=1e6, **LOCAL)
GEMMA_SCALED = {**GEMMA, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
BLOOM = {"model_type": "bloom", "hidden_size": 96, "n_layer": 2}
T5 = {"model_type": "t5", "d_model": 64, "num_heads": 4, "relative_attention_num_buckets": 32}
GARBAGE = np.r_[0, 1, 22675456.0, 0.8046875, 0.109375, np.zeros(27)].astype("float32")
WEIGHTS = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")


def scaled(scaling: Mapping[str, Any], length: int = 65536, **more: Any) -> dict[str, Any]:
    """A config with a scaling."""
    return {**LLAMA, "rope_scaling": dict(scaling), "max_position_embeddings": length, **more}


def folder(weights: Mapping[str, np.ndarray], config: Any) -> Callable[[Path], Path]:
    """What writes a folder."""
    return lambda place: folder_of(place, weights, config)


class Broken(NamedTuple):
    """A thread, what it is about, and where the page has to end."""

    thread: str
    model: Any  # a config, or what writes a folder
    engine: Any
    fault: str  # words of the first fault
    change: str  # words of the line to change


TRAINED, TURNED = folders.trained(), folders.turned(folders.trained())
WITH = {name: {**TRAINED, **folders.buffers(v)} for name, v in (
    ("garbage", GARBAGE), ("theta", folders.ladder(1e6)))}  # fmt: skip
CASES = {
    # --- folders ---
    "rows not permuted": Broken("karpathy/llama2.c#286", folder(TURNED, LLAMA), None,
        "says half, the weights say interleaved",
        "convert OUT --pairing half --stored interleaved"),
    "keys alone not permuted": Broken("ggml-org/llama.cpp#2376",
        folder(folders.some_turned("k_proj"), LLAMA), None, "keys -14.3 look interleaved",
        "convert OUT --pairing half --stored interleaved --only NAMES"),
    "inv_freq never filled": Broken("NovaSky-AI/SkyRL#1709", folder(WITH["garbage"], LLAMA), None,
        "frequencies of attention", "rotary_emb.inv_freq and 1 more: no rule gives these numbers"),
    "base of another model": Broken("casper-hansen/AutoAWQ#271", folder(WITH["theta"], LLAMA), None,
        "by config keys rope_theta", "base 1000000 in place of 10000, by config key rope_theta"),
    "rows before position 0 lost": Broken("huggingface/transformers#20761",
        folder(*folders.opt(64)), None, "(66, 16) by config key", "position p is row p + 2"),
    "rows of another length": Broken("huggingface/sentence-transformers#3347",
        folder(*folders.bert(512, max_position_embeddings=128)), None,
        "(512, 16) by embeddings.position_embeddings",
        "(512, 16) in place of (128, 16), by config keys hidden_size and max_position"),
    # --- pairs ---
    "neighbours for halves": Broken("jzhang38/TinyLlama#24", LLAMA, ports.interleaved,
        "pairing.order: half against interleaved", "pairing.order half, by posenc's row"),
    "joined in halves": Broken("vllm-project/vllm-metal#44", GPTJ, ports.joined,
        "pairing.output: same against half", "(joined): pairing.output same"),
    "the whole head turns": Broken("ml-explore/mlx-lm#1698", GLM, ports.whole_pairs,
        "dim: 32 against 64", "(whole_pairs): dim 32, by config key head_dim"),
    "a quarter is to turn": Broken("vllm-project/vllm#43770", NEOX, ports.whole_head,
        "dim: 16 against 64", "config keys head_dim and rotary_pct"),
    "the sine has the other sign": Broken("trymirai/lalamo#268", LLAMA, ports.other_way,
        "turn backward", "(other_way): frequencies"),
    "sines for cosines": Broken("NVIDIA/ngpt#10", LLAMA, ports.exchanged,
        "differ by up to 1.4, by over 0.001 from position 0", "(exchanged): "),
    # --- frequencies ---
    "theta is not read": Broken("sgl-project/SpecForge#265", THETA, ports.half,
        "base: 500000 against 10000", "base 500000, by config key rope_theta"),
    "theta is nested": Broken("deepspeedai/DeepSpeed#8345", NESTED, ports.half,
        "base: 1000000 against 10000", "config key rope_parameters.rope_theta"),
    "the exponent lost its sign": Broken(
        "labmlai/annotated_deep_learning_paper_implementations#313", LLAMA, ports.growing,
        "frequencies: 0.749894 in pair 1 against 1.33352", "(growing): freq"),
    "Llama 3 without its scaling": Broken("ggml-org/llama.cpp#8676",
        scaled(LLAMA3, rope_theta=500000.0), ports.of_base(500000.0), "none (Llama3 is left out)",
        "scaling Llama3(8, original_length=8192), by config key rope_scaling"),
    "YaRN left out": Broken("jundot/omlx#3347", scaled(YARN), ports.half, "YaRN is left out",
        "scaling YaRN(16, original_length=4096), by config key rope_scaling"),
    "attention factor left out": Broken("guoqingbao/xinfer#329", scaled(YARN), ports.yarn(1.0),
        "attention_factor: 1.27726 against 1: left out", "attention_factor 1.27726, by config key"),
    "attention factor not read": Broken("ml-explore/mlx-lm#1507",
        scaled({**YARN, "attention_factor": 1.0}), ports.yarn(1.2772588722239782),
        "the scaling's own, not the one that is stated", "config key rope_scaling"),
    "mscale not read": Broken("sgl-project/sglang#22711", scaled(MSCALE),
        ports.yarn(1.2772588722239782), "attention_factor: 1 against 1.27726",
        "magnitude.attention_factor 1"),
    # --- layers ---
    "local and global exchanged": Broken("vllm-project/vllm#29111", GEMMA, ports.swapped_layers,
        "its own encoding against that of", "the encoding of each type of layer"),
    "one base for two kinds of layers": Broken("ggml-org/llama.cpp#14367", GEMMA,
        ports.of_base(1e6), "sliding_attention (layers 0–4): base: 10000 against 1000000",
        "base 10000, by config key rope_local_base_freq"),
    "global without its scaling": Broken("Blaizzy/mlx-vlm#1709", GEMMA_SCALED, ports.unscaled,
        "full_attention (layer 5): scaling: Linear(8) against none", "by config key rope_scaling"),
    "local with it": Broken("antonellof/ferrox#39", GEMMA_SCALED, ports.scaled_everywhere,
        "sliding_attention (layers 0–4): scaling: none against Linear(8)", "scaling none"),
    "the window is gone": Broken("vllm-project/vllm#2064", MISTRAL,
        {**MISTRAL, "sliding_window": None}, "window: 4096 against the whole sequence",
        "window 4096, by config key sliding_window"),
    # --- positions ---
    "positions in bfloat16": Broken("EleutherAI/gpt-neox#1016", LLAMA, ports.coarse,
        "positions held in bfloat16", "(coarse): turn each token by the position"),
    "decoding at position 0": Broken("Blaizzy/mlx-vlm#1983", LLAMA, ports.from_zero,
        "position 0, wherever they differ", "(from_zero): turn each token by the position"),
    "kept by length alone": Broken("lucidrains/rotary-embedding-torch#11", LLAMA,
        ports.Remembered(), "position 0, wherever they differ",
        "(Remembered): turn each token by the position"),
    "left padding": Broken("unslothai/unsloth#3795", LLAMA, ports.first_row,
        "positions: ", "(first_row): turn each token by the position"),
    # --- biases ---
    "slopes of 12 heads": Broken("ml-explore/mlx#3071", {**BLOOM, "n_head": 12},
        ports.slopes(ports.geometric(12)), "recipe: paper against geometric", "recipe paper"),
    "slopes of a length": Broken("ml-explore/mlx#343", {**BLOOM, "n_head": 12}, ports.by_length,
        "recipe: paper against geometric", "(by_length): recipe paper"),
    "slopes one head early": Broken("paiml/aprender#2143", {**BLOOM, "n_head": 8},
        ports.slopes(ports.early(8)), "slopes: 0.5, 0.25, 0.125, … against 1, 0.5", "slopes 0.5"),
    "a decoder with an encoder's buckets": Broken("huggingface/transformers#8518", T5,
        ports.Buckets(WEIGHTS), "decoder: direction: causal against bidirectional",
        "direction causal"),
}  # fmt: skip
