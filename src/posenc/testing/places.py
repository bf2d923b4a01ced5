"""What laws need of a named spec: where it can stand, what it has learned, what it gives there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc._core.errors import PosencError
from posenc._core.spec.spec import Spec
from posenc.detect.subject.arrays import numbers
from posenc.detect.subject.forms import numbered
from posenc.detect.subject.reach import of_spec
from posenc.testing.subject import NotOffered

SPREADS, EACH = (1, 4, 32, 1024), 256  # how far from 0 places are drawn, and how many of them


@functools.lru_cache(maxsize=64)
def places_of(spec: Spec | None) -> np.ndarray | None:
    """Places (count, axes) that positions number; None where positions are numbers from 0 on."""
    if spec is None or (spec.coordinates == "integer" and len(spec.axes) == 1):
        return None
    rng, whole = np.random.default_rng(20), spec.coordinates == "integer"
    for most in (1024, 32, 7, 2, 1)[not whole :]:
        shape = EACH, len(spec.axes)
        far = [(rng.integers(0, min(near, most) + 1, shape) if whole
                else rng.uniform(0, min(near, most), shape)) for near in SPREADS]  # fmt: skip
        places = rng.permutation(np.concatenate(far)).astype("i8" if whole else "f4")
        places = places[:, 0] if shape[1] == 1 else places
        line = places[None, ::16]
        x = np.ones(
            (1, getattr(spec, "per_head", None) or 1, line.shape[1], vars(spec).get("dim", 1))
        )
        asked = {"rotary": (x, line), "bias": (line[0], line[0])}.get(spec.kind, (line[0],))
        with contextlib.suppress(PosencError):
            of_spec(spec, spec.kind)(*asked)
            return places
    raise NotOffered(f"no positions are known that {spec} takes")


def learned_by(spec: Spec, code: Any) -> dict[str, Any] | None:
    """What code has learned, where its state has all of a spec's names and shapes."""
    state: dict[str, Any] = getattr(code, "state_dict", dict)()
    own = {name.rpartition(".")[2]: value for name, value in state.items()}
    alike = all(np.shape(own.get(name, ())) == shape for name, shape in spec.shapes.items())
    return {n: numbers(own[n]).astype(np.float32) for n in spec.shapes} if alike else None


def expected_of(
    spec: Any, kind: str, places: np.ndarray | None, params: Any
) -> Callable[..., Any]:  # fmt: skip
    """What a spec gives to the question of a kind, at places that positions number."""
    ask = of_spec(spec, kind, params)

    def answered(*asked: Any, of: Any = places) -> Any:
        tokens = asked[: kind == "rotary"]
        return ask(*tokens, *(numbered(of, rows) for rows in asked[len(tokens) :]))

    answered.heads = getattr(spec, "per_head", None) or 0  # type: ignore[attr-defined]
    answered.places = places  # type: ignore[attr-defined]
    return answered
