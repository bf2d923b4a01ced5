"""The speed of every kernel beside the floor and the peers: `python benchmarks/speed.py`.

Each row is one run in which all ways take turns, so that what else the machine does meets them
alike; the figures are medians, the targets ratios of two of them within one run. The floors are
what memory allows: a copy into memory that exists, a copy into fresh memory, a fill.

    python benchmarks/speed.py                 all rows; appends to results/speed.jsonl
    python benchmarks/speed.py --only decode   rows whose names contain a word; stores nothing
    python benchmarks/speed.py --quick         few repeats, no compilation; stores nothing
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import posenc
from benchmarks.rows import append, circumstances
from benchmarks.turns import Way, in_turns
from posenc.kernels.plans import rotation, sinusoids
from posenc.torch import PositionTable, RotaryEmbedding

INPLACE, OUT = "posenc cpu, in place", "posenc cpu"
COMPILED, REFERENCE = "posenc compiled", "posenc reference"
HERE, FRESH, FILL = "copy into existing memory", "copy into fresh memory", "fill"
HF, HF_COMPILED = "transformers", "transformers compiled"
HF_TABLE = "transformers, cos and sin given"
USUAL = "float32 sin and cos, as usual"

PEERS = ("transformers", "rotary-embedding-torch", "x-transformers", "torchtune",
         "positional-encodings", "torchembed")  # fmt: skip


class Target(NamedTuple):
    """`way` takes at most `factor` times what `against` takes."""

    way: str
    against: str
    factor: float


class Row(NamedTuple):
    """One interleaved run."""

    name: str
    ways: dict[str, Way]
    targets: tuple[Target, ...] = ()


# --- rotations ------------------------------------------------------------------------------------

PREFILL = {
    "1 x 32/8 x 2048 x 128": ((1, 32, 2048, 128), (1, 8, 2048, 128)),
    "8 x 12/12 x 512 x 64": ((8, 12, 512, 64), (8, 12, 512, 64)),
    "1 x 8/2 x 16384 x 128": ((1, 8, 16_384, 128), (1, 2, 16_384, 128)),
}


def pair_of(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Normal q and k."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def module(name: str) -> Any:
    """A package, without what it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def llama(dim: int) -> tuple[Any, Any]:
    """The rotary module of transformers and the function that applies it."""
    home = module("transformers.models.llama.modeling_llama")
    config = module("transformers.models.llama.configuration_llama").LlamaConfig
    made = home.LlamaRotaryEmbedding(config(head_dim=dim, max_position_embeddings=2**20))
    return made, home.apply_rotary_pos_emb


def by_transformers(dim: int, where: torch.Tensor) -> Callable[..., Any]:
    """Its rotation of q and k at positions, cosines and sines included."""
    rotary, apply = llama(dim)
    return lambda q, k: apply(q, k, *rotary(q, where))


def rotary_peers(q: torch.Tensor, k: torch.Tensor, *, quick: bool) -> dict[str, Way]:
    """Each peer on the same q and k, positions from 0."""
    dim, length = q.shape[-1], q.shape[-2]
    where = torch.arange(length)[None]
    ways: dict[str, Way] = {}
    rotary, apply = llama(dim)
    cos, sin = rotary(q, where)
    anew = by_transformers(dim, where)
    ways[HF] = lambda: anew(q, k)
    ways[HF_TABLE] = lambda: apply(q, k, cos, sin)
    if not quick:
        compiled = torch.compile(lambda a, b, p: apply(a, b, *rotary(a, p)))
        ways[HF_COMPILED] = lambda: compiled(q, k, where)
    phil = module("rotary_embedding_torch")
    if phil is not None:
        turn = phil.RotaryEmbedding(dim).rotate_queries_or_keys
        ways["rotary-embedding-torch"] = lambda: (turn(q), turn(k))
    xt = module("x_transformers.x_transformers")
    if xt is not None:
        angles = xt.RotaryEmbedding(dim)

        def by_x_transformers() -> Any:
            freqs, scale = angles.forward_from_seq_len(length)
            return [xt.apply_rotary_pos_emb(x, freqs, scale) for x in (q, k)]

        ways["x-transformers"] = by_x_transformers
    tune = torchtune()
    if tune is not None:
        # It takes (batch, seq, heads, dim).
        tuned = tune.RotaryPositionalEmbeddings(dim, max_seq_len=length)
        swapped = [x.transpose(1, 2).contiguous() for x in (q, k)]
        ways["torchtune"] = lambda: [tuned(x) for x in swapped]
    other = module("torchembed")
    if other is not None:
        embed = other.RotaryEmbedding(dim, max_seq_len=length)
        ways["torchembed"] = lambda: embed(q, k)
    return ways


