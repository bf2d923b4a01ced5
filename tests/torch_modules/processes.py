"""What is held on several processes: run as a script, it starts them and prints what each found.

    python -m tests.torch_modules.processes '{"2": ["heads_are_data"]}'

One launcher imports torch once and forks the ranks, as the import takes longer than the checks.
Each check is a function of a `Group`; it raises where something does not hold. The ranks go through
the checks in one order, and what failed on any rank is printed as JSON, by check.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.functional import scaled_dot_product_attention

import posenc
from posenc.detect.adopt import fitting
from posenc.torch import (
    AttentionBias,
    PositionTable,
    RelativeAttention,
    RotaryEmbedding,
    parallel,
)

CHECKS: dict[str, tuple[tuple[int, ...], Callable[[Group], None]]] = {}
ROPE = posenc.RoPE(8, pairing="half")
TABLE = posenc.Sinusoidal(8)  # the absolute probe: a rotation does not see a constant shift
GRID = posenc.RoPE(
    8,
    pairing="half",
    arrangement=posenc.Arrangement(rule="sections", axes=("x", "y"), sizes=(2, 2)),
)
T5 = posenc.T5(heads=8, buckets=8, max_distance=16)


@dataclass
class Group:
    """A rank among some, and a folder that they share."""

    rank: int
    world: int
    folder: Path

    @property
    def mesh(self) -> DeviceMesh:
        """All ranks in a row."""
        return init_device_mesh("cpu", (self.world,))


def check(*worlds: int) -> Callable[[Callable[[Group], None]], Callable[[Group], None]]:
    """Register a check for groups of some sizes."""

    def register(function: Callable[[Group], None]) -> Callable[[Group], None]:
        CHECKS[function.__name__] = (worlds, function)
        return function

    return register


def random(*shape: int, seed: int = 0) -> Tensor:
    """The same numbers on every rank."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(got: Tensor, expected: Tensor, tolerance: float = 0) -> None:
    """Raise unless every entry agrees."""
    got, expected = got.detach(), expected.detach()
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Raise if anything is sent between processes."""
    with CommDebugMode() as sent:
        yield
    if sent.get_total_counts():
        raise AssertionError(f"sent: {sent.get_comm_counts()}")


def refused(
    words: str, call: Callable[[], object], kind: type[Exception] = posenc.ArgumentError
) -> None:
    """Raise unless a call is refused in our words, with what to do."""
    try:
        call()
    except kind as error:
        text = str(error)
        if words not in text or "expected" not in text:
            raise AssertionError(f"{words!r} is not in {text!r}") from None
        return
    raise AssertionError(f"not refused: {words}")


def attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Attention with a mask from positions."""
    return scaled_dot_product_attention(q, k, v, attn_mask=seen)


def gathered(x: Tensor, world: int) -> list[Tensor]:
    """The tensors of all ranks."""
    found = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(found, x.contiguous())
    return found


# --- what is promised of several processes --------------------------------------------------------


@check(2, 4)
def positions_are_data(group: Group) -> None:
    """Context parallelism in both layouts: explicit positions give the whole sequence's result."""
    length = 16
    x, q, k, v = (random(2, *s, seed=i) for i, s in enumerate([(length, 8), *[(3, length, 8)] * 3]))
    every = torch.arange(length)
    whole_q, whole_k = posenc.rotate(ROPE, q), posenc.rotate(ROPE, k)
    whole = attention(whole_q, whole_k, v, every[:, None] >= every)
    for layout in ("contiguous", "head_tail"):
        own = posenc.positions.shard(
            length, world=group.world, rank=group.rank, layout=layout, xp=torch
        )
        parts = gathered(own, group.world)
        same(torch.cat(parts).sort().values, every)  # the positions themselves
        same(posenc.add(TABLE, x[:, own], positions=own), posenc.add(TABLE, x)[:, own])
        turned = [posenc.rotate(ROPE, t[:, :, own], positions=own) for t in (q, k)]
        same(turned[0], whole_q[:, :, own])
        keys = torch.cat(gathered(turned[1], group.world), dim=2)
        values = torch.cat(gathered(v[:, :, own], group.world), dim=2)
        out = attention(turned[0], keys, values, own[:, None] >= torch.cat(parts))
        same(out, whole[:, :, own], 1e-6)


@check(2, 4)
def heads_are_data(group: Group) -> None:
    """Ulysses: whole heads after an all-to-all, with the bias of those heads."""
    length, heads = 8, 8
    q, k, v = (random(length, heads, 8, seed=i) for i in range(3))
    rows, part = length // group.world, heads // group.world
    first = group.rank * part

    def exchanged(x: Tensor) -> Tensor:
        mine = x[group.rank * rows : (group.rank + 1) * rows]
        sent = mine.unflatten(1, (group.world, part)).transpose(0, 1).contiguous()
        came = torch.empty_like(sent)
        dist.all_to_all_single(came, sent)
        return came.flatten(0, 1).transpose(0, 1)

    for spec in (posenc.ALiBi(heads), T5):
        every = AttentionBias(spec, seed=1)
        some = AttentionBias(spec, heads=(first, first + part), seed=1)
        whole = attention(*(x.transpose(0, 1) for x in (q, k, v)), every(length))
        own = attention(*(exchanged(x) for x in (q, k, v)), some(length))
        same(some(length), every(length)[first : first + part])
        same(own, whole[first : first + part], 1e-6)


