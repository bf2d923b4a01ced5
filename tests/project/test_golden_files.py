"""The golden files of published models in `golden/`: what they hold, and how they are made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.models import golden_files

import posenc

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not golden_files.INDEX.exists(), reason="the golden files are in the repository alone"
)
AGAIN = ("deepseek-v2-lite", "t5-base", "clap-htsat-fused")


@pytest.fixture(scope="module")
def models() -> dict[str, golden_files.Model]:
    """Every model by its name."""
    return {model.name: model for model in golden_files.models()}


def test_each_file_has_a_model_and_each_config_its_source(
    models: dict[str, golden_files.Model],
) -> None:
    assert len(models) == len(golden_files.models()) == 120
    files = {path.name: path.stat().st_size for path in golden_files.FOLDER.glob("*.xz")}
    assert files.keys() == {model.file.name for model in models.values()}
    assert max(files.values()) <= golden_files.LARGEST
    assert sum(files.values()) <= golden_files.ALL
    for model in models.values():
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", model.repository), model.name
        assert re.fullmatch(r"[0-9a-f]{40}", model.commit), model.name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d|", model.date), model.name
        assert model.path, model.name


@pytest.mark.costly
@pytest.mark.parametrize("name", AGAIN)
def test_a_file_is_made_again_byte_by_byte(
    name: str, models: dict[str, golden_files.Model], tmp_path: Path
) -> None:
    text = golden_files.stored(models[name])
    assert golden_files.text(models[name]) == text
    (tmp_path / "m.golden.json").write_text(text)
    read = posenc.golden(tmp_path / "m.golden.json")
    assert len(read.checks) == json.loads(text)["records"]
    assert read.notes[-1].text == f"{name}: the config is {models[name].source}"


def test_what_is_not_as_it_should_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [model for model in golden_files.models() if model.name in AGAIN[1:]]
    monkeypatch.setattr(golden_files, "models", lambda: own)
    others = [name for name in golden_files.unlike() if name not in {m.file.name for m in own}]
    assert len(others) == 118  # of no model in this index
    changed = own[0]._replace(date="2000-01-01")
    monkeypatch.setattr(golden_files, "models", lambda: [changed, own[1]])
    assert golden_files.unlike() == [changed.file.name, *others]
    monkeypatch.setattr(golden_files, "LARGEST", 1700)
    assert any(f"{own[1].file.name} (" in name for name in golden_files.unlike())
    monkeypatch.setattr(golden_files, "ALL", 1000)
    assert golden_files.unlike()[-1].startswith("all (")


# Kernels of OpenBLAS for other processors, whose products of matrices round otherwise.
@pytest.mark.slow("detect", "encodings", "functional", "presets", "scaling")
@pytest.mark.parametrize("kernels", ["", "Haswell", "Prescott"])
def test_all_files_are_made_again_byte_by_byte(kernels: str) -> None:
    program = str(ROOT / "tools" / "models" / "golden_files.py")
    done = subprocess.run(
        [sys.executable, program, "--check"],
        capture_output=True, text=True, check=False,
        env={**os.environ, **({"OPENBLAS_CORETYPE": kernels} if kernels else {})},
    )  # fmt: skip
    assert (done.returncode, done.stdout[:9]) == (0, "120 files"), done


@pytest.mark.slow("detect/contract")
def test_every_file_is_read_and_holds(
    models: dict[str, golden_files.Model], tmp_path: Path
) -> None:
    for model in models.values():
        (tmp_path / "m.golden.json").write_text(golden_files.stored(model))
        contract = posenc.golden(tmp_path / "m.golden.json")
        assert contract.notes[-1].text.startswith(f"{model.name}: the config is "), model.name
