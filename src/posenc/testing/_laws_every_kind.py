"""The laws that every kind of encoding is held to."""

from __future__ import annotations

import copy

from posenc.testing._laws import (
    Found,
    answer,
    largest,
)
from posenc.testing.lab import Broken, Lab, law


@law("settings", "implementations of other bases do not share answers", "rotary", "table")
def settings(lab: Lab) -> Found:
    """One of base 10,000, then one of base 500,000, then the first again."""
    plain = answer(lab, lab.subject.build(base=10_000))
    other = answer(lab, lab.subject.build(base=500_000))
    away = largest(plain - other)
    if away < 1e-3:
        says = "the second has the answers of the first"
        raise Broken(says, {"bases": [10_000, 500_000]}, away, 1e-3)
    again = answer(lab, lab.subject.build(base=10_000))
    lab.same(again, plain, 0.0, bases=[10_000, 500_000, 10_000])
    return away, 1e-3


@law("repeat", "two calls, and two instances, give the same bits", "rotary", "table", "bias")
def repeat(lab: Lab) -> Found:
    """Unless its parameters are drawn at random, which a state dict then carries over."""
    first = answer(lab, lab.target)
    for calls in range(2, 8):
        lab.same(answer(lab, lab.target), first, 0.0, calls=calls)
    other = lab.subject.build()
    if hasattr(other, "load_state_dict"):
        other.load_state_dict(lab.target.state_dict())
    return lab.same(answer(lab, other), first, 0.0, instances=2)


@law("deepcopy", "a deep copy answers alike", "rotary", "table", "bias")
def deepcopied(lab: Lab) -> Found:
    """As models are copied for an average of their weights."""
    first = answer(lab, lab.target)
    return lab.same(answer(lab, copy.deepcopy(lab.target)), first, 0.0)