@check(2, 4)
def a_learned_bias_is_divided_by_heads(group: Group) -> None:
    """A parameter as DTensor Shard(1): its own heads, exact gradients, nothing sent."""
    whole, module = AttentionBias(T5, seed=1), AttentionBias(T5, seed=2)
    module.weight = nn.Parameter(distribute_tensor(module.weight, group.mesh, [Shard(1)]))
    module.seed = 1
    weights = random(8, 5, 7)
    shard = distribute_tensor(weights, group.mesh, [Shard(0)])
    with silence():
        module.reset_parameters()
        bias = module(torch.arange(5), 7)
        (bias * shard).sum().to_local().backward()
    (whole(torch.arange(5), 7) * weights).sum().backward()
    assert bias.placements == (Shard(0),)
    same(bias.full_tensor(), whole(torch.arange(5), 7))
    same(module.weight.full_tensor(), whole.weight)
    same(module.weight.grad.full_tensor(), whole.weight.grad)


@check(4)
def fsdp_and_heads_on_two_axes(group: Group) -> None:
    """A bias divided by heads, sharded again by FSDP2 over the other axis of the mesh."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "heads"))
    whole, module = AttentionBias(T5, seed=1), AttentionBias(T5, seed=1)
    module.weight = nn.Parameter(distribute_tensor(module.weight, mesh["heads"], [Shard(1)]))
    fully_shard(module, mesh=mesh["data"])
    assert module.weight.placements == (Shard(0), Shard(1))
    with torch.no_grad():
        module.weight.zero_()
    with silence():
        module.reset_parameters()
    same(module.weight.full_tensor(), whole.weight)
    bias = module(6)
    same(bias.full_tensor(), whole(6))
    bias.to_local().square().sum().backward()
    whole(6).square().sum().backward()
    same(module.weight.grad.full_tensor(), whole.weight.grad, 1e-6)


LEARNED = {
    "table": lambda seed: PositionTable(posenc.Learned(8, length=13), seed=seed),
    "grid": lambda seed: PositionTable(posenc.Sinusoidal(8), seed=seed),
    "bias": lambda seed: AttentionBias(T5, seed=seed),
    "part": lambda seed: AttentionBias(T5, heads=(2, 5), seed=seed),
    "relative": lambda seed: RelativeAttention(posenc.Shaw(8, clip=3), seed=seed),
    "rotary": lambda seed: RotaryEmbedding(posenc.MixedRoPE(8, heads=4, pairing="half"), seed=seed),
}


@check(2, 4)
def fsdp_from_meta(group: Group) -> None:
    """Meta -> fully_shard -> to_empty -> reset_parameters: the values of one process."""
    for seed in (3, None):
        torch.manual_seed(11)
        whole = nn.ModuleDict({name: make(seed) for name, make in LEARNED.items()})
        with torch.device("meta"):
            module = nn.ModuleDict({name: make(seed) for name, make in LEARNED.items()})
        for part in module.values():
            fully_shard(part, mesh=group.mesh)
        module.to_empty(device="cpu")
        torch.manual_seed(11)
        with silence():
            for part in module.values():
                part.reset_parameters()
        expected = whole.state_dict()
        for name, value in module.state_dict().items():
            same(value.full_tensor(), expected[name])


@check(2, 4)
def nothing_is_lost_on_meta(group: Group) -> None:
    """Meta -> fully_shard -> to_empty, then weights alone: no reset, as there are no buffers."""

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), PositionTable(TABLE), nn.Linear(8, 8))

    torch.manual_seed(1)
    whole = model()
    with torch.device("meta"):
        module = model()
    fully_shard(module, mesh=group.mesh)
    module.to_empty(device="cpu")
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(distribute_tensor(whole.state_dict()[name], group.mesh, value.placements))
    x = random(2, 5, 8)
    assert not list(module.buffers())
    same(module(x), whole(x), 1e-6)


@check(2)
def mixed_precision_keeps_positions(group: Group) -> None:
    """Integer positions survive FSDP2's policy; phases are not formed in bfloat16."""

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.rotary = RotaryEmbedding(ROPE)
            self.seen = torch.empty(0)

        def forward(self, x: Tensor, positions: Tensor) -> Tensor:
            self.seen = positions
            q = self.linear(x)
            return self.rotary(q, q, positions)[0]

    torch.manual_seed(0)
    module = Turned()
    linear = copy.deepcopy(module.linear).bfloat16()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, cast_forward_inputs=True)
    fully_shard(module, mesh=group.mesh, mp_policy=policy)
    x, positions = random(1, 4, 8), torch.tensor([4096, 4097, 32767, 32768])
    out = module(x, positions)
    same(module.seen, positions)
    expected = posenc.rotate(ROPE, linear(x.bfloat16()).float(), positions=positions)
    same(out, expected.bfloat16())
    try:
        module(x, positions.float())
    except posenc.DTypeError:
        return
    raise AssertionError("positions in half precision are not refused")


