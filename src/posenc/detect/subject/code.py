"""What of a target can be called: its functions, with what their arguments are by their names.

What the names of arguments mean stands here, in the one list of them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from posenc._core.errors import ArgumentError
from posenc._core.guard import foreign
from posenc.detect.subject.arrays import dtype_in, libraries_of

Role = Literal[
    "x", "key", "value", "positions", "offset", "length", "packed", "cos", "sin", "tables",
    "dim", "heads", "base", "q_positions", "k_positions", "q_len", "k_len", "dtype", "device",
    "mask", "config", "layer", "tokens", "distances", "axis", "shape", "score", "batch", "scale",
    "qkv", "",
]  # fmt: skip

# A whole name, or else a word of it; the first row that holds one of them says the role.
WHOLE: dict[str, Role] = {
    name: role  # type: ignore[misc]
    for role, names in {
        "x": "x q xq qs queries query t tensor u inp inputs input hidden hidden_states vec vector "
        "vectors qk emb embeds embedding embeddings feats features tokens states data arr array "
        "xs activations src to_rotate inputs_embeds token_embeddings x_bhsd x_bshd tensor_in",
        "key": "k key keys xk ks",
        "value": "v value values xv vs",
        "positions": "p ps pos pids steps step timesteps timestep time times index indices "
        "idx ids inds coords coordinates places place locations location cache_position m "
        "cur_pos current_pos cache_pos cache_positions q_offsets",
        "offset": "start offset begin shift past n_past first kv_offset prefix prefix_len "
        "seqlen_offsets seq_offset cached decode_index cur_index cache_len cache_length cache_size "
        "cached_len cached_tokens kv_cache_len num_cached",
        "length": "length n_ctx n seqlen seq_len end maxlen size_seq ctx context block_size "
        "seq lengths num_tokens n_tokens num_embeddings rows size count tgt_len max_cached_len",
        "packed": "cu_seqlens cu_seq_lens cu_lens cu_seqlen cu_seqlens_q offsets",
        "dim": "d dim head_dim width d_head dh channels rotary_dim size_per_head d_model depth "
        "n_elem n_embd d_feature demb input_size d_hid features_dim head_size hidden_size "
        "embedding_dim embed_dim dim_head num_pos_feats "
        "num_hiddens hidden_dim rot_dim rotary_ndims d_k embedding_size d_embed model_dim",
        "heads": "h n_heads num_heads heads n_head nheads nhead num_attention_heads total_num_heads"
        " attn_heads attention_heads num_q_heads number_of_heads",
        "base": "base theta rope_theta rope_base rotary_base freq_base max_wavelength max_period "
        "temperature wavelength max_timescale rotary_emb_base period",
        "cos": "cos cosine cosines c cos_cached cos_cache",
        "sin": "sin sine sines s sin_cached sin_cache",
        "tables": "freqs freqs_cis freq freqs_complex cis rope_cache cos_sin cos_sin_cache rope "
        "rotary rotary_emb pos_emb position_embeddings rotary_pos_emb freqs_ci angles angle "
        "phases sinusoid sinusoidal_pos pe rotary_freqs complex_freqs sincos sin_cos table tables "
        "inv_freq frequencies inv_freqs freqs_cos_sin embed_pos image_rotary_emb rope_emb fc",
        "q_positions": "pos_i i q_pos qpos q_idx q_index",
        "k_positions": "pos_j j k_pos kpos kv_pos k_idx k_index",
        "q_len": "qlen q_len query_length q_length tq len_q lq q_size query_len sq",
        "k_len": "klen k_len key_length kv_len kv_length k_length tk len_k lk k_size key_len sk",
        "dtype": "dtype out_dtype compute_dtype",
        "device": "device",
        "tokens": "input_ids token_ids src_tokens tgt_tokens input_tokens prev_output_tokens "
        "decoder_input_ids ids_in tokens_in",
        "distances": "relative_position relative_positions distance distances rel_pos rel "
        "relative_pos dist relative_distance relative_distances rel_positions",
        "mask": "mask attention_mask attn_mask padding_mask",
        "config": "config cfg args params model_args",
        "layer": "layer layer_type layer_idx layer_id",
        "qkv": "qkv qkv_packed mixed_qkv",
        "score": "score scores attn_score",
        "batch": "batch batch_idx",
    }.items()
    for name in names.split()
}

LENGTH = "len length seqlen lens maxlen ctx seqlens lengths max"
POSITION = (
    "pos position positions posids positional index indices idx posns timesteps coords locations "
    "posn"
)
EMBEDDED = (
    "emb embedding embeddings embed freqs cis cache freq rope rotary table tables angles phases "
    "sinusoidal sincos"
)
# A role, and words of which a name has one of each group; the first row that holds says the role.
WORDS: tuple[tuple[Role, tuple[str, ...]], ...] = (
    ("mask", ("mask padding pad",)),
    ("scale", ("scale scaling rate factor ratio percent",)),
    ("packed", ("cu culens",)),
    ("axis", ("dim axis", "seq sequence time")),
    ("shape", ("shape",)),
    ("dim", ("dim dims d width channels embd elem hid",)),
    ("dim", (EMBEDDED, "size")),
    ("base", ("base theta wavelength period",)),
    ("length", (POSITION, "max num n length len")),
    ("tables", ("cos cosine", "sin sine")),
    ("cos", ("cos cosine cosines",)),
    ("sin", ("sin sine sines",)),
    ("tables", (EMBEDDED,)),
    ("offset", ("start offset begin past shift offsets starting first prev",)),
    ("q_positions", (POSITION, "q query queries")),
    ("k_positions", (POSITION, "k key keys kv")),
    ("positions", (f"{POSITION} ids steps pids",)),
    ("q_len", (LENGTH, "q query queries")),
    ("k_len", (LENGTH, "k key keys kv")),
    ("length", (LENGTH,)),
    ("heads", ("heads head",)),
    ("dtype", ("dtype",)),
    ("device", ("device",)),
    ("x", ("q query queries x hidden xq",)),
    ("key", ("k key keys kv xk",)),
    ("value", ("v value values xv",)),
)


def role_of(name: str) -> Role:
    """What an argument of this name is, nothing where the name does not tell."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    words = {*filter(None, re.split(r"[_\d]+", plain))}
    roles = (role for role, groups in WORDS if all(words & {*g.split()} for g in groups))
    return WHOLE.get(plain) or WHOLE.get("_".join(sorted(words)), next(roles, ""))


