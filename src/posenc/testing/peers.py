"""How other people's packages are made and called, so that the battery can be held to them.

Each row says what it wraps and what it should compute; the packages are imported when a row is
used. `posenc check peer:NAME` tries one.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from posenc._core.errors import DependencyError, mismatch, one_of
from posenc._core.numeric.arrangement import Arrangement
from posenc._core.spec.spec import Spec
from posenc.encodings.bias.alibi import ALiBi
from posenc.encodings.rotary.rope import RoPE
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.testing.subject import (
    Library,
    NotOffered,
    Subject,
    check_from_zero,
    not_offered_where,
    start_of,
    tensor_of,
)


class Peer(NamedTuple):
    """A row: what of a package is wrapped, what it should compute, how it is made and called."""

    package: str
    home: str  # its module, or a file of it after a colon
    symbol: str
    call: Callable[..., Any]  # (home, what was made, the arguments of a `Subject`)
    spec: Spec | None
    base: str = ""  # the name of the base in its constructor
    fixed: Mapping[str, Any] = {}  # its other arguments
    make: Callable[..., Any] | None = None  # (home, size, …), where it is no class
    kind: str = "rotary"
    size: int = 64  # width, or heads
    axes: int = 1
    library: Library = "torch"


def peer(name: str) -> Subject:
    """A wrapped implementation of another package."""
    one_of(name, PEERS, "check: peer", "a wrapped implementation")
    row = PEERS[name]
    try:
        with warnings.catch_warnings():
            # What a package deprecates when it is imported is not what is on trial.
            warnings.simplefilter("ignore")
            home = _home(row.home)
    except ImportError as error:
        todo = f"pip install {row.package}"
        received = f"{type(error).__name__}: {error}"
        raise DependencyError(mismatch(f"check: {name}", row.package, received, todo)) from error
    packages = (row.package, row.library)
    versions = {each: importlib.metadata.version(each).partition("+")[0] for each in packages}
    size: Any = {"heads" if row.kind == "bias" else "dim": row.size}
    return Subject(
        name, row.kind, _maker(row, home), functools.partial(row.call, home), axes=row.axes,  # type: ignore[arg-type]
        spec=row.spec, library=row.library, versions=versions, **size,
    )  # fmt: skip


def _maker(row: Peer, home: Any) -> Callable[..., Any]:
    """How it is made for a width or number of heads, and a base if it has one."""
    maker = row.make or (lambda home, *size, **more: getattr(home, row.symbol)(*size, **more))

    def make(**changes: Any) -> Any:
        named = {row.base: changes.pop("base", 10_000)} if row.base else {}
        size = changes.pop("heads" if row.kind == "bias" else "dim", row.size)
        for name in changes:
            raise NotOffered(f"it has no {name} to set")
        return maker(home, size, **named, **row.fixed)

    return make


def _home(name: str) -> Any:
    """A module; or a file of a package whose own import needs more than is installed.

    That goes by a name of its own, in empty packages, so that only what the file itself imports is
    run, and the package can still be imported as it is.
    """
    package, _, file = name.partition(":")
    if not file:
        return importlib.import_module(name)
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


def _zeros(*shape: int, dtype: str = "float32") -> Any:
    import torch

    return torch.zeros(shape, dtype=getattr(torch, dtype))


# --- rotary -------------------------------------------------------------------------------------


def _llama(home: Any, dim: int, *, rope_theta: float, length: int, **rule: Any) -> Any:
    rope = {**rule, "rope_theta": float(rope_theta)}
    sizes = {"head_dim": dim, "max_position_embeddings": length, "rope_parameters": rope}
    return home.LlamaRotaryEmbedding(home.LlamaConfig(**sizes))


def _by_cosines(home: Any, target: Any, x: Any, positions: Any) -> Any:
    indices = tensor_of(positions, x)
    cos, sin = target(x, indices[None] if indices.ndim == 1 else indices)
    return home.apply_rotary_pos_emb(x, x, cos, sin)[0]


def _from_an_offset(_: Any, target: Any, x: Any, positions: Any) -> Any:
    return target.rotate_queries_or_keys(x, offset=start_of(positions))


def _by_angles(home: Any, target: Any, x: Any, positions: Any) -> Any:
    freqs, scale = target(tensor_of(positions, x))
    return home.apply_rotary_pos_emb(x, freqs, scale)


def _heads_last(_: Any, target: Any, x: Any, positions: Any) -> Any:
    indices = None if positions is None else tensor_of(positions, x)
    if indices is not None and indices.ndim == 1:
        indices = indices[None].expand(x.shape[0], -1)
    return target(x.transpose(1, 2), input_pos=indices).transpose(1, 2)


def _both(_: Any, target: Any, x: Any, positions: Any) -> Any:
    check_from_zero(positions)
    return target(x, x)[0]


def _of_a_column(home: Any, target: Any, x: Any, positions: Any) -> Any:
    # The first column of a grid: the axis of its height turns, that of its width stands still.
    not_offered_where(start_of(positions), "a grid starts at 0")
    return home.apply_rot_embed_cat(x, target.get_embed([x.shape[-2], 1]))


def _one_head(_: Any, target: Any, x: Any, positions: Any) -> Any:
    jax = importlib.import_module("jax")
    check_from_zero(positions)
    return jax.vmap(jax.vmap(target))(x)


# --- tables -------------------------------------------------------------------------------------


def _counted(_: Any, target: Any, positions: Any, dtype: str) -> Any:
    check_from_zero(positions)
    width = getattr(target, "org_channels", None) or target.dim
    return target(_zeros(1, positions.shape[-1], width, dtype=dtype))[0]


def _grid(_: Any, target: Any, positions: Any, dtype: str) -> Any:
    sizes = (positions.reshape(-1, positions.shape[-1]).max(axis=0) + 1).tolist()
    grid = target(_zeros(1, dtype=dtype).expand(1, *sizes, target.org_channels))[0]
    return grid[tuple(tensor_of(positions, None).unbind(-1))]


def _scaled(_: Any, target: Any, positions: Any, dtype: str) -> Any:
    x = _zeros(1, positions.shape[-1], 1, dtype=dtype)
    return target(x, pos=tensor_of(positions, x)) / target.scale


# --- biases -------------------------------------------------------------------------------------


def _of_lengths(_: Any, target: Any, q: Any, k: Any) -> Any:
    first, rows = start_of(q), q.shape[-1]
    not_offered_where(start_of(k), "it takes no positions: keys start at 0")
    not_offered_where(first + rows != k.shape[-1], "queries are the last of the keys")
    return target(_zeros(1, target.num_heads, rows, k.shape[-1]))[0]


def _of_positions(_: Any, target: Any, q: Any, k: Any) -> Any:
    return target.forward_custom_pos(tensor_of(q, None), tensor_of(k, None))


def _of_scores(_: Any, target: Any, q: Any, k: Any) -> Any:
    import torch

    score_mod, heads = target
    head = torch.arange(heads)[:, None, None]
    query, key = tensor_of(q, None)[..., None, :, None], tensor_of(k, None)[..., None, None, :]
    # It is meant for causal attention: what it gives a key in the future is masked.
    return torch.where(key > query, 0.0, score_mod(torch.zeros(()), 0, head, query, key))


LLAMA = "transformers.models.llama.modeling_llama"
X = "x_transformers.x_transformers"
GRIDS = "positional_encodings.torch_encodings"
HALF, NEIGHBOURS = RoPE(64, pairing="half"), RoPE(64, pairing="interleaved")
LONG = {"max_seq_len": 8192}


def _axial(*axes: str) -> Arrangement:
    return Arrangement(rule="axial", axes=axes)


PEERS: dict[str, Peer] = {
    "transformers-rotary": Peer(
        "transformers", LLAMA, "LlamaRotaryEmbedding", _by_cosines, HALF, "rope_theta",
        {"length": 8192, "rope_type": "default"}, _llama,
    ),
    "rotary-embedding-torch": Peer(
        "rotary-embedding-torch", "rotary_embedding_torch", "RotaryEmbedding", _from_an_offset,
        NEIGHBOURS, "theta",
    ),
    "x-transformers-rotary": Peer(
        "x-transformers", X, "RotaryEmbedding", _by_angles, NEIGHBOURS, "base"
    ),
    "torchtune-rotary": Peer(
        "torchtune", "torchtune:modules/position_embeddings.py", "RotaryPositionalEmbeddings",
        _heads_last, NEIGHBOURS, "base", LONG,
    ),
    "torchembed-rotary": Peer(
        "torchembed", "torchembed.positional", "RotaryEmbedding", _both, HALF, "base", LONG
    ),
    "timm-rotary": Peer(
        "timm", "timm:layers/pos_embed_sincos.py", "RotaryEmbeddingCat", _of_a_column,
        NEIGHBOURS.replace(arrangement=_axial("h", "w")), "temperature", {"in_pixels": False},
    ),
    "equinox-rotary": Peer(
        "equinox", "equinox.nn", "RotaryPositionalEmbedding", _one_head, HALF, "theta",
        library="jax",
    ),
    "transformers-dynamic": Peer(
        "transformers", LLAMA, "LlamaRotaryEmbedding, dynamic NTK", _by_cosines, None, "rope_theta",
        {"length": 64, "rope_type": "dynamic", "factor": 4.0}, _llama,
    ),
    "positional-encodings-1d": Peer(
        "positional-encodings", GRIDS, "PositionalEncoding1D", _counted, Sinusoidal(60),
        kind="table", size=60,
    ),
    "positional-encodings-2d": Peer(
        "positional-encodings", GRIDS, "PositionalEncoding2D", _grid,
        Sinusoidal(60, arrangement=_axial("x", "y")), kind="table", size=60, axes=2,
    ),
    "positional-encodings-3d": Peer(
        "positional-encodings", GRIDS, "PositionalEncoding3D", _grid,
        Sinusoidal(60, arrangement=_axial("x", "y", "z")), kind="table", size=60, axes=3,
    ),
    "torchembed-table": Peer(
        "torchembed", "torchembed.positional", "SinusoidalEmbedding", _counted, Sinusoidal(64),
        fixed=LONG, kind="table",
    ),
    "x-transformers-table": Peer(
        "x-transformers", X, "ScaledSinusoidalEmbedding", _scaled,
        Sinusoidal(64, order="sin_cos"), "theta", kind="table",
    ),
    "torchembed-bias": Peer(
        "torchembed", "torchembed.positional", "ALiBiEmbedding", _of_lengths, ALiBi(8),
        fixed={"max_seq_len": 2048}, kind="bias", size=8,
    ),
    "attn-gym-bias": Peer(
        "attn-gym", "attn_gym:mods/alibi.py", "generate_alibi_bias", _of_scores,
        ALiBi(8, form="causal"),
        make=lambda home, heads: (home.generate_alibi_bias(heads), heads), kind="bias", size=8,
    ),
    "x-transformers-bias": Peer(
        "x-transformers", X, "AlibiPositionalBias", _of_positions, ALiBi(8), kind="bias", size=8
    ),
}  # fmt: skip
