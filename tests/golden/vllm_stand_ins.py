"""vLLM's model classes on the CPU, behind stand-ins for the rest of vLLM.

`prepare(FOLDER)` takes the folder of an unpacked wheel:

    pip download --no-deps vllm==0.33.0        336 MB

What stays real are the rotary modules, the classes of models and their configs. Everything else of
vLLM, linear layers and attention kernels above all, and packages that are not installed, is a
stand-in that takes every call. A process takes one folder.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import logging
import sys
import types
from pathlib import Path
from typing import Any

import torch

REAL = (
    "vllm.model_executor.layers.rotary_embedding",
    "vllm.model_executor.layers.resampler",
    "vllm.model_executor.models",
    "vllm.models",
    "vllm.transformers_utils.configs",
    "vllm.transformers_utils.config",
)
PACKAGES = (
    "vllm",
    "vllm.model_executor",
    "vllm.model_executor.layers",
    "vllm.transformers_utils",
    "vllm.model_executor.models",  # whose own file would import the registry
    "vllm.models",
)
OTHERS = (
    "blake3", "cachetools", "cbor2", "cuda", "cutlass", "depyf", "einops", "fastapi", "flashinfer",
    "librosa", "mistral_common", "msgspec", "open_clip", "openai", "pybase64", "quack", "regex",
    "scipy", "soundfile", "tilelang", "timm", "torchvision", "xgrammar", "xxhash", "zmq",
)  # fmt: skip
PLATFORM = {
    "is_cpu": True,
    **dict.fromkeys(
        (
            "is_cuda", "is_rocm", "is_cuda_alike", "is_xpu", "is_tpu", "is_out_of_tree", "is_hip",
            "has_device_capability", "is_device_capability", "is_device_capability_family",
            "supports_fp8", "is_fp8_fnuz", "opaque_attention_op", "support_static_graph_mode",
            "is_arch_support_pdl",
        ),
        False,
    ),
}  # fmt: skip


class _Open(type):
    """Classes with every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return STAND_IN

    def __iter__(cls) -> Any:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return object

    __ror__ = __or__  # type: ignore[assignment]


class StandIn(torch.nn.Module, metaclass=_Open):
    """Takes every call, has every attribute, is false, and counts as 1."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_forward_hooks":
            raise AttributeError(name)
        try:
            return super().__getattr__(name)
        except AttributeError:
            return KNOWN.get(name, STAND_IN)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A decorator leaves what it decorates.
        if len(args) == 1 and not kwargs and isinstance(args[0], (type, types.FunctionType)):
            return args[0]
        return StandIn()

    def __class_getitem__(cls, key: Any) -> Any:
        return cls

    def __mro_entries__(self, bases: Any) -> Any:
        modules = [b for b in bases if isinstance(b, type) and issubclass(b, torch.nn.Module)]
        first = next(b for b in bases if isinstance(b, StandIn))
        return () if modules or self is not first else (torch.nn.Module,)

    def register_parameter(self, name: str, param: Any) -> None:
        """Keep nothing."""

    def __iter__(self) -> Any:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return object

    __ror__ = __or__
    __instancecheck__ = lambda self, other: False  # noqa: E731
    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *_: False  # noqa: E731
    __eq__ = lambda self, other: self is other  # noqa: E731
    __hash__ = lambda self: id(self)  # type: ignore[assignment]  # noqa: E731
    __getitem__ = lambda self, key: STAND_IN  # noqa: E731
    __setitem__ = lambda self, key, value: None  # noqa: E731


def _constant(value: Any) -> Any:
    return lambda *_, **__: value


for _name in ("len", "bool", "contains", "lt", "gt", "le", "ge"):
    setattr(StandIn, f"__{_name}__", _constant(0 if _name == "len" else False))
for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow"):
    setattr(StandIn, f"__{_name}__", _constant(1))
    setattr(StandIn, f"__r{_name}__", _constant(1))
for _name, _value in (("int", 1), ("index", 1), ("float", 1.0)):
    setattr(StandIn, f"__{_name}__", _constant(_value))
STAND_IN = StandIn()


class CustomOp(torch.nn.Module):
    """As vLLM's, of which the native forward pass runs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    @classmethod
    def register(cls, name: str, **_: Any) -> Any:
        """Leave the class."""
        return lambda c: c

    @classmethod
    def enabled(cls) -> bool:
        """No other kernel is."""
        return False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The native one."""
        return self.forward_native(*args, **kwargs)


class _Group(types.SimpleNamespace):
    """One process."""

    is_first_rank = is_last_rank = True
    world_size, rank, rank_in_group, local_rank = 1, 0, 0, 0
    device_group = types.SimpleNamespace(size=lambda: 1, rank=lambda: 0)


def _decorator(*args: Any, **kwargs: Any) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], type) and not kwargs else lambda c: c


def _first_of(obj: Any, names: Any, default: Any, **_: Any) -> Any:
    return next((getattr(obj, name) for name in names if hasattr(obj, name)), default)


class _Platform(types.SimpleNamespace):
    """A machine without accelerators."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _constant(None)