@check(2, 4)
def ddp_has_nothing_to_overwrite(group: Group) -> None:
    """Ranks may serve different lengths: DDP broadcasts buffers, and there are none."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), PositionTable(TABLE))
    alone = copy.deepcopy(model)
    parallel = nn.parallel.DistributedDataParallel(model)
    for step in range(2):
        x = random(2, 5 + 7 * group.rank + step, 8, seed=group.rank)
        y = parallel(x)
        same(y, alone(x), 1e-6)
        y.mean().backward()
    assert not list(model.buffers())
    grads = gathered(model[0].weight.grad, group.world)
    for grad in grads:
        same(grad, grads[0])


@check(2, 4)
def length_is_an_argument(group: Group) -> None:
    """Frequencies that follow the length ask for that of the whole sequence, not of the shard."""
    length = 16
    for scaling in (
        posenc.scaling.DynamicNTK(2.0, original_length=8),
        posenc.scaling.LongRoPE((1.0,) * 4, (2.0, 3.0, 4.0, 5.0), original_length=8),
    ):
        spec = ROPE.replace(scaling=scaling)
        q = random(2, 3, length, 8)
        own = posenc.positions.shard(length, world=group.world, rank=group.rank, xp=torch)
        refused("length", lambda: posenc.rotate(spec, q[:, :, own], positions=own))  # noqa: B023
        got = posenc.rotate(spec, q[:, :, own], positions=own, length=length)
        same(got, posenc.rotate(spec, q, length=length)[:, :, own])


class Stage(nn.Module):
    """A layer of a pipeline, with positions per row."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(8, 8)
        self.rotary, self.table = RotaryEmbedding(ROPE), PositionTable(TABLE)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        q = self.linear(self.table(x, positions))
        return self.rotary(q, q, positions)[0]


@check(2)
def pipelines_take_positions(group: Group) -> None:
    """GPipe over two stages: positions are given to each stage, and are split with the batch."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    x = random(4, 5, 8)
    positions = torch.randint(0, 1000, (4, 5), generator=torch.Generator().manual_seed(1))
    stages = [Stage(0), Stage(1)]
    whole = stages[1](stages[0](x, positions), positions)
    stage = PipelineStage(stages[group.rank], group.rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    inputs = (x,) if group.rank == 0 else ()
    out = schedule.step(*inputs, positions=positions)
    if group.rank == 1:
        same(out, whole, 1e-6)


@check(2, 4)
def drawn_positions_are_functions(group: Group) -> None:
    """Randomised positions: one draw on all ranks, and the same when a block is computed again."""
    from torch.utils.checkpoint import checkpoint as again

    torch.manual_seed(group.rank)  # ranks need not have drawn alike before

    def draw() -> Tensor:
        return torch.from_numpy(posenc.positions.randomised(5, 7, 2, 6, maximum=64))

    drawn = draw()
    for other in gathered(drawn, group.world):
        same(other, drawn)
    seen = []

    def block(x: Tensor) -> Tensor:
        where = draw()
        seen.append(where)
        return posenc.add(TABLE, x * x, positions=where)

    x = random(2, 6, 8).requires_grad_()
    again(block, x, use_reentrant=False).sum().backward()
    assert len(seen) == 2
    same(seen[0], seen[1])
    same(x.grad, 2 * x)


@check(2, 4)
def checkpoints_are_divided_anew(group: Group) -> None:
    """Saved as Shard(1), loaded as Shard(0): torch.distributed.checkpoint has all it needs."""
    whole = AttentionBias(T5, seed=4)
    saved, loaded = AttentionBias(T5, seed=4), AttentionBias(T5, seed=5)
    saved.weight = nn.Parameter(distribute_tensor(saved.weight, group.mesh, [Shard(1)]))
    loaded.weight = nn.Parameter(distribute_tensor(loaded.weight, group.mesh, [Shard(0)]))
    folder = group.folder / f"checkpoint-{group.world}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint.save(saved.state_dict(), checkpoint_id=folder)
        state = loaded.state_dict()
        checkpoint.load(state, checkpoint_id=folder)
    loaded.load_state_dict(state)
    same(loaded.weight.full_tensor(), whole.weight)


@check(2)
def models_are_adopted_before_and_after_they_are_divided(group: Group) -> None:
    """A model of transformers with exact rotations trains under DDP, and is adopted in shards."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return  # the tests of `adopt` say that it is missing
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.nn.parallel import DistributedDataParallel
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    def model() -> Any:
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
        return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=32, intermediate_size=8))

    rows = torch.randint(0, 32, (2, 6), generator=torch.Generator().manual_seed(1))
    whole, own = model(), model()
    posenc.torch.adopt(own)
    divided = DistributedDataParallel(own)
    mine = rows[group.rank : group.rank + 1]
    divided(input_ids=mine, labels=mine).loss.backward()
    whole(input_ids=rows, labels=rows).loss.backward()
    for part, expected in zip(own.parameters(), whole.parameters(), strict=True):
        same(part.grad, expected.grad, 1e-6)
    posenc.torch.release(divided)
    refused("Give the model inside", lambda: posenc.torch.adopt(divided))
    sharded = model()
    fully_shard(sharded, mesh=group.mesh)
    posenc.torch.adopt(sharded)
    first = FullyShardedDataParallel(  # of the first kind, whose shards are flat
        model(),
        auto_wrap_policy=ModuleWrapPolicy({LlamaDecoderLayer}),
        device_id=torch.device("cpu"),
    )
    posenc.torch.adopt(first)
    with torch.no_grad():
        same(sharded(rows).logits, own(rows).logits, 1e-6)
        same(first(rows).logits, own(rows).logits, 1e-6)
    posenc.torch.release(first)


