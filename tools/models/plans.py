"""Every model type of the installed transformers: its plan, held against the code of the model.

    python tools/models/plans.py             a line for each model type
    python tools/models/plans.py --write     the same into docs/plans.md and docs/data/plans.json
    python tools/models/plans.py NAME ...    only these model types; with --write, other rows stay
                                      as they are in docs/data/plans.json

Nothing here names a model but the tables of substitutes and findings. The default config of each
type is read by `posenc.from_hf`; its model is built without memory for weights; and three questions
are asked. Does the model hold what each entry of the plan says it holds: tables of those shapes,
a class that turns, a convolution? Is every parameter of the model whose name speaks of positions
explained by an entry? And does any module turn inside another one that turns, as an indexer does,
of which no entry speaks? Where one does, a small model is run, and what it turns, in the main
attention and in the inner one, is held against both entries.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import dataclasses
import importlib
import inspect
import json
import math
import os
import re
import signal
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.pages import shelf  # noqa: E402

PAGE = ROOT / "docs" / "plans.md"
DATA = ROOT / "docs" / "data" / "plans.json"
SWEEP = ROOT / "docs" / "data" / "sweep.json"
SLOWEST = 60  # seconds for one model; mixtures of many experts take some
STATES = ("planned", "partly", "unknown")
CHECKS = ("agreed", "partly", "differs", "not compared", "not built")
AGREE = 5e-6  # of what turned, in float32 on both sides
BESIDE = {"compressor"}  # modules that make further keys of the attention around them
MODEL_CLASSES = 6  # tried, of those that take a config

ROTARY = re.compile(r"Rotary|Rope|RoPE")
# Parameters that hold positions, by the last words of their names.
POSITIONAL = re.compile(
    r"pos_emb|position_emb|positional|positions|pos_encod|position_encod|position_enc\b|wpe\.|"
    r"rel_pos|relative|rel_emb|rel_attn|emb_rel|pe_k|distance_emb|bias_table|bias_[uv]\b|"
    r"r_[wr]_bias|r_kernel|linear_pos|attention_biases|continuous_position|alibi|pos_conv|"
    r"row_emb|column_emb|embed_timestep|time_embeddings|temporal_emb|tile_emb|pos_proj|"
    r"position_bias|bias_values|rel_logits|gru_rel|cls_position|pos_seq"
)
SILENT = re.compile(
    r"position_ids|relative_position_index|relative_coords|inv_freq|inv_timescales|query_pos|"
    r"layer_?norm|LayerNorm|\.norm|dropout|positional_proj|reposition|disposition|"
    r"timesteps|_index\b|logit_scale|scaling_factor|relative_order_head|out_point_positions|"
    r"attn\.embed_positions|relative_head"
)
# What a model without positions does not say.
POSITIONS = re.compile(r"\.sin\(|sinusoid|rotary|alibi|relative_position|pos_embed|position_embed")

# Where a default config contradicts itself, or lacks what every published one states.
SUBSTITUTES: dict[str, dict[str, Any]] = {}


def _mrope(sections: list[int], fraction: float = 0.5) -> dict[str, Any]:
    return {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e4,
            "partial_rotary_factor": fraction,
            "mrope_section": sections,
        }
    }


SUBSTITUTES["glm4v_text"] = SUBSTITUTES["glm_image_text"] = _mrope([8, 12, 12])
SUBSTITUTES["glm4v_moe_text"] = _mrope([3, 4, 4])
SUBSTITUTES["glm4v"] = {"text_config": _mrope([8, 12, 12])}
SUBSTITUTES["glm46v"] = SUBSTITUTES["glmga"] = {
    "text_config": {"model_type": "glm4v_text", **_mrope([8, 12, 12])}
}
SUBSTITUTES["glm4v_moe"] = {"text_config": _mrope([3, 4, 4])}
SUBSTITUTES["glm_image"] = {"text_config": _mrope([8, 12, 12])}
SUBSTITUTES["cohere_compass_text"] = {
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
SUBSTITUTES["cohere_compass"] = {"text_config": SUBSTITUTES["cohere_compass_text"]}
# Published ones have an indexer, which the default leaves out, or cannot be built without.
SUBSTITUTES["minimax_m3_vl_text"] = {
    "layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57
}
SUBSTITUTES["qwen4_exp_text"] = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
    },
}
for _name in ("minimax_m3_vl", "qwen4_exp"):
    SUBSTITUTES[_name] = {"text_config": SUBSTITUTES[f"{_name}_text"]}
for _name in ("time_series_transformer", "informer", "autoformer"):
    SUBSTITUTES[_name] = {"prediction_length": 24, "context_length": 48}

# What does not agree and was looked into: what the code does, in a sentence.
_PICTURES = "the class token turns by angles that are learned, beside those of the grid"
FINDINGS: dict[str, str] = {
    "beit": "Its encodings are turned on by keys that are off in the default config.",
    "data2vec-vision": "Its encodings are turned on by keys that are off in the default config.",
    "dac": "The sine is an activation, of no position.",
    "qwen2_5_omni_bigvgan": "The sine is an activation, of no position.",
    "glm5_next_text": "Its layers pass an argument on that is None and that nothing reads.",
    "granitemoehybrid": "Layers turn where position_embedding_type says so; the default does not.",
    "moonshine_streaming_encoder": "Its layers pass an argument on that is never given.",
    "moshi_depth": "Layers of depth are built with use_rope=False, in code.",
    "zamba": "A length is kept that nothing reads.",
    "zamba2": "Layers turn where use_mem_rope says so; the default does not.",
    "qwen3_omni_moe": "The whole model does not build from its default config; this is a part.",
    "cpmant": (
        "The table holds the buckets of the plan and then a row for each pair of types of segments."
    ),
    "decision_transformer": "Every token reads row 0 of the table of its encoder: no position.",
    "mlcd": f"As the note of the plan says, {_PICTURES}.",
    "mlcd_vision_model": f"As the note of the plan says, {_PICTURES}.",
    "omdet-turbo": "The model loads its text encoder by another config, and builds it elsewhere.",
    "roformer": "The table holds the sines and cosines of the rotation.",
    "pp_doclayout_v2": (
        "Its order of reading is read by the row of LayoutLMv3, whose class has a table for "
        "pictures; this model has none, so that entry is too much."
    ),
    "speecht5": "The convolution is in the part for speech, which the bare model is built without.",
    "yolos": "One tensor holds the tables of the layers: as many as there are layers, but one.",
    "florence_vision": "The tables are in the part of the whole model that follows this one.",
    "xclip_vision_model": "The table of frames is in the whole model.",
    "inkling2_vision": "The class token has a row of its own, as the note says.",
}


@dataclasses.dataclass
class Row:
    """What came of one model type."""

    model_type: str
    state: str = "unknown"
    kinds: list[str] = dataclasses.field(default_factory=list)
    positions: list[str] = dataclasses.field(default_factory=list)
    check: str = "not built"
    compared: str = ""
    shapes: int = 0
    why: str = ""
    unexplained: list[str] = dataclasses.field(default_factory=list)


# --- building -------------------------------------------------------------------------------------


def model_types() -> list[str]:
    """Every name that a config may have."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def default_config(name: str) -> Any:
    """The default config of a type, as its code makes it."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[name](**SUBSTITUTES.get(name, {}))


def plain(config: Any) -> dict[str, Any]:
    """The config as its file would hold it."""
    return dict(json.loads(json.dumps(config.to_dict(), default=str)))


def classes(name: str, config: Any) -> tuple[list[type], list[str]]:
    """(classes that take the config, names of those that are its bare model)."""
    from transformers import PreTrainedModel
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    listed = MODEL_MAPPING_NAMES.get(name, ())
    wanted = [listed] if isinstance(listed, str) else list(listed)
    package = type(config).__module__.rpartition(".")[0]
    folder = Path(importlib.import_module(package).__path__[0])
    found: list[type] = []
    for file in sorted(folder.glob("modeling_*.py")):
        module = importlib.import_module(f"{package}.{file.stem}")
        for cls in vars(module).values():
            mine = inspect.isclass(cls) and cls.__module__ == module.__name__
            if not mine or not issubclass(cls, PreTrainedModel):
                continue
            if cls.__name__.endswith("PreTrainedModel"):
                continue
            if cls.__name__ in wanted:
                found.insert(0, cls)
            elif getattr(cls, "config_class", None) is type(config):
                found.append(cls)
    return found[:MODEL_CLASSES], wanted


def built(name: str, config: Any) -> tuple[Any, str]:
    """(a model without memory for its weights, why not)."""
    import torch

    why = "no class of its package takes the config alone"
    try:
        candidates, bare = classes(name, config)
    except ImportError as failure:
        return None, f"{failure}".partition("\n")[0]
    best = None
    for cls in candidates:
        try:
            with timed(SLOWEST), torch.device("meta"):
                made = cls(default_config(name))
        except Exception as failure:
            why = f"{cls.__name__}: {type(failure).__name__}: {failure}".partition("\n")[0][:160]
            continue
        if cls.__name__ in bare:
            return made, ""
        # Of the parts of a package, the one that holds most is the whole.
        if best is None or len(list(made.named_parameters())) > len(list(best.named_parameters())):
            best = made
    return best, why


@contextlib.contextmanager
def timed(seconds: int) -> Iterator[None]:
    """An end to what takes too long."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- what a model holds ---------------------------------------------------------------------------


