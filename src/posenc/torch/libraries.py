"""Every scaling as a `rope_type` of a config of Hugging Face transformers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from posenc import functional, registry
from posenc._core.calls import checked_call
from posenc._core.errors import bad_argument, bad_dtype, bad_spec
from posenc._core.numeric.ladder import Ladder
from posenc._core.spec.checks import positive
from posenc.encodings.rotary.rope import RoPE
from posenc.scaling import Linear, YaRN
from posenc.scaling.base import Scaling, contradiction

# transformers asks for new frequencies where the name holds "dynamic", and only there.
STATIC, DYNAMIC = "posenc", "posenc_dynamic"


@checked_call
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
        raise bad_argument(
            "rope_types",
            "transformers 5 or newer, whose configs have rope_parameters",
            "an older one",
        )
    rows: list[Any] = [(library.ROPE_INIT_FUNCTIONS, n, _frequencies) for n in (STATIC, DYNAMIC)]
    rows += [(configs, f"_validate_{n}_rope_parameters", _check) for n in (STATIC, DYNAMIC)]
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
    rope = RoPE(width, pairing="half", base=parameters["rope_theta"], scaling=_scalings(parameters))
    if rope.needs_length:
        rope = _at(rope, config.max_position_embeddings, seq_len)
    factor = parameters.get("attention_factor")
    inverse = torch.tensor(
        functional.frequencies(rope).tolist(), dtype=torch.float32, device=device
    )
    return inverse, rope.attention_factor if factor is None else factor


def _at(rope: RoPE, longest: int, length: int | Tensor | None) -> RoPE:
    """The rotation for a length, where transformers asks again when it has to."""
    assert rope.lengths is not None  # noqa: S101 - for the type checker
    first, last = rope.lengths
    names = (type(one).__name__ for one in rope.scalings if one.needs_length)
    caller = f"rope_type={DYNAMIC!r} with {' and '.join(names)}"
    todo = (
        "Fix a length (`scaling.at(length)`), change the config, or use posenc.torch.adopt, which "
        "asks for each batch."
    )
    if longest != first:
        raise bad_argument(
            caller,
            f"max_position_embeddings={first}, as transformers asks for frequencies again beyond "
            "it",
            longest,
            todo,
        )
    if last is not None and rope.at(first).attention_factor != rope.at(last).attention_factor:
        raise bad_argument(
            caller,
            "one attention factor, as transformers keeps the one of the longest batch",
            f"{rope.at(first).attention_factor} and {rope.at(last).attention_factor}",
            todo,
        )
    return rope.at(first if length is None else int(length))


def _rope_type(scalings: Sequence[Any], caller: str) -> str:
    """The name under which transformers is to ask for some scalings."""
    for one in scalings:
        if not isinstance(one, Scaling):
            raise bad_argument(f"{caller}: scaling", "a posenc.scaling", type(one).__name__)
    if why := contradiction(tuple(scalings)):
        raise bad_spec(f"{caller}: scaling", "rules that go together", why)
    return DYNAMIC if any(one.needs_length for one in scalings) else STATIC


def _scalings(parameters: Mapping[str, Any]) -> tuple[Scaling, ...]:
    """The scalings that stand in the parameters of a config."""
    caller = f"rope_parameters of rope_type={parameters.get('rope_type')!r}"
    rows = parameters.get("scaling")
    if not isinstance(rows, list):
        raise bad_argument(
            f"{caller}: scaling",
            "a list of scalings",
            rows,
            "posenc.torch.rope_parameters(scaling) writes it.",
        )
    scalings: Any = tuple(registry.from_json(json.dumps(row)) for row in rows)
    rope_type = _rope_type(scalings, caller)
    if parameters["rope_type"] != rope_type:
        raise bad_argument(
            "rope_parameters: rope_type", repr(rope_type), repr(parameters["rope_type"])
        )
    return scalings


def _check(config: Any, rope_parameters: Mapping[str, Any], ignore_keys: Any = None) -> None:  # noqa: ARG001
    """What transformers calls when a config is made: a method of it."""
    _scalings(rope_parameters)


Row = tuple[MutableMapping[str, Any] | type, str, Any]  # a dictionary or class, a name, its value


class RegisteredNames:
    """Names in tables of another library, until they are removed; a context manager.

    A table is a dictionary, or a class whose attributes it is. A name that another value has is
    refused before anything is written, and a name that has this value already belongs to whoever
    added it.
    """

    def __init__(self, rows: Iterable[Row], caller: str) -> None:
        rows = list(rows)
        for table, name, value in rows:
            if _value(table, name) not in (None, value):
                raise bad_argument(
                    caller,
                    "a name that is free",
                    repr(name),
                    "Nothing was registered: choose another name.",
                )
        self._rows = [row for row in rows if _value(*row[:2]) is None]
        for table, name, value in self._rows:
            if isinstance(table, type):
                setattr(table, name, value)
            else:
                table[name] = value

    def remove(self) -> None:
        """Take the names out again, where they still have the values that they were given."""
        for table, name, value in self._rows:
            if _value(table, name) is value:
                if isinstance(table, type):
                    delattr(table, name)
                else:
                    del table[name]
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def registered_attention(name: str, attention: Any, mask: Any, caller: str) -> RegisteredNames:
    """An attention of transformers, and what makes its masks, under a name of their own."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    return RegisteredNames(
        [
            (AttentionInterface._global_mapping, name, attention),
            (AttentionMaskInterface._global_mapping, name, mask),
        ],
        caller,
    )