@check(2)
def decoding_and_rollback(group: Group) -> None:
    """A step with a cache is the row of the prefill; rejected tokens are positions taken back."""
    length, heads = 9, (group.rank * 4, group.rank * 4 + 4)
    q, k, v = (random(1, 8, length, 8, seed=i)[:, heads[0] : heads[1]] for i in range(3))
    bias, every = AttentionBias(T5, heads=heads, seed=1), torch.arange(length)
    probe = posenc.add(TABLE, torch.zeros(1, length, 8))
    turned = [posenc.rotate(ROPE, x) for x in (q, k)]
    whole = attention(*turned, v, bias(length).masked_fill(every[:, None] < every, -torch.inf))
    cache = posenc.rotate(ROPE, k[:, :, :5])

    def step(first: int, end: int, keys: Tensor) -> Tensor:
        rows = torch.arange(first, end)
        same(posenc.add(TABLE, torch.zeros(1, end - first, 8), offset=first), probe[:, first:end])
        new = posenc.rotate(ROPE, q[:, :, first:end], offset=first)
        added = bias(rows, end).masked_fill(rows[:, None] < torch.arange(end), -torch.inf)
        return attention(new, keys, v[:, :, :end], added)

    # Four guesses at 5 … 8, of which two are kept: the next step begins at 7 again.
    guessed = torch.cat([cache, posenc.rotate(ROPE, k[:, :, 5:9], offset=5)], dim=2)
    same(step(5, 9, guessed), whole[:, :, 5:9], 1e-6)
    kept = torch.cat([guessed[:, :, :7], posenc.rotate(ROPE, k[:, :, 7:9], offset=7)], dim=2)
    same(step(7, 9, kept), whole[:, :, 7:9], 1e-6)


@check(2, 4)
def packed_is_separate(group: Group) -> None:
    """Packed documents, divided along the sequence: each counts from 0, as it does alone."""
    lengths = (3, 9, 4)
    ends = torch.tensor([0, 3, 12, 16])
    q, x = random(2, 16, 8), random(16, 8, seed=1)
    where = posenc.positions.packed(ends, total=16)
    own = posenc.positions.shard(
        16, world=group.world, rank=group.rank, layout="head_tail", xp=torch
    )
    alone = torch.cat([posenc.rotate(ROPE, part) for part in q.split(lengths, dim=1)], dim=1)
    probe = torch.cat([posenc.add(TABLE, part) for part in x.split(lengths)])
    same(where, torch.cat([torch.arange(n) for n in lengths]))
    same(posenc.rotate(ROPE, q, cu_seqlens=ends), alone)
    same(posenc.rotate(ROPE, q[:, own], positions=where[own]), alone[:, own])
    same(posenc.add(TABLE, x[own], positions=where[own]), probe[own])


# --- DTensors -------------------------------------------------------------------------------------


def divided(x: Tensor, mesh: DeviceMesh, placements: Any) -> Any:
    """A shard of what all ranks have, with a gradient of its own."""
    made = distribute_tensor(x.detach(), mesh, placements)
    return made.requires_grad_(x.requires_grad)


def agree(got: Any, expected: Tensor, placements: Any, tolerance: float = 0) -> None:
    """Raise unless a DTensor has the placements and values that are expected."""
    assert isinstance(got, DTensor)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    assert tuple(got.placements) == tuple(placements), (got.placements, placements)
    same(got.full_tensor(), expected, tolerance)