@dataclasses.dataclass
class Facts:
    """What the code of a model says of positions."""

    tensors: dict[str, tuple[int, ...]]  # parameters and buffers, layers with one name once
    modules: set[str]  # names of classes
    source: str  # of the file that defines the model
    parts: str  # of the classes that the model is made of

    def positional(self) -> dict[str, tuple[int, ...]]:
        """Those whose names speak of positions."""
        return {
            name: shape
            for name, shape in self.tensors.items()
            if POSITIONAL.search(".".join(name.split(".")[-4:])) and not SILENT.search(name)
        }


def facts(model: Any) -> Facts:
    """What a model holds; layers that are alike are told once."""
    tensors = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        same = re.sub(r"\.\d+\.", ".*.", name)
        while re.search(r"\.\d+\.", same):
            same = re.sub(r"\.\d+\.", ".*.", same)
        key = same if tensors.get(same, tuple(tensor.shape)) == tuple(tensor.shape) else name
        tensors[key] = tuple(tensor.shape)
    names = {type(module).__name__ for module in model.modules()}
    source = Path(inspect.getfile(type(model))).read_text(encoding="utf-8")
    kinds = {type(module) for module in model.modules()} - {type(model)}
    own = sorted((k for k in kinds if "transformers" in k.__module__), key=lambda k: k.__name__)
    return Facts(tensors, names, source, "\n".join(code(kind) for kind in own))