LONGEST = 2**17  # positions of a class that asks for their number when it is made
BASE = 10_000.0
METHODS = re.compile(r"rot|apply|call|forward|embed|encod|get|compute|cos|sin|bias|table|freq|turn")
BIASED = re.compile(r"bias|alibi|slope", re.IGNORECASE)


# --- what can be called ---------------------------------------------------------------------------


class CannotAsk(ArgumentError):  # noqa: N818
    """No call of the code worked: says which were tried, its own error, and what to write."""

    answered = False  # whether it answered some call, with what is no encoding
    arguments = 0  # how many it needs
    says = ""  # its own error, where that speaks of sizes


class OtherShape(CannotAsk):
    """An answer of another shape than that of what was asked."""


def refuse_if(bad: object, says: str, error: type[Exception] = CannotAsk) -> None:
    """Raise an error in these words where something is so."""
    if bad:
        raise error(says)


class Slot(NamedTuple):
    """An argument of a function."""

    name: str
    role: Role
    required: bool
    keyword: bool = False
    positional: bool = False


class Callee(NamedTuple):
    """Something to call."""

    function: Callable[..., Any]
    name: str
    slots: tuple[Slot, ...]
    libraries: tuple[str, ...]
    tables: Any = None  # what makes the cosines and sines that it is handed

    @property
    def layer(self) -> Any:
        """A type of layer that its buffers name, or the first layer."""
        own = (
            name.removesuffix("_inv_freq")
            for name, _ in getattr(self.function, "named_buffers", list)()
            if name.endswith("_inv_freq")
        )
        return next(own, 0)

    def has(self, *roles: str) -> bool:
        """Whether an argument has one of some roles."""
        return any(slot.role in roles for slot in self.slots)


