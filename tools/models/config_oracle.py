"""What transformers computes for a config: the oracle of the corpus of published configs.

    python tools/models/config_oracle.py             run all rows, compare with tests/golden/configs
    python tools/models/config_oracle.py --write     write the numbers beside the rows
    python tools/models/config_oracle.py --show ID   the facts of one row

The installed transformers loads the dictionary of each row and makes the model on the meta device.
Its rotary modules are made anew on the CPU and run; a forward pass tells which layer calls which
function with angles of which module; the functions are run on single channels, which tells pairing
and width. Tables are told by shape, ALiBi by its slopes, T5 by its buckets. posenc is not imported.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import importlib
import inspect
import json
import os
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "golden" / "configs"
ROWS, FACTS, ARRAYS = "rows.jsonl", "facts.jsonl", "arrays.safetensors"
# Of models without a class in transformers, written by tests/golden/make_models.py.
MODELS, NUMBERS = "models.jsonl", "models.safetensors"
POSITIONS = (0, 1, 257, 4097)  # and around the original length
TOKENS = 8
DISTANCES = 300  # of buckets, to either side
SECONDS = 120  # for one row
ROTATES = re.compile(r"^_?(vision_)?apply_(rotary|multimodal_rotary|rope|partial)")
LAYER = re.compile(r"^(.*?\b(?:layers|h|blocks?|layer)\.)(\d+)\.")
TABLES = re.compile(
    r"position|\bwpe\b|pos_emb|relative_attention_bias|\brel_pos|\bpe\b|rel_attn\.(r$|\w_\w_bias|seg_)"
)
PARTS = re.compile(r"vision|visual|audio|image|speech|video|talker|token2wav")
# What mixes tokens or channels without positions, and does not run on the meta device.
STUBS = re.compile(
    r"Experts|GatedDeltaNet|Mamba.*Mixer|MambaLayer|ShortConv|LightningAttention|KimiDelta"
)


def loaded(data: dict[str, Any]) -> Any:
    """The config object that transformers makes of a dictionary; raises where it refuses."""
    from transformers import CONFIG_MAPPING

    data = copy.deepcopy(data)
    for part in (data, *(value for value in data.values() if isinstance(value, dict))):
        for key in ("quantization_config", "auto_map"):
            part.pop(key, None)
        # Whether there is a token for padding says nothing of positions, and stops some classes.
        size, pad = part.get("vocab_size"), part.get("pad_token_id")
        if isinstance(size, int) and isinstance(pad, int) and pad >= size:
            part["pad_token_id"] = None
    return CONFIG_MAPPING[data["model_type"]].from_dict(data)


def built(config: Any, data: dict[str, Any]) -> Any:
    """The model without weights: the class that the file names, else the plain one."""
    import torch
    import transformers

    named = [getattr(transformers, name, None) for name in data.get("architectures") or ()]
    makers: list[Callable[..., Any]] = [
        cls._from_config for cls in named if hasattr(cls, "_from_config")
    ]
    makers.append(transformers.AutoModel.from_config)
    error: Exception | None = None
    for make in makers:
        for extra in ({"attn_implementation": "eager"}, {}):
            try:
                with torch.device("meta"):
                    return make(config, **extra)
            except Exception as found:  # noqa: BLE001 - whatever a class of somebody else raises
                error = error or found
    raise RuntimeError(f"no class of transformers takes it: {error!r}")


# --- rotary modules -------------------------------------------------------------------------------


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Modules that know the arguments they were made with."""
    import torch

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        made = object.__new__(cls)
        object.__setattr__(made, "_made_with", (args, kwargs))
        return made

    torch.nn.Module.__new__ = new  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del torch.nn.Module.__new__


def again(module: Any) -> Any:
    """The module made anew, on the CPU."""
    args, kwargs = module._made_with
    kwargs = {key: value for key, value in kwargs.items() if key != "device"}
    return type(module)(*args, **kwargs)


def frequency_names(module: Any) -> list[str]:
    """Names of the frequencies that a module holds."""
    names = [name for name, _ in module.named_buffers(recurse=False)]
    names += [name for name, value in vars(module).items() if hasattr(value, "detach")]
    return [name for name in names if name.endswith("inv_freq") and "original" not in name]