def code(kind: type) -> str:
    """The source of a class without comments, docstrings and decorators."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            node.decorator_list = []
            if ast.get_docstring(node):
                node.body[0] = ast.Pass()
    return ast.unparse(tree)


# --- comparing ------------------------------------------------------------------------------------


def shapes(spec: Any) -> list[tuple[int, ...]]:
    """The shapes of the tables that a model with this encoding stores."""
    kind = type(spec).__name__
    if kind == "Disentangled":
        return [(2 * spec.span, spec.dim * spec.count)]
    if kind == "ComplexOffsets":
        # One linear map of all indicators.
        return [
            (spec.heads, sum(math.prod(p.shape) for p in spec.parameters().values()) // spec.heads)
        ]
    if kind == "TransformerXL":
        return [(spec.count, spec.dim), (spec.count * spec.dim, spec.width)]
    return [tuple(p.shape) for p in spec.parameters().values() if p.shape]


def same_table(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a tensor is that table, however it is folded."""
    if math.prod(shape) != math.prod(wanted):
        return False
    if not shape or len(wanted) == 1:
        return True
    folded = [n for n in shape if n != 1]
    ends = {folded[-1], folded[0]} if folded else {1}
    return wanted[-1] in ends or wanted[0] in ends or len(folded) != 2


