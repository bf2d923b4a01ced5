"""Every reader against every crafted file of its kind: an end, in words, at a small cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hostile import craft, strange_files

CHILD = Path(__file__).with_name("hostile_child.py")
# The endings of the files, and who reads such files.
READERS = {
    "npy": "identify layout explore plot parameters vector model",
    "npz": "identify explore plot infer",
    "pt": "identify plot",
    "safetensors": "identify convert explore plot parameters vector model",
    "gguf": "identify gguf explore plot",
    "json": "identify convert config translate spec explore tokenizer scheduler",
    "toml": "claims",
    "csv": "results",
    "sqlite": "store",
    "txt": "vector text",
}
SECONDS = 2.0  # of processor time: asked is 1, on an idle core
SIZE = 200 * 2**20


def measured(paths: list[Path]) -> list[dict[str, Any]]:
    """What each reader took for each file, all in one process."""
    jobs = [
        (reader, str(path))
        for path in paths
        if not path.name.startswith("link")
        for reader in READERS[path.suffix[1:]].split()
    ]
    done = subprocess.run(
        [sys.executable, str(CHILD)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.stderr[-2000:], found[-1:])
    assert len(found) == len(jobs)
    return found


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of all files."""
    return measured(craft(tmp_path_factory.mktemp("crafted")))


@pytest.mark.slow("_core/io/inputs.py", "_core/io/checkpoints")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("ending", READERS)
def test_a_crafted_file_is_read_or_refused_in_words_at_a_small_cost(
    costs: list[dict[str, Any]], ending: str
) -> None:
    mine = [cost for cost in costs if cost["file"].endswith(f".{ending}")]
    assert len({cost["file"] for cost in mine}) >= 10
    assert [c for c in mine if c["outcome"] not in ("read", "refused")] == []
    assert [c for c in mine if c["cpu"] > SECONDS] == []
    assert [c for c in mine if c["bytes"] > SIZE] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.costly
def test_what_is_no_regular_file_is_refused_by_every_reader(tmp_path: Path) -> None:
    strange_files(tmp_path)
    found = measured(sorted(tmp_path.iterdir()))
    assert len(found) > 100
    assert [cost for cost in found if cost["outcome"] != "refused"] == []
    assert [cost for cost in found if cost["cpu"] > SECONDS or cost["bytes"] > SIZE] == []
