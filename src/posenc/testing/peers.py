"""How other people's packages are made and called, so that the battery can be held to them.

Each row says what it wraps and what it should compute; the packages are imported when a row is
used. `posenc check peer:NAME` tries one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from posenc._core.errors import ArgumentError, DependencyError, mismatch, suggest
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.spec.spec import Spec
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.testing.subject import NotOffered, Subject, check_from_zero, start_of, tensor_of

Wrap = Callable[[], dict[str, Any]]


class Peer(NamedTuple):
    """A row: the package, what of it is wrapped, and how."""

    package: str
    symbol: str
    wrap: Wrap


def peer(name: str) -> Subject:
    """A wrapped implementation of another package."""
    if name not in PEERS:
        todo = suggest(name, PEERS)
        raise ArgumentError(mismatch("check: peer", "a wrapped implementation", repr(name), todo))
    row = PEERS[name]
    try:
        with warnings.catch_warnings():
            # What a package deprecates when it is imported is not what is on trial.
            warnings.simplefilter("ignore")
            fields = row.wrap()
    except ImportError as error:
        todo = f"pip install {row.package}"
        received = f"{type(error).__name__}: {error}"
        raise DependencyError(mismatch(f"check: {name}", row.package, received, todo)) from error
    versions = {row.package: importlib.metadata.version(row.package)}
    library = fields.get("library", "torch")
    versions[library] = importlib.metadata.version(library).partition("+")[0]
    return Subject(name, versions=versions, **fields)


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _zeros(*shape: int, dtype: str = "float32") -> Any:
    torch = _module("torch")
    return torch.zeros(shape, dtype=getattr(torch, dtype))


def _maker(cls: Any, name: str = "base", **fixed: Any) -> Callable[..., Any]:
    """How a class is made that takes the width first, and the base by some name."""

    def make(dim: int = 64, base: float = 10_000) -> Any:
        return cls(dim, **{name: base}, **fixed)

    return make


def _rotary(make: Any, call: Any, pairing: Any, **fields: Any) -> dict[str, Any]:
    spec: Spec = RoPE(64, pairing=pairing)
    return {"kind": "rotary", "make": make, "call": call, "dim": 64, "spec": spec} | fields


# --- rotary -------------------------------------------------------------------------------------


def _transformers_rotary(
    rule: str = "default", length: int = 8192, **fields: float
) -> dict[str, Any]:
    home = _module("transformers.models.llama.modeling_llama")
    config = _module("transformers.models.llama.configuration_llama").LlamaConfig

    def make(dim: int = 64, base: float = 10_000) -> Any:
        rope = {"rope_type": rule, **fields, "rope_theta": float(base)}
        target = config(head_dim=dim, max_position_embeddings=length, rope_parameters=rope)
        return home.LlamaRotaryEmbedding(target)

    def call(target: Any, x: Any, positions: Any) -> Any:
        indices = tensor_of(positions, x)
        cos, sin = target(x, indices[None] if indices.ndim == 1 else indices)
        return home.apply_rotary_pos_emb(x, x, cos, sin)[0]

    return _rotary(make, call, "half")


def _rotary_embedding_torch() -> dict[str, Any]:
    home = _module("rotary_embedding_torch")

    def call(target: Any, x: Any, positions: Any) -> Any:
        return target.rotate_queries_or_keys(x, offset=start_of(positions))

    return _rotary(_maker(home.RotaryEmbedding, "theta"), call, "interleaved")


def _x_transformers_rotary() -> dict[str, Any]:
    home = _module("x_transformers.x_transformers")

    def call(target: Any, x: Any, positions: Any) -> Any:
        freqs, scale = target(tensor_of(positions, x))
        return home.apply_rotary_pos_emb(x, freqs, scale)

    return _rotary(_maker(home.RotaryEmbedding), call, "interleaved")


def _torchtune_rotary() -> dict[str, Any]:
    home = _file("torchtune", "modules/position_embeddings.py")
    make = _maker(home.RotaryPositionalEmbeddings, max_seq_len=8192)

    def call(target: Any, x: Any, positions: Any) -> Any:
        indices = None if positions is None else tensor_of(positions, x)
        if indices is not None and indices.ndim == 1:
            indices = indices[None].expand(x.shape[0], -1)
        return target(x.transpose(1, 2), input_pos=indices).transpose(1, 2)

    return _rotary(make, call, "interleaved")


def _torchembed_rotary() -> dict[str, Any]:
    home = _module("torchembed.positional")

    def call(target: Any, x: Any, positions: Any) -> Any:
        check_from_zero(positions)
        return target(x, x)[0]

    return _rotary(_maker(home.RotaryEmbedding, max_seq_len=8192), call, "half")


def _timm_rotary() -> dict[str, Any]:
    home = _file("timm", "layers/pos_embed_sincos.py")
    make = _maker(home.RotaryEmbeddingCat, "temperature", in_pixels=False)

    def call(target: Any, x: Any, positions: Any) -> Any:
        # The first column of a grid: the axis of its height turns, that of its width stands still.
        if start_of(positions):
            raise NotOffered("a grid starts at 0")
        return home.apply_rot_embed_cat(x, target.get_embed([x.shape[-2], 1]))

    spec = RoPE(64, pairing="interleaved", arrangement=Arrangement(rule="axial", axes=("h", "w")))
    return _rotary(make, call, "interleaved") | {"spec": spec}


def _equinox_rotary() -> dict[str, Any]:
    home, jax = _module("equinox"), _module("jax")
    make = _maker(home.nn.RotaryPositionalEmbedding, "theta")

    def call(target: Any, x: Any, positions: Any) -> Any:
        check_from_zero(positions)
        return jax.vmap(jax.vmap(target))(x)

    return _rotary(make, call, "half", library="jax")


def _dynamic_rotary() -> dict[str, Any]:
    return _transformers_rotary("dynamic", 64, factor=4.0) | {"spec": None}


# --- tables -------------------------------------------------------------------------------------


def _positional_encodings(axes: int) -> Wrap:
    def wrap() -> dict[str, Any]:
        home = _module("positional_encodings.torch_encodings")
        cls = getattr(home, f"PositionalEncoding{axes}D")

        def make(dim: int = 60) -> Any:
            return cls(dim)

        def call(target: Any, positions: Any, dtype: str) -> Any:
            zero = _zeros(dtype=dtype)
            if axes == 1:
                check_from_zero(positions)
                return target(zero.expand(1, positions.shape[-1], target.org_channels))[0]
            sizes = (positions.reshape(-1, axes).max(axis=0) + 1).tolist()
            grid = target(zero.expand(1, *sizes, target.org_channels))[0]
            return grid[tuple(tensor_of(positions, None).unbind(-1))]

        spec = Sinusoidal(60)
        if axes > 1:
            names = ("x", "y", "z")[:axes]
            spec = Sinusoidal(60, arrangement=Arrangement(rule="axial", axes=names))
        fields = {"kind": "table", "make": make, "call": call}
        return {**fields, "dim": 60, "axes": axes, "spec": spec}

    return wrap


def _torchembed_table() -> dict[str, Any]:
    home = _module("torchembed.positional")

    def make(dim: int = 64) -> Any:
        return home.SinusoidalEmbedding(dim, max_seq_len=8192)

    def call(target: Any, positions: Any, dtype: str) -> Any:
        check_from_zero(positions)
        return target(_zeros(1, positions.shape[-1], target.dim, dtype=dtype))[0]

    return {"kind": "table", "make": make, "call": call, "dim": 64, "spec": Sinusoidal(64)}


def _x_transformers_table() -> dict[str, Any]:
    make = _maker(_module("x_transformers.x_transformers").ScaledSinusoidalEmbedding, "theta")

    def call(target: Any, positions: Any, dtype: str) -> Any:
        x = _zeros(1, positions.shape[-1], 1, dtype=dtype)
        rows = target(x, pos=tensor_of(positions, x))
        return rows / target.scale

    spec = Sinusoidal(64, order="sin_cos")
    return {"kind": "table", "make": make, "call": call, "dim": 64, "spec": spec}


# --- biases -------------------------------------------------------------------------------------


def _torchembed_bias() -> dict[str, Any]:
    home = _module("torchembed.positional")

    def make(heads: int = 8) -> Any:
        return home.ALiBiEmbedding(heads, max_seq_len=2048)

    def call(target: Any, q: Any, k: Any) -> Any:
        first, rows = start_of(q), q.shape[-1]
        if start_of(k):
            raise NotOffered("it takes no positions: keys start at 0")
        if first + rows != k.shape[-1]:
            raise NotOffered("queries are the last of the keys")
        return target(_zeros(1, target.num_heads, rows, k.shape[-1]))[0]

    return {"kind": "bias", "make": make, "call": call, "heads": 8, "spec": ALiBi(8)}


def _x_transformers_bias() -> dict[str, Any]:
    home = _module("x_transformers.x_transformers")

    def make(heads: int = 8) -> Any:
        return home.AlibiPositionalBias(heads)

    def call(target: Any, q: Any, k: Any) -> Any:
        return target.forward_custom_pos(tensor_of(q, None), tensor_of(k, None))

    return {"kind": "bias", "make": make, "call": call, "heads": 8, "spec": ALiBi(8)}


def _attn_gym_bias() -> dict[str, Any]:
    home = _file("attn_gym", "mods/alibi.py")

    def make(heads: int = 8) -> Any:
        return home.generate_alibi_bias(heads), heads

    def call(target: Any, q: Any, k: Any) -> Any:
        import torch

        score_mod, heads = target
        head = torch.arange(heads)[:, None, None]
        query, key = tensor_of(q, None)[..., None, :, None], tensor_of(k, None)[..., None, None, :]
        score = score_mod(torch.zeros(()), 0, head, query, key)
        # It is meant for causal attention: what it gives a key in the future is masked.
        return torch.where(key > query, 0.0, score)

    fields = {"kind": "bias", "make": make, "call": call, "heads": 8}
    return {**fields, "spec": ALiBi(8, form="causal")}


def _file(package: str, file: str) -> Any:
    """A module of a package whose own import needs more than is installed.

    It goes by a name of its own, in empty packages, so that only what the file itself imports is
    run, and the package can still be imported as it is.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module named {package!r}")
    root = Path(spec.origin).parent
    name = f"posenc_peer_{package}"
    for part in ("", *file.removesuffix(".py").split("/")[:-1]):
        name, root = (f"{name}.{part}", root / part) if part else (name, root)
        if name not in sys.modules:
            shell = types.ModuleType(name)
            shell.__path__ = [str(root)]
            sys.modules[name] = shell
    return importlib.import_module(f"{name}.{Path(file).stem}")


