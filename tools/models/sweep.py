"""Every rotary class of the installed transformers against the plan read from its config.

    python tools/models/sweep.py             the table, as text
    python tools/models/sweep.py --write     the same into docs/sweep.md and docs/data/sweep.json
    python tools/models/sweep.py NAME ...    only packages whose names contain one of these

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

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.pages import shelf  # noqa: E402

PAGE = ROOT / "docs" / "sweep.md"
DATA = ROOT / "docs" / "data" / "sweep.json"
CLOSE = 1e-6
LONGEST = 32_768
SHORT = 18
CLASS = re.compile(r"Rotary|Rope|RoPE")
# Where a default config contradicts itself or has no layers that turn: what to change in it.
SUBSTITUTES: dict[str, dict[str, Any]] = {
    name: {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, **more}}
    for name, more in {
        "Glm4vTextRotaryEmbedding": {"partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]},
        "Glm4vMoeTextRotaryEmbedding": {"partial_rotary_factor": 0.5, "mrope_section": [3, 4, 4]},
        "GlmImageTextRotaryEmbedding": {"partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]},
        "CohereCompassRotaryEmbedding": {"mrope_section": [24, 20, 20]},
    }.items()
}
SUBSTITUTES["CohereCompassRotaryEmbedding"] = {
    "layer_types": ["full_attention", "sliding_attention"] * 20,
    "rope_parameters": {
        "full_attention": {
            "rope_type": "default",
            "rope_theta": 1e6,
            "mrope_section": [24, 20, 20],
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
SUBSTITUTES["GraniteMoeHybridRotaryEmbedding"] = {
    "layer_types": ["linear_attention", "full_attention"] * 16,
    "position_embedding_type": "rope",
}
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


# --- finding --------------------------------------------------------------------------------------


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
    except Exception:
        hints = {}
    found += [h for h in hints.values() if inspect.isclass(h) and issubclass(h, PreTrainedConfig)]
    folder = Path(importlib.import_module("transformers.models").__path__[0]) / package
    for file in sorted(folder.glob("configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{package}.{file.stem}")
        for other in vars(module).values():
            if (
                inspect.isclass(other)
                and issubclass(other, PreTrainedConfig)
                and other.__module__ == module.__name__
            ):
                found.append(other)
    return list(dict.fromkeys(found))


def built(package: str, cls: type) -> tuple[list[tuple[Any, Any]], str]:
    """(modules with the configs that the class accepts, why not)."""
    why = "no config of the package fits the class"
    found = []
    for kind in configs(package, cls):
        try:
            config = kind(**SUBSTITUTES.get(cls.__name__, {}))
            made = cls(config)
        except Exception as failure:
            why = why if found else f"{kind.__name__}: {type(failure).__name__}: {failure}"
            continue
        found.append((made.eval(), config))
    return found, why


def default_configs() -> Iterator[dict[str, Any]]:
    """The default config of every class of configs, as its file would hold it."""
    import transformers.models
    from transformers import PreTrainedConfig

    for package in packages():
        folder = Path(transformers.models.__path__[0]) / package
        for file in sorted(folder.glob("configuration_*.py")):
            module = importlib.import_module(f"transformers.models.{package}.{file.stem}")
            for kind in vars(module).values():
                mine = inspect.isclass(kind) and kind.__module__ == module.__name__
                if mine and issubclass(kind, PreTrainedConfig):
                    try:
                        made = kind().to_dict()
                    except Exception:  # some need arguments
                        continue
                    yield json.loads(json.dumps(made, default=str))


# --- comparing ------------------------------------------------------------------------------------


def compare(package: str, module: Any, cls: type) -> Row:
    """One class against the plan of its config."""
    found, why = built(package, cls)
    if not found:
        return Row(package, cls.__name__, why=f"it cannot be built from a default config: {why}")
    # The annotation names the first; a composite class may serve a part of its model.
    rows = []
    for made, config in found:
        rows.append(compare_with(package, module, cls, made, config))
        if rows[-1].state == "agreed":
            return rows[-1]
    return rows[0]


def compare_with(package: str, module: Any, cls: type, made: Any, config: Any) -> Row:
    """One class, made from one config, against the plan of that config."""
    import posenc

    changed = ", ".join(SUBSTITUTES.get(cls.__name__, ()))
    row = Row(package, cls.__name__, config=type(config).__name__)
    if changed:
        row.config += f" with another {changed}"
    plan = plan_of(package, config)
    entries = turning(plan)
    for key, value in alternatives(config) if not entries else ():
        # A family that turns only when asked to: the class is for that case.
        asked = {**config.to_dict(), key: value}
        plan = posenc.from_hf(asked, on_error="report")
        entries = turning(plan)
        row.config += f", {key}={value!r}"
        if entries:
            break
    if plan.errors or not entries:
        row.state, row.why = "refused", "; ".join(plan.errors) or "no entry turns"
        return row
    pairs = matched(made, entries)
    worst_table = worst_turn = 0.0
    bits: list[str] = []
    turned = False
    try:
        for entry, label in pairs:
            table, turn, same = one(module, cls, made, config, spec=entry.spec, label=label)
            worst_table, bits = max(worst_table, table), [*bits, same]
            turned = turned or turn is not None
            worst_turn = max(worst_turn, turn or 0.0)
            row.layers += 1
    except NotImplementedError as error:
        row.why = str(error)
        return row
    except ValueError as error:
        row.state, row.why = "disagreed", str(error)
        return row
    row.table = worst_table
    row.rotation = worst_turn if turned else None
    row.bits = bits[0] if len(set(bits)) == 1 else ", ".join(sorted(set(bits)))
    row.state = "agreed" if max(worst_table, worst_turn) <= CLOSE else "disagreed"
    if row.state == "agreed" and "differ" in row.bits:
        row.state, row.why = "disagreed", "cosines or sines differ in bits"
    return row


def plan_of(package: str, config: Any) -> Any:
    """The plan of a config; of a part without a type, that of the model in which it stands."""
    import posenc

    for kind in configs(package, object) if not config.model_type else ():
        try:
            whole = kind()
        except Exception:  # some need arguments
            continue
        inside = [key for key, value in vars(whole).items() if type(value) is type(config)]
        if whole.model_type and inside:
            plan = posenc.from_hf(whole, on_error="report")
            return plan.part(inside[0].removesuffix("_config"))
    return posenc.from_hf(config, on_error="report")


def turning(plan: Any) -> list[Any]:
    """The rotary entries of a plan."""
    return [e for e in plan if e.spec is not None and e.kind == "rotary"]


def alternatives(config: Any) -> list[tuple[str, Any]]:
    """Values of the keys by which the row of the family chooses an encoding."""
    from posenc.presets.families import family

    row = family(config.model_type)
    rules = [] if row is None else [e["when"] for e in row.entries if "when" in e and "rotary" in e]
    return [(rule["key"], rule["one_of"][0]) for rule in rules]


def matched(made: Any, entries: list[Any]) -> list[tuple[Any, str | None]]:
    """Entries with the label of the layers, where the class has buffers for each type of layer."""
    labels = [
        n.removesuffix("_inv_freq") for n, _ in made.named_buffers() if n.endswith("_inv_freq")
    ]
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
    module: Any, cls: type, made: Any, config: Any, *, spec: Any, label: str | None
) -> tuple[float, float | None, str]:
    """(error of the table, error of the rotation, bits) of one encoding."""
    import torch

    import posenc

    axes = len(spec.axes)
    if spec.needs_length:
        spec = spec.at(SHORT)
    positions, cos, sin, out = theirs(made, spec, label, short(axes), config)
    ours = posenc.cos_sin(spec, positions)
    table = max(error(cos, ours[0]), error(sin, ours[1]))
    turn = rotation(module, cls, spec, positions, out=out, config=config)
    try:
        far, cos, sin, out = theirs(made, spec, label, long(axes), config)
    except NotImplementedError:
        return table, turn, "not asked"
    if not isinstance(spec, posenc.RoPE) or far.dtype.is_floating_point:
        return table, turn, "not asked"
    classic = spec.replace(phase="float32")
    again = posenc.cos_sin(classic, far)
    same = all(equal(t, o) for t, o in ((cos, again[0]), (sin, again[1])))
    if not same and isinstance(out, torch.Tensor) and out.is_complex():
        # torch.polar has sines and cosines of its own; the angles it was given are what counts.
        angle = far[:, None].float() * made.inv_freq
        same = equal(angle.cos(), again[0]) and equal(angle.sin(), again[1])
        return table, turn, "equal before torch.polar" if same else "differ"
    return (
        table,
        turn,
        "equal" if same else f"differ by {max(error(cos, again[0]), error(sin, again[1])):.1e}",
    )


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


def raw(made: Any, spec: Any, label: str | None, positions: Any) -> Any:
    """What the class returns, and `None` where its call has no positions."""
    import torch

    x = torch.zeros(1)
    extra = {} if label is None else {"layer_type": label}
    axes = len(spec.axes)
    shapes = (
        [positions[None]] if axes == 1 else [positions, positions.T[:, None, :], positions[None]]
    )
    failures, widths = [], []
    for shaped in shapes:
        try:
            out = made(x, shaped.clone(), **extra)
        except Exception as failure:
            failures.append(f"{type(failure).__name__}: {failure}")
            continue
        first = out[0] if isinstance(out, tuple) else out
        if (
            first.shape[-1] in (spec.dim, spec.dim // 2)
            and first.numel() == len(positions) * first.shape[-1]
        ):
            return out
        if first.ndim > 1 and first.shape[-2] == len(positions):
            widths.append(first.shape[-1])
        failures.append(f"a table of shape {tuple(first.shape)}")
    if widths and not {spec.dim, spec.dim // 2} & set(widths):
        raise ValueError(f"a table of {widths[0]} channels, where the plan turns {spec.dim}")
    raise NotImplementedError("; ".join(failures)[:200])


def theirs(
    made: Any, spec: Any, label: str | None, positions: Any, config: Any
) -> tuple[Any, Any, Any, Any]:
    """(positions, cosines, sines, result) of the class; tables are (points, channels or pairs)."""
    import torch

    parameters = list(inspect.signature(made.forward).parameters)
    if "position_ids" in parameters:
        out = raw(made, spec, label, positions)
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
    return positions, cos.reshape(-1, width), sin.reshape(-1, width), out


def called_otherwise(
    made: Any, parameters: list[str], spec: Any, positions: Any, config: Any
) -> tuple[Any, Any]:
    """Classes that make positions themselves, from the shape of what they are given."""
    import torch

    if int(positions.max()) >= SHORT and len(spec.axes) > 1:
        raise NotImplementedError("positions are those of its own grid")
    if parameters[:2] == ["ref_pos", "ref_space_uid"]:  # places of atoms, and of their residue
        places, residues = positions[None, :, :3].float(), positions[None, :, 3]
        return positions, made(places, residues, torch.float32)
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


def error(full: Any, ours: Any) -> float:
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
    module: Any, cls: type, spec: Any, positions: Any, *, out: Any, config: Any
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
    wide = config.to_dict().get("head_dim")
    wide = wide if isinstance(wide, int) else None
    for head in dict.fromkeys((spec.dim + 8, wide or spec.dim, spec.dim)):
        if head < spec.dim:
            continue
        q, k = (torch.rand(1, 2, count, head, generator=generator) - 0.5 for _ in range(2))
        try:
            turned = called(function, q, k, out)
        except Exception as failure:
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
    """The function of the module that turns queries and keys of this class.

    It is the one that the attention named most like the class calls.
    """
    names = [
        n
        for n, f in vars(module).items()
        if inspect.isfunction(f) and re.match(r"(vision_)?apply_(rotary|multi)", n)
    ]
    users = [
        (len(common(cls.__name__, name)), name, user)
        for name, user in vars(module).items()
        if inspect.isclass(user)
        and user.__module__ == module.__name__
        and "Attention" in name
        and ("Vision" in name) <= ("Vi" in cls.__name__)
    ]
    for _, _, user in sorted(users, key=lambda found: (-found[0], len(found[1]))):
        source = inspect.getsource(user)
        called = [n for n in names if re.search(rf"\b{n}\(", source)]
        if called:
            # Where a config chooses, its default is the one for weights as they were released.
            return vars(module)[sorted(called, key=lambda n: ("interleave" not in n, len(n)))[0]]
    return vars(module)[sorted(names, key=len)[0]] if names else None


def common(one: str, other: str) -> str:
    """The beginning that two names share."""
    same = [a for a, b in zip(one, other, strict=False) if a == b]
    while not one.startswith("".join(same)) or not other.startswith("".join(same)):
        same.pop()
    return "".join(same)


def called(function: Any, q: Any, k: Any, out: Any) -> tuple[Any, ...]:
    """Queries and keys turned by `function`, whatever its arguments."""
    import torch

    parameters = list(inspect.signature(function).parameters)
    if isinstance(out, torch.Tensor) and out.is_complex():
        return complex_called(function, q, k, out)
    if isinstance(out, torch.Tensor):  # both in one, or angles
        cos, sin = (out[0], out[1]) if out.shape[0] == 2 else (out.cos(), out.sin())
    else:
        cos, sin = out
    if "v" in parameters:
        ids = torch.arange(q.shape[2])[None]
        return tuple(
            function(q, k, k, cos.reshape(-1, cos.shape[-1]), sin.reshape(-1, cos.shape[-1]), ids)[
                :2
            ]
        )
    if "vision" in function.__name__ and cos.ndim == 2:
        turned = function(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        return tuple(t.transpose(1, 2) for t in turned)
    extra = {"unsqueeze_dim": 0} if cos.ndim == 2 and "unsqueeze_dim" in parameters else {}
    if cos.ndim == 4 and "unsqueeze_dim" in parameters:  # a picture, of which heads come last
        cos, sin = (t.reshape(1, -1, t.shape[-1]) for t in (cos, sin))
    if parameters[0] == "x" and "position_ids" in parameters:
        ids = torch.zeros(1, q.shape[2], 2, dtype=torch.long)
        return tuple(function(x, cos, sin, ids, unsqueeze_dim=1) for x in (q, k))
    if parameters[0] == "x":
        return tuple(function(x, cos, sin, **extra) for x in (q, k))
    return tuple(function(q, k, cos=cos, sin=sin, **extra)[:2])


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


# --- telling --------------------------------------------------------------------------------------


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
            except Exception as failure:
                row = Row(
                    package,
                    cls.__name__,
                    state="disagreed",
                    why=f"{type(failure).__name__}: {failure}",
                )
            rows.append(row)
            if progress:
                print(line(row), flush=True)
    return rows


def line(row: Row) -> str:
    numbers = (
        "" if row.table is None else f"{row.table:.1e} {row.rotation or 0:.1e} bits {row.bits}"
    )
    return f"{row.state:12} {row.package}:{row.name} [{row.config}] {numbers} {row.why[:240]}"


def counts(rows: list[Row]) -> dict[str, int]:
    """How many classes came to which end."""
    found = Counter(row.state for row in rows)
    return {state: found.get(state, 0) for state in STATES}


# Disagreements that were looked into: what the other side does, and how that was seen.
FINDINGS = {
    "MiniMaxM3VLRotaryEmbedding": (
        "Its config states `rotary_dim=64`, documented as the rotated width, and no line of its "
        "modelling code reads that key: the class turns all 128 channels of a head unless "
        "`partial_rotary_factor` stands in `rope_parameters`. The plan turns 64, as stated."
    ),
}


def data(rows: list[Row]) -> dict[str, Any]:
    """The result as JSON."""
    import torch
    import transformers

    versions = {
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
    }
    return {
        "versions": versions,
        "counts": counts(rows),
        "packages": len({row.package for row in rows}),
        "equal_bits": sum(row.bits.startswith("equal") for row in rows),
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def page(found: dict[str, Any]) -> str:
    """The result as a page."""
    total = found["counts"]
    rows = found["rows"]
    versions = found["versions"]
    made = (
        f"Written by `python tools/models/sweep.py --write` with transformers "
        f"{versions['transformers']} and torch {versions['torch']}."
    )
    what = (
        f"Each of the {len(rows)} rotary classes of {found['packages']} packages is built from a "
        "default config, which `posenc.from_hf` reads too. Compared are cosines and sines, and "
        f"rotated queries and keys, at positions 0 to {SHORT - 1} (at most {CLOSE:.0e} apart), and "
        f'with `phase="float32"` the bits of cosines and sines at positions up to {LONGEST:,}.'
    )
    numbers = [str(total[state]) for state in STATES] + [str(found["equal_bits"])]
    lines = [
        "# Rotary classes of transformers against their plans",
        "",
        made,
        "",
        what,
        "",
        "| agreed | refused, with a reason | disagreed | not compared | equal bits |",
        "|---|---|---|---|---|",
        f"| {' | '.join(numbers)} |",
        "",
    ]
    for state, title in (
        ("refused", "Refused"),
        ("disagreed", "Disagreed"),
        ("not compared", "Not compared"),
    ):
        rows = [row for row in found["rows"] if row["state"] == state]
        if rows:
            lines += [f"## {title}", "", "| class | config | why |", "|---|---|---|"]
            for row in rows:
                why = FINDINGS.get(row["name"], row["why"]).replace("|", "\\|").replace("\n", " ")
                lines.append(f"| `{row['package']}` {row['name']} | {row['config']} | {why} |")
            lines.append("")
    legend = (
        "Largest differences; layers are the types of layers compared. A dash means that nothing "
        "in the module applies the rotation by itself, or that the class makes its own positions."
    )
    lines += [
        "## Agreed",
        "",
        legend,
        "",
        "| class | config | layers | cos, sin | rotation | bits |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        if row["state"] == "agreed":
            turn = "–" if row["rotation"] is None else f"{row['rotation']:.1e}"
            bits = "–" if row["bits"] == "not asked" else row["bits"]
            lines.append(
                f"| `{row['package']}` {row['name']} | {row['config']} | {row['layers']} | "
                f"{row['table']:.1e} | {turn} | {bits} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="parts of names of packages")
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write is for the whole sweep")
    rows = sweep(options.only, progress=True)
    found = data(rows)
    print(found["counts"], "equal bits:", found["equal_bits"])
    if options.write:
        DATA.parent.mkdir(parents=True, exist_ok=True)
        DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shelf.write(PAGE, page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
