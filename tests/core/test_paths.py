"""A path that names nothing is refused by every public function that takes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posenc
import posenc.plot
from posenc._core.errors import PosencError
from posenc.plot.export import read_table

CONFIG = {
    "model_type": "llama",
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}
READERS: dict[str, Callable[[Any], Any]] = {
    "explain": posenc.explain,
    "from_hf": posenc.from_hf,
    "to_hf": lambda source: posenc.to_hf(source, "hf5"),
    "golden": posenc.golden,
    "extend": lambda source: posenc.extend(source, 8192),
    "diff": lambda source: posenc.diff(source, CONFIG),
}
FILES: dict[str, Callable[[Any], Any]] = {
    "from_gguf": posenc.from_gguf,
    "identify": posenc.identify,
    "pairing": posenc.pairing,
    "convert": posenc.convert,
    "read_table": read_table,
}
WRITERS: dict[str, Callable[[Any], Any]] = {
    "Contract.save": lambda path: posenc.golden(CONFIG).save(path),
    "Picture.save": lambda path: posenc.plot.table(posenc.Sinusoidal(8)).save(path),
}


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
@pytest.mark.parametrize("name", [*READERS, *FILES, *WRITERS])
def test_a_blank_name_is_refused(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a config.json, a folder of weights and whatever else an empty name might mean."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PosencError):
        {**READERS, **FILES, **WRITERS}[name](text)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("name", [*READERS, *FILES, *WRITERS])
def test_none_is_no_path(name: str) -> None:
    with pytest.raises(PosencError):
        {**READERS, **FILES, **WRITERS}[name](None)


@pytest.mark.parametrize("name", READERS)
def test_the_folder_itself_is_read_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    for source in (".", Path(), tmp_path, str(tmp_path), tmp_path / "config.json"):
        READERS[name](source)
