"""What llama.cpp computes from the keys of a GGUF file, in plain loops and double precision.

Written from reading ggml-org/llama.cpp at 0c1e57098: `src/llama-model.cpp` (`load_hparams`,
`llama_model_rope_type`), `src/llama-context.cpp` (`llama_context`: the factors of YaRN),
`src/models/*.cpp` (`load_arch_hparams` and the graphs), `ggml/src/ggml-cpu/ops.cpp` (`rope_yarn`,
`ggml_rope_cache_init`, `ggml_mrope_cache_init`, `rotate_pairs`) and `ggml/src/ggml.c`
(`ggml_rope_yarn_corr_dims`). float32 there is float64 here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NORM = {
    *("llama", "deci", "starcoder", "internlm2", "minicpm", "xverse", "command-r", "cohere2"),
    *("cohere2moe", "olmo", "arctic", "deepseek", "deepseek2", "deepseek32", "muse-glimmer", "plm"),
    *("chatglm", "granite", "granitemoe", "granitehybrid", "granite_swa", "graniteswitch", "llada"),
    *("chameleon", "bailingmoe", "neo-bert", "smollm3", "arcee", "ernie4_5", "ernie4_5-moe"),
    *("mistral3", "mistral4", "eagle3", "llama-embed", "maincoder", "glm-dsa", "nanbeige", "glm4"),
    *("pockettts", "bailingmoe3", "hy_v4", "llama4", "baichuan"),
}
MROPE = {"qwen2vl", "paddleocr"}
IMROPE = {"qwen3vl", "qwen3vlmoe", "qwen3tts", "qwen35", "qwen35moe"}
FIXED = {"cogvlm", "deepseek2-ocr"}  # base 10,000 and no scaling, whatever the file says
MLA = {"deepseek2", "deepseek32", "glm-dsa", "mistral4"}


@dataclass
class Rope:
    """The arguments of one call of ggml_rope_ext or ggml_rope_multi, and what scores take."""

    dims: int
    mode: str  # norm, neox, mrope or imrope
    base: float
    scale: float
    ext: float
    attn: float
    fast: float
    slow: float
    original: int
    factors: list[float] | None = None
    sections: list[int] = field(default_factory=list)
    scores: float = 1.0


def _m(scale: float, k: float) -> float:
    return 1.0 if scale <= 1.0 else 0.1 * k * math.log(scale) + 1.0


def windows(arch: str, kv: dict, n: int) -> list[bool]:
    """`is_swa_impl`, from the keys and the defaults of `load_arch_hparams`."""
    size = kv.get("attention.sliding_window")
    pattern, first = None, False
    if arch in ("gemma3", "olmo2", "mellum", "afmoe") and size:
        pattern = {"gemma3": 6}.get(arch, 4)
    elif arch in ("laguna", "smallthinker") and size:
        pattern, first = 4, True
    elif arch == "modern-bert" and size:
        pattern, first = 3, True
    elif arch == "plamo3" and size:
        pattern = 8
    elif arch in ("gemma2", "gpt-oss"):
        pattern = 2
    elif arch in ("cohere2", "exaone-moe", "muse-glimmer"):
        pattern = 4
    elif arch == "cohere2moe":
        pattern, first = 4, True
    elif arch == "exaone4" and n == 64:
        pattern = 4
    elif arch == "gemma3n":
        pattern = 5
    elif arch == "gemma-embedding":
        pattern = 6
    elif arch == "llama4" and size != 0:
        pattern = 4
    elif arch in ("gemma4", "mimo2", "step35", "granite_swa", "maple", "spark2_5"):
        pattern = 1
    else:
        return [False] * n
    stated = kv.get("attention.sliding_window_pattern")
    if isinstance(stated, list):
        return [bool(flag) for flag in stated[:n]]
    pattern = pattern if stated is None else stated
    out = []
    for il in range(n):
        if pattern == 0:
            out.append(True)
        elif first:
            out.append(il % pattern != 0)
        else:
            out.append(il % pattern < pattern - 1)
    return out


def turning(arch: str, kv: dict, n: int) -> list[bool]:
    """Whether the graph of a layer calls ggml_rope."""
    swa = windows(arch, kv, n)
    if arch in ("cohere2", "exaone-moe", "muse-glimmer"):
        return swa
    if arch == "exaone4":
        return swa if n == 64 else [True] * n
    if arch == "llama4":
        none = kv.get("attention.sliding_window") == 0
        return [none or (il + 1) % 4 != 0 for il in range(n)]
    if arch in ("smollm3", "afmoe"):
        return [(il + 1) % 4 != 0 for il in range(n)]
    if arch == "smallthinker":
        return [not kv.get("attention.sliding_window") or il % 4 != 0 for il in range(n)]
    if arch == "cohere2moe":
        return [swa[il] or il < kv.get("leading_dense_block_count", 0) for il in range(n)]
    if arch in ("granite", "granitehybrid", "graniteswitch"):
        return [bool(kv.get("rope.scaling.finetuned", True))] * n
    if arch == "granite_swa":
        return [bool(flag) for flag in kv.get("attention.rope_pattern", [1] * n)[:n]]
    if arch in ("qwen3next", "qwen35", "qwen35moe", "minimax-01"):
        every = kv.get("full_attention_interval", 8 if arch == "minimax-01" else 4)
        return [(il + 1) % every == 0 for il in range(n)]
    return [True] * n


def attending(kv: dict, n: int) -> list[bool]:
    """Whether a layer has keys: `n_head_kv` of 0 is a recurrence or a convolution."""
    heads = kv.get("attention.head_count_kv")
    return [heads[il] != 0 for il in range(n)] if isinstance(heads, list) else [True] * n


def mode(arch: str, kv: dict) -> str:
    if arch in MROPE:
        return "mrope"
    if arch in IMROPE:
        return "imrope"
    sections = kv.get("rope.dimension_sections") or [0, 0]
    if arch in ("glm4", "glm4moe") and sections[0] > 0 and sections[1] > 0:
        return "mrope"
    return "norm" if arch in NORM else "neox"


def ropes(arch: str, kv: dict, tensors: dict[str, list[float]], long: bool) -> list[Rope | None]:
    """The rotation of each layer; None where there is none. `long`: whether n_ctx exceeds
    the original length, which chooses between two sets of factors."""
    n = kv["block_count"] - kv.get("nextn_predict_layers", 0)
    swa, turns, attends = windows(arch, kv, n), turning(arch, kv, n), attending(kv, n)
    heads = kv["attention.head_count"]
    heads = heads[0] if isinstance(heads, list) else heads
    dims = kv.get("rope.dimension_count", kv.get("attention.key_length"))
    dims = kv["embedding_length"] // heads if dims is None else dims
    dims_swa = kv.get("rope.dimension_count_swa", dims)
    dims = dims // 2 if arch == "step35" else dims
    base = kv.get("rope.freq_base", 10000.0)
    if arch in ("hunyuan_vl", "hunyuan-dense") and kv.get("rope.scaling.alpha", 0.0) > 0:
        head = kv.get("attention.key_length", kv["embedding_length"] // heads)
        base = base * kv["rope.scaling.alpha"] ** (head / (head - 2))
    kind = kv.get("rope.scaling.type", "linear")
    factor = kv.get("rope.scaling.factor", kv.get("rope.scale_linear", 0.0))
    scale = 1.0 if factor == 0.0 or kind == "none" else 1.0 / factor
    original = kv.get("rope.scaling.original_context_length", kv.get("context_length", 0))
    fast, slow, ext = 32.0, 1.0, 1.0 if kind == "yarn" else 0.0
    if arch == "grok":
        fast = 8.0
    if arch in ("grok", "mistral3"):
        fast = kv.get("rope.scaling.yarn_beta_fast", fast)
        slow = kv.get("rope.scaling.yarn_beta_slow", slow)
    log = 0.0
    if arch in MLA:
        log = kv.get("rope.scaling.yarn_log_multiplier", 0.0) / 0.1
    if arch == "mistral3":
        log = kv.get("rope.scaling.yarn_log_multiplier", 0.0)
    attn = 1.0
    if ext != 0:
        if log != 0.0:
            mscale = log if arch == "deepseek2" and log != 1.0 else 1.0
            attn = _m(1 / scale, mscale) / _m(1 / scale, log)
        else:
            attn = _m(1 / scale, 1.0)
        attn *= 1.0 / (1.0 + 0.1 * math.log(1 / scale))
    attn *= kv.get("rope.scaling.attn_factor", 1.0)
    scores = 1.0
    if arch in MLA:
        first = attn * (1.0 + 0.1 * math.log(1 / scale))
        scores = (first * (1.0 + 0.1 * log * math.log(1 / scale))) ** 2
    factors = tensors.get("rope_freqs.weight")
    if factors is None:
        name = "rope_factors_long.weight" if long else "rope_factors_short.weight"
        factors = tensors.get(name)
    own = {"gemma3", "gemma3n", "gemma4", "gemma-embedding", "mimo2", "modern-bert", "plamo3"}
    own |= {"step35"}
    ignored = ("olmo2", "mellum", "cohere2", "exaone4", "exaone-moe", "granite_swa", "cohere2moe")
    if arch in FIXED:
        base, scale, ext, attn, factors = 10000.0, 1.0, 0.0, 1.0, None
        dims = kv["embedding_length"] // heads if arch == "deepseek2-ocr" else dims
    out: list[Rope | None] = []
    for il in range(n):
        if not (turns[il] and attends[il]):
            out.append(None)
            continue
        call = Rope(
            dims,
            mode(arch, kv),
            base,
            scale,
            ext,
            attn,
            fast,
            slow,
            original,
            factors,
            scores=scores,
        )
        call.sections = kv.get("rope.dimension_sections", [])
        if swa[il]:
            call.dims = dims_swa
            if arch in own:
                call.base, call.scale = kv.get("rope.freq_base_swa", 10000.0), 1.0
            elif arch not in ignored:
                call.base = kv.get("rope.freq_base_swa", base)
            if arch == "muse-glimmer":
                call.scale = 1.0
            if arch in ("olmo2", "mellum", "laguna"):
                call.scale, call.ext, call.attn = 1.0, 0.0, 1.0
            if arch in ("gemma4", "step35"):
                call.factors = None
        out.append(call)
    return out


def corr_dim(dims: int, original: int, turns: float, base: float) -> float:
    return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))


def cache(rope: Rope, positions: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """cos and sin of each pair at one position: (t, h, w, e), of which text has one thrice."""
    start = end = 0.0
    if rope.ext != 0.0:
        start = max(0, math.floor(corr_dim(rope.dims, rope.original, rope.fast, rope.base)))
        end = min(
            rope.dims - 1, math.ceil(corr_dim(rope.dims, rope.original, rope.slow, rope.base))
        )
    out = []
    for i in range(rope.dims // 2):
        position = positions[0]
        if rope.mode in ("mrope", "imrope"):
            s = rope.sections
            sector = i % sum(s)
            if rope.mode == "imrope":
                if sector % 3 == 1 and sector < 3 * s[1]:
                    position = positions[1]
                elif sector % 3 == 2 and sector < 3 * s[2]:
                    position = positions[2]
                elif sector % 3 == 0 and sector < 3 * s[0]:
                    position = positions[0]
                else:
                    position = positions[3]
            elif s[0] <= sector < s[0] + s[1]:
                position = positions[1]
            elif s[0] + s[1] <= sector < s[0] + s[1] + s[2]:
                position = positions[2]
            elif sector >= s[0] + s[1] + s[2]:
                position = positions[3]
        theta = position * rope.base ** (-2.0 * i / rope.dims)
        if rope.factors is not None:
            theta /= rope.factors[i]
        turned, magnitude = rope.scale * theta, rope.attn
        if rope.ext != 0.0:
            y = (i - start) / max(0.001, end - start)
            mix = (1 - min(1.0, max(0.0, y))) * rope.ext
            turned = turned * (1 - mix) + theta * mix
            magnitude *= 1.0 + 0.1 * math.log(1.0 / rope.scale)
        out.append((math.cos(turned) * magnitude, math.sin(turned) * magnitude))
    return out


def rotate(x: list[float], rope: Rope, positions: tuple[float, float, float, float]) -> list[float]:
    """The slice that turns: neighbours are pairs in mode `norm`, halves in all others."""
    out = list(x)
    for i, (cos, sin) in enumerate(cache(rope, positions)):
        a, b = (2 * i, 2 * i + 1) if rope.mode == "norm" else (i, i + rope.dims // 2)
        out[a] = x[a] * cos - x[b] * sin
        out[b] = x[a] * sin + x[b] * cos
    return out
