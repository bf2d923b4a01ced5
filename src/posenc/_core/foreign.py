"""The words of other libraries and tutorials, and what they are called here.

Nothing of this is accepted in place of a name; errors say it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, NoReturn

from posenc._core.errors import KeywordError, PosencError, closest
from posenc._core.foreign_names import APART, CALLS, MODULES, NAMES, PLOTS, VERBS
from posenc._names import ALIASES, HANDED, HOMES, SPECS, VALUES

WIDTHS = """dim dimension dimensions n_dims
d_model d_head dim_head dim_model dims embed_dim embed_size emb_dim embedding_dim
embedding_size head_dim head_size hidden_dim hidden_size model_dim n_embd n_embed num_channels
num_features num_pos_feats rotary_dim rotary_emb_dim channels width size depth_per_head"""
LENGTHS = """max_len max_length max_seq_len max_seq_length max_sequence_length max_position
max_position_embeddings max_positions num_positions num_embeddings n_positions n_ctx block_size
context_length ctx_len seq_len seq_length sequence_length seqlen length maxlen end"""
POSITIONS = """position_ids positions_ids pos_ids pos input_pos input_positions cache_position
token_positions position t m timesteps"""
STARTS = """start_pos start_position start_index start seqlen_offset seqlen_offsets past_length
past_key_values_length past_kv_length past cache_len cache_length"""
BASES = """base theta rope_theta rope_base rotary_base rotary_emb_base freq_base base_freq
rope_freq_base temperature max_wavelength max_period max_timescale wavelength period n"""
HEADS = "heads num_heads n_heads n_head nhead num_attention_heads total_heads head_count h"
PAIRINGS = """pairing interleaved interleave is_neox_style neox neox_style traditional gptj
gptj_style rope_interleave rope_interleaved rotary_interleaved use_interleaved rotate_half adjacent
is_neox"""
SCALINGS = """scaling rope_scaling rope_parameters rope_type scaling_type scaling_config
interpolate_factor ntk ntk_factor ntk_alpha yarn use_scaled_rope linear_scaling scale_factor
scaling_factor factor rope_scaling_factor rope_scale"""
ORIGINALS = """original_max_position_embeddings original_max_position original_max_seq_len
original_context_length original_max_len old_context_len max_position_embeddings"""
SHARES = """partial_rotary_factor rotary_pct rotary_percent rotary_percentage rotary_ndims
rotary_fraction percentage"""

# Words -> the parameters that they may stand for, and a sentence for callers that have none.
ARGUMENTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (WIDTHS, ("dim", "spec"), "It has no width."),
    (HEADS, ("heads", "spec"), "Encodings of this kind have no number of heads."),
    (BASES, ("base", "spec"), ""),
    (
        LENGTHS,
        ("positions", "q_positions", "length", "to"),
        "There is no longest sequence: leave it out, and give positions to the call.",
    ),
    (POSITIONS, ("positions", "q_positions"), "Give positions to the call that computes."),
    ("offset", ("q_positions",), ""),
    (STARTS, ("offset",), "Give `offset=` to the call that computes."),
    (PAIRINGS, ("pairing", "spec"), ""),
    (SCALINGS, ("factor", "scaling", "spec"), ""),
    (SHARES, ("dim",), ""),
    (
        ORIGINALS,
        ("original_length",),
        "",
    ),
    ("scale alpha s", ("factor",), ""),
    (
        "scale_base xpos_scale_base",
        ("scale",),
        "The size that decays with distance is of posenc.XPos: scale=.",
    ),
    ("target target_length new_length", ("to",), ""),
    ("method strategy", ("rule",), ""),
    ("layout", ("pairing", "seq_dim", "order"), ""),
    ("num_buckets relative_attention_num_buckets", ("buckets",), ""),
    ("relative_attention_max_distance max_dist", ("max_distance",), ""),
    (
        "bidirectional symmetric causal is_decoder is_causal",
        ("direction", "form"),
        "A field of the spec says so, or the mask of the attention.",
    ),
    ("query_length q_length q_len qlen tgt_len", ("q_positions",), ""),
    ("key_length kv_length k_length k_len klen kv_len src_len", ("k_positions",), ""),
    (
        "cos sin freqs freqs_cis cos_sin",
        (),
        "posenc.apply_rotary(x, cos, sin, …) turns x by cosines and sines.",
    ),
    ("padding_idx pad_idx pad_token_id", ("pad",), ""),
    ("flip_sin_to_cos sin_first cos_first", ("order",), ""),
    ("downscale_freq_shift freq_shift", ("ladder",), ""),
    ("clip max_relative_position max_relative_positions clamp_len", ("clip", "clamp"), ""),
    (
        "dim axis unsqueeze_dim seq_axis sequence_dim batch_first",
        ("seq_dim",),
        "Any leading axes are taken as they are.",
    ),
    ("slopes alibi_slopes", ("recipe",), ""),
    ("max_alibi_bias alibi_bias_max", ("max_bias",), ""),
    ("window_size", ("window",), ""),
    ("hidden mlp_width mlp_dim hidden_features intermediate_size", ("width",), ""),
    (
        "imag imag_mode rope_pp ropepp",
        (),
        "The imaginary heads of RoPE++ are posenc.ImaginaryRoPE.",
    ),
    ("use_xpos xpos", (), "That encoding is posenc.XPos."),
    (
        "dropout p drop dropout_rate attn_drop",
        (),
        "posenc.torch.PositionTable has dropout; elsewhere, apply it to the result.",
    ),
    ("dtype device", (), "A spec has neither: verbs and modules take them."),
    ("trainable learned learnable learned_freq requires_grad", (), "That is posenc.Learned."),
    ("config", (), "posenc.from_hf reads the config of a model."),
    ("out", ("output", "inplace"), "The result is a new array: write x = …"),
)

# What needs more than a name.
NOTES = {
    "q_positions": "q_positions, a number of tokens from the first or a list such as [9]",
    "spec": 'a spec first, such as posenc.Sinusoidal(512) or posenc.RoPE(64, pairing="half")',
    "pairing": 'pairing="half" (Llama, Mistral, Qwen and NeoX in transformers) or '
    '"interleaved" (GPT-J, the files of Meta, the paper)',
    "original_length": "original_length=8192, the `max_position_embeddings` of training",
    "seq_dim": "seq_dim=-3 where x has (batch, seq, heads, dim), and nothing where it has (batch, "
    "heads, seq, dim)",
    "inplace": "inplace=True, which writes into x itself",
    "ladder": 'ladder=posenc.Ladder(denominator="n") for a shift of 0 (diffusers), '
    'denominator="n-1" for 1 (the paper)',
    "scaling": "scaling=posenc.scaling.YaRN(…), Linear(…) or another; posenc.from_hf reads the "
    "`rope_scaling` of a config",
}

# By kinds: the calls that stand for a whole encoding.
WHOLE = {
    "table": "spec.add(x) adds it to embeddings, and spec.table(n) has its rows",
    "rotary": "spec.rotate(x) turns queries or keys, and spec.cos_sin(n) has cosines and sines",
    "bias": "spec.bias(n) has what is added to the scores of n tokens, and spec.bias([t], n) that "
    "of the query at position t, as with a KV cache",
    "relative": "spec.relative(q, k, params=…) has what is added to the scores",
}

# Words for a pairing.
HALF = "neox gptneox isneoxstyle rotatehalf llama mistral qwen split halves hf huggingface default"
INTERLEAVED = "gptj interleave rotateeverytwo adjacent meta complex traditional evenodd roformer"

# Words for a scaling that are not the name of one.
RULES = {
    "dynamic": "DynamicNTK",
    "ntkaware": "NTK",
    "pi": "Linear",
    "interpolat": "Linear",
    "su": "LongRoPE",
    "llama": "Llama3",
}

SCALING_NAMES = [name for name, module in VALUES.items() if module.startswith("posenc.scaling.")]

# By modules: what to write in place of the module itself.
PACKAGES = {
    "plot": "spec.plot() draws an encoding, posenc.plot.table(spec) its table",
    "presets": "posenc.preset('llama3', 128) is one of posenc.presets.names()",
    "explore": "`posenc explore` opens the page, posenc.explore.Widget() is for notebooks",
}


def snake(name: str) -> str:
    """`RotaryEmbedding` and `rotary-embedding` as `rotary_embedding`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def letters(name: object) -> str:
    """The letters and digits of a word, small."""
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def absence(package: object, name: str) -> str:
    """What a package says of a name that it does not have; nothing where it has it."""
    try:
        getattr(package, name)
    except AttributeError as error:
        return str(error)
    return ""


