"""Make `presets.json`: numbers of published code that is not installed, from releases on PyPI.

    pip download --no-deps -d DIR tensor2tensor fairseq espnet keras-hub openai-whisper vit-pytorch
    python tests/golden/make_presets.py DIR

One function or class is cut out of each archive and run; nothing else of it is. TensorFlow and
Keras are stood in for by NumPy in float32, whose functions have the same names.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
import sys
import tarfile
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "presets.json"
ROWS = [*range(17), 31, 32, 63, 64]
SIZES = {"h": 5, "w": 7}


def cut(folder: Path, package: str, path: str, name: str, names: dict[str, Any]) -> tuple[Any, str]:
    """A definition out of a package's archive, and the version of the archive."""
    archive = next(p for p in sorted(folder.iterdir()) if p.name.lower().startswith(package))
    version = re.split(r"-(?=\d)", archive.name)[1].removesuffix(".tar.gz").partition("-")[0]
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            text = file.read(path).decode()
    else:
        with tarfile.open(archive) as file:
            member = next(m for m in file.getmembers() if m.name.endswith(path))
            text = file.extractfile(member).read().decode()  # type: ignore[union-attr]
    tree = ast.parse(text)
    found = next(n for n in tree.body if getattr(n, "name", None) == name)
    found.decorator_list = []  # type: ignore[attr-defined]
    scope = dict(names)
    exec(compile(ast.Module([found], []), path, "exec"), scope)
    return scope[name], version


def tensorflow() -> Any:
    """The functions of TensorFlow that timing signals use, in NumPy and float32."""
    f32 = np.float32
    return types.SimpleNamespace(
        to_float=lambda x: np.asarray(x, dtype=f32),
        range=np.arange,
        maximum=lambda a, b: np.maximum(a, f32(b)),
        exp=np.exp,
        sin=np.sin,
        cos=np.cos,
        mod=lambda a, b: a % b,
        pad=np.pad,
        reshape=np.reshape,
        expand_dims=np.expand_dims,
        concat=lambda parts, axis: np.concatenate(parts, axis=axis),
    )


class Shaped(np.ndarray):
    """An array that knows `get_shape`."""

    def get_shape(self) -> Any:
        return types.SimpleNamespace(as_list=lambda: list(self.shape))


def keras(folder: Path) -> tuple[Any, str]:
    """`SinePositionEncoding.call` with its `ops`."""
    ops = types.SimpleNamespace(
        shape=np.shape,
        arange=np.arange,
        cast=lambda x, dtype: np.asarray(x, dtype=dtype),
        expand_dims=np.expand_dims,
        power=np.power,
        einsum=np.einsum,
        sin=np.sin,
        cos=np.cos,
        broadcast_to=np.broadcast_to,
    )
    base = types.SimpleNamespace
    layers = types.SimpleNamespace(Layer=type("Layer", (), {"compute_dtype": np.float32}))
    names = {"keras": base(layers=layers), "ops": ops, "keras_hub_export": lambda _: lambda c: c}
    return cut(
        folder,
        "keras_hub",
        "keras_hub/src/layers/modeling/sine_position_encoding.py",
        "SinePositionEncoding",
        names,
    )


def main(folder: Path) -> None:
    """Run everything and write the file."""
    import torch

    torch_names = {"torch": torch, "nn": torch.nn, "math": math, "np": np, "Tensor": torch.Tensor}
    for name in ("Optional", "Any"):
        torch_names[name] = getattr(__import__("typing"), name)
    stored: dict[str, Any] = {}

    def store(key: str, package: str, version: str, symbol: str, given: Any, values: Any) -> None:
        exact = {
            dim: [[float(v) for v in row] for row in np.asarray(rows, dtype=np.float32)]
            for dim, rows in values.items()
        }
        head = {"package": package, "version": version, "symbol": symbol}
        stored[key] = {**head, "given": given, "values": exact}

    timing = "tensor2tensor/layers/common_attention.py"
    numpy_names = {"tf": tensorflow(), "math": math}
    one, version = cut(folder, "tensor2tensor", timing, "get_timing_signal_1d", numpy_names)
    rows = [ROWS]
    values = {d: one(65, d)[0][ROWS] for d in (8, 9, 16, 17)}
    store("tensor2tensor", "tensor2tensor", version, "get_timing_signal_1d", rows, values)

    numpy_names["common_layers"] = types.SimpleNamespace(shape_list=lambda x: list(x.shape))
    many, version = cut(folder, "tensor2tensor", timing, "add_timing_signal_nd", numpy_names)
    values = {
        d: np.asarray(many(np.zeros((1, 5, 7, d), np.float32).view(Shaped)))[0].reshape(35, d)
        for d in (16, 18)
    }
    store("tensor2tensor-2d", "tensor2tensor", version, "add_timing_signal_nd", [SIZES], values)

    path = "fairseq/modules/sinusoidal_positional_embedding.py"
    cls, version = cut(folder, "fairseq", path, "SinusoidalPositionalEmbedding", torch_names)
    # The table has rows from 0; ours counts tokens from row padding_idx + 1 = 2. The builder is
    # given a mask: three tokens of padding, then the rest.
    values = {d: cls.get_embedding(67, d, 1)[[1, 1, 1, *range(2, 18)]] for d in (8, 9, 16, 17)}
    mask = [[0] * 3 + [1] * 16]
    store(
        "fairseq", "fairseq", version, "SinusoidalPositionalEmbedding.get_embedding", mask, values
    )

    sinusoids, version = cut(folder, "openai_whisper", "whisper/model.py", "sinusoids", torch_names)
    values = {d: sinusoids(65, d)[ROWS] for d in (8, 16)}
    store("whisper", "openai-whisper", version, "whisper.model.sinusoids", rows, values)

    layer, version = keras(folder)
    values = {}
    for d in (8, 9, 16, 17):
        made = layer.__new__(layer)
        made.max_wavelength = 10000
        values[d] = made.call(np.zeros((1, 65, d), np.float32))[0][ROWS]
    store("keras-hub", "keras-hub", version, "SinePositionEncoding.call", rows, values)

    path = "espnet/nets/pytorch_backend/transformer/embedding.py"
    cls, version = cut(folder, "espnet", path, "RelPositionalEncoding", torch_names)
    values = {d: cls(d, 0.0, 20)(torch.zeros(1, 9, d))[1][0] for d in (8, 16)}
    store("espnet", "espnet", version, "RelPositionalEncoding", [8, -8], values)

    path = "vit_pytorch/simple_vit.py"
    build, version = cut(folder, "vit_pytorch", path, "posemb_sincos_2d", torch_names)
    values = {d: build(5, 7, d) for d in (16, 24)}
    store("simple-vit", "vit-pytorch", version, "posemb_sincos_2d", [SIZES], values)

    with contextlib.suppress(FileNotFoundError):
        GOLDEN.unlink()
    GOLDEN.write_text(json.dumps(stored, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
