"""Modules that no forward calls are not asked, and a comparison of nothing is no agreement."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

import posenc
from posenc._core.errors import DataError
from posenc.cli import app
from posenc.detect.facts.loaded import unused_modules

torch = pytest.importorskip("torch")
nn = torch.nn
CONFIG = {
    "model_type": "llama", "hidden_size": 32, "num_attention_heads": 2, "head_dim": 16,
    "num_hidden_layers": 2, "rope_theta": 10000.0, "max_position_embeddings": 512,
}  # fmt: skip


class Rotary(nn.Module):
    def __init__(self, base: float, at: str = "inv_freq") -> None:
        super().__init__()
        self.register_buffer(at, base ** -(torch.arange(0, 16, 2) / 16), persistent=False)
        self.at = at

    def forward(self, x: Any, position_ids: Any) -> Any:
        angles = position_ids[..., None].float() * getattr(self, self.at)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


class Model(nn.Module):
    """`used` is called; `spare` is not, unless its buffer is read in place of its forward."""

    def __init__(self, how: str = "", parent: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.spare_rotary = Rotary(500.0)
        self.rotary = nn.ModuleList([Rotary(10000.0)])
        self.how = how

    def forward(self, input_ids: Any) -> Any:
        x = self.embed(input_ids)
        ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        if self.how == "reads":
            x = x + self.spare_rotary.inv_freq.sum()
        if self.how == "forward":
            x = x + self.spare_rotary.forward(x, ids)[0].sum()
        if self.how == "fails":
            raise ValueError
        return x + self.rotary[0](x, ids)[0].sum()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_module_that_stands_unused(device: str) -> None:
    model = Model().to(device)
    assert unused_modules(model, lambda m: isinstance(m, Rotary)) == {"spare_rotary"}
    assert {t.device.type for t in model.buffers()} == {device}
    if device == "cpu":
        found = posenc.diff(CONFIG, model)
        assert found.verdict == "nothing differs", found.lines()
        assert "spare_rotary stands unused: no forward calls it" in found.remarks


def test_its_buffers_contradict_nothing() -> None:
    """Those of a module that is used, or of which nothing is known, do."""
    for how, count in (("", 0), ("reads", 1), ("fails", 1)):
        model = Model(how)
        model.config = CONFIG
        assert len(posenc.facts(model).contradictions) == count


@pytest.mark.parametrize("how", ["reads", "forward", "fails"])
def test_what_is_read_or_cannot_be_run_is_asked(how: str) -> None:
    """Its numbers are used, or nothing is known: the other base is a difference."""
    model = Model(how)
    assert not unused_modules(model, lambda m: isinstance(m, Rotary))
    found = posenc.diff(CONFIG, model)
    assert [row.field for row in found.differences] == ["base"]


def test_a_part_that_was_not_reached_is_asked() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.language, self.vision = Model(), Model()

        def forward(self, input_ids: Any) -> Any:
            return self.language(input_ids)

    unused = unused_modules(Whole(), lambda m: isinstance(m, Rotary))
    assert unused == {"language.spare_rotary"}


@pytest.mark.slow("detect/adopt/", "detect/contract/")
def test_granite_swa() -> None:
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "GraniteSWAConfig"):
        pytest.skip("this transformers has no GraniteSWA")
    config = transformers.GraniteSWAConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512,
        layer_types=["sliding_attention", "full_attention"] * 2,
        layer_rope_theta=[500000.0] * 4, bos_token_id=1, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    model = transformers.GraniteSWAModel(config).eval()
    found = posenc.diff(config, model)
    assert found.verdict == "nothing differs", found.lines()
    assert "rotary_emb stands unused: no forward calls it" in found.remarks
    ids = torch.arange(12)[None]
    with torch.no_grad():
        before = model(ids).last_hidden_state
        adopted = posenc.torch.adopt(model)
        after = model(ids).last_hidden_state
    assert any("rotary_emb" in line and "unused" in line for line in adopted.left)
    assert [one.path for one in adopted.replaced] == ["rotary_embs.0"]
    assert float((after - before).abs().max()) < 1e-4


# --- nothing compared -----------------------------------------------------------------------------


class Silent:
    def cos_sin(self, positions: Any) -> Any:
        raise NotImplementedError("it cannot say")


def test_nothing_compared_is_no_agreement() -> None:
    found = posenc.diff(CONFIG, Silent())
    assert (found.verdict, found.exit_code) == ("not compared", 3)
    for read in (lambda: found.differences, lambda: bool(found), lambda: not found):
        with pytest.raises(DataError, match=r"something that was compared.*it cannot say"):
            read()
    assert found.to_dict()["differences"] == ()
    assert "not compared" in "\n".join(found.lines())
    assert "**not compared**" in found.markdown()
    assert "Silent" in repr(found)


def test_a_comparison_is_true_where_something_differs_and_counts() -> None:
    rope = posenc.RoPE(16, pairing="half")
    same, other = posenc.diff(CONFIG, CONFIG), posenc.diff(rope, rope.replace(base=5.0))
    assert (bool(same), same.differences, bool(other)) == (False, (), True)
    assert f"nothing differs: {len(same.compared)} compared" in same.lines()
    result = CliRunner().invoke(app, ["diff", "preset:llama:64", "preset:llama:64"])
    assert (result.exit_code, "nothing differs: 1 compared" in result.output) == (0, True)