GROUP = _Group()
KNOWN: dict[str, Any] = {
    **{f"get_{name}_group": _constant(GROUP) for name in ("pp", "tp", "ep", "dp", "pcp")},
    "get_tensor_model_parallel_world_size": _constant(1),
    "get_tensor_model_parallel_rank": _constant(0),
    "get_pp_indices": lambda layers, rank, size: (0, layers),
    "divide": lambda a, b: a // b,
    "support_torch_compile": _decorator,
    "get_offloader": _constant(
        types.SimpleNamespace(wrap_modules=lambda g, **_: list(g), supports_tower_offload=False)
    ),
    "getattr_iter": _first_of,
    "resolve_indexer_kv_dtype": _constant("bf16"),
    "set_default_torch_num_threads": _constant(contextlib.nullcontext()),
    "CustomOp": CustomOp,
    "PluggableLayer": CustomOp,
    "maybe_get_oot_by_class": lambda c: c,
    "init_logger": lambda *_: logging.getLogger("vllm"),
    "rocm_aiter_ops": type("_Off", (), {"__getattr__": lambda self, name: _constant(False)})(),
    "IntermediateTensors": dict,
    "dtype": torch.float32,
    "triton": types.SimpleNamespace(
        jit=lambda f=None, **_: f or (lambda g: g),
        cdiv=lambda a, b: -(-a // b),
        autotune=lambda *_, **__: lambda g: g,
        heuristics=lambda *_, **__: lambda g: g,
        next_power_of_2=lambda n: 1 << (n - 1).bit_length(),
        Config=STAND_IN,
    ),
    "tl": types.SimpleNamespace(constexpr=int),
    "current_platform": _Platform(
        **{name: _constant(value) for name, value in PLATFORM.items()},
        device_type="cpu",
        device_name="cpu",
        dispatch_key="CPU",
        simple_compile_backend="eager",
        get_attn_backend_cls=_constant(""),
        fp8_dtype=lambda: torch.float8_e4m3fn,
    ),
}


class _Module(types.ModuleType):
    """A module with every name: classes where names are those of classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in KNOWN:
            return KNOWN[name]
        if not name[:1].isupper() or name.isupper():
            return STAND_IN
        plain = name.endswith("Base") or name.startswith("Supports")
        made = type(name, (object,) if plain else (StandIn,), {})
        if plain:
            made.__class_getitem__ = classmethod(lambda cls, key: cls)  # type: ignore[attr-defined]
        setattr(self, name, made)
        return made


class _Finder:
    """Stand-ins for whatever is not real."""

    def __init__(self, absent: set[str], root: str, real: tuple[str, ...]) -> None:
        self.absent, self.root, self.real = absent, root, real

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        real = any(name == r or name.startswith(f"{r}.") for r in self.real)
        if name.partition(".")[0] in self.absent or (name.startswith(f"{self.root}.") and not real):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> Any:
        made = _Module(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: Any) -> None:
        """Nothing to run."""


def prepare(folder: str, real: tuple[str, ...] = REAL, packages: tuple[str, ...] = PACKAGES) -> Any:
    """An engine's package of rotary classes, vLLM's by default; its models can be imported then.

    `real` are the modules that stay, the rotary classes first; `packages` those around them.
    """
    # transformers asks once what is installed, before stand-ins are.
    for name in ("image_utils", "models.auto.modeling_auto", "models.auto.image_processing_auto"):
        importlib.import_module(f"transformers.{name}")
    absent = {name for name in OTHERS if importlib.util.find_spec(name) is None}
    for name in packages:
        open_ = name.count(".") < 2 or name.endswith(".utils")
        module = _Module(name) if open_ else types.ModuleType(name)
        module.__path__ = [str(Path(folder, *name.split(".")))]
        sys.modules[name] = module
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
    sys.meta_path.insert(0, _Finder(absent, packages[0], real))  # type: ignore[arg-type]
    return importlib.import_module(real[0])


@functools.lru_cache(maxsize=1)
def registry(folder: str) -> dict[str, tuple[str, str]]:
    """Architecture -> (module, class), from the text of vLLM's registry."""
    text = Path(folder, "vllm/model_executor/models/registry.py").read_text("utf-8")
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            words = [e.value for e in getattr(value, "elts", ()) if isinstance(e, ast.Constant)]
            if isinstance(key, ast.Constant) and len(words) == 2 == len(value.elts):  # type: ignore[attr-defined]
                found.setdefault(str(key.value), (str(words[0]), str(words[1])))
    return found


def model_class(folder: str, architecture: str) -> type:
    """The class of vLLM for an architecture; raises KeyError where it has none."""
    module, name = registry(folder)[architecture]
    full = module if module.startswith("vllm.") else f"vllm.model_executor.models.{module}"
    return getattr(importlib.import_module(full), name)  # type: ignore[no-any-return]


class _Settings(types.SimpleNamespace):
    """Settings of an engine that leave nothing out."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return KNOWN.get(name, STAND_IN)


def engine(config: Any) -> Any:
    """vLLM's settings of one process, around the config of a model."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    one = dict.fromkeys(
        (
            "pipeline_parallel_size", "tensor_parallel_size", "prefill_context_parallel_size",
            "decode_context_parallel_size",
        ),
        1,
    )  # fmt: skip
    made = _Settings(
        model_config=_Settings(
            hf_config=config, hf_text_config=text, dtype=torch.float32, quantization=None,
            max_model_len=getattr(text, "max_position_embeddings", 4096), enforce_eager=True,
            is_encoder_decoder=False, runner_type="generate", use_mla=False,
            try_get_generation_config=_constant({}),
            multimodal_config=_Settings(
                get_limit_per_prompt=_constant(1), mm_encoder_only=False,
                language_model_only=False, is_multimodal_pruning_enabled=_constant(False),
            ),
        ),
        cache_config=None, quant_config=None, lora_config=None, speculative_config=None,
        kv_transfer_config=None, use_v2_model_runner=True,
        parallel_config=_Settings(
            **one, enable_eplb=False, use_sequence_parallel_moe=False,
            eplb_config=_Settings(num_redundant_experts=0),
        ),
        compilation_config=_Settings(static_forward_context={}, pass_config=_Settings()),
        scheduler_config=_Settings(max_num_batched_tokens=8, max_num_seqs=1),
        device_config=_Settings(device=torch.device("cpu")),
        load_config=_Settings(load_format="auto"),
        additional_config={},
    )  # fmt: skip
    made.with_hf_config = lambda other, *_, **__: engine(other)
    return made


def parts(patch: Any, folder: str) -> None:
    """Let models make their parts as vLLM does, by the architecture that a part names."""
    utils = importlib.import_module("vllm.model_executor.models.utils")

    def made(vllm_config: Any, prefix: str = "", **given: Any) -> Any:
        config = patch(given["hf_config"])
        name = (given.get("architectures") or config.architectures)[0]
        return model_class(folder, name)(vllm_config=engine(config), prefix=prefix)

    utils.init_vllm_registered_model = made