def compare(plan: Any, held: Facts) -> tuple[list[str], int, list[str]]:
    """(what is not there, tables that are, parameters that nothing explains)."""
    missing: list[str] = []
    explained: set[str] = set()
    count = 0
    positional = held.positional()
    for entry in plan:
        if entry.kind == "rotary":
            turns = any(ROTARY.search(n) for n in held.modules) or ROTARY.search(held.source)
            if not turns and "rotary" not in held.source:
                missing.append(f"{entry.layer}: no class that turns")
        elif entry.kind == "convolution":
            if not any("Conv" in name for name in held.modules):
                missing.append(f"{entry.layer}: no convolution")
            explained |= {name for name in positional if "conv" in name}
        elif entry.spec is not None and type(entry.spec).__name__ == "ALiBi":
            if "alibi" not in held.source:
                missing.append(f"{entry.layer}: no alibi")
        elif entry.spec is not None:
            tables = shapes(entry.spec)
            for wanted in tables:
                folded = (wanted, (len(tables), *wanted))
                found = [
                    name
                    for name, shape in held.tensors.items()
                    if any(same_table(shape, form) for form in folded)
                ]
                named = [n for n in found if n in positional]
                if not named and not found:
                    missing.append(f"{entry.layer}: no table of shape {wanted}")
                else:
                    count += 1
                    explained |= set(named or found)
            explained |= _sinusoids(entry, positional)
            explained |= _beside(entry.spec, positional)
    said = POSITIONS.search(held.parts)
    if said and not plan.errors and {entry.kind for entry in plan} == {"none"}:
        missing.append(f"no positions in the plan, and {said[0]!r} in the code")
    return missing, count, sorted(set(positional) - explained)


def _sinusoids(entry: Any, positional: dict[str, tuple[int, ...]]) -> set[str]:
    """Tables that a model stores, though they are computed."""
    if type(entry.spec).__name__ not in ("Sinusoidal", "Fourier"):
        return set()
    return {n for n, shape in positional.items() if shape and entry.spec.dim in shape}


def _beside(spec: Any, positional: dict[str, tuple[int, ...]]) -> set[str]:
    """Parameters of an encoding that its spec states in another form."""
    words = {
        "LogCPB": ("continuous_position",),
        "TransformerXL": ("r_", "rel", "bias_", "linear_pos", "pos_bias", "positions.pe"),
        "Disentangled": ("rel_embeddings", "pos_"),
        "Sinusoidal": ("alpha",),
    }.get(type(spec).__name__, ())
    return {n for n in positional if any(word in n for word in words)}


def compared(name: str) -> Row:
    """One model type."""
    import posenc

    row = Row(name)
    try:
        config = default_config(name)
        data = plain(config)
    except Exception as failure:
        row.why = f"its default config cannot be made: {str(failure).partition(chr(10))[0][:120]}"
        return row
    plan = posenc.from_hf(data, on_error="report")
    row.kinds = told(plan)
    row.positions = list(dict.fromkeys(str(e.positions) for e in plan if e.positions is not None))
    reasons = reasons_of(plan)
    row.why = "; ".join(reasons)
    if not reasons and row.kinds:
        row.state = "planned"
    else:
        row.state = "partly" if row.kinds else "unknown"
    if not row.kinds:
        return row
    model, why = built(name, config)
    if model is None:
        row.why = "; ".join([*reasons, f"not built: {why}"])
        return row
    missing, row.shapes, left = compare(plan, facts(model))
    missing += inner(plan, model)
    row.unexplained = left if row.state == "planned" else []
    agreed = "agreed" if row.state == "planned" else "partly"
    row.check = "differs" if missing or row.unexplained else agreed
    if row.check == "agreed":
        row.compared = rests_on(row, type(config).__name__)
        row.check = row.check if row.compared else "not compared"
    row.why = "; ".join([*reasons, *missing])
    return row


def inner(plan: Any, model: Any) -> list[str]:
    """What modules inside others turn and no entry says, or an entry says otherwise."""
    from tools.models import rotations

    names = {name.rpartition(".")[2] for name in rotations.inside(model)} - BESIDE
    entries = {entry.attention for entry in plan if entry.attention and entry.kind == "rotary"}
    missing = [f"{name} turns inside attention, and is in no entry" for name in names - entries]
    missing += [f"{name}: no module of that name turns" for name in entries - names]
    if not plan.errors and {entry.kind for entry in plan} == {"none"}:
        kinds = {kind.__name__ for kind in rotations.turning(model).values()}
        missing += [f"{kind} turns, and no entry does" for kind in kinds]
    if names & entries:
        configs = [getattr(module, "config", None) for module in model.modules()]
        small = {getattr(config, "model_type", "") for config in configs} & {*rotations.SMALL}
        missing += [] if small else ["no small model was run"]
        missing += [words for name in sorted(small) for words in turned_otherwise(name)]
    return sorted(missing)


