"""Wrong cosines and sines, and wrong positions, as people write them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.trace.breaks.means import (
    Tensor,
    cos_sin,
    ladder,
    layer,
    line,
    turned_by,
    with_angles,
)

# --- angles ---------------------------------------------------------------------------------------


def base(model: nn.Module) -> None:
    """A constant of another model: 500,000 for 10,000."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos), ladder(500000.0, cos.shape[-1])))


def base_of_ramp(model: nn.Module) -> None:
    """The same constant, with the scaling as it is."""
    config = copy.deepcopy(model.config)
    config.rope_parameters["rope_theta"] = 500000.0
    rotary = type(model.model.rotary_emb)(config)
    with_angles(layer(model), lambda cos, sin: rotary(cos, line(cos)))


def scaling_left_out(model: nn.Module) -> None:
    """Frequencies of the base alone, as before Llama 3.1."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos), ladder(1e4, cos.shape[-1])))


def base_everywhere(model: nn.Module) -> None:
    """A port that reads `rope_theta` and not the one of local layers."""
    for index in range(len(model.model.layers) - 1):
        with_angles(
            layer(model, index), lambda cos, sin: cos_sin(line(cos), ladder(1e6, cos.shape[-1]))
        )


def linear_left_out(model: nn.Module) -> None:
    """The factor of long contexts is not read."""
    with_angles(layer(model, 5), lambda cos, sin: cos_sin(line(cos), ladder(1e6, cos.shape[-1])))


def long_factors(model: nn.Module) -> None:
    """The factors of long texts for a short one."""
    factors = torch.tensor(model.config.rope_parameters["long_factor"])

    def change(cos: Tensor, sin: Tensor) -> Any:
        factor = (cos**2 + sin**2).sqrt()
        return tuple(factor * x for x in cos_sin(line(cos), ladder(1e4, cos.shape[-1]) / factors))

    with_angles(layer(model), change)


def factor_left_out(model: nn.Module) -> None:
    """Cosines and sines are not multiplied by what YaRN asks."""
    factor = 0.1 * math.log(4) + 1
    with_angles(layer(model), lambda cos, sin: (cos / factor, sin / factor))


def one_pair(model: nn.Module) -> None:
    """One wrong entry among the frequencies."""

    def change(cos: Tensor, sin: Tensor) -> Any:
        frequencies = ladder(1e4, cos.shape[-1])
        frequencies[2] *= 1.2
        return cos_sin(line(cos), frequencies)

    with_angles(layer(model), change)


def whole_width(model: nn.Module) -> None:
    """`rotary_pct` is not read: each channel turns."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos), ladder(1e4, 16)))


def sections(model: nn.Module) -> None:
    """Sections of height and width in the other order."""

    _with_places(model, lambda places: _of_sections(places, (0, 2, 1)))


def one_axis(model: nn.Module) -> None:
    """Positions of the text for height and width too."""
    _with_places(model, lambda places: _of_sections(torch.arange(places.shape[-1]), None))


def _of_sections(places: Tensor, order: tuple[int, ...] | None) -> Any:
    each = places.expand(3, 1, -1) if order is None else places[list(order)]
    phases = each[..., None].float() * ladder(1e4, 16)
    parts = [part[i] for i, part in enumerate(phases.split([2, 3, 3], dim=-1))]
    phases = torch.cat([*parts, *parts], dim=-1)
    return phases.cos(), phases.sin()


def _with_places(model: nn.Module, change: Callable[[Tensor], Any]) -> None:
    """A layer that makes its own cosines and sines from the positions of the call."""
    places: list[Tensor] = []
    model.register_forward_pre_hook(
        lambda _, inputs, keywords: places.append(keywords["position_ids"]), with_kwargs=True
    )
    with_angles(layer(model), lambda cos, sin: change(places[-1]))


def rows_and_columns(model: nn.Module) -> None:
    """The first half of the angles is that of the columns."""

    def change(cos: Tensor, sin: Tensor) -> Any:
        return tuple(
            torch.cat([part.roll(4, -1) for part in x.chunk(2, -1)], -1) for x in (cos, sin)
        )

    with_angles(layer(model), change)


def half_angles(model: nn.Module) -> None:
    """Angles in bfloat16, as under an autocast that nobody thought of."""

    def change(cos: Tensor, sin: Tensor) -> Any:
        phases = line(cos).bfloat16()[..., None] * ladder(1e4, cos.shape[-1]).bfloat16()
        phases = torch.cat([phases, phases], dim=-1)
        return phases.cos().float(), phases.sin().float()

    with_angles(layer(model), change)


def half_positions(model: nn.Module) -> None:
    """Positions in bfloat16, which has eight bits."""

    def change(cos: Tensor, sin: Tensor) -> Any:
        return cos_sin(line(cos, 1001).bfloat16(), ladder(1e4, cos.shape[-1]))

    with_angles(layer(model), change)


def half_table(model: nn.Module) -> None:
    """The table of one layer went through a file in bfloat16."""
    table = layer(model).embed_positions
    layer(model).embed_positions = table.bfloat16().float()


# --- positions ------------------------------------------------------------------------------------


def first_row(model: nn.Module) -> None:
    """The positions of the first row for the whole batch."""
    with_angles(layer(model), lambda cos, sin: (cos[:1], sin[:1]))


def padding_counted(model: nn.Module) -> None:
    """Positions from zero, whatever the mask says."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos), ladder(1e4, cos.shape[-1])))


def clamped(model: nn.Module) -> None:
    """A table of 16 rows, and the last one for all that is beyond."""
    with_angles(
        layer(model), lambda cos, sin: cos_sin(line(cos).clamp(max=15), ladder(1e4, cos.shape[-1]))
    )


def begins_again(model: nn.Module) -> None:
    """The length of the cache is not added."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos), ladder(1e4, cos.shape[-1])))


def query_offset(model: nn.Module) -> None:
    """Queries are counted from one, keys from zero."""

    def change(turn: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        later = cos_sin(line(cos, 1), ladder(1e4, cos.shape[-1]))
        return turn(q, q, *later)[0], turn(k, k, cos, sin)[1]

    turned_by(layer(model), change)


def both_offset(model: nn.Module) -> None:
    """Queries and keys are counted from one."""
    with_angles(layer(model), lambda cos, sin: cos_sin(line(cos, 1), ladder(1e4, cos.shape[-1])))


def cached_unturned(model: nn.Module) -> None:
    """Keys go into the cache before they turn, and only the new ones turn when they come out."""
    attention = layer(model)
    fresh: list[Tensor] = []

    def turn(as_before: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Any:
        fresh.append(k)
        return as_before(q, k, cos, sin)

    class Cache:
        def __init__(self, cache: Any) -> None:
            self.cache = cache

        def update(self, keys: Tensor, values: Tensor, index: int) -> Any:
            stored, values = self.cache.update(fresh[-1], values, index)
            past = stored.shape[2] - keys.shape[2]
            return torch.cat([stored[:, :, :past], keys], dim=2), values

    def hook(_: nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
        return inputs, {**keywords, "past_key_values": Cache(keywords["past_key_values"])}

    turned_by(attention, turn)
    attention.register_forward_pre_hook(hook, with_kwargs=True)
