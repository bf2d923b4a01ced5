"""`diff` of a loaded model: what its attentions do in a run, which no buffer of it tells."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import posenc  # noqa: E402
from tests.trace.breaks.means import cos_sin, ladder, layer, with_angles  # noqa: E402
from tests.trace.broken import ROWS  # noqa: E402

BROKEN = {row.name: row for row in ROWS}
# Where `diff` has to find it, and which field.
OUTSIDE: dict[str, tuple[str, str]] = {
    "Qwen2: key not turned": ("layer 1, key", "kind"),
    "Qwen2: heads exchanged": ("layer 1, query", "heads"),
    "Phi: turned twice": ("layer 1, query and key", "positions"),
    "GPT-J: pairing": ("layer 1, query and key", "pairing.order"),
    "DeepSeek V3: mscale left out": ("layer 1, scores", "scale"),
    "Llama 4: positions in a layer without": ("layer 3, query and key", "kind"),
    "Llama: value turned": ("layer 1, value", "kind"),
}


QUICK = ("Qwen2: key not turned",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow("detect/trace"))
        for name in OUTSIDE
    ],
)
def test_what_no_buffer_tells(name: str) -> None:
    row = BROKEN[name]
    healthy, broken = row.healthy(row.paths[0]), row.broken(row.paths[0])
    before = {key: value.clone() for key, value in broken.model.state_dict().items()}
    found = posenc.diff(healthy.expected, healthy.model)
    assert found.verdict == "nothing differs", found.lines()
    assert any("attentions do" in line for line in found.compared)
    found = posenc.diff(broken.expected, broken.model)
    assert (found.rows[0].where, found.rows[0].field) == OUTSIDE[name], found.lines()
    for key, value in broken.model.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_pairing_of_a_module() -> None:
    """Against a spec no trace is asked: the function beside a module tells its pairing."""
    model = BROKEN["Llama: base"].healthy("eager").model
    row = posenc.diff(posenc.RoPE(16, pairing="interleaved"), model).rows[0]
    assert (row.field, row.b) == ("pairing.order", "half")


def test_far_positions() -> None:
    """Positions jump, so that what is wrong beyond 300 is seen with 13 tokens."""
    case = BROKEN["Llama: base"].healthy("eager")
    held: list[Any] = []
    case.model.register_forward_pre_hook(
        lambda _, inputs, keywords: held.append(keywords["position_ids"]), with_kwargs=True
    )
    with_angles(
        layer(case.model), lambda cos, sin: cos_sin(held[-1].clamp(max=300), ladder(1e4, 16))
    )
    found = posenc.diff(case.expected, case.model)
    assert held[-1].max() == 4095  # the last that the config allows
    assert (found.rows[0].where, found.rows[0].field) == ("layer 1, query and key", "positions")


def test_what_cannot_run_is_said() -> None:
    """A model that does not run, or has no weights, is compared by its buffers."""
    case = BROKEN["Llama: base"].healthy("eager")

    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("not today")

    case.model.forward = fails
    found = posenc.diff(case.expected, case.model)
    assert any("in a run" in line for line in found.not_compared), found.lines()
    assert found.verdict == "nothing differs"