def torchtune() -> Any:
    """Its one file, as the whole package needs another that is not installed."""
    from posenc.testing import peers

    try:
        return peers._home(peers.PEERS["torchtune-rotary"].home)
    except ImportError:
        return None


def prefill(*, quick: bool) -> Iterator[Row]:
    """q and k of a prompt."""
    first = next(iter(PREFILL))
    for shape, sizes in PREFILL.items():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for pairing in ("half", "interleaved") if shape == first else ("half",):
                q, k = pair_of(sizes, dtype)
                spec = posenc.RoPE(q.shape[-1], pairing=pairing)  # type: ignore[arg-type]
                ours, over = RotaryEmbedding(spec), RotaryEmbedding(spec, inplace=True)
                ways: dict[str, Way] = {
                    HERE: _copies((q, k)),
                    FRESH: lambda q=q, k=k: (q.clone(), k.clone()),
                    INPLACE: lambda q=q, k=k, over=over: over(q, k),
                    OUT: lambda q=q, k=k, ours=ours: ours(q, k),
                    REFERENCE: lambda q=q, k=k, spec=spec: [
                        posenc.rotate(spec, x, kernel="reference") for x in (q, k)
                    ],
                }
                if not quick and shape == first and pairing == "half":
                    both = torch.compile(lambda q, k, ours=ours: ours(q, k))
                    ways[COMPILED] = lambda q=q, k=k, both=both: both(q, k)
                if pairing == "half":
                    with_compiler = not quick and shape == first
                    ways |= rotary_peers(q, k, quick=not with_compiler)
                name = str(dtype).removeprefix("torch.")
                yield Row(
                    f"rotate {name} {pairing} {shape}",
                    ways,
                    _rotation_targets(name, ways, first=shape == first),
                )


def _copies(arrays: tuple[torch.Tensor, ...]) -> Way:
    held = [torch.empty_like(x) for x in arrays]
    return lambda: [there.copy_(x) for there, x in zip(held, arrays, strict=True)]


def _rotation_targets(dtype: str, ways: dict[str, Way], *, first: bool) -> tuple[Target, ...]:
    targets = []
    if dtype == "float16":
        targets += [Target(INPLACE, HERE, 1.25), Target(OUT, FRESH, 1.3)]
    else:
        targets += [Target(INPLACE, HERE, 1.1), Target(OUT, FRESH, 1.15)]
    if first and HF in ways and dtype != "float16":
        faster = 25 if dtype == "float32" else 7
        targets += [Target(INPLACE, HF, 1 / faster), Target(OUT, HF, 1 / 3)]
    if HF_COMPILED in ways and dtype != "float16":
        targets.append(Target(INPLACE, HF_COMPILED, 1 / 3))
    return tuple(targets)


def backward(*, quick: bool) -> Iterator[Row]:
    """Forward and backward under autograd."""
    del quick
    sizes = PREFILL["1 x 32/8 x 2048 x 128"]
    for dtype in (torch.float32, torch.bfloat16):
        q, k = (x.requires_grad_() for x in pair_of(sizes, dtype))
        ours = RotaryEmbedding(posenc.RoPE(128, pairing="half"))
        turn = by_transformers(128, torch.arange(q.shape[-2])[None])
        seeds = [torch.randn_like(x) for x in (q, k)]

        def through(turn: Callable[..., Any], q: Any = q, k: Any = k, seeds: Any = seeds) -> Way:
            return lambda: torch.autograd.grad(turn(q, k), (q, k), seeds)

        ways = {
            OUT: through(ours),
            HF: through(turn),
        }
        name = str(dtype).removeprefix("torch.")
        yield Row(f"rotate and back {name} half", ways, (Target(OUT, HF, 1 / 3),))


