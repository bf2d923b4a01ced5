"""Models that are not adopted, each with the sentence that says why."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn

from posenc._core.errors import ArgumentError, DataError, PosencError, mismatch
from posenc.detect.adopt.tables import has_rows
from posenc.detect.facts import facts
from posenc.torch.adopted import AdoptedRotary

CALLER = "adopt"
LIBRARIES = ("transformers", "torch", "posenc")
Refusal = tuple[str, str, str]  # what was expected, what came, what to do


def refuse_model(model: Any) -> None:
    """Raise for what cannot be adopted as a whole, before anything is read."""
    name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    if not isinstance(model, nn.Module):
        todo = "Load it: AutoModelForCausalLM.from_pretrained(...)."
        raise ArgumentError(mismatch(CALLER, "a loaded model", name, todo))
    _refuse_object(model, name)
    for expected, received, todo in itertools.chain(_foreign(model, name), _wrapped(model)):
        raise DataError(mismatch(CALLER, expected, received, todo))


def _refuse_object(model: nn.Module, name: str) -> None:
    """Raise for a model that was adopted before, or has no config of transformers."""
    adopted = [
        path for path, module in model.named_modules()
        if isinstance(module, AdoptedRotary) or has_rows(module)
    ]  # fmt: skip
    if adopted:
        changed = config_change(model)
        todo = "Call posenc.torch.release(model) first."
        received = f"one whose {adopted[0]} was adopted before{f' ({changed})' if changed else ''}"
        raise ArgumentError(mismatch(CALLER, "a model as transformers makes it", received, todo))
    config = getattr(model, "config", None)
    if not callable(getattr(config, "to_dict", None)) or not getattr(config, "model_type", ""):
        inner = getattr(model, "module", None)
        todo = "Give the model inside." if isinstance(inner, nn.Module) else ""
        expected = "a model of transformers, which has a config"
        raise ArgumentError(mismatch(CALLER, expected, f"{name} without one", todo))


def _foreign(model: Any, name: str) -> Iterator[Refusal]:
    """Code of a model that is not what transformers has for its config."""
    remote = "transformers_modules" in type(model).__module__
    if remote or getattr(model.config, "auto_map", None):
        yield (
            "a class of transformers itself",
            f"{name}, code that came with a checkpoint (auto_map, trust_remote_code)",
            "What that code does about positions is in no plan.",
        )
    for path, module in model.named_modules():
        if (override := _override(module)) is not None:
            yield (
                "the code of transformers",
                f"{f'{path} is ' if path else ''}{override} with a forward of its own",
                "Adopt the class that it derives from: what another forward does is in no plan.",
            )


def config_change(model: Any) -> str:
    """What the config of a model no longer says that it said when the model was adopted."""
    config = getattr(model, "config", None)
    specs = [s for m in model.modules() if isinstance(m, AdoptedRotary) for s in m.encodings]
    if config is None or not specs:
        return ""
    try:
        now = [entry.spec for entry in facts(config).plan]
    except PosencError as error:
        return f"its config was changed since, and cannot be read: {error}"
    gone = [repr(spec) for spec in dict.fromkeys(specs) if spec not in now]
    return f"its config was changed since, and no longer says {gone[0]}" if gone else ""


def _override(module: nn.Module) -> str | None:
    """The class of somebody else that overrides the forward of a class of transformers."""
    order = type(module).__mro__
    owner = next(cls for cls in order if "forward" in vars(cls))
    behind = order[order.index(owner) + 1 :]
    derived = any(_library(c) == "transformers" and issubclass(c, nn.Module) for c in behind)
    own = _library(owner) not in LIBRARIES and derived and not _generated(owner, behind)
    return owner.__name__ if own else None


def _generated(owner: type, behind: tuple[type, ...]) -> bool:
    """Whether a library made the class when the model was wrapped, as FSDP does."""
    return owner.__name__.startswith("FSDP") and owner.__name__.endswith(behind[0].__name__)


def _library(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _wrapped(model: nn.Module) -> Iterator[Refusal]:
    """Models inside of another one, which holds their weights."""
    for path, module in model.named_modules():
        inside = isinstance(getattr(module, "module", None), nn.Module)
        if inside and type(module).__module__.startswith("torch.distributed"):
            received = f"{path or 'a model'} as a {type(module).__name__}"
            yield "whole weights", received, "Adopt the model before it is wrapped."