VERBS: dict[str, Callable[[Any, Any], Any]] = {
    "counted": lambda x, p: posenc.rotate(ROPE, x),
    "offset": lambda x, p: posenc.rotate(ROPE, x, offset=7),
    "offsets": lambda x, p: posenc.rotate(ROPE, x, offset=p[:, 0]),
    "positions": lambda x, p: posenc.rotate(ROPE, x, positions=p),
    "one row": lambda x, p: posenc.rotate(ROPE, x, positions=p[0]),
    "lists": lambda x, p: posenc.rotate(ROPE, x, positions=[5, 3, 1, 9]),
    "inverse": lambda x, p: posenc.rotate(ROPE, x, positions=p, inverse=True),
    "part": lambda x, p: posenc.rotate(posenc.RoPE(4, pairing="interleaved"), x, positions=p),
    "two axes": lambda x, p: posenc.rotate(GRID, x, positions=torch.stack([p, p + 3], dim=-1)),
    "apply": lambda x, p: posenc.apply_rotary(x, *posenc.cos_sin(ROPE, p), pairing="half"),
    "module": lambda x, p: sum(RotaryEmbedding(ROPE)(x, x, p)),
    "rerotate": lambda x, p: posenc.rerotate(ROPE, x, p, p + 3),
    "add": lambda x, p: posenc.add(TABLE, x, positions=p),
    "table": lambda x, p: PositionTable(TABLE)(x),
}


def verbs_hold(x: Tensor, mesh: DeviceMesh, placements: Any) -> None:
    """Every verb on a divided input gives its part of the whole, and sends nothing."""
    positions = torch.randint(
        0, 2**40, (x.shape[0], x.shape[2]), generator=torch.Generator().manual_seed(3)
    )
    for name, verb in VERBS.items():
        one = x.clone().requires_grad_()
        part = divided(one, mesh, placements)
        try:
            with silence():
                got = verb(part, positions)
                got.to_local().square().sum().backward()
            expected = verb(one, positions)
            expected.square().sum().backward()
            agree(got, expected, placements)
            same(part.grad.full_tensor(), one.grad, 1e-5)
        except Exception as error:
            raise AssertionError(f"{name} with {placements}: {error}") from error


@check(2, 4)
def verbs_on_shards(group: Group) -> None:
    """Divided by batch, by heads, or not at all."""
    for placements in ([Shard(0)], [Shard(1)], [Replicate()]):
        verbs_hold(random(4, 8, 4, 8), group.mesh, placements)


@check(4)
def verbs_on_uneven_and_empty_shards(group: Group) -> None:
    """Five heads on four ranks leave none for the last."""
    for placements in ([Shard(0)], [Shard(1)]):
        verbs_hold(random(3, 5, 4, 8), group.mesh, placements)