def kind_of(name: str) -> str:
    """The kind of an encoding, by the package of its module; nothing for another name."""
    return SPECS[name].split(".")[2] if name in SPECS else ""


def name_advice(name: str, choices: Collection[str], module: str = "posenc") -> str:
    """What somebody means by a name that a package does not have."""
    exact = {letters(choice): choice for choice in choices}.get(letters(name), "")
    in_torch, in_plot, on_top = (each in choices for each in ("RotaryEmbedding", "Picture", "RoPE"))
    own = (*(MODULES if in_torch else ()), *(PLOTS if in_plot else ()))
    far, near = (closest(name, choices, cutoff=cutoff) or "" for cutoff in (0.76, 0.8))
    words = set() if on_top else {*snake(name).split("_")}
    near = near or next((one for one in choices if {*one.split("_")} <= words and "_" in one), "")
    # 2D is another thing.
    alike = len(name) > 4 and re.sub(r"\D", "", near) == re.sub(r"\D", "", name)
    hidden = in_plot or (in_torch and name[:1].isupper())
    parts = sorted(snake(name).split("_") * on_top, key=lambda part: part not in CALLS)
    return (
        (f"Did you mean {exact!r}?{whole(exact)}" if exact else "")
        or ("" if own else meant(name, APART))
        or _of_package(name) * on_top
        or ("" if hidden else _elsewhere(name))
        or ("" if own or meant(name, NAMES) else verb_advice(name))
        or (f"Did you mean {near!r}?" if near and alike else "")
        or meant(name, (*own, *APART, *NAMES))
        or next(filter(None, map(verb_advice, parts)), "")
        or (f"Did you mean {far!r}?" if far else "")
        or f"dir({module}) lists its names, and `posenc list` lists all encodings."
    )


