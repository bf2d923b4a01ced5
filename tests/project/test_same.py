"""`tools/same.py` finds equal what is equal, and names what was changed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--every", "20", "--only", "configs,numbers-numpy,pictures,errors,commands:help")
# What is changed, wherever it stands in the source, and a line that names it.
CHANGES = {
    "2.0 ** (-max_bias": ("2.001 ** (-max_bias", r"^numbers-numpy: .*: \d+ of \d+ numbers; by "),
    "One table serves every layer of a stack.": (
        "One table serves each layer of a stack.",
        r"^configs: .*/plan: line \d+\n    - .*every layer of a stack.*\n    \+ .*each layer of",
    ),
    "#16181b": ("#16182b", r"^pictures: .*\.png: \d+ pixels"),
    "expected {expected}, got {received}": (
        "expected {expected}, came {received}",
        r"^errors: .*: line 1\n    - .*, got .*\n    \+ .*, came ",
    ),
    "Print the BibTeX of an encoding.": (
        "Print the BibTeX of encodings.",
        r"^commands:help: posenc cite --help: line \d+\n",
    ),
}


def same(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "tools" / "same.py"), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ["git", "-C", folder, *author, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with one commit: the files of this tree as they are now."""
    made = tmp_path / "clone"
    made.mkdir()
    git(made, "init", "-q")
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes((ROOT / name).read_bytes())
    git(made, "add", "-A")
    git(made, "commit", "-qm", "as it is")
    return made


@pytest.mark.slow("*")
def test_what_is_equal_is_equal_and_what_was_changed_is_named(clone: Path) -> None:
    again = same("HEAD", "HEAD", "--repository", str(clone), *QUICK)
    assert again.returncode == 0, again.stdout + again.stderr
    counts = dict(re.findall(r"^(\w+) +(\d+) compared, equal", again.stdout, re.MULTILINE))
    assert set(counts) == {"configs", "numbers", "pictures", "errors", "commands"}
    assert min(map(int, counts.values())) > 30
    for path in (clone / "src").rglob("*"):
        if path.suffix in (".py", ".json"):
            before = text = path.read_text(encoding="utf-8")
            for old, (new, _) in CHANGES.items():
                text = text.replace(old, new)
            if text != before:
                path.write_text(text, encoding="utf-8")
    changed = git(clone, "diff", "--stat").splitlines()
    assert len(changed) > len(CHANGES), changed
    told = same("HEAD", "--repository", str(clone), "--all", *QUICK)
    assert told.returncode == 1, told.stdout + told.stderr
    for _, line in CHANGES.values():
        assert re.search(line, told.stdout, re.MULTILINE), (line, told.stdout[:5000])
    # What does not depend on a change is not named.
    assert not re.search(r"(?m)^numbers-numpy: vaswani.* numbers; by ", told.stdout)


@pytest.mark.costly
def test_wrong_usage_is_2() -> None:
    assert same().returncode == 2
    assert "--only: expected some of" in same("HEAD", "--only", "colours").stderr
    assert same("HEAD", "--only", "colours").returncode == 2
    assert same("no-such-commit", "HEAD").returncode == 2


def test_a_difference_is_told_by_its_line_its_size_or_its_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import same

    def array(*values: float) -> tuple[str, str, tuple[int, ...], bytes]:
        return "array", "float32", (len(values),), np.array(values, np.float32).tobytes()

    old = {"text": "a\nb", "array": array(1, 2, 3), "shape": array(1), "gone": "x", "kept": b"1"}
    new = {"text": "a\nc", "array": array(1, 2.5, 3), "shape": array(1, 1), "new": "", "kept": b"1"}
    assert list(same.compared(old, old)) == []
    assert list(same.compared(old, new)) == [
        "text: line 2\n    - b\n    + c",
        "array: 1 of 3 numbers; by 0.5 at [1]: 2.0 became 2.5",
        "shape: float32 (1,) became float32 (2,)",
        "gone: only OLD has it",
        "new: only NEW has it",
    ]
    [told] = same.compared({"x": array(np.nan, 0.0)}, {"x": array(1, -0.0)})
    assert "1 of 2 numbers; by inf at [0]" in told
    [told] = same.compared({"x": array(0.0)}, {"x": array(-0.0)})  # the same number, another sign
    assert "became" in told