def rotary(module: Any, positions: list[int], length: int) -> list[dict[str, Any]]:
    """Frequencies, magnitude, cos and sin, for each type of layer."""
    rows = []
    for name in frequency_names(module):
        kind = name.removesuffix("inv_freq").rstrip("_")
        row: dict[str, Any] = {"type": kind}
        fresh = again(module)
        row["frequencies"] = getattr(fresh, name).double().numpy().ravel()
        scale = f"{kind}_attention_scaling" if kind else "attention_scaling"
        row["factor"] = float(getattr(fresh, scale, None) or 1.0)
        short = [p for p in positions if p < length]
        cos, sin = angles(fresh, kind, short, row["frequencies"].size)
        beyond = again(module)
        more = angles(beyond, kind, positions, row["frequencies"].size)
        last = getattr(beyond, name).double().numpy().ravel()
        if not np.array_equal(last, row["frequencies"]):
            row["beyond"] = last
        if cos is not None and more[0] is not None and more[1] is not None:
            row["cos"] = np.concatenate([cos, more[0][len(short) :]])
            row["sin"] = np.concatenate([sin, more[1][len(short) :]])
        rows.append(row)
    return rows


def angles(module: Any, kind: str, positions: list[int], pairs: int) -> tuple[Any, Any]:
    """cos and sin of each pair at positions, or None where the module is called otherwise."""
    import torch

    x = torch.zeros(1, len(positions), 8)
    ids = torch.tensor([positions])
    extra = {"layer_type": kind} if kind else {}
    for given in (ids, ids[None].expand(3, 1, -1)):
        try:
            with torch.no_grad():
                out = module(x, given, **extra)
        except Exception:  # noqa: BLE001 - other modules take other arguments
            continue
        if isinstance(out, torch.Tensor) and out.is_complex():
            out = (out.real, out.imag)
        if isinstance(out, tuple) and len(out) == 2:
            return tuple(paired(t, len(positions), pairs) for t in out)  # type: ignore[return-value]
    return None, None


def paired(values: Any, count: int, pairs: int) -> Any:
    """One column for each pair, of tables that hold each twice, by halves or by neighbours."""
    found = values.detach().float().numpy()
    while found.ndim > 2:
        found = found[0]
    if found.shape == (count, pairs):
        return found
    if found.shape != (count, 2 * pairs):
        return None
    if np.array_equal(found[:, :pairs], found[:, pairs:]):
        return found[:, :pairs]
    return found[:, ::2] if np.array_equal(found[:, ::2], found[:, 1::2]) else None


# --- a forward pass -------------------------------------------------------------------------------


