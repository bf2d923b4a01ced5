"""Every verb and module under `torch.compile`, each in a process in which nothing ran before.

    python tests/torch_modules/compiled.py    one line of JSON for each row, or for the rows named

A row is a function of a length that gives a callable and its arguments. The same callable, compiled
once, is called at four lengths; another process calls it in eager mode, and bits are compared.
"""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import posenc
from posenc import positions as where

LENGTHS = (7, 8, 300, 7)
ROADS = ("compile", "export")  # to the first call
Arguments = Callable[[int], tuple[Any, ...]]
Row = tuple[Callable[..., Any], Arguments]
ROWS: dict[str, Callable[[], Row]] = {}


def row(name: str) -> Callable[[Callable[[], Row]], Callable[[], Row]]:
    """Enter a row under the name that the documentation shows."""

    def enter(make: Callable[[], Row]) -> Callable[[], Row]:
        assert name not in ROWS
        ROWS[name] = make
        return make

    return enter


def drawn(*shape: int) -> Tensor:
    """The same numbers in every process."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator)


def x(length: int) -> Tensor:
    return drawn(2, length, 8)


def q(length: int) -> Tensor:
    return drawn(2, 4, length, 8)


def rope(**choices: Any) -> Any:
    return posenc.RoPE(8, pairing="half", **choices)


def longrope() -> Any:
    scaling = posenc.scaling.LongRoPE(
        (1, 1, 2, 3), (1, 2, 5, 9), original_length=64, factor=4, long_factor=1.3
    )
    return rope(scaling=scaling)


def dynamic() -> Any:
    return rope(scaling=posenc.scaling.DynamicNTK(4, original_length=16))


def params(spec: Any) -> dict[str, Tensor]:
    """First values of what a spec learns, as a model holds them."""
    return {name: torch.from_numpy(value) for name, value in posenc.init(spec).items()}


# --- verbs ----------------------------------------------------------------------------------------


@row("table")
def _() -> Row:
    spec = posenc.Sinusoidal(8)
    return lambda t: posenc.table(spec, t), lambda n: (torch.arange(n),)


@row("table of a length")
def _() -> Row:
    spec = posenc.Sinusoidal(8)
    return lambda x: posenc.table(spec, x.shape[1], xp=torch, dtype="bfloat16"), lambda n: (x(n),)


@row("add")
def _() -> Row:
    spec = posenc.Sinusoidal(8)
    return lambda x: posenc.add(spec, x), lambda n: (x(n),)


@row("add with an offset")
def _() -> Row:
    spec = posenc.Sinusoidal(8)
    return lambda x, past: posenc.add(spec, x, offset=past), lambda n: (x(n), n)


@row("add, learned")
def _() -> Row:
    spec = posenc.Learned(8, length=512)
    learned = params(spec)
    return lambda x: posenc.add(spec, x, params=learned), lambda n: (x(n),)


@row("rotate")
def _() -> Row:
    spec = rope()
    return lambda q: posenc.rotate(spec, q), lambda n: (q(n),)


@row("rotate at positions")
def _() -> Row:
    spec = rope()
    return lambda q, t: posenc.rotate(spec, q, positions=t), lambda n: (q(n), torch.arange(n) + 5)


@row("rotate with an offset")
def _() -> Row:
    spec = rope()
    return lambda q, past: posenc.rotate(spec, q, offset=past), lambda n: (q(n), n)


@row("rotate, inverse, seq_dim=-3")
def _() -> Row:
    spec = rope()

    def call(q: Tensor) -> Tensor:
        return posenc.rotate(spec, q, inverse=True, seq_dim=-3)

    return call, lambda n: (q(n).transpose(1, 2).contiguous(),)


@row("rotate in place")
def _() -> Row:
    spec = rope()
    return lambda q: posenc.rotate(spec, q * 1, inplace=True), lambda n: (q(n),)


@row("rotate packed sequences")
def _() -> Row:
    spec = rope()

    def call(q: Tensor, ends: Tensor) -> Tensor:
        return posenc.rotate(spec, q, cu_seqlens=ends)

    return call, lambda n: (q(n), torch.tensor([0, 3, n]))


@row('rotate, kernel="reference"')
def _() -> Row:
    spec = rope()
    return lambda q: posenc.rotate(spec, q, kernel="reference"), lambda n: (q(n),)


@row("rotate, two axes")
def _() -> Row:
    spec = rope(arrangement=posenc.Arrangement(rule="axial", axes=("height", "width")))

    def call(q: Tensor, t: Tensor) -> Tensor:
        return posenc.rotate(spec, q, positions=t)

    return call, lambda n: (q(n), torch.arange(n)[:, None] + torch.tensor([0, 3]))


@row("rotate, XPos")
def _() -> Row:
    spec = posenc.XPos(8, pairing="half")
    return lambda q: posenc.rotate(spec, q, role="key"), lambda n: (q(n),)


@row('rotate, phase="float32"')
def _() -> Row:
    spec = rope(phase="float32")
    return lambda q: posenc.rotate(spec, q), lambda n: (q(n),)


@row("rotate, LongRoPE, length a number")
def _() -> Row:
    spec = longrope()
    return lambda q, n: posenc.rotate(spec, q, length=n), lambda n: (q(n), n)


@row("rotate, LongRoPE, length a tensor")
def _() -> Row:
    spec = longrope()
    return lambda q, n: posenc.rotate(spec, q, length=n), lambda n: (q(n), torch.tensor(n))


@row("rotate, DynamicNTK, length a number")
def _() -> Row:
    spec = dynamic()
    return lambda q, n: posenc.rotate(spec, q, length=n), lambda n: (q(n), n)


@row("cos_sin")
def _() -> Row:
    spec = rope()
    return lambda t: posenc.cos_sin(spec, t), lambda n: (torch.arange(n),)


@row("cos_sin, LongRoPE, length a tensor")
def _() -> Row:
    spec = longrope()
    return lambda t, n: posenc.cos_sin(spec, t, length=n), lambda n: (
        torch.arange(n),
        torch.tensor(n),
    )


@row("apply_rotary")
def _() -> Row:
    def call(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = posenc.apply_rotary(q, cos, sin, pairing="half")
        return posenc.apply_rotary(half, cos, sin, pairing="interleaved", inplace=True)

    return call, lambda n: (q(n), *posenc.cos_sin(rope(), torch.arange(n)))


@row("apply_rotary, full width")
def _() -> Row:
    def call(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return posenc.apply_rotary(q, cos, sin, pairing="half", width="full")

    def given(n: int) -> tuple[Tensor, ...]:
        cos, sin = posenc.cos_sin(rope(), torch.arange(n))
        return q(n), torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)

    return call, given


@row("rerotate")
def _() -> Row:
    spec, other = rope(), rope(base=500.0)

    def call(k: Tensor, t: Tensor) -> Tensor:
        return posenc.rerotate(spec, k, t, t + 3, other)

    return call, lambda n: (q(n), torch.arange(n))


@row("relative_score")
def _() -> Row:
    spec = rope()
    return lambda a, b, t: posenc.relative_score(spec, a, b, t), lambda n: (
        drawn(3, 8),
        drawn(3, 8) + 1,
        torch.arange(n),
    )


@row("logit_scale")
def _() -> Row:
    spec = posenc.Temperature(rule="log_floor", length=8)
    return lambda t: posenc.logit_scale(spec, t), lambda n: (torch.arange(n),)


@row("bias")
def _() -> Row:
    spec = posenc.ALiBi(4)
    return lambda t: posenc.bias(spec, t), lambda n: (torch.arange(n),)


@row("bias, learned")
def _() -> Row:
    spec = posenc.T5(4)
    learned = params(spec)
    return lambda t: posenc.bias(spec, t, params=learned, heads=(0, 4)), lambda n: (
        torch.arange(n),
    )


@row("relative, relative_values")
def _() -> Row:
    spec = posenc.Shaw(8, clip=4)
    learned = params(spec)

    def call(q: Tensor, k: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        added = posenc.relative(spec, q, k, params=learned)
        return added, posenc.relative_values(spec, weights, params=learned)

    return call, lambda n: (q(n), q(n) + 1, drawn(2, 4, n, n))


@row("resize")
def _() -> Row:
    spec = posenc.Learned(8, length=20)
    learned = params(spec)

    def call(weight: Tensor, x: Tensor) -> Tensor:
        new, given = posenc.resize(spec, {"weight": weight}, 12, method="linear")
        return posenc.add(new, x[:, :4], params=given)

    return call, lambda n: (learned["weight"] * n, x(n))


@row("extend")
def _() -> Row:
    spec = posenc.Learned(8, length=20)
    learned = params(spec)

    def call(weight: Tensor, x: Tensor) -> Tensor:
        new, given = posenc.resize(spec, {"weight": weight}, 30, how="sinusoidal")
        return posenc.add(new, x[:, :4], params=given, offset=25)

    return call, lambda n: (learned["weight"] * n, x(n))


# --- positions ------------------------------------------------------------------------------------


@row("positions.arange, offset")
def _() -> Row:
    def call(x: Tensor, past: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[1]
        return where.arange(n, start=3, xp=torch), where.offset(n, past)

    return call, lambda n: (x(n), torch.tensor([n, 2]))


@row("positions.from_mask")
def _() -> Row:
    return lambda m: where.from_mask(m), lambda n: (drawn(2, n) > 0,)


@row("positions.packed")
def _() -> Row:
    return lambda ends, x: where.packed(ends, x.shape[1]), lambda n: (torch.tensor([0, 3, n]), x(n))


@row("positions.grid")
def _() -> Row:
    return lambda x: where.grid((x.shape[1], 3), xp=torch), lambda n: (x(n),)


# --- modules --------------------------------------------------------------------------------------


@row("PositionTable")
def _() -> Row:
    from posenc.torch import PositionTable

    return PositionTable(posenc.Sinusoidal(8)), lambda n: (x(n),)


@row("PositionTable, learned")
def _() -> Row:
    from posenc.torch import PositionTable

    return PositionTable(posenc.Learned(8, length=512), seed=0), lambda n: (x(n),)


@row("RotaryEmbedding")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    return RotaryEmbedding(rope()), lambda n: (q(n), q(n)[:, :2])


@row("RotaryEmbedding, decoding")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(rope())

    def call(q: Tensor, k: Tensor, past: Tensor) -> Any:
        return module(q, k, offset=past)

    return call, lambda n: (q(1), q(1)[:, :2], torch.tensor([n]))


@row("RotaryEmbedding, LongRoPE, length a number")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(longrope())
    return lambda q, n: module(q, q, length=n), lambda n: (q(n), n)


@row("RotaryEmbedding, LongRoPE, length a tensor")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(longrope())
    return lambda q, n: module(q, q, length=n), lambda n: (q(n), torch.tensor(n))


@row("RotaryEmbedding, DynamicNTK, length a number")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(dynamic())
    return lambda q, n: module(q, q, length=n), lambda n: (q(n), n)


@row("RotaryEmbedding, cos_sin")
def _() -> Row:
    from posenc.torch import RotaryEmbedding

    module = RotaryEmbedding(rope())

    def call(q: Tensor, t: Tensor) -> Any:
        return module(q, q, cos_sin=posenc.cos_sin(module.spec, t))

    return call, lambda n: (q(n), torch.arange(n))


@row("AttentionBias")
def _() -> Row:
    from posenc.torch import AttentionBias

    module = AttentionBias(posenc.ALiBi(4))
    return lambda x: module(x.shape[1]), lambda n: (x(n),)


@row("AttentionBias, learned")
def _() -> Row:
    from posenc.torch import AttentionBias

    return AttentionBias(posenc.T5(4), heads=(0, 2), seed=0), lambda n: (torch.arange(n),)


@row("RelativeAttention")
def _() -> Row:
    from posenc.torch import RelativeAttention

    return RelativeAttention(posenc.Shaw(8, clip=4), seed=0), lambda n: (q(n), q(n) + 1)


@row("attend")
def _() -> Row:
    from posenc.torch import attend

    spec = rope()

    def call(q: Tensor) -> Tensor:
        return attend(q, q + 1, q - 1, spec, mask="causal")

    return call, lambda n: (q(n),)


@row("attend, LongRoPE, length a tensor")
def _() -> Row:
    from posenc.torch import attend

    spec = longrope().replace(magnitude=posenc.RotaryMagnitude(at="softmax"))

    def call(q: Tensor, length: Tensor) -> Tensor:
        return attend(q, q + 1, q - 1, spec, mask="causal", length=length)

    return call, lambda n: (q(n), torch.tensor(n))


# --- specs that a compiled function makes ---------------------------------------------------------


@row("a spec made inside")
def _() -> Row:
    def call(x: Tensor) -> Tensor:
        scaling = (posenc.scaling.YaRN(4, original_length=16),)
        spec = posenc.RoPE(x.shape[-1], pairing="half", scaling=scaling)
        x = posenc.rotate(spec, x)
        return posenc.add(posenc.Sinusoidal(8, ladder=posenc.Ladder(denominator="n-1")), x)

    return call, lambda n: (x(n),)


@row("a spec replaced or fixed inside")
def _() -> Row:
    spec, grows = rope(), dynamic()

    def call(x: Tensor) -> Tensor:
        x = posenc.rotate(spec.replace(base=500.0, pairing=posenc.Pairing("interleaved")), x)
        return posenc.rotate(grows.at(32), x)

    return call, lambda n: (x(n),)


@row("what a spec says of itself")
def _() -> Row:
    spec = posenc.Sinusoidal(8)

    def call(x: Tensor) -> Tensor:
        other = posenc.from_json(posenc.to_json(spec)).replace(order="sin_cos")
        x = x[..., torch.from_numpy(posenc.reorder(spec, other))]
        x = x * torch.from_numpy(posenc.frequencies(spec)).sum()
        return x + torch.from_numpy(posenc.init(posenc.Learned(8, length=2))["weight"]).sum()

    return call, lambda n: (x(n),)


@row("score_mod, slopes")
def _() -> Row:
    from posenc.torch import AttentionBias

    module = AttentionBias(posenc.ALiBi(4))

    def call(score: Tensor) -> Tensor:
        zero = torch.tensor(0)
        return module.score_mod()(score, zero, zero + 1, zero + 2, zero) + module.slopes()[0]

    return call, lambda n: (drawn(n),)


# --- running --------------------------------------------------------------------------------------


def _leaves(value: Any) -> list[bytes]:
    """The bits of all tensors of a result."""
    if isinstance(value, Tensor):
        plain = value.detach().contiguous()
        about = f"{plain.dtype} {tuple(plain.shape)} "
        return [about.encode() + plain.reshape(-1).view(torch.uint8).numpy().tobytes()]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [repr(value).encode()]


def _eager(name: str) -> dict[str, Any]:
    function, arguments = ROWS[name]()
    return {"values": [_leaves(function(*arguments(length))) for length in LENGTHS]}


def _compiled(name: str, backend: str = "eager") -> dict[str, Any]:
    from torch._dynamo.testing import CompileCounterWithBackend
    from torch._dynamo.utils import counters

    function, arguments = ROWS[name]()
    given = [arguments(length) for length in LENGTHS]
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter)
    values = [_leaves(compiled(*each)) for each in given]
    breaks = sorted(counters["graph_break"])
    return {"values": values, "graphs": counter.frame_count, "breaks": breaks}


def _forked(function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """What a function returns in a copy of this process, or the error it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = function(*args)
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def measure(name: str, backend: str = "eager") -> dict[str, Any]:
    """Graphs and breaks of a row at four lengths, and whether the bits are those of eager mode."""
    compiled, eager = _forked(_compiled, name, backend), _forked(_eager, name)
    for each in (compiled, eager):
        if "error" in each:
            return {"row": name, "error": each["error"], "trace": each["trace"]}
    same = compiled["values"] == eager["values"]
    return {"row": name, "graphs": compiled["graphs"], "breaks": compiled["breaks"], "same": same}


def first_call(road: str) -> dict[str, Any]:
    """The first call of all, inside compile or inside export, and two eager calls behind it."""
    from posenc.torch import PositionTable

    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "`?torch.jit", DeprecationWarning)
    module = PositionTable(posenc.Sinusoidal(8)).eval()
    x = torch.zeros(1, 3, 8)
    if road == "export":
        first = torch.export.export(module, (x,), strict=True).module()(x)
    else:
        with torch.inference_mode():
            first = torch.compile(module, fullgraph=True, backend="eager")(x)
    second = module(x)
    module(nn.Linear(8, 8)(x)).sum().backward()
    want = torch.from_numpy(posenc.table(module.spec, np.arange(3)))[None]
    return {"row": road, "same": torch.equal(first, want) and torch.equal(second, want)}


def prepare() -> None:
    """Import what each copy of the process would import; nothing of posenc runs."""
    import torch._dynamo.testing
    import torch._export

    torch.set_num_threads(1)


if __name__ == "__main__":
    import json
    import sys

    warnings.simplefilter("ignore")
    prepare()
    for name in sys.argv[1:] or (*ROADS, *ROWS):
        found = _forked(first_call, name) if name in ROADS else measure(name)
        print(json.dumps(found), flush=True)