@check(4)
def verbs_on_two_axes(group: Group) -> None:
    """Batch and heads divided at once, both axes along the batch, and a part of a larger mesh."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "heads"))
    for placements in ([Shard(0), Shard(1)], [Shard(0), Shard(0)], [Replicate(), Shard(1)]):
        verbs_hold(random(4, 6, 4, 8), mesh, placements)
    verbs_hold(random(4, 6, 4, 8), mesh["heads"], [Shard(1)])


@check(2, 4)
def positions_as_dtensors(group: Group) -> None:
    """Positions divided as the input, along the batch or along the sequence."""
    mesh, length = group.mesh, 8
    x, e = random(4, 3, length, 8), random(4, length, 8)
    positions = torch.randint(0, 2**40, (4, length), generator=torch.Generator().manual_seed(3))
    for axis, where in ((0, 0), (2, 1)):
        part, embedded = divided(x, mesh, [Shard(axis)]), divided(e, mesh, [Shard(where)])
        expected = posenc.rotate(ROPE, x, positions=positions)
        alike = distribute_tensor(positions, mesh, [Shard(where)])
        everywhere = distribute_tensor(positions, mesh, [Replicate()])
        for given in (alike, everywhere, positions):
            with silence():
                got = posenc.rotate(ROPE, part, positions=given)
            agree(got, expected, [Shard(axis)])
        with silence():
            got = posenc.add(TABLE, embedded, positions=positions)
        agree(got, posenc.add(TABLE, e, positions=positions), [Shard(where)])
    divided_rows = distribute_tensor(positions, mesh, [Shard(0)])
    with silence():
        cos, sin = posenc.cos_sin(ROPE, divided_rows)
        rows = posenc.table(TABLE, divided_rows)
        bias = posenc.bias(T5, divided_rows, positions[0], params=posenc.init(T5))
    for got, expected in zip((cos, sin), posenc.cos_sin(ROPE, positions), strict=True):
        agree(got, expected, [Shard(0)])
    agree(rows, posenc.table(TABLE, positions), [Shard(0)])
    whole = posenc.bias(T5, positions, positions[0], params=posenc.init(T5))
    agree(bias, whole, [Shard(0)])


@check(2, 4)
def parameters_as_dtensors(group: Group) -> None:
    """Learned tables and biases beside divided inputs: values, and gradients summed over shards."""
    mesh = group.mesh
    table = posenc.Learned(8, length=6)
    x = random(4, 6, 8)
    for given in ("plain", "dtensor"):
        weight = random(6, 8, seed=1).requires_grad_()
        alone = weight.detach().clone().requires_grad_()
        if given == "dtensor":
            weight = divided(weight, mesh, [Replicate()])
        got = posenc.add(table, divided(x, mesh, [Shard(0)]), params={"weight": weight})
        expected = posenc.add(table, x, params={"weight": alone})
        agree(got, expected, [Shard(0)])
        got.square().sum().full_tensor().backward()
        expected.square().sum().backward()
        grad = weight.grad if given == "plain" else weight.grad.full_tensor()
        same(grad, alone.grad, 1e-5)
    for spec in (posenc.KERPLE(heads=5), posenc.FIRE(heads=5), T5.replace(heads=5)):
        whole = {n: torch.from_numpy(v).requires_grad_() for n, v in posenc.init(spec).items()}
        parts = {
            n: divided(v, mesh, [Shard(spec.by_head[n]) if n in spec.by_head else Replicate()])
            for n, v in whole.items()
        }
        with silence():
            got = posenc.bias(spec, 6, 4, params=parts)
        expected = posenc.bias(spec, 6, 4, params=whole)
        agree(got, expected, [Shard(0)], 1e-6)
        got.square().sum().full_tensor().backward()
        expected.square().sum().backward()
        for name, value in parts.items():
            same(value.grad.full_tensor(), whole[name].grad, 1e-5)
    music = posenc.MusicTransformer(8, count=5, length=9)
    for spec in (posenc.Shaw(8, clip=2), music):
        q, k = random(4, 5, 6, 8), random(4, 5, 6, 8, seed=1)
        params = {n: torch.from_numpy(v) for n, v in posenc.init(spec).items()}
        for placement in (Shard(0), Shard(1)):
            both = [divided(t, mesh, [placement]) for t in (q, k)]
            with silence():
                got = posenc.relative(spec, *both, params=params)
            agree(got, posenc.relative(spec, q, k, params=params), [placement], 1e-6)


@check(2)
def what_needs_other_parts_is_refused(group: Group) -> None:
    """A shard along the sequence without positions, inside a head, or a partial sum."""
    mesh = group.mesh
    x = random(4, 2, 6, 8)
    seq, head, batch = (divided(x, mesh, [Shard(axis)]) for axis in (2, 3, 0))
    rotary, table = RotaryEmbedding(ROPE), PositionTable(TABLE)
    for call in (
        lambda: posenc.rotate(ROPE, seq),
        lambda: posenc.rotate(ROPE, seq, offset=3),
        lambda: posenc.rotate(ROPE, seq, cu_seqlens=torch.tensor([0, 2, 6])),
        lambda: rotary(seq, seq),
        lambda: posenc.add(TABLE, seq),
        lambda: table(seq),
    ):
        refused("positions beside a shard along the sequence", call)
    cos, sin = posenc.cos_sin(ROPE, 6)
    for call in (
        lambda: posenc.rotate(ROPE, head),
        lambda: posenc.apply_rotary(head, cos, sin, pairing="half"),
        lambda: posenc.add(TABLE, head),
        lambda: rotary(head, head, torch.arange(6)),
    ):
        refused("whole channels", call)
    partial = DTensor.from_local(x, mesh, [Partial()], run_check=False)
    refused("whole (Replicate) or divided", lambda: posenc.rotate(ROPE, partial))
    every = torch.arange(6).expand(4, 6)
    other = distribute_tensor(every.contiguous(), mesh, [Shard(1)])
    refused("divided along one axis", lambda: posenc.rotate(ROPE, batch, positions=other))
    learned = posenc.Learned(8, length=6)
    weight = {"weight": divided(random(6, 8), mesh, [Shard(1)])}
    refused("a parameter that is whole", lambda: posenc.add(learned, batch, params=weight))
    every = {"weight": divided(random(6, 8), mesh, [Replicate()])}
    # Three rows in shards would fit some ranks by chance, and be spread over rows on others.
    three = torch.arange(3)
    refused("4 entries", lambda: posenc.rotate(ROPE, batch, offset=three))
    refused("4 entries", lambda: posenc.rotate(ROPE, batch, positions=three[:, None].expand(3, 6)))
    refused("a DTensor as well", lambda: posenc.add(learned, x, params=every))
    where = distribute_tensor(torch.arange(6), mesh, [Replicate()])
    for call in (
        lambda: rotary(batch, x),
        lambda: rotary(x, batch),
        lambda: rotary(x, x, where),
        lambda: posenc.rerotate(ROPE, x, where, where),
        lambda: table(x, where),
    ):
        refused("a DTensor as well", call)
    q = divided(x, mesh, [Shard(2)])
    shaw = posenc.Shaw(8, clip=2)
    params = posenc.init(shaw)
    refused("a whole sequence", lambda: posenc.relative(shaw, q, q, params=params))
    mixed = posenc.MixedRoPE(8, heads=2, pairing="half")
    where, params = torch.zeros(6, 2, dtype=torch.int64), posenc.init(mixed)
    heads = divided(x, mesh, [Shard(1)])
    refused("all heads", lambda: posenc.rotate(mixed, heads, positions=where, params=params))
    biased = {"weight": divided(random(8, 8), mesh, [Shard(1)])}
    for call in (
        lambda: posenc.torch.attend(heads, heads, heads),
        lambda: posenc.torch.score_mod(T5, params=biased),
        lambda: posenc.relative_score(ROPE, heads[0, 0, 0], heads[0, 0, 0], [1]),
    ):
        refused("tensors of this process", call)


@check(2)
def in_place_writes_the_own_part(group: Group) -> None:
    """Without gradients a shard is turned where it lies."""
    x = random(2, 4, 6, 8)
    part = divided(x, group.mesh, [Shard(1)])
    place = part.to_local().data_ptr()
    got = posenc.rotate(ROPE, part, inplace=True)
    assert got is part
    assert part.to_local().data_ptr() == place
    agree(part, posenc.rotate(ROPE, x), [Shard(1)])
    needs = divided(x.requires_grad_(), group.mesh, [Shard(1)])
    refused("needs no gradient", lambda: posenc.rotate(ROPE, needs * 1, inplace=True))


@check(2)
def ranks_take_their_heads_of_a_whole_checkpoint(group: Group) -> None:
    """Each rank serves some heads, and all load one file."""
    whole = AttentionBias(T5, seed=6)
    path = group.folder / "whole.pt"
    if group.rank == 0:
        torch.save(whole.state_dict(), path)
    dist.barrier()
    heads = (group.rank * 4, group.rank * 4 + 4)
    part = AttentionBias(T5, heads=heads, seed=7)
    part.load_state_dict(torch.load(path, weights_only=True))
    same(part(5), whole(5)[heads[0] : heads[1]])


# --- recipes of `posenc.torch.parallel` -----------------------------------------------------------


def small_model() -> Any:
    """A model of two layers and four heads, with the same weights on every rank."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, vocab_size=32, intermediate_size=16, use_cache=False)
    return LlamaForCausalLM(config).eval()


