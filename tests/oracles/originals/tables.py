"""Tables as the original code makes them: float32, rows 0 to length - 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Original:
    """A published function that makes tables, and widths that it supports."""

    name: str
    symbol: str
    make: Callable[[int, int], Any]  # (length, dim) -> a float32 tensor (length, dim)
    widths: tuple[int, ...]
    package: str = "transformers"


def transformers(family: str) -> Any:
    """The module `modeling_<family>` of transformers, or a skip when it is not installed."""
    pytest.importorskip("torch", reason="torch is not installed")
    name = f"transformers.models.{family}.modeling_{family}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what transformers says of its own dependencies
        return pytest.importorskip(name, reason="transformers is not installed")


def whisper(length: int, dim: int) -> Any:
    """`sinusoids`: exponentials of -j log(base)/(n - 1), sines first."""
    return transformers("whisper").sinusoids(length, dim)


def marian(length: int, dim: int) -> Any:
    """`MarianSinusoidalPositionalEmbedding`: powers in float64, sines first."""
    return transformers("marian").MarianSinusoidalPositionalEmbedding(length, dim).create_weight()


def xlm(length: int, dim: int) -> Any:
    """`create_sinusoidal_embeddings`: powers in float64, interleaved, written into its argument."""
    import torch

    out = torch.empty(length, dim)
    transformers("xlm").create_sinusoidal_embeddings(length, dim, out)
    return out


def speech_to_text(length: int, dim: int, padding_idx: int | None = None) -> Any:
    """`get_embedding`: fairseq's table, with a zero column at the end of an odd width."""
    embedding = transformers("speech_to_text").Speech2TextSinusoidalPositionalEmbedding
    return embedding.get_embedding(length, dim, padding_idx)


def speech_to_text_padded(length: int, dim: int) -> Any:
    """The same with a row of zeros at `padding_idx=1`."""
    return speech_to_text(length, dim, 1)


def annotated(length: int, dim: int) -> Any:
    """The form of The Annotated Transformer, told again from its formula: float32 throughout.

    The frequencies of the even channels 2i are exp(2i * -(ln 10000 / d)); each is multiplied by
    the position, and sines and cosines take turns.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed")
    channels = torch.arange(0, dim, 2, dtype=torch.float32)
    frequencies = (channels * (-math.log(10000.0) / dim)).exp()
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


ORIGINALS = (
    Original("whisper", "models.whisper.modeling_whisper.sinusoids", whisper, (4, 6, 16, 384)),
    Original(
        "marian",
        "models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding.create_weight",
        marian,
        (1, 2, 5, 16, 17, 512),
    ),
    Original(
        "xlm",
        "models.xlm.modeling_xlm.create_sinusoidal_embeddings",
        xlm,
        (2, 5, 16, 17, 512),
    ),
    Original(
        "speech_to_text",
        "models.speech_to_text.modeling_speech_to_text"
        ".Speech2TextSinusoidalPositionalEmbedding.get_embedding",
        speech_to_text,
        (4, 5, 16, 17, 256),
    ),
    Original(
        "speech_to_text, padding_idx=1",
        "models.speech_to_text.modeling_speech_to_text"
        ".Speech2TextSinusoidalPositionalEmbedding.get_embedding",
        speech_to_text_padded,
        (4, 5, 16, 17),
    ),
    Original(
        "annotated",
        "our words for PositionalEncoding of harvardnlp/annotated-transformer@debc9fd",
        annotated,
        (2, 4, 16, 512),
        package="torch",
    ),
)


def numbers(table: Any) -> np.ndarray:
    """The entries of a float32 tensor as float64."""
    assert str(table.dtype) == "torch.float32"
    return table.detach().numpy().astype(np.float64)