def slots_of(function: Any) -> tuple[Slot, ...]:
    """The arguments of a function; two without names where it does not tell them."""
    if hasattr(function, "schema") and not hasattr(function, "named_buffers"):
        return tuple(
            Slot(a.name, role_of(a.name), not a.has_default_value())
            for a in function.schema.arguments  # compiled by torch.jit
        )
    inner = function if isinstance(function, type) else getattr(function, "forward", function)
    try:
        parameters = [*inspect.signature(inner).parameters.values()]
    except (TypeError, ValueError):
        parameters = [inspect.Parameter("any", inspect.Parameter.VAR_POSITIONAL)]
    slots = tuple(
        Slot(p.name, role_of(p.name), p.default is p.empty,
             p.kind is p.KEYWORD_ONLY, p.kind is p.POSITIONAL_ONLY)
        for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )  # fmt: skip
    return (
        slots
        if slots or all(p.kind is not p.VAR_POSITIONAL for p in parameters)
        else tuple(Slot(name, "", required=True, positional=True) for name in ("first", "second"))
    )


def tabled(slots: tuple[Slot, ...], swapped: bool) -> tuple[Slot, ...]:
    """Arguments with tables among them: those that nothing else is known to stand for."""
    needed = [slot for slot in slots if slot.required]
    blank = (
        [slot.name for slot in needed if not slot.role]
        or [slot.name for slot in needed if slot.role == "x"][1:]
        or [slot.name for slot in needed if slot.role in ("positions", "offset")]
    )
    both = ["sin", "cos"] if swapped else ["cos", "sin"]
    stated: Any = dict(zip(blank, {1: ["tables"], 2: both}.get(len(blank), []), strict=False))
    return tuple(slot._replace(role=stated.get(slot.name, slot.role)) for slot in slots)


def name_of(target: Any) -> str:
    """How a target is called in a sentence."""
    inner = target.func if isinstance(target, functools.partial) else target
    return str(getattr(inner, "__name__", type(inner).__name__))


def code_of(function: Any, name: str = "", tables: Any = None) -> Callee:
    """A function, to be called."""
    return Callee(
        function,
        name or name_of(function),
        slots_of(function),
        tuple(libraries_of(function)),
        tables,
    )


def codes_of(built: Any) -> Iterator[Callee]:
    """What can be called of an object, the likeliest first."""
    if isinstance(built, types.ModuleType):
        yield from (
            code_of(v)
            for v in [v for k, v in vars(built).items() if callable(v) and not k.startswith("_")]
            if getattr(v, "__module__", "") == built.__name__
        )
        return
    if callable(built):
        yield code_of(built)
    if type(built).__module__ in ("builtins", "functools") or hasattr(built, "schema"):
        return
    base = next((c for c in type(built).__mro__ if c.__module__.startswith("torch.nn")), object)
    for name in dir(type(built)):
        public = (
            not name.startswith("_") and not hasattr(base, name) and METHODS.search(name.lower())
        )
        if public and callable(getattr(type(built), name)):
            yield code_of(getattr(built, name), f"{type(built).__name__}.{name}")


def instance(
    target: type,
    sizes: Mapping[str, Any],
    fixed: Mapping[str, Any] | None = None,
    changed: Mapping[str, Any] | None = None,
) -> Any:
    """An object of a class, from sizes under its own names for them."""
    fixed, changed = fixed or {}, changed or {}
    passed: dict[str, Any] = {}
    left = {**sizes, **changed}
    usual: dict[str, Any] = {
        "length": LONGEST,
        "base": BASE,
        "device": None,
        "dtype": dtype_in(libraries_of(target)[0], "float32"),
    }
    for slot in slots_of(target):
        if slot.role in left and (slot.name not in fixed or slot.role in changed):
            passed[slot.name] = left.pop(slot.role)
        elif slot.required and slot.name not in fixed and slot.role in usual:
            passed[slot.name] = usual[slot.role]
    for what in left.keys() & changed.keys():
        raise CannotAsk(f"its constructor has no name for {what} that is known")
    try:
        with foreign(f"the making of {target.__name__}"):
            return quiet(target(**{**fixed, **passed}))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:120]}"
        raise CannotAsk(
            f"ask: the class {target.__name__} could not be made with "
            f"{', '.join(passed) or 'no arguments'} ({text}). Hand over an object of it."
        ) from error


def quiet(built: Any) -> Any:
    """An object as it is used: a module without dropout."""
    return built.eval() if hasattr(built, "named_buffers") and hasattr(built, "eval") else built


def copied(built: Any) -> Any:
    """A module of its own, so that the one that was handed over remembers nothing."""
    try:
        return quiet(copy.deepcopy(built))
    except Exception:  # noqa: BLE001 - whatever other people's code raises
        return built
