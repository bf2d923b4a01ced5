"""The module that takes the place of one of several axes: every form of an answer, and its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import posenc  # noqa: E402
from posenc import scaling as s  # noqa: E402
from posenc.torch.adopted_axes import AdoptedAxes, adopted_axes  # noqa: E402
from posenc.torch.channels import ChannelCosSin  # noqa: E402
from tests.tolerances import assert_close  # noqa: E402

AXES = posenc.Arrangement(rule="axial", axes=("t", "h"), sizes=(3, 5))
SPECS = {
    order: posenc.RoPE(16, pairing=order, base=300, arrangement=AXES)
    for order in ("half", "interleaved")
}
RULE = s.PerAxis((s.RIFLEx(2, 90), s.YaRN(3, original_length=40)))
WHERE = torch.tensor([[0, 0], [3, 7], [11, 0], [-5, 60], [2, 39]])


def halves(cos: Any, sin: Any) -> Any:
    return cos, sin


def complexes(cos: Any, sin: Any) -> Any:
    return torch.complex(cos, sin)


def matrices(cos: Any, sin: Any) -> Any:
    return torch.stack((cos, -sin, sin, cos), dim=-1).reshape(*cos.shape, 2, 2)


def blocks(cos: Any, sin: Any) -> Any:
    return [torch.cat((part, part), dim=-1) for part in (cos, sin)]


def twice(cos: Any, sin: Any) -> Any:
    return tuple(part.repeat_interleave(2, dim=-1) for part in (cos, sin))


def padded(cos: Any, sin: Any) -> Any:
    """As Lumina answers: latents, a padded batch, the same without padding, and lengths."""
    rows = torch.complex(cos, sin)[None]
    return torch.ones(1, 4, 8), torch.cat((rows, torch.zeros_like(rows)), dim=1), rows, [5, 5]


FORMS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "an entry for each pair": ("half", halves),
    "complex": ("interleaved", complexes),
    "matrices": ("interleaved", matrices),
    "channels in halves": ("half", blocks),
    "channels in neighbours": ("interleaved", twice),
    "padded, among others": ("interleaved", padded),
}


class Old(torch.nn.Module):
    """Cosines and sines in float32, as somebody writes them."""

    def __init__(self, spec: posenc.RoPE, form: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.spec, self.form = spec, form

    def forward(self, where: Any) -> Any:
        return self.form(*posenc.cos_sin(self.spec, where, dtype="float32"))


def leaves(answer: Any) -> list[Any]:
    parts = answer if isinstance(answer, (tuple, list)) else [answer]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def numbers(answer: Any) -> Any:
    return torch.view_as_real(answer) if answer.is_complex() else answer


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("rule", [(), RULE], ids=["as trained", "another rule"])
def test_every_form_is_kept(name: str, rule: Any) -> None:
    order, form = FORMS[name]
    trained = SPECS[order]
    spec = trained.replace(scaling=rule)
    answer = AdoptedAxes(Old(trained, form), trained, spec)(WHERE)
    expected = form(*posenc.cos_sin(spec, WHERE, dtype="float32"))
    assert type(answer) is type(expected)
    for ours, other in zip(leaves(answer), leaves(expected), strict=True):
        assert ours.dtype == other.dtype
        assert_close(numbers(ours), numbers(other), 2e-7)
    if name != "padded, among others":  # in a graph, part by part
        old = leaves(Old(trained, form)(WHERE))
        graphed = adopted_axes(old, posenc.to_json(trained), posenc.to_json(spec), "Old")
        assert all(map(torch.equal, graphed, leaves(answer)))


def test_coordinates_that_are_no_integers() -> None:
    trained = SPECS["half"].replace(phase="real")
    where = torch.tensor([[0.25, 7.5], [3.0, 0.125], [41.7, 12.0]], dtype=torch.float64)
    spec = trained.replace(scaling=RULE)
    for ours, exact in zip(
        AdoptedAxes(Old(trained, halves), trained, spec)(where),
        posenc.cos_sin(spec, where, dtype="float32"),
        strict=True,
    ):
        assert_close(ours, exact, 2e-6)  # of places that were read from float32


def test_a_pair_that_turns_the_other_way_says_where_a_token_stands() -> None:
    ladder = posenc.Ladder(spacing="explicit", frequencies=(1.0, -0.05))
    trained = posenc.RoPE(4, pairing="half", ladder=ladder)
    where = torch.tensor([0, 9, 31, -4])
    cos, sin = AdoptedAxes(Old(trained, halves), trained, trained)(where)
    for ours, exact in zip((cos, sin), posenc.cos_sin(trained, where), strict=True):
        assert_close(ours, exact, 2e-7)


def test_far_positions_are_read_until_the_slowest_pair_has_turned() -> None:
    """Half a turn of the slowest pair is the farthest that an answer can say; beyond it raises."""
    trained = SPECS["half"]
    slowest = posenc.frequencies(trained)[[2, 7]]
    ends = np.floor(np.pi / slowest).astype(int)
    module = AdoptedAxes(Old(trained, halves), trained, trained)
    for where in (ends.tolist(), (-ends).tolist()):
        cos, _ = module(torch.tensor([where]))
        assert_close(cos, posenc.cos_sin(trained, [where], dtype="float32")[0], 2e-7)
    with pytest.raises(posenc.DataError, match="others, off by"):
        module(torch.tensor([[int(ends[0]) + 1, 0]]))


@pytest.mark.parametrize("factor", [0.4, [0.0] + [1.0] * 7, 1.5, float("nan")])
def test_numbers_that_are_no_rotation_are_no_padding(factor: Any) -> None:
    """Rows of zeros pad; what is merely small, or 0 in one pair, contradicts the config."""
    trained = SPECS["half"]

    def smaller(cos: Any, sin: Any) -> Any:
        return cos * torch.tensor(factor), sin * torch.tensor(factor)

    with pytest.raises(posenc.DataError, match="others, off by"):
        AdoptedAxes(Old(trained, smaller), trained, trained)(WHERE)


@pytest.mark.parametrize("name", ["matrices", "channels in halves", "channels in neighbours"])
def test_numbers_that_stand_twice_are_checked_twice(name: str) -> None:
    order, form = FORMS[name]

    def last(cos: Any, sin: Any) -> Any:
        answer = form(cos, sin)
        leaves(answer)[0].view(len(WHERE), -1)[3, -1] += 0.5
        return answer

    with pytest.raises(posenc.DataError, match="others, off by 0.5"):
        AdoptedAxes(Old(SPECS[order], last), SPECS[order], SPECS[order])(WHERE)


def test_an_answer_of_no_rows_has_none() -> None:
    module = AdoptedAxes(Old(SPECS["half"], halves), SPECS["half"], SPECS["half"])
    cos, sin = module(torch.zeros(0, 2, dtype=torch.int64))
    assert cos.shape == sin.shape == (0, 8)


def test_half_precision_is_no_contradiction() -> None:
    """An old module that rounds its answers still says where tokens stand."""
    trained = SPECS["half"]

    def rounded(cos: Any, sin: Any) -> Any:
        return cos.bfloat16(), sin.bfloat16()

    cos, _ = AdoptedAxes(Old(trained, rounded), trained, trained)(WHERE)
    exact, _ = posenc.cos_sin(trained, WHERE, dtype="float32")
    assert torch.equal(cos, exact.bfloat16())


def test_channels_have_the_factor_of_their_axis() -> None:
    spec = SPECS["half"].replace(scaling=RULE)
    cos, sin = ChannelCosSin(spec, "halves")(WHERE)
    for ours, exact in zip((cos, sin), posenc.cos_sin(spec, WHERE), strict=True):
        assert torch.equal(ours, torch.cat((exact, exact), dim=-1))