def whole(name: str) -> str:
    """The calls that stand for an encoding, as a sentence; nothing for another name."""
    return f" {WHOLE[kind_of(name)]}." if kind_of(name) else ""


def _of_package(name: str) -> str:
    """`plot_table` and `draw_table` as what they are in their package; nothing for other names."""
    if not (part := re.fullmatch(r"(plot|draw|show|scaling|learn)_(\w+)", name)):
        return ""
    package = re.sub("draw|show", "plot", part[1])
    return absence(HANDED["verb"](package), part[2]) or f"It is posenc.{package}.{part[2]}."


def _elsewhere(name: str) -> str:
    """Where a name is, whatever its case; nothing where it is nowhere."""
    places = {
        **{other: f"posenc.{other}" for other in HOMES},
        **{rule: f"posenc.scaling.{rule}" for rule in VALUES if rule not in HOMES},
        **{maker: f"posenc.positions.{maker}" for maker in HANDED["verb"]("positions").__all__},
    }
    return next((f"It is {p}." for n, p in places.items() if letters(n) == letters(name)), "")


def verb_called(name: str) -> str:
    """The function or command that people call by another name; nothing for other names."""
    near = closest(snake(name), " ".join(VERBS.values()).split(), cutoff=0.87 if name[4:] else 1)
    return next((verb for verb, others in VERBS.items() if near in others.split()), "")


def verb_advice(name: str) -> str:
    """The call of the function that people call by another name; nothing for other names."""
    verb = name if name in CALLS else verb_called(name)
    is_function = ALIASES.get(verb, verb) in HOMES
    instead = f"Here it is posenc.{verb}" if is_function else f"It is a command: `posenc {verb}`"
    return (CALLS.get(verb) or f"{PACKAGES.get(verb, instead)}.") if verb.isalpha() else ""


def meant(name: str, rows: Sequence[tuple[str, str]]) -> str:
    """What the first row says whose words are in a name; nothing where none are."""
    forms = snake(name), name.lower()
    answer = next((text for part, text in rows if any(re.search(part, form) for form in forms)), "")
    return f"Here it is {answer.replace('NAME', name)}." if answer else ""


class Package(ModuleType):
    """A module of posenc that says what to write where it is called, indexed or shown."""

    def __repr__(self) -> str:
        return f"<module {self.__name__!r}: {self._instead}>"

    @property
    def _instead(self) -> str:
        return PACKAGES[self.__name__.rpartition(".")[2]]

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise KeywordError(f"{self.__name__} is a module. {self._instead}.")

    __getitem__ = __call__