TOKENS = torch.randint(0, 32, (2, 16), generator=torch.Generator().manual_seed(1))


@check(4)
def recipe_of_weights_in_shards(group: Group) -> None:
    """Meta -> exact -> `fully_shard` -> memory -> weights: the logits of the adopted whole."""
    whole = small_model()
    posenc.torch.adopt(whole)
    block = type(whole.model.layers[0])
    config, make = whole.config, type(whole)
    model = parallel.fully_sharded(
        lambda: make(config), group.mesh, whole.state_dict(), blocks=block
    )
    assert all(isinstance(value, DTensor) for value in model.parameters())
    with torch.no_grad():
        same(model.eval()(TOKENS).logits, whole(TOKENS).logits, 1e-6)

    def unknown() -> nn.Module:
        model = make(config)
        model.model.register_buffer("factor", torch.ones(1), persistent=False)
        return model

    refused(
        "none for model.factor",
        lambda: parallel.fully_sharded(unknown, group.mesh, {}),
        posenc.DataError,
    )


@check(4)
def recipe_of_a_sequence_in_parts(group: Group) -> None:
    """In order, in zig-zag and in stripes: the rows of the whole sequence, and its gradients."""
    model, whole = small_model(), small_model()
    whole(TOKENS, labels=TOKENS).logits.square().sum().backward()
    for layout in ("contiguous", "zigzag", "striped"):
        own = posenc.positions.shard(
            16, world=group.world, rank=group.rank, layout=layout, xp=torch
        )
        with parallel.across(group.mesh, "parts"), verified(model, group, "sequence"):
            model.set_attn_implementation("parts")
            logits = model(TOKENS[:, own], position_ids=own[None]).logits
        same(logits, whole(TOKENS).logits[:, own], 1e-5)
    logits.square().sum().backward()
    for value, other in zip(model.parameters(), whole.parameters(), strict=True):
        dist.all_reduce(value.grad)
        same(value.grad, other.grad, 1e-4)


