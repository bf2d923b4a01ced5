# ruff: noqa: E402 - the path and what is asked of libraries come first
"""Models of transformers, as they are and with exact positions inside them: `models.py`.

    python benchmarks/models.py                     every model, eager and compiled
    python benchmarks/models.py --compiled rotary   compiles the rotary modules alone
    python benchmarks/models.py llama qwen3         these models

Ten models of random weights, of a few layers in the shapes that their families have, with windows
longer than the prompt, so that its cache can be cut. Of each there
are two, one of them adopted (`posenc.torch.adopt`). They take turns on one thread: the calls of the
rotary modules, as one forward pass makes them, for a prompt and for one token; a prompt; a step of
decoding behind it; and a step of training. Times are medians in CPU time of that thread. Memory is
the most that each of the last three holds at once beside what it began with. Rows go to
`benchmarks/results/models.jsonl`.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.simplefilter("ignore")

import torch
import torch._inductor.config as inductor
import transformers

import posenc.torch
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns

PROMPT, TRAINED = 512, 128  # tokens
SECONDS = 2.0
TEXT: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
HEAD = {"head_dim": 64}
LAYERS = ["sliding_attention"] * 3 + ["full_attention"]
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_shared_experts": 1}
SMALL = {"intermediate_size": 512, "hidden_size": 256}
# The class of a model, and its config.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **TEXT,
            **HEAD,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 1024,
            },
        },
    ),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**TEXT, **HEAD}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**TEXT, **HEAD, "sliding_window": 1024}),
    "gemma3": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**TEXT, **HEAD, "sliding_window": 1024, "layer_types": LAYERS},
    ),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**TEXT, "partial_rotary_factor": 0.75}),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**TEXT, **HEAD, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 1024},
    ),
    "deepseek_v3": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {
            **TEXT,
            **EXPERTS,
            "num_key_value_heads": 8,
            "q_lora_rank": 128,
            "kv_lora_rank": 64,
            "qk_rope_head_dim": 32,
            "qk_nope_head_dim": 64,
            "v_head_dim": 64,
            "n_routed_experts": 8,
            "first_k_dense_replace": 1,
            "n_group": 2,
            "topk_group": 1,
        },
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2_5_VLConfig",
        {
            "text_config": {
                **TEXT,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e6,
                    "mrope_section": [8, 12, 12],
                },
            },
            "vision_config": {
                "depth": 2,
                "hidden_size": 256,
                "num_heads": 4,
                "out_hidden_size": 512,
                "intermediate_size": 512,
                "fullatt_block_indexes": [1],
            },
        },
    ),
    "moonshine": (
        "MoonshineForConditionalGeneration",
        "MoonshineConfig",
        {
            **SMALL,
            "vocab_size": 1024,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
        },
    ),
    "pixtral": (
        "PixtralVisionModel",
        "PixtralVisionConfig",
        {**SMALL, "num_attention_heads": 4, "num_hidden_layers": 2, "image_size": 224},
    ),
}


def built(name: str) -> Any:
    """A model of random weights."""
    kind, config, sizes = MODELS[name]
    torch.manual_seed(0)
    return getattr(transformers, kind)(getattr(transformers, config)(**sizes)).eval()


def inputs(model: Any, tokens: int) -> dict[str, Any]:
    """What a forward pass is given."""
    name = model.main_input_name
    if name == "pixel_values":
        return {name: torch.ones(1, 3, 224, 224), "image_sizes": [(224, 224)]}
    ids = torch.arange(tokens)[None] % 1000 + 3
    if name == "input_values":
        return {name: torch.ones(1, 16000), "decoder_input_ids": ids[:, :128]}
    return {name: ids}


# --- the ways ------------------------------------------------------------------------------------


def rotary_calls(model: Any, paths: list[str], run: Way) -> dict[str, list[Any]]:
    """The arguments of each call that a pass makes of the modules at some paths."""
    calls: dict[str, list[Any]] = {path: [] for path in paths}
    hooks = []
    for path in paths:

        def keep(_: Any, args: Any, kwargs: Any, path: str = path) -> None:
            calls[path].append((args, kwargs))

        hooks.append(model.get_submodule(path).register_forward_pre_hook(keep, with_kwargs=True))
    run()
    for hook in hooks:
        hook.remove()
    return {path: found for path, found in calls.items() if found}


def rotary_way(model: Any, calls: dict[str, list[Any]], compiled: bool) -> Way:
    """All calls of the rotary modules in one pass."""
    steps = []
    for path, arguments in calls.items():
        module = model.get_submodule(path)
        call = torch.compile(module) if compiled else module
        steps += [(call, args, kwargs) for args, kwargs in arguments]

    def run() -> None:
        with torch.no_grad():
            for call, args, kwargs in steps:
                call(*args, **kwargs)

    return run


def prefill_way(model: Any, call: Any) -> Way:
    """A prompt."""
    given = inputs(model, PROMPT)

    def run() -> Any:
        with torch.no_grad():
            return call(**given)

    return run


def decode_way(model: Any, call: Any) -> Way | None:
    """One token behind a prompt, whose cache is cut to it again after each."""
    given = inputs(model, PROMPT)
    if model.main_input_name == "pixel_values":
        return None
    with torch.no_grad():
        first = model(**given, use_cache=True)
    cache = first.past_key_values
    given = {"input_ids": torch.tensor([[5]])}
    if model.main_input_name == "input_values":
        states = first.encoder_last_hidden_state
        encoded = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=states)
        encoded.attention_mask = None  # which its decoder asks for
        given = {"decoder_input_ids": torch.tensor([[5]]), "encoder_outputs": encoded}

    def run() -> None:
        with torch.no_grad():
            call(**given, past_key_values=cache, use_cache=True)
        cache.crop(-1)

    return run


def train_way(model: Any, call: Any) -> Way:
    """A forward and a backward pass."""
    given = inputs(model, TRAINED)

    def run() -> None:
        model.train()
        output = call(**given)
        result = output.logits if hasattr(output, "logits") else output.last_hidden_state
        result.float().square().mean().backward()
        model.zero_grad(set_to_none=True)
        model.eval()

    return run


def peak(way: Way) -> int:
    """Bytes that a call holds at most at once, beside what it began with: the least of three."""
    way()
    peaks = []
    for _ in range(3):
        with torch.profiler.profile(profile_memory=True) as profile:
            way()
        held = most = 0
        for event in profile.profiler.kineto_results.events():
            if event.name() == "[memory]":
                held += event.nbytes()
                most = max(most, held)
        peaks.append(most)
    return min(peaks)


# --- the rows ------------------------------------------------------------------------------------


def rows_of(name: str, compiled: str) -> list[dict[str, Any]]:
    """What one model costs, as it is and adopted."""
    theirs = built(name)
    ours = copy.deepcopy(theirs)
    report = posenc.torch.adopt(ours)
    paths = sorted(
        path
        for path, module in ours.named_modules(remove_duplicate=False)
        if module is not dict(theirs.named_modules(remove_duplicate=False)).get(path)
        and type(module) is not type(theirs.get_submodule(path))
    )
    both = {"theirs": theirs, "ours": ours}
    rows: list[dict[str, Any]] = []

    def measured(what: str, mode: str, ways: dict[str, Any], **more: Any) -> None:
        if None in ways.values():
            return
        times = in_turns(ways, seconds=SECONDS, least=15, clock=time.thread_time)
        micro = {key: 1e6 * statistics.median(spent) for key, spent in times.items()}
        ratios = [a / b for a, b in zip(times["ours"], times["theirs"], strict=True)]
        row: dict[str, Any] = {
            "model": name,
            "what": what,
            "mode": mode,
            "microseconds": {key: round(value, 1) for key, value in micro.items()},
            "ratio": round(statistics.median(ratios), 3),
        }
        rows.append(row | more)
        print(rows[-1], flush=True)

    passes: dict[str, Callable[[Any, Any], Way | None]] = {
        "prefill": prefill_way,
        "decode": decode_way,
        "train": train_way,
    }
    for mode in ("eager", "compiled") if compiled != "none" else ("eager",):
        for what in ("decode", "prefill"):
            run = passes[what](theirs, theirs)
            if run is None:
                continue
            calls = rotary_calls(theirs, paths, run)
            torch._dynamo.reset()
            ways = {key: rotary_way(m, calls, mode == "compiled") for key, m in both.items()}
            measured(f"rotary, {what}", mode, ways)
        if mode == "compiled" and compiled != "all":
            continue
        for what, way in passes.items():
            torch._dynamo.reset()
            call: Any = torch.compile if mode == "compiled" else (lambda model: model)
            ways = {key: way(model, call(model)) for key, model in both.items()}
            held = {key: peak(run) for key, run in ways.items() if run is not None}
            measured(what, mode, ways, bytes=held)
    if not report.replaced:
        raise SystemExit(f"{name}: nothing was replaced")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS])
    parser.add_argument("--compiled", choices=["none", "rotary", "all"], default="all")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    common = circumstances("torch", "transformers", "numpy")
    with inductor.patch(compile_threads=1):
        for name in options.names or MODELS:
            rows = rows_of(name, options.compiled)
            print(append("models", [common | row for row in rows]), flush=True)


if __name__ == "__main__":
    main()
