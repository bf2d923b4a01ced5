"""Laws of torch modules: casts, empty memory, saving, gradients and compilers."""

from __future__ import annotations

import contextlib
import functools
import pickle
from typing import Any

import numpy as np

from posenc.testing.lab import EPSILONS, NEAR, Found, Lab, answer, broken_where, exact, largest, law
from posenc.testing.subject import NotOffered, not_offered_where

OTHERS = "it is not made of torch tensors"
# What modules and loaders call to set values that no checkpoint holds.
HOOKS = ("reset_parameters", "init_non_persistent_buffers")


def _module(lab: Lab) -> Any:
    not_offered_where(lab.subject.library != "torch", OTHERS)
    import torch

    target = lab.subject.build()
    not_offered_where(not isinstance(target, torch.nn.Module), "it is no torch module")
    return target


@law("cast", "a module cast to bfloat16 still knows where tokens are", "rotary", "table")
def cast(lab: Lab) -> Found:
    """`.to(bfloat16)` must not round frequencies: 8000 positions, bfloat16 in and out."""
    import torch

    target = _module(lab).to(torch.bfloat16)
    return lab.longest(functools.partial(_in_bfloat16, lab, target), (8000, 2000, 500, 60))[1]


def _in_bfloat16(lab: Lab, target: Any, length: int) -> Found:
    if lab.subject.kind == "rotary":
        x, places = lab.x(length, batch=1, heads=1), np.arange(length)
        x = lab.subject.numpy(lab.subject.array(x, "bfloat16")).astype(np.float32)
        received = lab.rotate(x, places, dtype="bfloat16", target=target)
        expected, bound = exact(lab, x, places), 3 * EPSILONS["bfloat16"] * largest(x)
        return lab.same(received, expected, bound, positions=places, module="bfloat16")
    not_offered_where([*target.parameters()], "its rows are parameters, which a cast rounds once")
    axes = lab.subject.axes
    places = np.full((1, axes), 7) if axes > 1 else np.arange(min(length, 1000))
    expected = exact(lab, places)
    received = lab.rows(places, dtype="bfloat16", target=target)
    bound = EPSILONS["bfloat16"] * largest(expected)
    return lab.same(received, expected, bound, positions=places, module="bfloat16")


@law(
    "empty memory",
    "made on meta, then to_empty and reset: as if made here",
    "rotary",
    "table",
    "bias",
)
def empty_memory(lab: Lab) -> Found:
    """Memory after `to_empty` is arbitrary, so buffers are filled with NaN before a reset hook."""
    target, fresh = _emptied(lab)
    return lab.same(answer(lab, target), answer(lab, fresh), 0.0, steps="meta, to_empty, hooks")


@law(
    "checkpoint",
    "made on meta, then to_empty and load: as what was saved",
    "rotary",
    "table",
    "bias",
)
def checkpoint(lab: Lab) -> Found:
    """As large models are loaded: what the state dict lacks must come from elsewhere."""
    target, fresh = _emptied(lab)
    target.load_state_dict(fresh.state_dict())
    return lab.same(answer(lab, target), answer(lab, fresh), 0.0, steps="meta, to_empty, load")


def _emptied(lab: Lab) -> tuple[Any, Any]:
    """A module that was made without memory and then reset, and one made as usual."""
    import torch

    fresh = _module(lab)
    with torch.device("meta"):
        target = lab.subject.build()
    target = target.to_empty(device="cpu")
    with torch.no_grad():
        for values in (*target.buffers(), *target.parameters()):
            values.fill_(torch.nan if values.is_floating_point() else 7)
    for hook in HOOKS:
        if callable(getattr(target, hook, None)):
            getattr(target, hook)()
    return target, fresh


@law("state dict", "a checkpoint holds what was learned, nothing else", "rotary", "table", "bias")
def state_dict(lab: Lab) -> None:
    """A constant in it goes stale, or is missing from somebody else's checkpoint."""
    target = _module(lab)
    learned = {name for name, p in target.named_parameters() if p.requires_grad}
    kept = [name for name in target.state_dict() if name not in learned]
    broken_where(kept, f"it holds {', '.join(kept)}", {"keys": kept})


@law("pickle", "pickled and loaded, it gives the same answers", "rotary", "table", "bias")
def pickled(lab: Lab) -> Found:
    """As a whole, as `torch.save` does it."""
    target = _module(lab)
    first = answer(lab, target)
    loaded = pickle.loads(pickle.dumps(target))  # noqa: S301 - written right here
    return lab.same(answer(lab, loaded), first, 0.0)


@law("gradient", "the gradient is turned back", "rotary")
def gradient(lab: Lab) -> Found:
    """d<w, R x> / dx = R^-1 w, so its length is that of w times the factor."""
    not_offered_where(lab.subject.library != "torch", OTHERS)
    near = _turned_back(lab, 11)
    with contextlib.suppress(NotOffered):
        return max(near, lab.longest(functools.partial(_turned_back, lab), (4_104, 11))[1])
    return near


def _turned_back(lab: Lab, end: int) -> Found:
    import torch

    places = np.arange(end - 11, end)
    x = lab.subject.array(lab.x(11, heads=17), "float32").requires_grad_()
    w = lab.x(11, heads=17, seed=1)
    y = lab.subject.answer(lab.target, x, places)
    (slope,) = torch.autograd.grad((y * lab.subject.array(w, "float32")).sum(), x)
    # <w, R x> = <R^-1 w, x>, whatever x.
    other = lab.x(11, heads=17, seed=2)
    left = np.sum(w * lab.rotate(other, places), axis=-1)
    right = np.sum(lab.subject.numpy(slope) * other, axis=-1)
    return lab.same(right, left, 1e-4 * largest(left), positions=places)


@law(
    "compile",
    "torch.compile makes one graph without breaks, at most two for six lengths",
    "rotary",
)
def compiled(lab: Lab) -> Found:
    """Traced whole by torch.compile; lengths become symbolic after the second."""
    import torch

    target, graphs = _module(lab), 0

    def count(module: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return module

    call = lab.subject.call  # without the guard, which no compiler reads
    # Before the compiler, which would wrap whatever is raised.
    call(target, lab.subject.array(lab.x(12), "float32"), None)
    torch._dynamo.reset()
    traced = torch.compile(lambda x: call(target, x, None), backend=count, fullgraph=True)
    worst, lengths = (0.0, NEAR), [12, 20, 33, 48, 64, 80]
    for length in lengths:
        x = lab.x(length)
        received = lab.subject.numpy(traced(lab.subject.array(x, "float32")))
        expected = lab.rotate(x, np.arange(length))
        worst = max(worst, lab.same(received, expected, NEAR * largest(x), length=length))
    broken_where(graphs > 2, f"{graphs} graphs for six lengths", {"lengths": lengths}, graphs, 2)
    return worst


@law("export", "torch.export takes any length", "rotary")
def exported(lab: Lab) -> Found:
    """One program for all lengths."""
    import torch

    target, call = _module(lab), lab.subject.call

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.target = target

        def forward(self, x: Any) -> Any:
            return call(self.target, x, None)

    lengths = {"x": {2: torch.export.Dim("length", min=2, max=512)}}
    example = (lab.subject.array(lab.x(12), "float32"),)
    program = torch.export.export(Whole(), example, dynamic_shapes=lengths)
    x = lab.x(100)
    received = lab.subject.numpy(program.module()(lab.subject.array(x, "float32")))
    return lab.same(received, lab.rotate(x, np.arange(100)), NEAR * largest(x), length=100)
