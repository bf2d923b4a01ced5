"""What people write in place of a convention: the siblings that `locate` tries beside it."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, NamedTuple

from posenc._core.numeric.ladder import LADDERS, Ladder
from posenc.encodings.table.sinusoidal import Sinusoidal
from posenc.encodings.table.timestep import Timestep

DEPTH = 2  # deviations at once, the way of reading digits not counted
CUT = "the digits are cut, not rounded"
FROM_ONE = "dimensions are counted from 1"
SWAPPED = "sines and cosines are swapped"

# Ladders in words, by the sentence that a story is made of.
EXPONENTS = {
    f"the {name}"
    .replace("exponent ", "exponent is ")
    .replace("the cosine exponent is", "the exponent of cosines is"): ladder
    for name, ladder in LADDERS.items()
}  # fmt: skip

EXPLANATIONS = {
    "the exponent is i/d": "the factor 2 of 2i/d is lost, so the exponents end at 1/2 instead of 1",
    "the exponent is j/(n-1)": "tensor2tensor and code that follows it divide by one pair less",
    "the exponent is 4i/d": "the factor 2 stands twice, as the loop already steps by 2",
    "the exponent is 2i/(d-1)": "the width is counted from 0",
    "the exponent is 2(i+1)/d": "pairs are counted from 1",
    "the exponent is c/d for channel c": "the number of the channel takes the place of 2i, so that "
    "a sine and its cosine have different frequencies",
    "the exponent is 2c/d for channel c": "the number of the channel takes the place of i",
    "the exponent of cosines is 2(i+1)/d": "the cosine takes the exponent of the next pair",
    FROM_ONE: "the first dimension is called 1",
    CUT: "a value that is printed short is often cut off where it ends",
}


class Sibling(NamedTuple):
    """A convention near the stated one."""

    words: tuple[str, ...]
    ladder: Ladder | None = None  # None: as stated
    order: str | None = None
    counted_from: Literal[0, 1] = 0
    roles: Literal["stated", "swapped"] = "stated"
    scale: float = 1.0  # on the stated table
    start: int | None = None

    def scale_and_start(self, spec: Any) -> tuple[float, int]:
        """The factor on rows, and the position that the first one is computed at."""
        stated = spec.magnitude.table(spec.dim) if hasattr(spec, "magnitude") else 1.0
        start = spec.matrix.arrangement.start if self.start is None else self.start
        return self.scale * stated, start

    def of(self, spec: Any) -> Any:
        """The stated encoding changed so, as far as a spec can say it."""
        stated = {"ladder": self.ladder, "order": self.order}
        changes: dict[str, Any] = {name: own for name, own in stated.items() if own is not None}
        if self.start is not None:
            changes["arrangement"] = spec.arrangement.replace(start=self.start)
        if self.scale != 1.0:
            factor = self.scale * spec.magnitude.table(spec.dim)
            root = math.sqrt(spec.dim)
            named = {root: "sqrt_dim", 1 / root: "rsqrt_dim"}
            close = [name for value, name in named.items() if math.isclose(value, factor)]
            changes["magnitude"] = spec.magnitude.replace(table_scale=(close or [factor])[0])
        return spec.replace(**changes) if changes else spec


def siblings(spec: Any, *, of: Literal["values", "vectors"]) -> list[Sibling]:
    """The stated convention, then those that differ from it in one and in two ways."""
    groups: list[list[dict[str, Any]]] = [_ladders(spec), _orders(spec)]
    if isinstance(spec, Sinusoidal | Timestep):
        groups.append([{"words": (SWAPPED,), "roles": "swapped"}])
    if of == "values":
        groups.append([{"words": (FROM_ONE,), "counted_from": 1}])
        groups += [_scales(spec), _starts(spec)]
    variants = [Sibling(())]
    for depth in range(1, DEPTH + 1):
        for chosen in itertools.combinations(groups, depth):
            for parts in itertools.product(*chosen):
                words = tuple(word for part in parts for word in part["words"])
                fields = {k: v for part in parts for k, v in part.items() if k != "words"}
                variants.append(Sibling(words, **fields))
    return variants


def _ladders(spec: Any) -> list[dict[str, Any]]:
    ladder = getattr(spec, "ladder", None)
    if not isinstance(ladder, Ladder) or ladder.spacing != "geometric":
        return []
    changes = []
    for name, other in EXPONENTS.items():
        changed = ladder.replace(
            denominator=other.denominator, start=other.start, cos_shift=other.cos_shift
        )
        if changed != ladder and not (changed.cos_shift and not isinstance(spec, Sinusoidal)):
            changes.append({"words": (name,), "ladder": changed})
    return changes


def _orders(spec: Any) -> list[dict[str, Any]]:
    orders = {
        "sin_cos": "the sines come first, then the cosines",
        "cos_sin": "the cosines come first, then the sines",
    }
    if isinstance(spec, Sinusoidal):
        orders = {"interleaved": "sines and cosines alternate", **orders}
    elif not isinstance(spec, Timestep):
        return []
    return [{"words": (words,), "order": o} for o, words in orders.items() if o != spec.order]


def _scales(spec: Any) -> list[dict[str, Any]]:
    if not isinstance(spec, Sinusoidal) or spec.dim < 2:
        return []
    stated = spec.magnitude.table(spec.dim)
    named = {1.0: "the table is not scaled", math.sqrt(spec.dim): "the table is times sqrt(d)"}
    return [
        {"words": (words,), "scale": factor / stated}
        for factor, words in named.items()
        if not math.isclose(factor, stated)
    ]


def _starts(spec: Any) -> list[dict[str, Any]]:
    if not isinstance(spec, Sinusoidal):
        return []
    other = 0 if spec.arrangement.start else 1
    return [{"words": (f"positions are counted from {other}",), "start": other}]
