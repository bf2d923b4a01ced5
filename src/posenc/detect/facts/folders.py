"""Models of transformers that the folder of somebody describes: built, and some layers read.

Code, kernels, pickles, connections and absurd sizes are kept from the class that a config names.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from posenc._core.errors import ArgumentError, DataError, DependencyError, bad_data, mismatch
from posenc._core.guard import foreign, offline
from posenc._core.io.checkpoints import load
from posenc.detect.facts.model import facts
from posenc.detect.subject import refuse_if

MOST_BUILT = 2**18  # modules and tensors: twice those of 61 layers with 384 experts each
# Keys by which a config has a class load code or kernels, or weights from elsewhere.
ELSEWHERE = re.compile(
    r"^(auto_map|_name_or_path|use_kernels|kernel_config|quantization_config|_?adapter\w*|"
    r"\w*(attn|attention|experts)_implementation\w*)$"
)


def library(name: str, why: str, caller: str) -> Any:
    """An optional library, imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        todo = "Install it, or hand over a function: MODULE:NAME."
        raise DependencyError(mismatch(caller, f"{name}, {why}", str(error)[:100], todo)) from error


@contextlib.contextmanager
def building(caller: str) -> Iterator[None]:
    """Behind the guard, without connections; whatever a class of transformers raises is data."""
    with warnings.catch_warnings(), foreign(f"the building of {caller}", timed=False), offline():
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise bad_data(caller, "a model that transformers builds", reason) from error


def on_meta(folder: Path, caller: str) -> Any:
    """The class that a folder's config names, without its own code and without numbers."""
    torch = library("torch", "which transformers builds its models with", caller)
    transformers = library("transformers", "whose class the folder names", caller)
    refuse_if(
        not folder.is_dir(), mismatch(caller, "a folder that is there", repr(str(folder))),
        ArgumentError,
    )  # fmt: skip
    data = load(folder, caller)
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
        received = "code of the model's own" if "auto_map" in data else f"model_type {kind!r}"
        raise bad_data(caller, "a class of transformers", received)
    # It knows how many layers a model has; what a class builds of other sizes is counted below.
    for error in facts(data).plan.errors:
        refuse_if(
            "more than any model has" in error,
            mismatch(caller, "a model that transformers builds", error),
            DataError,
        )
    with building(caller), torch.device("meta"), counted(torch):
        config = transformers.CONFIG_MAPPING[kind].from_dict(without_code(data))
        return transformers.AutoModel.from_config(
            config, attn_implementation="eager", trust_remote_code=False
        )


def read(folder: Path, layers: Collection[int] | None, caller: str) -> tuple[Any, list[str]]:
    """The model of a folder in the dtype of the file, and the weights that no file holds.

    With `layers`, those alone are built and read; any other hands on what it gets.
    """
    empty = on_meta(folder, caller)
    kind: Any = type(empty)
    count = empty.config.get_text_config().num_hidden_layers
    refuse_if(
        not any(folder.glob("*.safetensors")),
        mismatch(caller, "weights in .safetensors", "none", "Nothing in a pickle is run."),
        DataError,
    )
    refuse_if(
        layers is not None and not {*layers} <= {*range(count)},
        mismatch(f"{caller}: layers", f"layers from 0 to {count - 1}", f"{sorted(layers or ())}"),
        ArgumentError,
    )
    left_out = set() if layers is None else {*range(count)} - {*layers}
    passing: Any = _passing(empty, count) if left_out else None

    def build(self: Any, *arguments: Any, **more: Any) -> None:
        kind.__init__(self, *arguments, **more)
        for block in _blocks(self, count):
            for index in left_out:
                block[index] = passing()

    # A class of the same name, as transformers renames weights by the names of classes.
    own: Any = type(kind.__name__, (kind,), {"__init__": build, "__module__": kind.__module__})
    with (
        building(caller),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.ExitStack() as stack,
    ):
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()  # the report on weights of the other layers
        model, report = own.from_pretrained(
            folder, config=empty.config, dtype="auto", attn_implementation="eager",
            use_safetensors=True, local_files_only=True, trust_remote_code=False,
            output_loading_info=True,
        )  # fmt: skip
    return model.eval(), sorted(report["missing_keys"])


def _blocks(model: Any, count: int) -> list[Any]:
    """The lists of its layers."""
    import torch

    lists = (m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    return [modules for modules in lists if len(modules) == count]


def _passing(empty: Any, count: int) -> Any:
    """A layer that returns what it gets, in the form of those of this class."""
    import torch

    answers: list[Any] = []
    for block in _blocks(empty, count):
        block[0].register_forward_hook(lambda _, __, answer: answers.append(answer))
    with contextlib.suppress(Exception), torch.no_grad():
        empty(torch.zeros(1, 2, dtype=torch.long, device="meta"))
    several = isinstance(answers[0], tuple) if answers else False
    rest = (None,) * (len(answers[0]) - 1) if several else ()

    class Passing(torch.nn.Module):
        def forward(self, states: Any = None, *_: Any, **more: Any) -> Any:
            states = more.get("hidden_states", states)
            return (states, *rest) if several else states

    return Passing


def without_code(value: Any) -> Any:
    """A config without the keys that name code, kernels or files elsewhere, at any depth."""
    if isinstance(value, dict):
        return {k: without_code(v) for k, v in value.items() if not ELSEWHERE.search(str(k))}
    return [without_code(v) for v in value] if isinstance(value, list) else value


@contextlib.contextmanager
def counted(torch: Any) -> Iterator[None]:
    """Raise where more modules and tensors are built than any model has."""
    built = 0

    def count(*_: object) -> None:
        nonlocal built
        built += 1
        if built > MOST_BUILT:
            raise ValueError(f"it has more than {MOST_BUILT:,} modules and tensors")

    hooks = torch.nn.modules.module
    with contextlib.ExitStack() as stack:
        for kind in ("module", "parameter", "buffer"):
            stack.callback(
                getattr(hooks, f"register_module_{kind}_registration_hook")(count).remove
            )
        yield
