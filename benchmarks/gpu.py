"""Rotations and sums on a GPU against its copy bandwidth and the peers: `python benchmarks/gpu.py`.

Rows go to `benchmarks/results/gpu.jsonl`, with the device and all versions. Every candidate of a
row is compared with the float64 reference before it is timed, and all of them are timed in turns in
one run. Queries and keys lie as models hand them over, (batch, tokens, heads, width) with two axes
exchanged; rows of contiguous ones come second. The floor is a copy of the same tensors into memory
that exists (for what works in place) or the same with new memory.

A prompt is timed by an event before and after it, with a cold cache. A token is timed by replays of
a CUDA graph of many calls, as engines decode, and with the cache as it is; what its call costs the
processor beside that is a figure of its own. Peers that are not installed are left out by name.
Each aim is a row of its own: the figure, what was aimed at, and whether it was met.

`--tune` asks which heads in a step, warps and programs for a token are the fastest, for `SHAPES` of
`posenc.kernels.triton.rotate`. Without a GPU, or with `--dry-run`, it walks through all of it with
tiny shapes in Triton's interpreter on the CPU; such times mean nothing, and none is stored.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

if "--dry-run" in sys.argv or not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import triton

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances
from posenc.kernels.triton import rotate
from posenc.torch import RotaryEmbedding

Call = Callable[[], Any]
DRY = os.environ.get("TRITON_INTERPRET") == "1"
PACKAGES = ("torch", "triton", "flash_attn", "liger_kernel", "transformers")
# batch, heads of queries and keys, tokens, channels
SHAPES = (
    (1, 32, 8, 2048, 128),
    (8, 32, 8, 2048, 128),
    (1, 32, 8, 131072, 128),
    (64, 32, 8, 1, 128),
)
TINY = ((2, 4, 2, 3, 16), (2, 4, 2, 1, 16))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROUNDING = {torch.float32: 2.0**-22, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
REPEATS = 50
CALLS = 20  # in a captured graph
LAYOUTS = ("of a model", "contiguous")
STARTS = (0, 1, 15, 16, 4096)
BACKEND = "eager" if DRY else "inductor"


COPY, INPLACE, LAUNCH = "copy into existing memory", "posenc, triton, in place", "an empty launch"
FLASH, LIGER = "flash-attention, triton (table at hand)", "Liger, triton, in place (table at hand)"


@triton.jit
def nothing():
    """A kernel whose time is that of a launch."""


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def versioned(name: str) -> bool:
    """Whether a package says its version; a file that was brought along does not."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def start(tokens: int) -> int:
    """The position of the first token: one that is alone has others in the cache."""
    return 4096 if tokens == 1 else 0