def _value(table: MutableMapping[str, Any] | type, name: str) -> Any:
    return vars(table).get(name) if isinstance(table, type) else table.get(name)


def get_1d_rotary_pos_embed(
    dim: int,
    pos: np.ndarray | Tensor | int,
    theta: float = 10000.0,
    use_real: bool = False,
    linear_factor: float = 1.0,
    ntk_factor: float = 1.0,
    repeat_interleave_real: bool = True,
    freqs_dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor] | Tensor:
    """Rotations of positions along one axis, in the place of the function of diffusers.

        exp(i * pos * f[j]),   f[j] = (theta * ntk_factor) ** (-2j / dim) / linear_factor

    Parameters
    ----------
    dim : int
        Channels, even.
    pos : int, array or Tensor
        A number n for the positions 0 to n - 1, or positions of shape (seq,), whole or real.
    theta : float
        The base.
    use_real : bool
        Whether cosines and sines are returned by themselves, rather than complex numbers.
    linear_factor, ntk_factor : float
        What divides every frequency, and what multiplies the base; both positive.
    repeat_interleave_real : bool
        With `use_real`: whether each entry stands twice in a row, or the whole row twice.
    freqs_dtype : torch.dtype
        float32 or float64, in which angles are held; real positions of float64 widen it.

    Returns
    -------
    Tensor or tuple of Tensor
        (seq, dim / 2), complex64 or complex128 as the angles are; with `use_real` cosines and sines
        (seq, dim) in float32.

    Raises
    ------
    ArgumentError
        If `dim` is odd, `pos` has other axes, or a factor is not positive.
    DTypeError
        If `freqs_dtype` is neither of the two.

    Notes
    -----
    Angles of whole positions are exact at every position: entries are right to 1e-7 in float32, and
    in float64 to 4e-16 and 1.8e-19 for each position. The function of diffusers multiplies position
    and frequency in `freqs_dtype` and rounds the product. At dim=128 and theta=10000 its largest
    error, measured in diffusers 0.42.1 on a CPU, is

        positions up to           1,023     65,535    1,048,575
        float32, its default    5.7e-05    3.9e-03      6.2e-02
        float64                 9.4e-14    6.7e-12      1.1e-10

    Examples
    --------
    >>> import torch
    >>> from posenc.torch import get_1d_rotary_pos_embed
    >>> cos, sin = get_1d_rotary_pos_embed(4, 2, use_real=True)
    >>> sin[1]
    tensor([0.8415, 0.8415, 0.0100, 0.0100])
    """
    caller = "get_1d_rotary_pos_embed"
    if freqs_dtype not in (torch.float32, torch.float64):
        raise bad_dtype(f"{caller}: freqs_dtype", "float32 or float64", freqs_dtype)
    if not linear_factor > 0:
        raise bad_argument(f"{caller}: linear_factor", "above 0", linear_factor)
    pos = torch.arange(pos) if isinstance(pos, int) else pos
    where = torch.from_numpy(pos) if isinstance(pos, np.ndarray) else pos
    if where.ndim != 1:
        expected, received = "a number, or positions of shape (seq,)", tuple(where.shape)
        raise bad_argument(f"{caller}: pos", expected, received)
    real = where.is_floating_point()
    dtype = torch.promote_types(where.dtype, freqs_dtype) if real else freqs_dtype
    spec = RoPE(
        dim,
        pairing="interleaved" if repeat_interleave_real else "half",
        base=float(theta * ntk_factor),
        phase="real" if real else "exact",
    )
    if linear_factor > 1:
        spec = spec.replace(scaling=Linear(float(linear_factor)))
    elif linear_factor < 1:  # which no scaling does, as it turns faster
        spec = spec.replace(ladder=Ladder(first=1 / linear_factor))
    where = where.to(dtype) if real else where
    cos, sin = functional.cos_sin(spec, where, width="full" if use_real else "half", dtype=dtype)
    return (cos.float(), sin.float()) if use_real else torch.complex(cos, sin)
