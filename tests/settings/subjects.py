"""Every encoding as its example, and with each choice of words that its fields have."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import posenc
from posenc._core.spec.checks import small
from posenc._names import SPECS
from posenc.registry import lookup

Floats = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """An encoding, what it is called with, and the call, which is one for all libraries."""

    name: str
    spec: Any

    @property
    def heads(self) -> int:
        """Heads of the inputs."""
        spec = self.spec
        own = spec.per_head if spec.kind == "rotary" else getattr(spec, "heads", None)
        return own or getattr(spec, "count", None) or 2

    def where(self, length: int) -> np.ndarray:
        """Positions of a sequence, those of the example where it has some."""
        spec = self.spec
        if spec.example.points is not None:
            return np.asarray(spec.example.points())[:length]
        count = np.arange(length)
        cells = [count] if len(spec.axes) == 1 else [count // 8, count % 8]
        cells += [np.zeros_like(count)] * (len(spec.axes) - len(cells))
        found = cells[0] if len(cells) == 1 else np.stack(cells, axis=-1)
        return found / 8 if getattr(spec, "coordinates", "integer") == "real" else found

    def floats(self, length: int, seed: int = 0) -> Floats:
        """The input or inputs, and parameters near their first values, as float32."""
        spec, rng = self.spec, np.random.default_rng([seed, length])
        lead = (2,) if spec.kind == "table" else (2, self.heads)
        width = length if spec.kind == "bias" else spec.dim
        made = {"x": rng.normal(size=(*lead, length, width))}
        if spec.kind == "relative":
            made["k"] = rng.normal(size=(*lead, length, width))
        rng = np.random.default_rng(seed)  # parameters are the same at every length
        for name, value in posenc.init(spec, seed=seed).items():
            made[f"params.{name}"] = value + 0.05 * rng.normal(size=value.shape)
        return {name: np.asarray(value, "float32") for name, value in made.items()}

    def __call__(self, floats: Floats, where: Any) -> Any:
        """The result of the verb, with a bias added to scores as attention does."""
        spec, x = self.spec, floats["x"]
        params = {
            name.removeprefix("params."): value
            for name, value in floats.items()
            if name.startswith("params.")
        } or None
        if spec.kind == "table":
            return posenc.add(spec, x, positions=where, params=params)
        if spec.kind == "rotary":
            return posenc.rotate(spec, x, positions=where, params=params)
        if spec.kind == "bias":
            return x + posenc.bias(spec, where, params=params, dtype=x.dtype)[None, ...]
        return posenc.relative(spec, x, floats["k"], where, where, params=params)

    def exact(self, floats: Floats, where: np.ndarray) -> np.ndarray:
        """The same in float64 on NumPy, of numbers as another setting rounded them."""
        wide = {name: np.asarray(value, dtype="float64") for name, value in floats.items()}
        return self(wide, where)


def _choices(spec: Any) -> list[tuple[str, Any]]:
    """The spec with each other word that a field may hold, where it can be made so."""
    hints = typing.get_type_hints(type(spec))
    found = []
    for name in spec.__dataclass_fields__:
        words = [
            word
            for hint in (hints.get(name), *typing.get_args(hints.get(name)))
            if typing.get_origin(hint) is Literal
            for word in typing.get_args(hint)
        ]
        for word in dict.fromkeys(words):
            if word == getattr(spec, name) or name == "phase":
                continue  # phases in float32 are another arithmetic, with bounds of its own
            try:
                found.append(
                    (f"{type(spec).__name__}({name}={word!r})", spec.replace(**{name: word}))
                )
            except posenc.SpecError:
                continue  # these words do not stand together
    return found


def subjects() -> dict[str, Subject]:
    """Every encoding of the registry by name, and its other choices."""
    made = {name: small(lookup(name)) for name in SPECS}
    more = [choice for spec in made.values() for choice in _choices(spec)]
    return {name: Subject(name, spec) for name, spec in [*made.items(), *more]}