def taught(module: str, choices: Collection[str]) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module, for names that it does not have."""

    def unknown(name: str) -> NoReturn:
        # An import asks for `__path__`; finding words takes 6 ms.
        hint = "" if name.startswith("_") else name_advice(name, choices, module)
        raise AttributeError(f"{module} has no {name!r}. {hint}")

    return unknown


def meanings(name: str) -> tuple[list[str], str]:
    """The parameters that a foreign one may stand for, and a sentence for who has none of them."""
    rows = [(targets, todo) for words, targets, todo in ARGUMENTS if name in words.split()]
    return [target for targets, _ in rows for target in targets], next(
        (todo for _, todo in rows if todo), ""
    )


def argument_advice(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    present: Mapping[str, Any] = MappingProxyType({}),
    value: object = None,
) -> str:
    """What somebody means by a parameter that a function does not have; nothing if unknown.

    What is `present` in the call already is not advised, but for the share of a width.
    """
    targets, sentence = meanings(name)
    width = present.get("dim")
    if name in SHARES.split() and isinstance(width, int) and isinstance(value, float):
        return f"Write dim={int(width * value)}: the share times the width of a head."
    for target in targets:
        if target in parameters and target not in present:
            if name in SHARES.split():
                return "Write `dim`, the rotated width: the share times the width of a head."
            choices = re.findall(r"'(\w+)'", str(parameters[target].annotation))
            words = f": {' or '.join(choices)}" if choices else ""
            return f"Write {NOTES.get(target, f'`{target}`{words}')}."
    stated = next((target for target in targets if target in present), "")
    if stated == "spec":
        return "The spec says that: make another by spec.replace(…)."
    if stated:
        return f"That is `{stated}`, which has a value already."
    near = closest(name, [other for other in parameters if other not in present])
    return sentence or (f"Did you mean {near!r}?" if near else "")


def value_advice(value: object, words: Collection[Any], kinds: Collection[Any]) -> str:
    """What somebody means by a value that a field does not take; nothing where nobody knows."""
    word = letters(value) if isinstance(value, str) else ""
    if {"half", "interleaved"} <= set(words) and word:
        if word in HALF.split():
            meta = " The files that Meta published are 'interleaved'." if word == "llama" else ""
            return f"That is 'half'.{meta}"
        if word in INTERLEAVED.split():
            return "That is 'interleaved'."
    if not any(kind.__name__ == "Scaling" for kind in kinds):
        return ""
    if value is None:
        return "To leave an axis as it was trained, write posenc.scaling.PerAxis((None, …))."
    several = [*value.values()] if isinstance(value, Mapping) else value
    if isinstance(several, (list, tuple)) and any(isinstance(rule, (*kinds,)) for rule in several):
        return "For each axis, write posenc.scaling.PerAxis((…)), with a rule or None for each."
    if isinstance(value, Mapping):
        rule = scaling_call(value) or "an object of posenc.scaling"
        return f"Here it is {rule}; posenc.from_hf reads the `rope_scaling` of a config."
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"Linear interpolation is posenc.scaling.Linear({value})."
    near = rule_named(word, [rule.__name__ for kind in kinds for rule in kind.__subclasses__()])
    return f"Give an object: posenc.scaling.{near}(…)." if near and word else ""


def rule_named(text: str, rules: Collection[str]) -> str:
    """The scaling that is meant by a word; nothing where nobody knows."""
    word, by_letters = letters(text), {letters(rule): rule for rule in rules}
    parts = (rule for part, rule in RULES.items() if part in word)
    near = by_letters.get(closest(word, by_letters) or "")
    return by_letters.get(word) or next(parts, "") or near or ""


def scaling_call(words: Mapping[str, Any]) -> str:
    """The call of a scaling that the words of a config describe; nothing where they name none."""
    keys = ("rope_type", "type", "scaling_type", "scaling", "rope_scaling")
    stated = next((words[key] for key in keys if isinstance(words.get(key), str)), "")
    if not (rule := rule_named(stated, SCALING_NAMES)):
        return ""
    cls = HANDED["verb"](f"scaling.{rule}")
    fields = inspect.signature(cls).parameters
    values: dict[str, Any] = {}
    for key, value in words.items():
        # The last: the `max_position_embeddings` beside a scaling is the length before it.
        target = next((name for name in (key, *meanings(key)[0][::-1]) if name in fields), "")
        if target and not isinstance(value, str):
            values.setdefault(target, value)
    try:
        return f"posenc.scaling.{cls(**values)!r}"
    except PosencError:
        needed = [name for name, field in fields.items() if field.default is field.empty]
        return f"posenc.scaling.{rule}(…), with {' and '.join(needed)}"


def hub_advice(name: str) -> str:
    """What to do where what is not there is no file: a model on a hub, an encoding, a preset."""
    encoding = next((spec for spec in SPECS if spec.lower() == name.lower()), "")
    presets = HANDED["verb"]("presets.names")()
    near = closest(name, presets)
    advice = {
        "Nothing is downloaded: fetch the config.json of the model, and name it.": re.fullmatch(
            r"https?://.*|[\w.-]+/[\w-]+(\.\d[\w-]*)*", name
        ),
        "Write it to a file, or pipe it in where - stands for the file.": name.lstrip()[:1] == "{",
        f"{encoding} is an encoding: `posenc list {encoding}` describes it.": encoding,
        f"{name} is a preset: `posenc list {name}` explains it, preset:{name}:128 is a spec.": name
        in presets,
        f"Nothing is downloaded: name its config.json. Of presets, see `posenc list {near}`.": near
        and re.fullmatch(r"[\w-]+(\.\d[\w-]*)*", name),
    }
    return next((text for text, holds in advice.items() if holds), "")