PEERS: dict[str, Peer] = {
    "transformers-rotary": Peer(
        "transformers", "models.llama.modeling_llama.LlamaRotaryEmbedding", _transformers_rotary
    ),
    "rotary-embedding-torch": Peer(
        "rotary-embedding-torch", "RotaryEmbedding", _rotary_embedding_torch
    ),
    "x-transformers-rotary": Peer("x-transformers", "RotaryEmbedding", _x_transformers_rotary),
    "torchtune-rotary": Peer("torchtune", "RotaryPositionalEmbeddings", _torchtune_rotary),
    "torchembed-rotary": Peer("torchembed", "RotaryEmbedding", _torchembed_rotary),
    "timm-rotary": Peer("timm", "layers.pos_embed_sincos.RotaryEmbeddingCat", _timm_rotary),
    "equinox-rotary": Peer("equinox", "nn.RotaryPositionalEmbedding", _equinox_rotary),
    "transformers-dynamic": Peer(
        "transformers",
        "models.llama.modeling_llama.LlamaRotaryEmbedding, dynamic NTK",
        _dynamic_rotary,
    ),
    "positional-encodings-1d": Peer(
        "positional-encodings", "PositionalEncoding1D", _positional_encodings(1)
    ),
    "positional-encodings-2d": Peer(
        "positional-encodings", "PositionalEncoding2D", _positional_encodings(2)
    ),
    "positional-encodings-3d": Peer(
        "positional-encodings", "PositionalEncoding3D", _positional_encodings(3)
    ),
    "torchembed-table": Peer("torchembed", "SinusoidalEmbedding", _torchembed_table),
    "x-transformers-table": Peer(
        "x-transformers", "ScaledSinusoidalEmbedding", _x_transformers_table
    ),
    "torchembed-bias": Peer("torchembed", "ALiBiEmbedding", _torchembed_bias),
    "attn-gym-bias": Peer("attn-gym", "mods.alibi.generate_alibi_bias", _attn_gym_bias),
    "x-transformers-bias": Peer("x-transformers", "AlibiPositionalBias", _x_transformers_bias),
}