def seen(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Pairing and width of a function that turns, by the channels that it mixes."""
    import torch

    try:
        with torch.device("cpu"):
            return _seen(function, args, kwargs)
    except Exception:  # noqa: BLE001 - a function of another form
        return None


def _seen(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    import torch

    values = dict(inspect.signature(function).bind(*args, **kwargs).arguments)

    def plain(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.zeros(value.shape, dtype=value.dtype, device="cpu")

    values = {key: plain(value) for key, value in values.items()}
    first = next(v for v in values.values() if isinstance(v, torch.Tensor))
    turning = [
        value
        for key, value in values.items()
        if key in ("cos", "sin") or (isinstance(value, torch.Tensor) and value.is_complex())
    ]

    def run(x: Any, size: complex) -> Any:
        for value in turning:
            value.fill_(size if value.is_complex() else complex(size).real)
        first.copy_(x.expand(first.shape))
        with torch.no_grad():
            out = function(**values)
        out = out[0] if isinstance(out, tuple) else out
        return out.reshape(-1, out.shape[-1])[0].double().numpy()

    size = first.shape[-1]
    one = torch.zeros(size)
    one[0] = 1
    code = torch.arange(size) + 2.0
    kept = run(torch.ones(size), 0)
    places = np.flatnonzero(run(one, 1 + 1j))
    mixed = run(code, 1 + 1j)[places[0]] - float(code[0])
    partner = int(np.argmin(abs(abs(mixed) - code.double().numpy())))
    width = int((kept == 0).sum())
    order = "interleaved" if partner == 1 and width != 2 else "half"
    return {"pairing": order, "width": width, "exact": width > 2 and partner in (1, width // 2)}


def traced(model: Any, config: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(path of a layer -> module and type of its angles, functions, why the pass ended early)."""
    import torch

    names = {id(module): name for name, module in model.named_modules()}
    calls: dict[str, Any] = {}
    functions: dict[str, Any] = {}

    def caller() -> str:
        frame = inspect.currentframe()
        while frame is not None:
            me = frame.f_locals.get("self")
            if isinstance(me, torch.nn.Module) and id(me) in names:
                return names[id(me)]
            frame = frame.f_back
        return "?"

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
            tag = next((t._tag for t in tensors if hasattr(t, "_tag")), None)
            calls.setdefault(caller(), tag)
            key = f"{name} {tensors[0].shape[-1]}"
            if key not in functions:
                functions[key] = seen(function, args, kwargs)
            return function(*args, **kwargs)

        return call

    def tagged(path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            out = forward(*args, **kwargs)
            words = [v for v in (*args, *kwargs.values()) if isinstance(v, str)]
            for value in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(value, torch.Tensor):
                    value._tag = (path, words[0] if words else "")  # type: ignore[attr-defined]
            return out

        return call

    def same(*args: Any, **kwargs: Any) -> Any:
        return torch.empty_like(kwargs["hidden_states"] if "hidden_states" in kwargs else args[0])

    for path, module in model.named_modules():
        if frequency_names(module):
            module.forward = tagged(path, module.forward)
        elif STUBS.search(type(module).__name__):
            module.forward = same
    files = {sys.modules[type(m).__module__] for m in model.modules()}
    files = {f for f in files if f.__name__.startswith("transformers.models")}
    saved = [
        (file, name, value)
        for file in files
        for name, value in vars(file).items()
        if isinstance(value, types.FunctionType) and ROTATES.search(name)
    ]
    for file, name, value in saved:
        setattr(file, name, watched(name, value))
    try:
        with torch.no_grad(), torch.device("meta"), settled():
            ids = torch.zeros(1, TOKENS, dtype=torch.long)
            given: dict[str, Any] = {"input_ids": ids}
            if getattr(config, "is_encoder_decoder", False):
                given["decoder_input_ids"] = ids
            if "use_cache" in inspect.signature(model.forward).parameters:
                given["use_cache"] = False
            model(**given)
        why = ""
    except Exception as error:  # noqa: BLE001 - whatever a model of somebody else raises
        why = f"{type(error).__name__}: {str(error)[:120]}"
    finally:
        for file, name, value in saved:
            setattr(file, name, value)
    return calls, functions, why


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Values of tensors that have none, for the branches that ask."""
    import torch

    masks = importlib.import_module("transformers.masking_utils")
    item, packed = torch.Tensor.item, masks.find_packed_sequence_indices
    torch.Tensor.item = lambda self: 1.0 if self.is_meta else item(self)  # type: ignore[method-assign,assignment,return-value]
    masks.find_packed_sequence_indices = lambda *_, **__: None
    try:
        yield
    finally:
        torch.Tensor.item = item  # type: ignore[method-assign]
        masks.find_packed_sequence_indices = packed


# --- facts ----------------------------------------------------------------------------------------


def original_length(config: Any) -> int:
    """The length of training before any extension."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    params = getattr(text, "rope_parameters", None) or {}
    for values in (params, *(v for v in params.values() if isinstance(v, dict))):
        if isinstance(values.get("original_max_position_embeddings"), (int, float)):
            return int(values["original_max_position_embeddings"])
    for name in ("original_max_position_embeddings", "max_position_embeddings", "n_positions"):
        if isinstance(getattr(text, name, None), int):
            return int(getattr(text, name))
    return 2048


def facts(data: dict[str, Any]) -> dict[str, Any]:
    """What the model of a config does about positions.

    Parameters
    ----------
    data : dict
        The config.

    Returns
    -------
    dict
        `class`; `length`; `positions`; `layers`, their number, and `types`, theirs; `rotary`, a
        row for each module and type of layer; `turned`, for each stack of layers those that turn
        and the row whose angles they take; `functions`; `tables`, `slopes`, `buckets`; `ended`, why
        the forward pass ended early. `refused` alone where transformers does not load it, and
        `no class` where it has none.
    """
    from transformers import CONFIG_MAPPING

    if data.get("model_type") not in CONFIG_MAPPING:
        return {"no class": str(data.get("model_type"))}
    with warnings.catch_warnings(), remembered():
        warnings.simplefilter("ignore")
        try:
            config = loaded(data)
            model = built(config, data)
        except Exception as error:  # noqa: BLE001 - whatever a class of somebody else raises
            return {"refused": f"{type(error).__name__}: {str(error)[:300]}"}
        return _facts(config, model)


def _facts(config: Any, model: Any) -> dict[str, Any]:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    length = original_length(config)
    positions = sorted({*POSITIONS, max(length - 1, 0), length, length + 1})
    found: dict[str, Any] = {"class": type(model).__name__, "length": length}
    found["positions"] = positions
    if types_ := getattr(text, "layer_types", None):
        found["types"] = list(types_)
    if isinstance(count := getattr(text, "num_hidden_layers", None), int):
        found["layers"] = count
    rows: list[dict[str, Any]] = []
    for path, module in model.named_modules():
        if not frequency_names(module):
            continue
        try:
            rows += [{"module": path, **row} for row in rotary(module, positions, length)]
        except Exception as error:  # noqa: BLE001 - modules of parts that are made otherwise
            rows.append({"module": path, "type": "", "unknown": repr(error)[:160]})
    calls, functions, ended = traced(model, config)
    by_source = {(row["module"], row["type"]): i for i, row in enumerate(rows)}
    turned: dict[str, dict[str, list[int]]] = {}
    for path, tag in calls.items():
        place = LAYER.match(path + ".")
        source = by_source.get(tuple(tag)) if tag is not None else None
        if source is None and tag is not None:
            source = by_source.get((tag[0], ""))
        stack = place[1] if place else path
        key = "?" if source is None else str(source)
        turned.setdefault(stack, {}).setdefault(key, []).append(int(place[2]) if place else 0)
    found["rotary"] = merged(rows, turned)
    found["turned"] = turned
    found["functions"] = {key: value for key, value in functions.items() if value is not None}
    found |= others(model)
    if ended:
        found["ended"] = ended
    return found


def merged(
    rows: list[dict[str, Any]], turned: dict[str, dict[str, list[int]]]
) -> list[dict[str, Any]]:
    """Rows without twins, as where each layer has a module of its own."""
    kept: list[dict[str, Any]] = []
    place: dict[str, str] = {}
    for index, row in enumerate(rows):
        alike = [k for k, other in enumerate(kept) if _alike(row, other)]
        if not alike:
            kept.append(row)
        place[str(index)] = str(alike[0] if alike else len(kept) - 1)
    for stack in turned.values():
        for key in [k for k in stack if k != "?"]:
            layers = stack.pop(key)
            stack.setdefault(f"={place[key]}", []).extend(layers)
        for key in [k for k in stack if k.startswith("=")]:
            stack[key[1:]] = sorted(stack.pop(key))
    return kept


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    same = re.sub(r"\.\d+\.", ".*.", one["module"]) == re.sub(r"\.\d+\.", ".*.", other["module"])
    keys = ("frequencies", "beyond", "cos", "sin")
    return (
        same
        and one["type"] == other["type"]
        and one.get("factor") == other.get("factor")
        and all(np.array_equal(one.get(k, 0), other.get(k, 0)) for k in keys)
    )


def others(model: Any) -> dict[str, Any]:
    """Tables by shape, slopes of ALiBi, buckets of T5."""
    import torch

    tables: dict[str, Any] = {}
    buckets: dict[str, Any] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        short = re.sub(r"\.\d+\.", ".*.", name)
        if tensor.dim() >= 2 and TABLES.search(".".join(name.split(".")[-3:])):
            same = tables.setdefault(short, list(tensor.shape)) == list(tensor.shape)
            tables |= {} if same else {name: list(tensor.shape)}
    distances = torch.arange(-DISTANCES, DISTANCES + 1)
    for name, module in model.named_modules():
        rule = getattr(module, "_relative_position_bucket", None)
        if rule is None or not getattr(module, "has_relative_attention_bias", False):
            continue
        try:
            out = rule(
                distances,
                bidirectional=not module.is_decoder,
                num_buckets=module.relative_attention_num_buckets,
                max_distance=module.relative_attention_max_distance,
            )
        except Exception:  # noqa: BLE001 - the rules of other families
            continue
        stack = name.split(".block")[0]
        heads = module.n_heads
        buckets.setdefault(stack, {"heads": heads, "of": out.numpy().astype(np.int64)})
    found: dict[str, Any] = {}
    if tables:
        found["tables"] = tables
    if buckets:
        found["buckets"] = buckets
    if (slopes := slopes_of(model)) is not None:
        found["slopes"] = slopes
    return found


def slopes_of(model: Any) -> Any:
    """The slopes of ALiBi, from the tensor that the model's file builds."""
    import torch

    file = sys.modules[type(model).__module__]
    config = model.config
    try:
        if hasattr(file, "build_mpt_alibi_tensor") and config.attn_config.alibi:
            size = (config.n_heads, 4, config.attn_config.alibi_bias_max)
            bias = file.build_mpt_alibi_tensor(size[0], size[1], alibi_bias_max=size[2])
        elif hasattr(file, "build_alibi_tensor") and getattr(config, "alibi", True):
            heads = getattr(config, "n_head", None) or config.num_attention_heads
            bias = file.build_alibi_tensor(torch.ones(1, 4), heads, torch.float32)
        else:
            return None
    except Exception:  # noqa: BLE001 - files of other families
        return None
    lines = bias.reshape(-1, bias.shape[-1]).double().numpy()
    return lines[:, -1] - lines[:, -2]


# --- files ----------------------------------------------------------------------------------------


def rows() -> list[dict[str, Any]]:
    """The corpus: a row for each config."""
    return [json.loads(line) for line in (FOLDER / ROWS).read_text("utf-8").splitlines()]


def packed(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON in which arrays are names, each distinct one once."""
    if isinstance(value, dict):
        return {key: packed(inner, arrays) for key, inner in value.items()}
    if isinstance(value, list):
        return [packed(inner, arrays) for inner in value]
    if not isinstance(value, np.ndarray):
        return value
    small = value.astype(np.int16 if value.dtype.kind == "i" else np.float32)
    name = hashlib.sha1(small.tobytes() + str(small.shape).encode()).hexdigest()[:12]
    arrays[name] = small
    return {"array": name}


def unpacked(value: Any, arrays: dict[str, Any]) -> Any:
    """Facts as they were before `packed`, in the precision that is kept."""
    if isinstance(value, dict):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        return {key: unpacked(inner, arrays) for key, inner in value.items()}
    return [unpacked(v, arrays) for v in value] if isinstance(value, list) else value


def golden() -> dict[str, dict[str, Any]]:
    """The stored facts by the id of their row."""
    from safetensors.numpy import load_file

    return _stored(FACTS, load_file(FOLDER / ARRAYS))


def models() -> dict[str, dict[str, Any]]:
    """Facts of other code, `by` which: where transformers has no class, or reads other keys."""
    from safetensors.numpy import load_file

    return _stored(MODELS, load_file(FOLDER / NUMBERS))


def _stored(file: str, arrays: dict[str, Any]) -> dict[str, dict[str, Any]]:
    lines = (FOLDER / file).read_text("utf-8").splitlines()
    return {row.pop("id"): unpacked(row, arrays) for row in map(json.loads, lines)}


def timed(data: dict[str, Any]) -> dict[str, Any]:
    """The facts, within a limit of time."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        return facts(data)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def prepared() -> None:
    """transformers, offline and silent."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


def main() -> int:
    """Run, and compare or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the numbers")
    parser.add_argument("--show", metavar="ID", help="print the facts of one row")
    options = parser.parse_args()
    prepared()
    if options.show:
        data = next(row["config"] for row in rows() if row["id"] == options.show)
        print(json.dumps(packed(timed(data), {}), indent=1))
        return 0
    arrays: dict[str, Any] = {}
    lines = []
    for row in rows():
        found = {"id": row["id"], **packed(timed(row["config"]), arrays)}
        lines.append(json.dumps(found, separators=(",", ":")))
    text = "\n".join(lines) + "\n"
    if options.write:
        from safetensors.numpy import save_file

        (FOLDER / FACTS).write_text(text, encoding="utf-8")
        save_file(dict(sorted(arrays.items())), FOLDER / ARRAYS)
        return 0
    same = (FOLDER / FACTS).read_text("utf-8") == text
    print("as written" if same else "other numbers than those kept: run with --write, and look")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