@check(4)
def recipe_of_heads_in_parts(group: Group) -> None:
    """Tensor parallelism: each rank tracks the keys of its heads, and moves them as all do."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from transformers import DynamicCache

    from posenc.torch.cache import evict, track

    whole, model = small_model(), small_model()
    columns = dict.fromkeys(("q_proj", "k_proj", "v_proj"), ColwiseParallel())
    for layer in model.model.layers:
        parallelize_module(layer.self_attn, group.mesh, {**columns, "o_proj": RowwiseParallel()})
    answers = []
    for one in (whole, model):
        posenc.torch.adopt(one)
        filled = DynamicCache(config=one.config)
        with torch.no_grad(), verified(one, group, "heads"):
            one(TOKENS, past_key_values=filled, use_cache=True)
        cache = evict(track(filled, one), [0, 1, *range(8, 16)])
        with torch.no_grad():
            answers.append(one(TOKENS[:, :3], past_key_values=cache, use_cache=True).logits)
    assert cache.movable[0].keys.shape[1] == 1
    same(answers[1], answers[0], 1e-5)


def verified(model: nn.Module, group: Group, divided: Any, timeout: float = 20) -> Any:
    """`parallel.verify` in the mesh of all ranks."""
    return parallel.verify(model, group.mesh, divided=divided, timeout=timeout)


@check(4)
def wrong_positions_raise_on_all_ranks(group: Group) -> None:
    """A local `arange`, positions that differ, a rank that fails, one that does not come."""
    module = RotaryEmbedding(ROPE)
    x, local, own = random(2, 2, 4, 8), torch.arange(4), torch.arange(4) + 4 * group.rank
    calls: list[tuple[str, Any, Tensor]] = [
        ("rank 3 has 0 to 3", "sequence", local),
        ("rank 3 has 13 to 16", "sequence", own + (group.rank == 3)),
        ("the same positions on all ranks, got rank 0 has 0 to 3; rank 1 has 4 to 7", "heads", own),
        ("rank 0: 0 rows of positions", "heads", None),
        ("rank 0: 2 rows of positions", "sequence", torch.stack([own, own + 1])),
    ]
    for words, divided, where in calls:
        refused(words, lambda: asked(module, group, divided, x, where), posenc.DataError)  # noqa: B023

    def fails() -> None:
        with verified(module, group, "heads"):
            if group.rank == 2:
                raise OSError("no such shard")
            if group.rank == 0:  # as one whose partner is gone
                raise RuntimeError("closed by peer")
            module(x, x, local)

    words = "rank 0: RuntimeError: closed by peer; rank 2: OSError: no such shard"
    refused(words, fails, posenc.DataError)

    def stays_away() -> None:
        if group.rank != 1:
            with verified(module, group, "heads", timeout=0.5):
                module(x, x, local)

    if group.rank == 1:
        stays_away()
    else:
        refused("4 ranks within 0.5 s", stays_away, posenc.DataError)


def asked(module: nn.Module, group: Group, divided: Any, x: Tensor, where: Tensor | None) -> None:
    """A call whose positions are compared."""
    with verified(module, group, divided):
        module(x, x, where)


# --- the launcher ---------------------------------------------------------------------------------


def work(rank: int, world: int, folder: Path, names: list[str]) -> dict[str, str]:
    """Go through the checks of one rank: what failed, by name."""
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / f"store-{world}"), world)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    failed = {}
    group = Group(rank, world, folder)
    for name in names:
        try:
            CHECKS[name][1](group)
        except Exception:  # noqa: BLE001 - what a check raises is its result
            failed[name] = traceback.format_exc()
        # One that failed may have left others waiting in the middle of it.
        verdict = torch.tensor([len(failed)])
        dist.all_reduce(verdict)
    dist.destroy_process_group()
    return failed


def launch(world: int, names: list[str], folder: Path) -> dict[str, str]:
    """Fork the ranks; what failed on any of them, by check."""
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                found = work(rank, world, folder, names)
                (folder / f"{world}-{rank}.json").write_text(json.dumps(found))
                status = 0
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    failed: dict[str, str] = {}
    for rank, child in enumerate(children):
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        path = folder / f"{world}-{rank}.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        if status:
            found = dict.fromkeys(names, f"rank {rank} ended with {status}")
        for name, text in found.items():
            failed[name] = f"{failed.get(name, '')}rank {rank} of {world}:\n{text}"
    return failed


def names_for(world: int) -> list[str]:
    """The checks for a size of group."""
    return [name for name, (worlds, _) in CHECKS.items() if world in worlds]


def main(groups: dict[int, list[str]]) -> None:
    """Run some checks in groups of some sizes, one after the other, and print what failed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    with contextlib.suppress(ImportError):  # once for all ranks
        importlib.import_module("transformers.models.llama.modeling_llama")
    fitting.END = 512  # positions to which a model is asked before it is adopted, on each rank
    with tempfile.TemporaryDirectory() as folder:
        failed = {world: launch(world, names, Path(folder)) for world, names in groups.items()}
    print(json.dumps(failed))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main({int(world): names for world, names in json.loads(sys.argv[1]).items()})