def decode(*, quick: bool) -> Iterator[Row]:
    """One new token of each sequence."""
    for batch in (1, 8):
        for dtype in (torch.float32, torch.bfloat16):
            q, k = pair_of(((batch, 32, 1, 128), (batch, 8, 1, 128)), dtype)
            where = torch.randint(
                0, 100_000, (batch, 1), generator=torch.Generator().manual_seed(1)
            )
            spec = posenc.RoPE(128, pairing="half")
            ours, over = RotaryEmbedding(spec), RotaryEmbedding(spec, inplace=True)
            rotary, apply = llama(128)
            given, anew = rotary(q, where), by_transformers(128, where)
            ways: dict[str, Way] = {
                INPLACE: lambda q=q, k=k, p=where, over=over: over(q, k, p),
                OUT: lambda q=q, k=k, p=where, ours=ours: ours(q, k, p),
                HF: lambda q=q, k=k, anew=anew: anew(q, k),
                HF_TABLE: lambda q=q, k=k, given=given, apply=apply: apply(q, k, *given),
            }
            if not quick and dtype == torch.float32:
                turn = torch.compile(lambda a, b, p, r=rotary, f=apply: f(a, b, *r(a, p)))
                ways[HF_COMPILED] = lambda q=q, k=k, p=where, turn=turn: turn(q, k, p)
            name = str(dtype).removeprefix("torch.")
            targets = (Target(INPLACE, HF, 1 / 5),) if batch == 8 else ()
            yield Row(f"decode {name} batch {batch}", ways, targets)


def overhead(*, quick: bool) -> Iterator[Row]:
    """What a call costs beside its arithmetic: the smallest q and k there are."""
    del quick
    q, k = pair_of(((1, 1, 1, 2), (1, 1, 1, 2)), torch.float32)
    spec = posenc.RoPE(2, pairing="half")
    over = RotaryEmbedding(spec, inplace=True)
    rotary, apply = llama(2)
    where = torch.zeros(1, 1, dtype=torch.int64)
    identity = torch.nn.Identity()
    yield Row(
        "call of a module",
        {
            "torch.nn.Identity": lambda: identity(q),
            INPLACE: lambda: over(q, k, where),
            HF: lambda: apply(q, k, *rotary(q, where)),
        },
    )


def growth(*, quick: bool) -> Iterator[Row]:
    """The cost of a token does not depend on where it stands, nor on how many there are."""
    del quick
    spec = posenc.RoPE(128, pairing="half")
    (x,) = pair_of(((1, 4, 8192, 128),), torch.float32)
    ways: dict[str, Way] = {
        f"from {start:,}": lambda start=start: posenc.rotate(spec, x, offset=start, inplace=True)
        for start in (0, 1000, 1_000_000, 2**31 - 8193)
    }
    targets = tuple(Target(name, "from 0", 1.1) for name in list(ways)[1:])
    yield Row("rotate 8192 tokens at other positions", ways, targets)
    one = torch.randn(1, 1, 2**20, 128)

    def chunks(size: int) -> Way:
        parts = one.split(size, dim=2)
        return lambda: [posenc.rotate(spec, part, inplace=True) for part in parts]

    yield Row(
        "rotate 1,048,576 tokens, at once or in parts",
        {"at once": chunks(2**20), "in parts of 8,192": chunks(8192)},
        (Target("at once", "in parts of 8,192", 1.15),),
    )


# --- tables ---------------------------------------------------------------------------------------


def usual(length: int, dim: int) -> torch.Tensor:
    """The usual construction: a float32 outer product, its sine and cosine interleaved."""
    frequencies = 10_000 ** (-torch.arange(0, dim, 2).float() / dim)
    angles = torch.arange(length).float()[:, None] * frequencies
    made = torch.empty(length, dim)
    made[:, 0::2], made[:, 1::2] = angles.sin(), angles.cos()
    return made


