"""The same for the formats beside safetensors: files of `torch.save` beyond 4 GiB, and GGUF."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

STORAGES = {"float16": "HalfStorage", "float32": "FloatStorage", "bfloat16": "BFloat16Storage"}
WIDTHS = {"float16": 2, "float32": 4, "bfloat16": 2}
# Llama 3.1: what `rope_freqs.weight` holds, the divisors of the frequencies of 64 pairs.
FREQUENCIES = 1 / 500000 ** (np.arange(64) / 64)
WAVES = 2 * np.pi / FREQUENCIES
SMOOTH = np.clip((8192 / WAVES - 1) / (4 - 1), 0, 1)
SCALES = 1 / ((1 - SMOOTH) / 8 + SMOOTH)
NULLS = 7 * "\0"
Contents = Mapping[str, tuple[str, tuple[int, ...], np.ndarray | None]]


# --- torch.save -----------------------------------------------------------------------------------


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def _pickle(contents: Contents) -> bytes:
    """The program that torch writes for a state dict, one storage for each tensor."""
    steps = [b"\x80\x02ccollections\nOrderedDict\n)R("]
    for i, (name, (dtype, shape, _)) in enumerate(contents.items()):
        strides = [math.prod(shape[j + 1 :]) for j in range(len(shape))]
        storage = _text("storage") + f"ctorch\n{STORAGES[dtype]}\n".encode()
        storage = b"(" + storage + _text(str(i)) + _text("cpu") + _number(math.prod(shape)) + b"tQ"
        sides = b"".join(b"(" + b"".join(map(_number, n)) + b"t" for n in (shape, strides))
        steps.append(
            _text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + sides
            + b"\x89ccollections\nOrderedDict\n)RtR"
        )  # fmt: skip
    return b"".join([*steps, b"u."])


def make_bin(path: Path, contents: Contents) -> Path:
    """A zip as torch writes it: members side by side, places beyond 4 GiB in 64 bits."""
    program = _pickle(contents)
    members = [("archive/data.pkl", len(program), program), ("archive/version", 2, b"3\n")]
    for i, (dtype, shape, values) in enumerate(contents.values()):
        data = b"" if values is None else values.tobytes()
        members.append((f"archive/data/{i}", WIDTHS[dtype] * math.prod(shape), data))
    directory = []
    with path.open("wb") as file:
        for name, size, data in members:
            at, check = file.tell(), zlib.crc32(data) if len(data) == size else 0
            sizes = struct.pack("<HHQQ", 1, 16, size, size)
            most = 2**32 - 1  # which says that the size follows
            numbers = (45, 0, 0, 0, 33, check, most, most, len(name), len(sizes))
            file.write(b"PK\x03\x04" + struct.pack("<5H3I2H", *numbers) + name.encode() + sizes)
            begin = file.tell()
            file.write(data)
            file.seek(begin + size)
            more = struct.pack("<HHQQQ", 1, 24, size, size, at)
            directory.append(
                b"PK\x01\x02" + struct.pack("<6H3I5H2I", 45, 45, 0, 0, 0, 33, check, 2**32 - 1,
                2**32 - 1, len(name), len(more), 0, 0, 0, 0, 2**32 - 1) + name.encode() + more
            )  # fmt: skip
        start = file.tell()
        listed = b"".join(directory)
        count = len(directory)
        file.write(listed)
        end = file.tell()
        file.write(b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count,
                   len(listed), start))  # fmt: skip
        file.write(b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1))
        file.write(b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1,
                   2**32 - 1, 0))  # fmt: skip
    return path


# --- GGUF -----------------------------------------------------------------------------------------


def _long(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _long(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)


def _vocabulary(tokens: int, merges: int) -> Iterator[tuple[str, bytes]]:
    for key, start, count in (("tokens", "Ġtoken", tokens), ("merges", "Ġ t", merges)):
        # A text and the eight bytes of its length before it, of which the first is no other than 0.
        least = len(start.encode())
        texts = (f"{chr(least + len(str(i)))}{NULLS}{start}{i}" for i in range(count))
        body = "".join(texts).encode()
        yield f"tokenizer.ggml.{key}", struct.pack("<IIQ", 9, 8, count) + body
    yield "tokenizer.ggml.scores", struct.pack("<IIQ", 9, 6, tokens) + bytes(4 * tokens)
    yield "tokenizer.ggml.token_type", struct.pack("<IIQ", 9, 5, tokens) + bytes(4 * tokens)


def make_gguf(
    path: Path, config: Mapping[str, Any], *, tokens: int, merges: int, kind: int = 1
) -> Path:
    """A Llama as llama.cpp converts it, with its vocabulary, `rope_freqs.weight` at the end."""
    c = config
    hidden, inner, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    width = hidden // heads
    keys = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.block_count": c["num_hidden_layers"],
        "llama.context_length": c["max_position_embeddings"],
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv,
        "llama.rope.dimension_count": width,
        "llama.rope.freq_base": float(c["rope_theta"]),
        "llama.vocab_size": vocab,
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (hidden, vocab)}
    for i in range(c["num_hidden_layers"]):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (hidden,),
            f"blk.{i}.attn_q.weight": (hidden, heads * width),
            f"blk.{i}.attn_k.weight": (hidden, kv * width),
            f"blk.{i}.attn_v.weight": (hidden, kv * width),
            f"blk.{i}.attn_output.weight": (heads * width, hidden),
            f"blk.{i}.ffn_norm.weight": (hidden,),
            f"blk.{i}.ffn_gate.weight": (hidden, inner),
            f"blk.{i}.ffn_up.weight": (hidden, inner),
            f"blk.{i}.ffn_down.weight": (inner, hidden),
        }
    shapes |= {"output_norm.weight": (hidden,), "output.weight": (hidden, vocab)}
    shapes["rope_freqs.weight"] = (width // 2,)
    listed, at = [], 0
    for name, shape in shapes.items():
        vector = len(shape) == 1
        bytes_ = math.prod(shape) * (4 if vector else 1 if kind == 24 else 2)
        place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0 if vector else kind, at)
        listed.append(_long(name) + place)
        last, at = at, -(-(at + bytes_) // 32) * 32
    values = [(key, _value(value)) for key, value in keys.items()]
    values += _vocabulary(tokens, merges)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values))
    head += b"".join(_long(key) + value for key, value in values) + b"".join(listed)
    begin = -(-len(head) // 32) * 32
    with path.open("wb") as file:
        file.write(head)
        file.seek(begin + last)
        file.write(SCALES.astype("<f4").tobytes())
        file.truncate(begin + at)
    return path
