"""Every rotary class of the installed transformers against the plan read from its config.

    python tools/sweep.py             the table, as text
    python tools/sweep.py --write     the same into docs/sweep.md and docs/data/sweep.json
    python tools/sweep.py NAME ...    only packages whose names contain one of these

Nothing here names a model. Classes are found by walking the package; a class is built from the
default config of its annotation, that config is read by `posenc.from_hf`, and three things are
compared: cosines and sines at positions 0 to 17, rotated queries and keys, and, with
`phase="float32"`, the bits of cosines and sines at positions up to 32,768. No weights are made.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "sweep.md"
DATA = ROOT / "docs" / "data" / "sweep.json"
CLOSE = 1e-6
LONGEST = 32_768
SHORT = 18
CLASS = re.compile(r"Rotary|Rope|RoPE")
STATES = ("agreed", "refused", "disagreed", "not compared")


@dataclasses.dataclass
class Row:
    """What came of one class."""

    package: str
    name: str
    config: str = ""
    state: str = "not compared"
    layers: int = 0
    table: float | None = None
    rotation: float | None = None
    bits: str = ""
    why: str = ""


# --- finding ----------------------------------------------------------------------------------------


def packages() -> list[str]:
    """Names of the packages of models, from the file system alone."""
    import transformers.models

    return sorted(m.name for m in pkgutil.iter_modules(transformers.models.__path__) if m.ispkg)


def classes(package: str) -> Iterator[tuple[Any, type]]:
    """(module, class) of each rotary class of a package."""
    folder = Path(importlib.import_module("transformers.models").__path__[0]) / package
    for file in sorted(folder.glob("modeling_*.py")):
        text = file.read_text(encoding="utf-8")
        if not re.search(r"^class \w*(Rotary|Rope|RoPE)", text, re.MULTILINE):
            continue
        module = importlib.import_module(f"transformers.models.{package}.{file.stem}")
        for name, cls in vars(module).items():
            mine = inspect.isclass(cls) and cls.__module__ == module.__name__
            if mine and CLASS.search(name) and not name.endswith("Attention"):
                yield module, cls


def configs(package: str, cls: type) -> list[type]:
    """Config classes to build `cls` from: that of its annotation, then the package's others."""
    import typing

    from transformers import PreTrainedConfig

    found: list[type] = []
    try:
        hints = typing.get_type_hints(cls.__init__)
    except Exception:  # noqa: BLE001 - an annotation may name what is not imported
        hints = {}
    found += [h for h in hints.values() if inspect.isclass(h) and issubclass(h, PreTrainedConfig)]
    folder = Path(importlib.import_module("transformers.models").__path__[0]) / package
    for file in sorted(folder.glob("configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{package}.{file.stem}")
        for other in vars(module).values():
            if inspect.isclass(other) and issubclass(other, PreTrainedConfig) and other.__module__ == module.__name__:
                found.append(other)
    return list(dict.fromkeys(found))


def built(package: str, cls: type) -> tuple[Any, Any, str]:
    """(module, config, why not) for the first config that the class accepts."""
    why = "no config of the package fits the class"
    for kind in configs(package, cls):
        try:
            config = kind()
            made = cls(config)
        except Exception as error:  # noqa: BLE001 - any failure means that the config is not its own
            why = f"{kind.__name__}: {type(error).__name__}: {error}"
            continue
        return made.eval(), config, ""
    return None, None, why


# --- comparing --------------------------------------------------------------------------------------


def compare(package: str, module: Any, cls: type) -> Row:
    """One class against the plan of its config."""
    import posenc

    row = Row(package, cls.__name__)
    made, config, why = built(package, cls)
    if made is None:
        row.why = why
        return row
    row.config = type(config).__name__
    plan = posenc.from_hf(config, on_error="report")
    entries = [e for e in plan if e.spec is not None and e.kind == "rotary"]
    if plan.errors or not entries:
        row.state, row.why = "refused", "; ".join(plan.errors) or "no entry turns"
        return row
    pairs = matched(made, entries)
    worst_table = worst_turn = 0.0
    bits: list[str] = []
    try:
        for entry, label in pairs:
            table, turn, same = one(module, cls, made, config, entry.spec, label)
            worst_table, bits = max(worst_table, table), [*bits, same]
            worst_turn = max(worst_turn, turn) if turn is not None else worst_turn
            row.layers += 1
    except NotImplementedError as error:
        row.why = str(error)
        return row
    row.table, row.rotation = worst_table, worst_turn
    row.bits = bits[0] if len(set(bits)) == 1 else ", ".join(sorted(set(bits)))
    row.state = "agreed" if max(worst_table, worst_turn) <= CLOSE else "disagreed"
    if row.state == "agreed" and "differ" in row.bits:
        row.state, row.why = "disagreed", "cosines or sines differ in bits"
    return row


def matched(made: Any, entries: list[Any]) -> list[tuple[Any, str | None]]:
    """Entries with the label of the layers, where the class has buffers for each type of layer."""
    labels = [n.removesuffix("_inv_freq") for n, _ in made.named_buffers() if n.endswith("_inv_freq")]
    labels = [label for label in labels if not label.endswith("original")]
    labels = [label for label in labels if label and label != "original"]
    if not labels:
        return [(entries[0], None)]
    found = []
    for label in labels:
        own = [e for e in entries if label in e.layer.split(",")[0].split(".")]
        if not own:
            own = [e for e in entries if any(f".{label}." in f".{s.where}." for s in e.sources)]
        if own:
            found.append((own[0], label))
    return found or [(entries[0], labels[0])]


def one(
    module: Any, cls: type, made: Any, config: Any, spec: Any, label: str | None
) -> tuple[float, float | None, str]:
    """(error of the table, error of the rotation, bits) of one encoding."""
    import torch

    import posenc

    axes = len(spec.axes)
    if spec.needs_length:
        spec = spec.at(SHORT)
    positions, cos, sin = theirs(made, spec, label, short(axes), config)
    ours = posenc.cos_sin(spec, positions)
    table = max(error(cos, ours[0], spec), error(sin, ours[1], spec))
    turn = rotation(module, cls, made, spec, positions, raw(made, spec, label, positions, config), config)
    try:
        far, cos, sin = theirs(made, spec, label, long(axes), config)
    except NotImplementedError:
        return table, turn, "not asked"
    if not isinstance(spec, posenc.RoPE) or far.dtype.is_floating_point:
        return table, turn, "not asked"
    classic = spec.replace(phase="float32")
    again = posenc.cos_sin(classic, far)
    same = all(equal(t, o) for t, o in ((cos, again[0]), (sin, again[1])))
    del torch
    return table, turn, "equal" if same else f"differ by {max(error(cos, again[0], spec), error(sin, again[1], spec)):.1e}"


def short(axes: int) -> Any:
    """Positions 0 to 17, or as many points of a grid that is not square."""
    return points(axes, SHORT)


def long(axes: int) -> Any:
    """Positions up to 32,768."""
    return points(axes, LONGEST + 1)


def points(axes: int, stop: int) -> Any:
    import torch

    if axes == 1 and stop <= 64:
        return torch.arange(stop)
    generator = torch.Generator().manual_seed(stop)
    count = 64
    drawn = torch.randint(0, stop, (count, axes), generator=generator)
    drawn[0], drawn[-1] = 0, stop - 1
    return drawn[:, 0] if axes == 1 else drawn


def raw(made: Any, spec: Any, label: str | None, positions: Any, config: Any) -> Any:
    """What the class returns, and `None` where its call has no positions."""
    import torch

    x = torch.zeros(1)
    extra = {} if label is None else {"layer_type": label}
    axes = len(spec.axes)
    shapes = [positions[None]] if axes == 1 else [positions, positions.T[:, None, :], positions[None]]
    failures = []
    for shaped in shapes:
        try:
            out = made(x, shaped.clone(), **extra)
        except Exception as failure:  # noqa: BLE001 - the next shape may be the one
            failures.append(f"{type(failure).__name__}: {failure}")
            continue
        first = out[0] if isinstance(out, tuple) else out
        if first.shape[-1] in (spec.dim, spec.dim // 2) and first.numel() == len(positions) * first.shape[-1]:
            return out
        failures.append(f"a table of shape {tuple(first.shape)}")
    raise NotImplementedError("; ".join(failures)[:200])


def theirs(
    made: Any, spec: Any, label: str | None, positions: Any, config: Any
) -> tuple[Any, Any, Any]:
    """(positions, cosines, sines) of the class, (points, channels or pairs)."""
    import torch

    parameters = list(inspect.signature(made.forward).parameters)
    if "position_ids" in parameters:
        out = raw(made, spec, label, positions, config)
    else:
        positions, out = called_otherwise(made, parameters, spec, positions, config)
    if isinstance(out, torch.Tensor):
        if out.is_complex():
            cos, sin = out.real, out.imag
        elif out.shape[0] == 2:
            cos, sin = out[0], out[1]
        else:
            cos, sin = out.cos(), out.sin()
    else:
        cos, sin = out
    width = cos.shape[-1]
    return positions, cos.reshape(-1, width), sin.reshape(-1, width)


def called_otherwise(
    made: Any, parameters: list[str], spec: Any, positions: Any, config: Any
) -> tuple[Any, Any]:
    """Classes that make positions themselves, from the shape of what they are given."""
    import torch

    if int(positions.max()) >= SHORT and len(spec.axes) > 1:
        raise NotImplementedError("positions are those of its own grid")
    if parameters == ["hidden_states"] and len(spec.axes) == 1:
        length = int(positions.max()) + 1
        return torch.arange(length), made(torch.zeros(1, length, 1))
    if parameters == ["hidden_states"]:
        out = made(torch.zeros(1))
        side = round((out.shape[0] - 1) ** 0.5)
        grid = torch.cartesian_prod(torch.arange(side), torch.arange(side))
        return grid.flip(-1), out[: side * side]
    if parameters == ["pixel_values"]:
        size = config.patch_size
        sides = (3, 5)
        edges = [2 * (torch.arange(n) + 0.5) / n - 1 for n in sides]
        return torch.cartesian_prod(*edges), made(torch.zeros(1, 3, 3 * size, 5 * size))
    if parameters == ["x"]:
        kernel, stride = config.q_aggregation_kernel_size, config.q_aggregation_stride
        sides = (3, 5)
        picture = torch.zeros(1, 1, *((n - 1) * stride + kernel for n in sides))
        return torch.cartesian_prod(*(torch.arange(n) for n in sides)), made(picture)
    raise NotImplementedError(f"its call takes {', '.join(parameters)}")


def error(full: Any, ours: Any, spec: Any) -> float:
    """The largest difference of two tables; theirs may repeat each angle."""
    return min(float((part.double() - ours.double()).abs().max()) for part in parts(full, ours))


def equal(full: Any, ours: Any) -> bool:
    """Whether two tables have the same bits."""
    return any(bool((part == ours).all()) for part in parts(full, ours))


def parts(full: Any, ours: Any) -> list[Any]:
    pairs = ours.shape[-1]
    if full.shape[-1] == pairs:
        return [full]
    found = [full[..., :pairs], full[..., 0::2]]
    if full.shape[-1] == 2 * pairs and pairs % 2 == 0:  # a block of two halves for each axis
        blocks = full.reshape(*full.shape[:-1], 2, 2, pairs // 2)[..., :, 0, :]
        found.append(blocks.reshape(*full.shape[:-1], pairs))
    return found


def rotation(
    module: Any, cls: type, made: Any, spec: Any, positions: Any, out: Any, config: Any
) -> float | None:
    """The largest difference of turned queries and keys, by the function of the module."""
    import torch

    import posenc

    function = applied(module, cls)
    if function is None:
        return None
    generator = torch.Generator().manual_seed(1)
    count = len(positions)
    best: float | None = None
    reasons = []
    wide = getattr(config, "head_dim", None) if isinstance(getattr(config, "head_dim", None), int) else None
    for head in dict.fromkeys((spec.dim + 8, wide or spec.dim, spec.dim)):
        if head < spec.dim:
            continue
        q, k = (torch.rand(1, 2, count, head, generator=generator) - 0.5 for _ in range(2))
        try:
            turned = called(function, q, k, out)
        except Exception as failure:  # noqa: BLE001 - another width may fit
            reasons.append(f"{type(failure).__name__}: {failure}")
            continue
        ours = [posenc.rotate(spec, x, positions=positions) for x in (q, k)]
        if any(t.shape != o.shape for t, o in zip(turned, ours, strict=False)):
            reasons.append("another shape")
            continue
        worst = max(
            float((t.double() - o.double()).abs().max()) for t, o in zip(turned, ours, strict=False)
        )
        best = worst
        break
    if best is None:
        raise NotImplementedError(f"{function.__name__}: {'; '.join(reasons)[:160]}")
    return best


def applied(module: Any, cls: type) -> Any:
    """The function of the module that turns queries and keys of this class."""
    names = [n for n, f in vars(module).items() if inspect.isfunction(f) and re.match(r"(vision_)?apply_(rotary|multi)", n)]
    vision = [n for n in names if "vision" in n or "_2d" in n or "multi" in n]
    text = [n for n in names if n not in vision]
    wanted = vision or text if "Vision" in cls.__name__ or "ViT" in cls.__name__ else text or vision
    ranked = sorted(wanted, key=lambda n: ("interleave" not in n, len(n)))
    return vars(module)[ranked[0]] if ranked else None


def called(function: Any, q: Any, k: Any, out: Any) -> tuple[Any, ...]:
    """Queries and keys turned by `function`, whatever its arguments."""
    import torch

    parameters = list(inspect.signature(function).parameters)
    if isinstance(out, torch.Tensor) and out.is_complex():
        return complex_called(function, q, k, out)
    cos, sin = out
    if "vision" in function.__name__ and cos.ndim == 2:
        turned = function(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        return tuple(t.transpose(1, 2) for t in turned)
    if parameters[0] == "x" and "position_ids" in parameters:
        ids = torch.zeros(1, q.shape[2], 2, dtype=torch.long)
        return tuple(function(x, cos, sin, ids, unsqueeze_dim=1) for x in (q, k))
    if parameters[0] == "x":
        return tuple(function(x, cos, sin) for x in (q, k))
    return tuple(function(q, k, cos=cos, sin=sin)[:2])


def complex_called(function: Any, q: Any, k: Any, out: Any) -> tuple[Any, ...]:
    for swapped in (False, True):
        args = (q.transpose(1, 2), k.transpose(1, 2)) if swapped else (q, k)
        try:
            turned = function(*args, out)
        except RuntimeError:
            continue
        if turned[0].shape == args[0].shape:
            return tuple(t.transpose(1, 2) for t in turned) if swapped else turned
    raise NotImplementedError("the shape that its function wants")


# --- telling ----------------------------------------------------------------------------------------


def sweep(only: list[str] | None = None, *, progress: bool = False) -> list[Row]:
    """A row for each class."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    rows = []
    for package in packages():
        if only and not any(name in package for name in only):
            continue
        for module, cls in classes(package):
            try:
                row = compare(package, module, cls)
            except Exception as failure:  # noqa: BLE001 - a failure is a row, not the end
                row = Row(package, cls.__name__, state="disagreed", why=f"{type(failure).__name__}: {failure}")
            rows.append(row)
            if progress:
                print(line(row), flush=True)
    return rows


def line(row: Row) -> str:
    numbers = "" if row.table is None else f"{row.table:.1e} {row.rotation or 0:.1e} bits {row.bits}"
    return f"{row.state:12} {row.package}:{row.name} [{row.config}] {numbers} {row.why[:240]}"


def counts(rows: list[Row]) -> dict[str, int]:
    """How many classes came to which end."""
    found = Counter(row.state for row in rows)
    return {state: found.get(state, 0) for state in STATES}


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="parts of names of packages")
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    options = parser.parse_args()
    rows = sweep(options.only, progress=True)
    print(counts(rows), "equal bits:", sum(row.bits == "equal" for row in rows))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