def tables(*, quick: bool) -> Iterator[Row]:
    """Rows of the sinusoidal table, float32."""
    for length, dim in ((8192, 128), (131_072, 128), (8192, 1024)):
        spec = posenc.Sinusoidal(dim)
        held = torch.empty(length, dim)
        ways: dict[str, Way] = {
            FILL: lambda held=held: held.fill_(0.5),
            "fill of fresh memory": lambda n=length, d=dim: torch.full((n, d), 0.5),
            OUT: lambda spec=spec, n=length: posenc.table(spec, n, xp=torch),
            REFERENCE: lambda spec=spec, n=length: posenc.table(
                spec, n, xp=torch, kernel="reference"
            ),
            USUAL: lambda n=length, d=dim: usual(n, d),
        }
        if not quick:
            run = torch.compile(lambda spec=spec, n=length: posenc.table(spec, n, xp=torch))
            ways[COMPILED] = run
        targets = (Target(OUT, "fill of fresh memory", 1.3), Target(OUT, USUAL, 1 / 15))
        yield Row(f"table {length} x {dim}", ways, targets)


def narrow_tables(*, quick: bool) -> Iterator[Row]:
    """Rows of few channels in memory that exists, on one thread, as tables this small are made."""
    del quick
    for dim, order in ((2, "interleaved"), (8, "interleaved"), (8, "sin_cos"), (30, "interleaved")):
        spec = posenc.Sinusoidal(dim, order=order)  # type: ignore[arg-type]
        rows = torch.empty(2**18 // dim, dim)
        plan, filled = sinusoids(spec), rows.numpy()  # torch fills with two threads
        ways: dict[str, Way] = {
            FILL: lambda filled=filled: filled.fill(0.5),
            OUT: lambda rows=rows, plan=plan: plan.table(rows, 0, 1),
        }
        yield Row(f"table {len(rows)} x {dim} {order}", ways, (Target(OUT, FILL, 6.0),))


def in_cache(*, quick: bool) -> Iterator[Row]:
    """A rotation in the cache, by one thread and by two."""
    del quick
    spec = posenc.RoPE(128, pairing="half")
    for length in (256, 512, 1024):
        (x,) = pair_of(((1, 8, length, 128),), torch.float32)
        plan = rotation(spec, inverse=False, transposed=False)
        ways: dict[str, Way] = {
            f"{count} threads": lambda x=x, n=count, plan=plan: plan.turn((x,), (x,), 5, -2, n)
            for count in (1, 2)
        }
        yield Row(f"threads 8 x {length} x 128", ways, (Target("2 threads", "1 threads", 1.05),))


def sums(*, quick: bool) -> Iterator[Row]:
    """x + table."""
    del quick
    x = torch.randn(8, 1024, 768)
    spec = posenc.Sinusoidal(768)
    ours = PositionTable(spec)
    rows = usual(1024, 768)
    ways: dict[str, Way] = {
        FRESH: x.clone,
        OUT: lambda: ours(x),
        REFERENCE: lambda: posenc.add(spec, x, kernel="reference"),
        "x + a table at hand": lambda: x + rows,
        "x + a table made anew": lambda: x + usual(1024, 768),
    }
    sinusoids = module("positional_encodings.torch_encodings")
    if sinusoids is not None:
        summer = sinusoids.Summer(sinusoids.PositionalEncoding1D(768))
        ways["positional-encodings"] = lambda: summer(x)
    other = module("torchembed")
    if other is not None:
        embed = other.SinusoidalEmbedding(768)
        ways["torchembed"] = lambda: embed(x)
    yield Row("add 8 x 1024 x 768", ways, (Target(OUT, FRESH, 1.15),))


# --- biases ---------------------------------------------------------------------------------------


def biases(*, quick: bool) -> Iterator[Row]:
    """16 heads, as many queries as keys, float32."""
    attention = t5()
    for length in (1024, 4096):
        where = torch.arange(length)
        fill: Way = lambda n=length: torch.full((16, n, n), 0.5)  # noqa: E731
        weight = attention.relative_attention_bias.weight.detach()
        table = {"weight": weight}
        for name, spec, params in (
            ("ALiBi", posenc.ALiBi(16), None),
            ("T5", posenc.T5(16), table),
        ):
            ways: dict[str, Way] = {"fill of fresh memory": fill}

            def ours(kernel: Any, spec: Any = spec, params: Any = params, p: Any = where) -> Way:
                return lambda: posenc.bias(spec, p, p, params=params, kernel=kernel)

            ways[OUT] = ours("auto")
            if length == 1024 or not quick:
                ways[REFERENCE] = ours("reference")
            if name == "T5":
                ways[HF] = lambda n=length: attention.compute_bias(n, n)
            yield Row(
                f"{name} bias 16 x {length} x {length}",
                ways,
                (Target(OUT, "fill of fresh memory", 2.0),),
            )


def t5() -> Any:
    """The attention of transformers that holds the table."""
    config = module("transformers.models.t5.configuration_t5").T5Config
    attention = module("transformers.models.t5.modeling_t5").T5Attention
    made = attention(config(num_heads=16), has_relative_attention_bias=True, layer_idx=0)
    return made.eval().requires_grad_(False)


# --- memory ---------------------------------------------------------------------------------------

MEMORY = """
import resource, torch, posenc
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
spec = posenc.RoPE(128, pairing="half")
x = torch.randn(1, 1, {length}, 128)
posenc.rotate(spec, x[:, :, :64], inplace=True, kernel="{kernel}")
before = peak()
posenc.rotate(spec, x, inplace=True, kernel="{kernel}")
print((peak() - before) * 1024)
"""


def memory() -> list[dict[str, Any]]:
    """Bytes beyond the tensor itself at the peak of a rotation in place."""
    found = []
    for kernel in ("cpu", "reference"):
        for length in (8192, 2**20):
            code = MEMORY.format(length=length, kernel=kernel)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            size = length * 128 * 4
            name = f"extra memory, {kernel}, {length:,} tokens in place"
            found.append({"row": name, "bytes": int(done.stdout), "tensor": size})
    return found


# --- all ------------------------------------------------------------------------------------------

GROUPS = (
    prefill, backward, decode, overhead, growth, tables, narrow_tables, in_cache, sums, biases
)  # fmt: skip


def judged(row: Row, times: dict[str, list[float]]) -> dict[str, Any]:
    """The figures of a row and what became of its targets."""
    median = {name: statistics.median(found) for name, found in times.items()}
    targets = []
    for target in row.targets:
        ratio = median[target.way] / median[target.against]
        targets.append({**target._asdict(), "ratio": ratio, "met": ratio <= target.factor})
    return {
        "row": row.name,
        "median_ms": {name: 1e3 * value for name, value in median.items()},
        "min_ms": {name: 1e3 * min(found) for name, found in times.items()},
        "n": min(map(len, times.values())),
        "targets": targets,
    }


def words(found: dict[str, Any]) -> Iterator[str]:
    """A row for people."""
    yield f"{found['row']}  (medians of {found['n']}, ms)"
    floor = min(found["median_ms"].values())
    for name, value in sorted(found["median_ms"].items(), key=lambda item: item[1]):
        yield f"    {value:10.4f}  {value / floor:8.1f}x  {name}"
    for target in found["targets"]:
        mark = "met   " if target["met"] else "MISSED"
        yield (
            f"    {mark} {target['way']} / {target['against']} = {target['ratio']:.3f}, "
            f"at most {target['factor']:.3f}"
        )


def main() -> int:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="a word of the names of rows")
    parser.add_argument("--quick", action="store_true", help="few repeats, no compilation")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row")
    options = parser.parse_args()
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    stored = []
    with torch.no_grad():
        for group in GROUPS:
            for row in group(quick=options.quick):
                if options.only is not None and options.only not in row.name:
                    continue
                # A backward pass needs a graph.
                with torch.set_grad_enabled(group is backward):
                    seconds = 0.3 if options.quick else options.seconds
                    times = in_turns(row.ways, seconds=seconds, least=3 if options.quick else 9)
                found = judged(row, times)
                print("\n".join(words(found)), flush=True)
                stored.append(found)
    if options.only is None:
        for found in memory():
            print(f"{found['row']}: {found['bytes']:,} bytes beside {found['tensor']:,}")
            stored.append(found)
    if options.only is None and not options.quick:
        common = circumstances("posenc", "torch", "numpy", *PEERS)
        common["threads"] = torch.get_num_threads()
        append("speed", [{**common, **found} for found in stored])
    missed = [f for f in stored for t in f.get("targets", ()) if not t["met"]]
    print(f"{len(missed)} targets missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