def tables(spec: posenc.RoPE, count: int, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines for those who read them from memory: (tokens, pairs)."""
    cos, sin = posenc.cos_sin(spec, torch.arange(count, device=device) + start(count))
    return cos.to(dtype), sin.to(dtype)


def inputs(shape: tuple[int, ...], dtype: torch.dtype, device: str, layout: str) -> list[Tensor]:
    """The same q and k (batch, heads, tokens, width) in either layout."""
    batch, heads, few, tokens, width = shape
    generator = torch.Generator(device).manual_seed(0)
    made = [
        torch.randn(batch, tokens, n, width, device=device, generator=generator).to(dtype)
        for n in (heads, few)
    ]
    views = [x.transpose(1, 2) for x in made]
    return views if layout == LAYOUTS[0] else [x.contiguous() for x in views]


def rotations(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, layout: str
) -> dict[str, Call]:
    """What turns one q and k of a shape, by name; each returns both."""
    torch.compiler.reset()  # it would give up after eight sets of shapes and dtypes
    tokens, width = shape[3:]
    q, k = inputs(shape, dtype, device, layout)
    spec = posenc.RoPE(width, pairing="half")
    new_q, new_k = torch.empty_like(q), torch.empty_like(k)
    spare_q, spare_k = q.clone(), k.clone()

    def written() -> tuple[Tensor, Tensor]:
        return new_q.copy_(q), new_k.copy_(k)

    module = RotaryEmbedding(spec, kernel="triton")
    inplace = RotaryEmbedding(spec, kernel="triton", inplace=True)
    reference = RotaryEmbedding(spec, kernel="reference")
    compiled = torch.compile(reference, backend=BACKEND)
    # A graph is captured once and replayed for all tokens, so where those stand is in memory.
    one = torch.full((shape[0], 1), start(1), device=device)
    where: dict[str, Any] = {"positions": one} if tokens == 1 else {"offset": 0}
    calls: dict[str, Call] = {
        LAUNCH: lambda: (nothing[(1,)](), ())[1],
        COPY: written,
        "copy into new memory": lambda: (q.clone(), k.clone()),
        "posenc, triton": lambda: module(q, k, **where),
        INPLACE: lambda: inplace(spare_q, spare_k, **where),
        "posenc, reference": lambda: reference(q, k, **where),
        "posenc, compiled": lambda: compiled(q, k, **where),
    }
    calls |= _transformers(spec, q, k)
    if installed("flash_attn"):
        turn = importlib.import_module("flash_attn.ops.triton.rotary").apply_rotary
        cos, sin = tables(spec, tokens, device, torch.float32)
        swapped = [x.transpose(1, 2) for x in (q, k)]
        calls[FLASH] = lambda: tuple(turn(x, cos, sin).transpose(1, 2) for x in swapped)
    if installed("liger_kernel"):
        liger = importlib.import_module("liger_kernel.transformers.rope").liger_rotary_pos_emb
        full = [torch.cat([t, t], -1)[None] for t in tables(spec, tokens, device, dtype)]
        calls[LIGER] = lambda: liger(spare_q, spare_k, *full)
    return calls


def _partial(function: Any, *inputs: Tensor) -> Call:
    return lambda: function(*inputs)


def _transformers(spec: posenc.RoPE, q: Tensor, k: Tensor) -> dict[str, Call]:
    if not installed("transformers"):
        return {}
    llama = importlib.import_module("transformers.models.llama.modeling_llama")
    config = importlib.import_module("transformers").LlamaConfig(
        hidden_size=q.shape[1] * spec.dim, num_attention_heads=q.shape[1], head_dim=spec.dim
    )
    table = llama.LlamaRotaryEmbedding(config).to(q.device)
    positions = torch.arange(q.shape[2], device=q.device)[None] + start(q.shape[2])

    def whole(q: Tensor, k: Tensor) -> Any:
        return llama.apply_rotary_pos_emb(q, k, *table(q, positions))

    compiled = torch.compile(whole, backend=BACKEND)
    return {
        "transformers, eager": _partial(whole, q, k),
        "transformers, compiled": _partial(compiled, q, k),
    }


def sums(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> dict[str, Call]:
    """What adds a table to embeddings (batch, tokens, width)."""
    x = torch.randn(shape, device=device).to(dtype)
    spec = posenc.Sinusoidal(shape[-1])
    new, kept = torch.empty_like(x), posenc.table(spec, torch.arange(shape[1], device=device))
    return {
        "copy into existing memory": lambda: (new.copy_(x),),
        "copy into new memory": lambda: (x.clone(),),
        "posenc, triton": lambda: (posenc.add(spec, x, kernel="triton"),),
        "posenc, reference": lambda: (posenc.add(spec, x, kernel="reference"),),
        "x + table at hand": lambda: ((x + kept.to(dtype)),),
    }


def paged(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> dict[str, Call]:
    """Queries and keys of engines: normed, turned, and keys written to the slots of a cache."""
    batch, heads, few, tokens, width = shape
    spec, count = posenc.RoPE(width, pairing="half"), batch * tokens
    q, k = (torch.randn(count, n, width, device=device).to(dtype) for n in (heads, few))
    keys, slots = (
        k.new_empty(2 * count, few, width),
        torch.randperm(2 * count, device=device)[:count],
    )
    where = torch.arange(tokens, device=device).repeat(batch) + start(tokens)
    norms = rotate.Norms(*torch.ones(2, width, device=device, dtype=dtype), 1e-6)
    into = (spec, q, k, keys, slots, where)

    def apart(q: Tensor, k: Tensor) -> None:
        turned = posenc.rotate(spec, k, positions=where, seq_dim=-3, kernel="triton")
        posenc.rotate(spec, q, positions=where, seq_dim=-3, inplace=True, kernel="triton")
        keys.index_copy_(0, slots, turned)

    def normed(x: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, (width,), norms.q, norms.epsilon)

    return {
        "turned and written in one pass": lambda: rotate.turn_into(*into),
        "turned, then written": lambda: apart(q, k),
        "normed, turned and written in one pass": lambda: rotate.turn_into(*into, norms),
        "normed, then turned, then written": lambda: apart(normed(q), normed(k)),
    }


def tuned(shape: tuple[int, ...], device: str) -> dict[str, Call]:
    """In place with each choice of heads in a step, steps of a program (0: all) and warps."""
    q, k = inputs(shape, torch.bfloat16, device, LAYOUTS[0])
    turn = RotaryEmbedding(posenc.RoPE(shape[-1], pairing="half"), kernel="triton", inplace=True)

    def call(choice: tuple[int, int, int]) -> None:
        rotate.SHAPES = ((0, *choice),)
        turn(q, k)

    choices = itertools.product((4, 8, 16), (0, 1), (2, 4, 8))
    return {str(choice): lambda choice=choice: call(choice) for choice in choices}


def programs_by_start(device: str) -> int:
    """How many programs Triton compiles for some starts of positions."""
    x = torch.randn(1, 2, 3, 24, device=device)
    spec = posenc.RoPE(24, pairing="half")

    def kept() -> int:
        return 0 if DRY else sum(len(each[0]) for each in rotate._kernel.device_caches.values())

    before = kept()
    for first in STARTS:
        posenc.rotate(spec, x, offset=first, kernel="triton")
    return kept() - before


def exact(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> list[Tensor]:
    """The rotations of `rotations`, in float64."""
    spec = posenc.RoPE(shape[-1], pairing="half")
    both = inputs(shape, dtype, device, LAYOUTS[0])
    return [posenc.rotate(spec, x.double(), offset=start(shape[3])) for x in both]


def checked(
    shape: tuple[int, ...], dtype: torch.dtype, device: str, layout: str
) -> dict[str, float]:
    """The worst error of each way to turn, in roundings of the dtype; ours must stay within one."""
    found = {}
    want = exact(shape, dtype, device)
    for name, call in rotations(shape, dtype, device, layout).items():
        if name.startswith("copy") or name == LAUNCH:
            continue
        worst = max(
            float(((a.double() - b).abs() / (b.abs() + 1)).max())
            for a, b in zip(call(), want, strict=True)
        )
        found[name] = worst / ROUNDING[dtype]
        # The interpreter cuts bfloat16 off where a GPU rounds.
        if name.startswith("posenc, triton") and found[name] > (1 if device == "cuda" else 2):
            raise SystemExit(f"{name} is wrong on {shape} {dtype}: {found[name]:.2f} roundings")
    return found


def timed(calls: dict[str, Call], *, cold: bool = True) -> dict[str, float]:
    """Median milliseconds of each, in turns; a large write before them empties a cold cache."""
    if DRY:
        return {name: _once(call) for name, call in calls.items()}
    much = torch.empty(256 << 20 if cold else 1, dtype=torch.int8, device="cuda")
    for call in calls.values():
        for _ in range(5):
            call()
    spans: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            much.zero_()
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            call()
            after.record()
            torch.cuda.synchronize()
            spans[name].append(before.elapsed_time(after))
    return {name: statistics.median(found) for name, found in spans.items()}


def replayed(calls: dict[str, Call]) -> dict[str, float]:
    """Median milliseconds of a call in a captured graph of many, in turns; those that can be."""
    if DRY:
        return timed(calls)
    graphs = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for _ in range(CALLS):
                    call()
        except RuntimeError as error:
            print(f"{name} cannot be captured: {error}")
        else:
            graphs[name] = graph.replay
    return {name: found / CALLS for name, found in timed(graphs, cold=False).items()}


def processor_time(calls: dict[str, Call]) -> dict[str, float]:
    """Median microseconds until a call returns, with the device at work or not."""
    found = {}
    for name, call in calls.items():
        found[name] = 1e3 * statistics.median(_once(call) for _ in range(1 if DRY else REPEATS))
        if not DRY:
            torch.cuda.synchronize()
    return found


def _once(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begin)


def aims(shape: tuple[int, ...], times: dict[str, float]) -> list[dict[str, Any]]:
    """What a rotation aims at, beside what the times of a row say."""
    pairs = [("the compiled reference beside Triton", "posenc, compiled", "posenc, triton", 1.3)]
    if shape[3] == 1:
        pairs.append(("decoding beside an empty launch", INPLACE, LAUNCH, 1.2))
    else:
        pairs.append(("in place beside a copy", INPLACE, COPY, 1 / 0.9))
    pairs += [
        ("beside Liger", INPLACE, LIGER, 1.0),
        ("beside flash-attention", "posenc, triton", FLASH, 1.0),
    ]
    rows = []
    for what, ours, other, most in pairs:
        if ours in times and other in times:
            ratio = times[ours] / times[other]
            rows.append({"aim": what, "ratio": ratio, "most": most, "met": ratio <= most})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="tiny shapes on the CPU")
    parser.add_argument("--tune", action="store_true", help="heads, programs and warps as well")
    options = parser.parse_args()
    if DRY:
        print("A walk through in Triton's interpreter: the times mean nothing, nothing is stored.")
    device, shapes = ("cpu", TINY) if DRY else ("cuda", SHAPES)
    present = [name for name in PACKAGES if installed(name)]
    common = circumstances(*filter(versioned, present)) | {
        "device": "the CPU" if DRY else torch.cuda.get_device_name(),
        "absent": [name for name in PACKAGES if name not in present],
    }
    count = programs_by_start(device)
    aim = {"aim": "one program for all starts", "ratio": count, "most": 1, "met": count <= 1}
    rows = [common | aim]
    for shape, dtype, layout in itertools.product(shapes, DTYPES, LAYOUTS):
        measured = replayed if shape[3] == 1 else timed
        with torch.no_grad():
            errors = checked(shape, dtype, device, layout)
            calls = rotations(shape, dtype, device, layout)
            times = measured(calls)
            said = {"ms": times, "cpu_us": processor_time(calls), "roundings": errors}
        row = {"what": "rotate", "shape": shape, "dtype": str(dtype), "layout": layout}
        rows.append(common | row | said)
        rows += [common | row | aim for aim in aims(shape, times)]
    for shape, dtype in itertools.product(shapes, DTYPES):
        measured = replayed if shape[3] == 1 else timed
        with torch.no_grad():
            times = measured(paged(shape, dtype, device))
        rows.append(common | {"what": "paged", "shape": shape, "dtype": str(dtype), "ms": times})
    if options.tune:
        shape, before = shapes[0 if DRY else 1], rotate.SHAPES
        rows.append(common | {"what": "tune", "shape": shape, "ms": timed(tuned(shape, device))})
        rotate.SHAPES = before
    for size in ((2, 3, 8),) if DRY else ((8, 1024, 768), (8, 8192, 4096)):
        for dtype in DTYPES:
            with torch.no_grad():
                times = timed(sums(size, dtype, device))
            rows.append(common | {"what": "add", "shape": size, "dtype": str(dtype), "ms": times})
    unsaid = {*common, "ms", "cpu_us", "ratio", "met"} if DRY else {*common}
    for row in rows:
        print(json.dumps({name: value for name, value in row.items() if name not in unsaid}))
    if not DRY:
        print(append("gpu", rows))


if __name__ == "__main__":
    main()
