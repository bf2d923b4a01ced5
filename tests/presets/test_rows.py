"""Rows of `posenc.presets` have the keys that their types declare, and no others."""

from __future__ import annotations

import copy
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import check_rows
from tools.check_rows import check, keys_of
from tools.rows import families

import posenc
from posenc._core.errors import SpecError
from posenc.presets import PlanRow, Preset

FILES = sorted(check_rows.FOLDER.rglob("*.json"))
SOURCE = Path(posenc.__file__).parent
FREE = ("spec", "specs", "arguments", "positions", "cases", "fields", "temperature")  # templates


def parsed(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def held(file: Path, data: Any) -> None:
    folder, word = str(file.parent.relative_to(check_rows.FOLDER)), file.stem.partition("-")[0]
    check(check_rows.FILES[folder][word], data, file.name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_holds_rows_of_its_kind(file: Path) -> None:
    held(file, parsed(file))


def places(data: Any, keys: set[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every key of rows that a type declares, with its dictionary, outside of templates."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in keys:
                yield data, key
            if key not in FREE:
                yield from places(value, keys)
    elif isinstance(data, list):
        for item in data:
            yield from places(item, keys)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_misspelled_key_is_refused_wherever_it_stands(file: Path) -> None:
    data = parsed(file)
    rows = data[:] if isinstance(data, list) else [data]
    names = {"configs": ("when", "rotary", "own_positions"), "layers": ("note",)}
    for key in names.get(file.parent.name, ("note", "kind")):
        for row in rows:
            broken = copy.deepcopy(row)
            for found, name in list(places(broken, {key}))[:1]:
                found[f"{name}s"] = found.pop(name)
                whole = [broken] if isinstance(data, list) else broken
                with pytest.raises(SpecError, match=rf"^{re.escape(file.name)}: "):
                    held(file, whole)


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"no_rope": {"flag": "x"}},
        "0: no_rope: expected a key of NoRope, got 'flag'. Did you mean 'flags'?",
    ),
    ({"base": "10000"}, "0: base: expected float, got '10000'"),
    ({"when": {"one_of": [1]}}, "0: when: expected a row with key, got one_of"),
    ({"rotary": 1}, "0: rotary: expected str | "),
    ({"base_kays": []}, "got 'base_kays'. Did you mean 'base_keys'?"),
]


@pytest.mark.parametrize(("change", "told"), WRONG)
def test_an_error_names_the_row_the_key_and_what_is_allowed(
    change: dict[str, Any], told: str
) -> None:
    rows = [{"model_types": ["llama"], "entries": [{"rotary": "llama", **change}]}]
    with pytest.raises(SpecError, match=re.escape(told)) as caught:
        check(list[families.TransformersFamily], rows, "configs/transformers.json")
    assert str(caught.value).startswith("configs/transformers.json: llama: entries: ")


def test_a_rule_of_no_kind_is_refused() -> None:
    rules = list[families.RotaryRule | families.AnyRule]
    with pytest.raises(SpecError, match="expected a row with rotary or table, width or spec or"):
        check(rules, [{"name": "x"}], "here")


def test_the_loader_refuses_a_row_with_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = importlib.import_module("posenc.presets._rows")
    row = {"name": "x", "kind": "table", "nots": "y", "recognise": {}}
    monkeypatch.setattr(loader, "read", lambda folder: [("tables.json", dict(row))])
    with pytest.raises(SpecError, match=r"tables.json: .*'nots'"):
        loader.rows("preset", "", Preset)


def test_every_declared_key_is_in_a_row_and_read_by_code() -> None:
    texts = " ".join(file.read_text("utf-8") for file in FILES)
    code = " ".join(
        path.read_text("utf-8")
        for folder in ("detect", "presets")
        for path in (SOURCE / folder).rglob("*.py")
        if not path.name.startswith("row_types")
    )
    hints = {key for kind in check_rows.declared() for key in (keys_of(kind) or ({},))[0]}
    assert len(hints) > 100
    assert not [key for key in hints if f'"{key}":' not in texts]
    told = {"symbol", "repository", "path", "version", "paper", "classes", "takes", "by"}
    read = {*re.findall(r"[\"'.](\w+)", code), *re.findall(r"(\w+):", code)}
    assert not hints - told - read
    assert {*Preset._fields, *PlanRow._fields} >= {"name", "sources", "recognise", "note"}