def turned_otherwise(name: str) -> list[str]:
    """The attentions of a small model of a type that do not turn as its plan says."""
    import torch
    from tools.models import rotations

    import posenc

    plan = posenc.from_hf({"model_type": name, **copy.deepcopy(rotations.SMALL[name])})
    places = torch.arange(rotations.TOKENS)
    got = rotations.turned(rotations.built(name), places)
    found = []
    for entry in plan.at(0):
        for role, before, after, at in got[entry.attention].sides(places):
            positions = at[:, None].expand(-1, len(entry.spec.axes)) if entry.spec.axes[1:] else at
            made = posenc.rotate(entry.spec, before, positions=positions, role=role)
            error = float((made - after).abs().max() / before.abs().max())
            if not error < AGREE:
                where = entry.attention or "the main attention"
                found.append(f"{where} of a small model turns otherwise: {role} off by {error:.2g}")
    return found


def rests_on(row: Row, config: str) -> str:
    """What an agreement rests on: numbers, shapes of tables, or words in the code.

    Numbers are those of the sweep of rotary classes, and of an attention inside a layer that was
    run. A table without parameters, such as sinusoids, is in none of them: nothing is said then.
    """
    swept = json.loads(SWEEP.read_text(encoding="utf-8"))["rows"]
    ran = any(one["config"] == config and one["state"] == "agreed" for one in swept)
    turns = any("rotary" in kind for kind in row.kinds)
    ran = turns and (ran or any(" rotary" in kind for kind in row.kinds))
    said = any(kind.split(",")[0] in ("convolution", "none", "bias: ALiBi") for kind in row.kinds)
    found = {"numbers": ran, "shapes": row.shapes > 0, "words": said or (turns and not ran)}
    return " and ".join(word for word, holds in found.items() if holds)


def told(plan: Any) -> list[str]:
    """The encodings of a plan, in words, each once."""
    words = []
    for entry in plan:
        if entry.spec is not None:
            word = f"{entry.kind}: {type(entry.spec).__name__}"
        else:
            word = entry.kind
        if entry.logit_scale is not None:
            word += ", temperature"
        if entry.attention:
            word = f"{entry.attention} {word}"
        words.append(word)
    return list(dict.fromkeys(words))


def reasons_of(plan: Any) -> list[str]:
    """Why something is left open: errors, and warnings of what is not in the plan."""
    from posenc.detect.explain.config.view import is_open

    texts = [note.text for note in plan.notes if note.level == "error"]
    texts += [
        f"{note.layer}: {note.text}" if note.layer else note.text
        for note in plan.notes
        if is_open(note)
    ]
    return list(dict.fromkeys(texts))


# --- telling --------------------------------------------------------------------------------------


def sweep(only: list[str] | None = None, *, progress: bool = False) -> list[Row]:
    """A row for each model type."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.simplefilter("ignore")
    rows = []
    for name in list(dict.fromkeys(only or model_types())):
        rows.append(compared(name))
        if progress:
            print(line(rows[-1]), flush=True)
    return rows


def merged(rows: list[Row]) -> list[Row]:
    """The rows among those that are stored, which must be of the same versions.

    Raises
    ------
    ValueError
        If a row is of no stored model type, or what is stored is of other versions.
    """
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    if versions() != stored["versions"]:
        raise ValueError(f"{DATA.name} is of {stored['versions']}, not {versions()}: sweep all")
    known = {row["model_type"]: Row(**row) for row in stored["rows"]}
    fresh = {row.model_type: row for row in rows}
    if unknown := sorted(fresh.keys() - known.keys()):
        raise ValueError(f"{DATA.name} has no row of {', '.join(unknown)}: sweep all")
    return list((known | fresh).values())


def versions() -> dict[str, str]:
    """What the rows are of."""
    import torch
    import transformers

    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
    }


def line(row: Row) -> str:
    """A row as text."""
    left = f" UNEXPLAINED {row.unexplained[:4]}" if row.unexplained else ""
    return f"{row.state:8} {row.check:9} {row.model_type} {row.kinds} {row.why[:200]}{left}"


def data(rows: list[Row]) -> dict[str, Any]:
    """The result as JSON."""
    states, checks = Counter(row.state for row in rows), Counter(row.check for row in rows)
    kinds = Counter(kind for row in rows for kind in row.kinds)
    return {
        "versions": versions(),
        "counts": {state: states.get(state, 0) for state in STATES},
        "checks": {check: checks.get(check, 0) for check in CHECKS},
        "kinds": dict(sorted(kinds.items())),
        "shapes": sum(row.shapes for row in rows),
        "turned": sum(any(" rotary" in kind for kind in row.kinds) for row in rows),
        "rows": [dataclasses.asdict(row) for row in rows],
    }


PROSE = """\
# Plans of every model type of transformers

