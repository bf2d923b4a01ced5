"""Every tool says what its verdict rests on: the rule of docs/detective.md."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file
from tools.pages import shelf

import posenc
from posenc.cli import app

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "posenc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of a model, and two tables, of which no rule made one."""
    path = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    weights = {
        f"model.layers.{layer}.self_attn.{side}_proj.weight": rng.normal(size=(32, 32))
        for layer in range(2)
        for side in "qk"
    }
    save_file({k: v.astype("float32") for k, v in weights.items()}, path / "model.safetensors")
    config = {
        "model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "rope_theta": 1e4,
        "num_key_value_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    tables = path / "tables"
    tables.mkdir()
    np.save(tables / "sinusoid.npy", posenc.table(posenc.Sinusoidal(64), 100))
    np.save(tables / "row.npy", posenc.table(posenc.Sinusoidal(64), [17])[0])
    save_file({"wpe.weight": rng.normal(size=(128, 64))}, tables / "wpe.safetensors")
    return path


ALIBI = '{"type": "ALiBi", "heads": 4}'
TOLD = {
    "explain {0}": r"settled: every choice follows from the config and what is known of the family",
    "identify {0}/tables/sinusoid.npy": r"rebuilt: largest difference \S+; rounding explains \S+",
    "identify {0}/tables/wpe.safetensors": r"no rule that posenc knows rebuilds it",
    "locate {0}/tables/row.npy --dim 64": r"difference \S+;(.|\n)*such a match once in",
    "diff {0} {0}": r"nothing differs: 1 compared(.|\n)*pairs in float64",
    "infer tests.detect.test_verdicts:rotary --dim 32": r"agrees to position [\d,]+ \([\d,]+ "
    r"positions asked: each to [\d,]+, then one in every \d+\)\n +\d+ lengths from .*\n"
    r" +asked with .* heads; .*float32.*; \|x\| to [\d,]+; \d+ calls",
    "convert {0} {0}-new --pairing interleaved": r"scores of 8 heads in 2 layers, at random "
    r"inputs, agree to \S+ of",
    "pairing {0}": r"similarity z \S+, balance z \S+, \d+ groups of heads",
    f"check '{ALIBI}' --laws shift,calls": r"agrees to position 131,071(.|\n)*\d+ lengths from .*"
    r"\n.*unequal lengths; .*; \d+ calls",
}


def rotary(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return posenc.rotate(posenc.RoPE(32, pairing="half"), x, positions=positions)


@pytest.mark.parametrize("command", TOLD)
def test_a_verdict_says_what_was_compared(command: str, folder: Path) -> None:
    arguments = shlex.split(command.replace("{0}", str(folder)))
    result = CliRunner().invoke(app, arguments)
    assert re.search(TOLD[command], result.output), result.output


# Where a word of certainty stands in what is printed. Another place has to say what it rests on, to
# have its row in docs/detective.md, and to stand here.
CERTAIN = re.compile(r"\b(verified|settled|proven|guaranteed|agrees)\b|learned:")
PLACES = {
    "detect/contract/make.py",
    "detect/contract/sides/sides.py",
    "detect/convert/verification.py",
    "detect/explain/describe.py",
    "detect/explain/dialects.py",
    "detect/subject/reach.py",
    "detect/locate/locate.py",
}


@pytest.mark.costly
def test_words_of_certainty_stand_where_they_are_explained() -> None:
    found = set()
    for folder in ("detect", "testing", "cli"):
        for path in (SOURCE / folder).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if not CERTAIN.search(source):
                continue
            tree = ast.parse(source)
            said = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
                and isinstance(node.body[0], ast.Expr)
            }
            for node in ast.walk(tree):
                text = node.value if isinstance(node, ast.Constant) else None
                printed = isinstance(text, str) and " " in text and id(node) not in said
                if printed and CERTAIN.search(text):
                    found.add(path.relative_to(SOURCE).as_posix())
    assert found == PLACES


def test_every_tool_has_its_row() -> None:
    page = shelf.whole(ROOT / "docs" / "detective.md")
    for command in TOLD:
        assert f"[`{command.split()[0]}`]" in page
    for name in re.findall(r"\]\((\w+)\.md\)", page):
        assert (ROOT / "docs" / f"{name}.md").exists()


# --- an absent or NaN side is never agreement -----------------------------------------------------


def test_nan_agrees_with_nothing() -> None:
    table = np.array(posenc.table(posenc.Sinusoidal(64), 100))
    table[40, 3] = np.nan
    finding = posenc.identify(table).findings[0]
    assert finding.verdict != "claimed"

    def broken(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        turned = rotary(x, positions).copy()
        turned[..., positions == 2000, :] = np.nan
        return turned

    assert not posenc.infer_spec(broken, dim=32, framework="numpy").matches
    row = np.full(64, np.nan)
    with pytest.raises(posenc.PosencError):
        posenc.locate(posenc.Sinusoidal(64), row)
