"""Every scaling as a `rope_type` of a config of Hugging Face transformers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc import functional, registry
from posenc._core.errors import bad_argument, bad_spec
from posenc._core.spec.checks import positive
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling.base import Scaling, contradiction
from posenc.scaling.ramps import YaRN
from posenc.torch.registration import RegisteredNames

# transformers asks for new frequencies where the name holds "dynamic", and only there.
STATIC, DYNAMIC = "posenc", "posenc_dynamic"


def rope_parameters(
    scaling: Scaling | Sequence[Scaling],
    *,
    base: float = 10000.0,
    attention_factor: float | None = None,
) -> dict[str, Any]:
    """What a config of transformers holds as `rope_parameters` for a scaling, or several.

    The scaling stands in it as JSON, so that `save_pretrained` keeps all of it. Models can be made
    of the config, or loaded with it, where `posenc.torch.rope_types` was called.

    Parameters
    ----------
    scaling : Scaling, or sequence of Scaling
        Such as `posenc.scaling.NTK(4)`; in the order in which they act.
    base : float
        The base of the ladder: `rope_theta`.
    attention_factor : float, optional
        On cosines and sines; by default what the scaling asks for.

    Returns
    -------
    dict
        For `rope_parameters=` of a config, or for one of its types of layers.

    Raises
    ------
    ArgumentError
        If one of them is no scaling.
    SpecError
        If they contradict each other, or the base is not positive.

    Notes
    -----
    A rule whose frequencies depend on the length (`DynamicNTK`, `LongRoPE`) is asked as
    transformers asks its own "dynamic": at the start, and when a batch is longer than any before.
    That needs `max_position_embeddings` to be the rule's original length, and a batch may have the
    frequencies of a longer one before it. Where that does not do, fix a length
    (`scaling.at(32768)`), or use `posenc.torch.adopt`.

    Examples
    --------
    >>> import posenc
    >>> parameters = posenc.torch.rope_parameters(posenc.scaling.NTK(4), base=500_000)
    >>> parameters
    {'rope_type': 'posenc', 'rope_theta': 500000.0, 'scaling': [{'type': 'NTK', 'factor': 4.0}]}
    """
    positive("rope_parameters", base=base)
    scalings = (scaling,) if isinstance(scaling, Scaling) else tuple(scaling)
    parameters: dict[str, Any] = {
        "rope_type": _rope_type(scalings, "rope_parameters"),
        "rope_theta": float(base),
        "scaling": [one.to_dict() for one in scalings],
    }
    if attention_factor is not None:
        parameters["attention_factor"] = float(attention_factor)
    for one in scalings:
        if isinstance(one, YaRN) and one.mscale_all_dim:
            # Models of the DeepSeek family scale their softmax by these two.
            parameters |= {"factor": one.factor, "mscale_all_dim": one.mscale_all_dim}
    return parameters


def rope_types() -> RegisteredNames:
    """Let transformers make models of configs that `posenc.torch.rope_parameters` wrote.

    Two names are added to `ROPE_INIT_FUNCTIONS`, "posenc" and "posenc_dynamic", and what checks
    their parameters to the class of configs. No name of transformers is replaced. Frequencies are
    those of the scaling, each rounded once to float32.

    Returns
    -------
    RegisteredNames
        Its `remove()` takes the names out again; as a context manager it does so at the end.

    Raises
    ------
    ArgumentError
        If another library has taken one of the names, or transformers is older than version 5.

    Notes
    -----
    It is called once in a process, before a model is made or loaded. Where it was not,
    transformers warns of a "Missing validation function" for the `rope_type` and then raises
    `KeyError: 'posenc'` (or `'posenc_dynamic'`).

    Examples
    --------
    >>> import posenc
    >>> from transformers import LlamaConfig
    >>> from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
    >>> parameters = posenc.torch.rope_parameters(posenc.scaling.MixedNTK(4))
    >>> config = dict(hidden_size=8, num_attention_heads=2, rope_parameters=parameters)
    >>> with posenc.torch.rope_types():
    ...     LlamaRotaryEmbedding(LlamaConfig(**config)).inv_freq
    tensor([0.5000, 0.0025])
    """
    from transformers import modeling_rope_utils as library

    configs = getattr(library, "RotaryEmbeddingConfigMixin", None)
    if configs is None:
        expected = "transformers 5 or newer, whose configs have rope_parameters"
        raise bad_argument("rope_types", expected, "an older one")
    functions = library.ROPE_INIT_FUNCTIONS
    rows: list[Any] = []
    for name in (STATIC, DYNAMIC):
        rows += [
            (functions, name, _frequencies),
            (configs, f"_validate_{name}_rope_parameters", _check),
        ]
    return RegisteredNames(rows, "rope_types")


def _frequencies(
    config: Any,
    device: torch.device | None = None,
    seq_len: int | Tensor | None = None,
    layer_type: str | None = None,
    **_: Any,
) -> tuple[Tensor, float]:
    """Frequencies and attention factor, as transformers asks for them."""
    # The one type of layer, in configs whose types differ in more than frequencies.
    with contextlib.suppress(AttributeError, KeyError, ValueError):
        config = config if layer_type is None else config.per_layer_config[layer_type]
    every = config.rope_parameters
    parameters = every if layer_type is None else every[layer_type]
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = int(head * (parameters.get("partial_rotary_factor") or 1.0))
    base, scalings = parameters["rope_theta"], _scalings(parameters)
    rope = RoPE(width, pairing="half", base=base, scaling=scalings)
    if rope.needs_length:
        rope = _at(rope, config.max_position_embeddings, seq_len)
    factor = parameters.get("attention_factor")
    values = functional.frequencies(rope)
    inverse = torch.tensor(values.tolist(), dtype=torch.float32, device=device)
    return inverse, rope.attention_factor if factor is None else factor


def _at(rope: RoPE, longest: int, length: int | Tensor | None) -> RoPE:
    """The rotation for a length, where transformers asks again when it has to."""
    assert rope.lengths is not None  # noqa: S101 - for the type checker
    first, last = rope.lengths
    name = " and ".join(type(one).__name__ for one in rope.scalings if one.needs_length)
    caller = f"rope_type={DYNAMIC!r} with {name}"
    todo = (
        "Fix a length (`scaling.at(length)`), change the config, or use posenc.torch.adopt, which "
        "asks for each batch."
    )
    if longest != first:
        expected = f"max_position_embeddings={first}, beyond which transformers asks anew"
        raise bad_argument(caller, expected, longest, todo)
    if last is not None and rope.at(first).attention_factor != rope.at(last).attention_factor:
        expected = "one attention factor, as transformers keeps the one of the longest batch"
        received = f"{rope.at(first).attention_factor} and {rope.at(last).attention_factor}"
        raise bad_argument(caller, expected, received, todo)
    return rope.at(first if length is None else int(length))


def _rope_type(scalings: Sequence[Any], caller: str) -> str:
    """The name under which transformers is to ask for some scalings."""
    for one in scalings:
        if not isinstance(one, Scaling):
            raise bad_argument(f"{caller}: scaling", "a posenc.scaling", type(one).__name__)
    why = contradiction(tuple(scalings))
    if why:
        raise bad_spec(f"{caller}: scaling", "rules that go together", why)
    return DYNAMIC if any(one.needs_length for one in scalings) else STATIC


def _scalings(parameters: Mapping[str, Any]) -> tuple[Scaling, ...]:
    """The scalings that stand in the parameters of a config."""
    caller = f"rope_parameters of rope_type={parameters.get('rope_type')!r}"
    rows = parameters.get("scaling")
    if not isinstance(rows, list):
        todo = "posenc.torch.rope_parameters(scaling) writes it."
        raise bad_argument(f"{caller}: scaling", "a list of scalings", rows, todo)
    scalings: Any = tuple(registry.from_json(json.dumps(row)) for row in rows)
    rope_type = _rope_type(scalings, caller)
    if parameters["rope_type"] != rope_type:
        expected, received = repr(rope_type), repr(parameters["rope_type"])
        raise bad_argument("rope_parameters: rope_type", expected, received)
    return scalings


def _check(config: Any, rope_parameters: Mapping[str, Any], ignore_keys: Any = None) -> None:
    """What transformers calls when a config is made: a method of it."""
    del config, ignore_keys
    _scalings(rope_parameters)