`posenc.from_hf` reads the default config of each of the {count} model types of transformers
{transformers}; its model is then built, without memory for weights (torch {torch}), and held
against the plan.

- *Planned*: nothing is left open. *Partly*: some encodings are read, the others are unknown for a
  stated reason.
- *Agrees*: each table of the plan is there with its shape ({shapes} were found), so is each class
  that turns, and every parameter whose name speaks of positions is explained. Angles are compared
  in the [sweep](sweep.md) of rotary classes.
- An attention inside a layer, such as the indexer of sparse attention, has an entry of its own.
  Small models of the {turned} types that have one were run, and turned as their plans say.
- Positions and attention outputs of representatives are run by `tests/originals`.

`python tools/models/plans.py --write` writes this page and [plans.json](data/plans.json).
"""


def page(found: dict[str, Any]) -> str:
    """The result as a page."""
    rows, versions = found["rows"], found["versions"]
    counts, checks = found["counts"], found["checks"]
    numbers = [counts[state] for state in STATES] + [checks[check] for check in CHECKS]
    rests = Counter(row["compared"] for row in rows if row["check"] == "agreed")
    heads = ("planned", "partly", "unknown", "agrees", "in part", "differs", "not compared")
    lines = [
        PROSE.format(count=len(rows), shapes=found["shapes"], turned=found["turned"], **versions),
        f"| {' | '.join(heads)} | not built |",
        "|---|---|---|---|---|---|---|---|",
        f"| {' | '.join(map(str, numbers))} |",
        "",
        "| what agreement rests on | model types |",
        "|---|---|",
        *(f"| {rest} | {number} |" for rest, number in sorted(rests.items())),
        "",
        "## Encodings",
        "",
        "| in plans | model types |",
        "|---|---|",
        *(f"| {kind} | {number} |" for kind, number in found["kinds"].items()),
        "",
        "## What is left open",
        "",
        "| model type | read | why not all of it |",
        "|---|---|---|",
        *(
            f"| `{row['model_type']}` | {', '.join(row['kinds']) or '–'} | {_cell(row['why'])} |"
            for row in rows
            if row["state"] != "planned"
        ),
        "",
        "## Where the model differs from the plan",
        "",
        "| model type | what was found |",
        "|---|---|",
        *(
            f"| `{row['model_type']}` | {_cell(finding(row))} |"
            for row in rows
            if row["check"] == "differs"
        ),
        "",
        "## Models that were not built",
        "",
        "| model type | why |",
        "|---|---|",
        *(
            f"| `{row['model_type']}` | {_cell(row['why'].rpartition('not built: ')[2])} |"
            for row in rows
            if row["check"] == "not built" and row["state"] == "planned"
        ),
        "",
        "## Planned",
        "",
        "| model type | encodings | positions | model | compared |",
        "|---|---|---|---|---|",
        *(
            f"| `{row['model_type']}` | {', '.join(row['kinds'])} "
            f"| {_cell('; '.join(row['positions']))} | {row['check']} "
            f"| {row['compared']} |"
            for row in rows
            if row["state"] == "planned"
        ),
    ]
    return "\n".join(lines) + "\n"


def finding(row: dict[str, Any]) -> str:
    """What is known of a difference; the bare difference where nobody looked."""
    told = [row["why"], *row["unexplained"]]
    return FINDINGS.get(row["model_type"]) or "; ".join(text for text in told if text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="model types")
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    options = parser.parse_args()
    if unknown := sorted(set(options.only) - set(model_types())):
        parser.error(f"no model types: {', '.join(unknown)}")
    rows = sweep(options.only, progress=True)
    try:
        found = data(merged(rows) if options.write and options.only else rows)
    except ValueError as failure:
        parser.error(str(failure))
    print(found["counts"], found["checks"])
    if options.write:
        DATA.parent.mkdir(parents=True, exist_ok=True)
        DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shelf.write(PAGE, page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
