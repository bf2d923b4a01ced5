"""Engines as sides: what an engine makes of the config of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc._core.errors import PosencError, bad_argument
from posenc.detect.contract.contract import Part
from posenc.detect.contract.make import described, parts_of
from posenc.detect.contract.sides.side import Comparand, Implementation
from posenc.detect.explain import to_hf
from posenc.detect.facts import facts
from posenc.detect.facts.folders import library
from posenc.detect.subject import CannotAsk
from posenc.detect.subject.ask import protocol
from posenc.encodings.rotary.base import RotarySpec


def of_engine(text: str, name: str, other: Any = None) -> Comparand:
    """An engine as a side: `NAME=CONFIG`, or `NAME` for the config that the other side is."""
    engine, _, path = text.replace(" ", "=", 1).partition("=")
    if engine not in ENGINES:
        expected = f"engine:NAME or engine:NAME=CONFIG with one of {', '.join(ENGINES)}"
        raise bad_argument("diff", expected, repr(name))
    config = None
    source = Path(path) if path else other
    try:
        config = None if source is None else facts(source).config
    except PosencError:
        if path:
            raise
    if config is None:
        todo = f"Write engine:{engine}=CONFIG."
        raise bad_argument("diff", "a config for the engine", f"{name} alone", todo)
    return ENGINES[engine](config, name)


def of_vllm(config: Any, name: str) -> Comparand:
    """The rotary classes of vLLM for the parts of a config."""
    caller = f"diff: {name}"
    layers = library(
        "vllm.model_executor.layers.rotary_embedding", "whose classes are asked", caller
    )
    torch = library("torch", "which vLLM is built with", caller)
    data = to_hf(config, "hf5").config
    data = data.get("text_config", data)
    parts = {part.name: part for part in parts_of(described(data, f"diff: {name}"))}

    def answers(part: Part, _: object) -> tuple[Implementation]:
        if (own := parts.get(part.name)) is None or not isinstance(own.spec, RotarySpec):
            raise CannotAsk("vLLM's rotary classes have nothing for it")
        try:
            width = data.get("head_dim") or data["hidden_size"] // data["num_attention_heads"]
            length, rope = data["max_position_embeddings"], data["rope_parameters"]
            rope = dict(rope.get(part.name.rpartition(".")[2], rope))
            module = layers.get_rope(
                width, length, own.spec.channels.order == "half", rope, torch.float32
            )
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:80]}"
            raise CannotAsk(f"vLLM makes no rotation of its config ({reason})") from error
        turn = getattr(module, "forward_native", module.forward)

        return (
            Implementation(protocol(
                lambda positions, query, key: turn(positions.T, query, key)[0], "tokens",
                dim=width, axes=len(own.spec.axes), library="torch",
            )),
        )  # fmt: skip

    remark = f"{name}: get_rope was asked, and not the model classes, which may change parameters"
    return Comparand(name, whole=False, answers=answers, remarks=(remark,))


# An engine: the side that it is for a config, which is called by a name.
ENGINES: dict[str, Callable[[Any, str], Comparand]] = {"vllm": of_vllm}
