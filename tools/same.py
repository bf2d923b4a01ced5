"""Compare what two commits say and compute, on this machine: nothing is stored.

    python tools/same.py OLD [NEW]               NEW: a commit, or the working tree when left out
    python tools/same.py OLD NEW --only configs,numbers
    python tools/same.py OLD --every 20          a quick look: each 20th thing
    python tools/same.py --masks                 what is not compared, and why

Kinds, of which `--only` takes some:

    configs   plans, notes, sources and the output of `posenc explain`: of the corpus of configs,
              in both dialects of transformers, of GGUF headers, of every published plan and preset
    numbers   tables, rotations, biases, relative scores, modules and gradients: of every encoding
              and every row of tests/cases.py, by NumPy, PyTorch and JAX, by both kernels; also
              numbers-numpy, numbers-torch, numbers-jax
    frames    frames of every view of the explorer
    pictures  every picture of every encoding that it shows, as PNG and SVG
    golden    golden files of configs, plans and encodings
    commands  output, exit code and files of every command of the documents, and all help texts;
              also commands:PAGE
    lessons   pages of lessons, questions, the tour and the quiz
    errors    messages about wrong fields and arguments, and about what people guess
    examples  what the examples of public docstrings print

Both trees are exported to a temporary folder and asked the same by the same program, a process for
each kind. What is asked comes from OLD: its corpora, cases, documents and guesses. Compiled kernels
and the bundle of the explorer are those of this tree, where their sources are equal on all sides;
elsewhere it is said that both go without.

Exit code 0: all is equal. 1: something differs; each is named, with the first line or the largest
number that does. 2: wrong usage.
"""

from __future__ import annotations

import argparse
import io
import pickle
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS / "sameness"))

from same_commands import pages  # noqa: E402
from same_store import MASKS, environment  # noqa: E402

# The slowest first, so that no core waits at the end.
TASKS = (
    "numbers-torch",
    "pictures",
    "numbers-jax",
    "numbers-numpy",
    "configs",
    "golden",
    "frames",
    "lessons",
    "errors",
    "examples",
)
KINDS = ("configs", "numbers", "frames", "pictures", "golden", "commands", *TASKS[-3:])
SHOWN = 20  # differences of a kind, without --all


class TreeError(Exception):
    """A tree that cannot be exported or asked."""


# --- trees ----------------------------------------------------------------------------------------


def git(repository: Path, *words: str) -> bytes:
    """What git says, or the reason why it says nothing."""
    done = subprocess.run(["git", "-C", repository, *words], capture_output=True, check=False)
    if done.returncode:
        raise TreeError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def export(repository: Path, commit: str | None, folder: Path) -> None:
    """Write a commit, or the working tree, into a folder of its own."""
    folder.mkdir(parents=True)
    if commit is not None:
        with tarfile.open(fileobj=io.BytesIO(git(repository, "archive", commit))) as archive:
            archive.extractall(folder, filter="data")
        return
    listed = git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.decode().split("\0")):
        if (repository / name).is_file():  # not one that was removed, and not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, folder / name)


def _within(tree: Path, pattern: str) -> Path | None:
    return next((path for path in sorted((tree / "src").rglob(pattern))), None)


def _sources(tree: Path, mark: str, folder: str, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    """The files that something is built of: those beside a mark, wherever that lies."""
    home = _within(tree, mark)
    if home is None:
        return {}
    found = [path for path in (home.parent / folder).rglob("*") if path.suffix in suffixes]
    return {str(path.relative_to(home.parent)): path.read_bytes() for path in found}


# What is built: its name, a file beside it, where its sources lie, and what it is.
BUILT = (
    ("compiled kernels", "_native.pyi", "native", (".cpp", ".h", ".hpp", ".cc"), "_native*.so"),
    ("the bundle of the explorer", "modules.txt", ".", (".js", ".css", ".html", ".txt"), "bundle"),
)


def carry(repository: Path, trees: list[Path]) -> list[str]:
    """Copy what is built from the current tree into both, or say that both go without it."""
    told = []
    for title, mark, folder, suffixes, built in BUILT:
        home = _within(repository, mark)
        made = sorted(home.parent.glob(built)) if home else []
        asked = [_sources(tree, mark, folder, suffixes) for tree in (repository, *trees)]
        for sources in asked:
            for name in [name for name in sources if Path(name).parts[0] == built]:
                del sources[name]
        if not made:
            told.append(f"{title}: not built here; both sides go without")
        elif any(sources != asked[0] for sources in asked):
            told.append(f"{title}: the sources differ; both sides go without")
        else:
            for tree in trees:
                target = _within(tree, mark)
                for path in made if target else ():
                    copy = shutil.copytree if path.is_dir() else shutil.copy2
                    copy(path, target.parent / path.name)
    return told


# --- asking ---------------------------------------------------------------------------------------


def ask(tree: Path, inputs: Path, task: str, every: int = 1) -> tuple[Path, float]:
    """Run a task under a tree; the file that it wrote, and the seconds that it took."""
    home = inputs.parent / f"{tree.name}-{task.replace('/', '-').replace(':', '-')}"
    home.mkdir()
    (home / "temporary").mkdir()
    (home / "work").mkdir()
    out = home / "values.pickle"
    begun = time.monotonic()
    words = [
        sys.executable,
        str(TOOLS / "sameness" / "same_kinds.py"),
        tree,
        inputs,
        out,
        task,
        str(every),
    ]
    done = subprocess.run(
        words,
        capture_output=True,
        check=False,
        cwd=home / "work",
        env=environment(tree, home / "temporary"),
        stdin=subprocess.DEVNULL,
    )
    if done.returncode or not (out.exists() or task == "inputs"):
        last = "\n".join(done.stderr.decode(errors="replace").splitlines()[-12:])
        raise TreeError(f"{tree.name} side, {task}: exit {done.returncode}\n{last}")
    return out, time.monotonic() - begun


# --- comparing ------------------------------------------------------------------------------------


def difference(old: Any, new: Any) -> str:
    """What differs between two values: the first line, the largest number, or the first byte."""
    if isinstance(old, str) and isinstance(new, str):
        before, after = old.splitlines(), new.splitlines()
        pairs = zip(before, after, strict=False)
        number = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))
        sides = [lines[number] if number < len(lines) else "(ends)" for lines in (before, after)]
        return f"line {number + 1}\n    - {_cut(*sides)}\n    + {_cut(*sides[::-1])}"
    if isinstance(old, tuple) and isinstance(new, tuple):
        if old[1:3] != new[1:3]:
            return f"{old[1]} {old[2]} became {new[1]} {new[2]}"
        return _largest(old, new)
    if isinstance(old, bytes) and isinstance(new, bytes):
        if old[:4] == new[:4] == b"\x89PNG" and (told := _pixels(old, new)):
            return told
        at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), -1)
        return f"{len(old)} bytes became {len(new)}; the first that differs is {at}"
    words = [one if isinstance(one, str) else "a value" for one in (old, new)]
    return f"another kind of thing\n    - {words[0][:200]}\n    + {words[1][:200]}"


def _cut(line: str, other: str) -> str:
    """A line from where it differs, where it is long."""
    pairs = enumerate(zip(line, other, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(line), len(other)))
    start = max(0, first - 80) if len(line) > 240 else 0
    return f"{'…' * bool(start)}{line[start : start + 240]}"


def _largest(old: tuple[Any, ...], new: tuple[Any, ...]) -> str:
    import numpy as np

    sides = []
    for _, dtype, shape, data in (old, new):
        if dtype == "bfloat16":
            wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
            array = wide.view(np.float32)
        else:
            array = np.frombuffer(data, dtype)
        sides.append(array.reshape(shape).astype(complex if "complex" in dtype else np.float64))
    with np.errstate(invalid="ignore"):
        apart = np.abs(sides[0] - sides[1])
    apart = np.where(np.isnan(sides[0]) != np.isnan(sides[1]), np.inf, np.nan_to_num(apart))
    at = np.unravel_index(int(np.argmax(apart)), apart.shape)
    place = ", ".join(map(str, map(int, at)))
    before, after = (side[at].item() for side in sides)
    many = f"{int((apart > 0).sum())} of {apart.size} numbers"
    return f"{many}; by {apart[at]:.3g} at [{place}]: {before} became {after}"


def _pixels(old: bytes, new: bytes) -> str:
    try:
        import numpy as np
        from PIL import Image
    except ImportError:
        return ""
    sides = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in (old, new)]
    if sides[0].shape != sides[1].shape:
        sizes = [f"{side.shape[1]} x {side.shape[0]}" for side in sides]
        return f"{sizes[0]} pixels became {sizes[1]}"
    many = int((sides[0] != sides[1]).any(axis=-1).sum())
    return f"{many} pixels" if many else "the same pixels, other bytes"


def compared(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """A text for each thing that differs, or that one side has alone."""
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield f"{name}: only OLD has it"
        elif name not in old:
            yield f"{name}: only NEW has it"
        elif old[name] != new[name]:
            yield f"{name}: {difference(old[name], new[name])}"


# --- the command ----------------------------------------------------------------------------------


def _kind(task: str) -> str:
    return task.partition(":")[0].partition("-")[0]


def _unknown(only: str) -> list[str]:
    """What `--only` names and nothing is."""
    return [
        word
        for word in only.split(",")
        if word not in ("", *KINDS, *TASKS) and not word.startswith("commands:")
    ]


def _tasks(only: str, tree: Path) -> list[str]:
    """The tasks of the kinds asked for."""
    known = [*TASKS, *(f"commands:{page}" for page in ("help", *pages(tree)))]
    words = only.split(",") if only else KINDS
    return [task for task in known if task in words or _kind(task) in words]


def _usage(text: str) -> int:
    print(f"same.py: {text}", file=sys.stderr)
    return 2


def run(options: argparse.Namespace, folder: Path) -> int:
    """Compare all that is asked for, and say what differs."""
    repository = options.repository.resolve()
    for commit in (options.old, options.new or "HEAD"):
        git(repository, "rev-parse", "--verify", f"{commit}^{{commit}}")
    trees = [folder / "old", folder / "new"]
    for tree, commit in zip(trees, (options.old, options.new), strict=True):
        export(repository, commit, tree)
    for line in carry(repository, trees):
        print(line, flush=True)
    inputs = folder / "inputs"
    inputs.mkdir()
    tasks = _tasks(options.only, trees[0])
    if not tasks:
        raise TreeError(f"no page of {options.old} has commands and is one of {options.only}")
    shutil.copytree(trees[0] / "docs", inputs / "pages" / "docs")
    for page in trees[0].glob("*.md"):
        shutil.copy2(page, inputs / "pages" / page.name)
    if any(not task.startswith("commands") for task in tasks):
        ask(trees[0], inputs, "inputs")
    begun = time.monotonic()
    counts: dict[str, list[float]] = {}
    found: dict[str, list[str]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs: list[tuple[str, list[Future[tuple[Path, float]]]]] = [
            (task, [pool.submit(ask, tree, inputs, task, options.every) for tree in trees])
            for task in tasks
        ]
        for task, sides in jobs:
            kind = _kind(task)
            total = counts.setdefault(kind, [0, 0.0])
            differences = found.setdefault(kind, [])
            try:
                (old, first), (new, second) = (side.result() for side in sides)
            except TreeError as error:
                differences.append(str(error))
                print(f"{task}: {error}", flush=True)
                continue
            values = [pickle.loads(path.read_bytes()) for path in (old, new)]
            for name, value in values[0].items():
                if isinstance(value, str) and value.startswith(("not run: ", "did not end ")):
                    print(f"{name}: {value}", flush=True)
            named = [f"{task}: {text}" for text in compared(*values)]
            names = len({**values[0], **values[1]})
            total[0] += names
            total[1] += max(first, second)
            differences += named
            shutil.rmtree(old.parent)
            shutil.rmtree(new.parent)
            verdict = f"{len(named)} differ" if named else "equal"
            print(f"{task}: {names} things, {verdict} ({first:.0f} s, {second:.0f} s)", flush=True)
    return _report(counts, found, options.all, time.monotonic() - begun)


def _report(
    counts: dict[str, list[float]], found: dict[str, list[str]], everything: bool, seconds: float
) -> int:
    for differences in found.values():
        shown = differences if everything else differences[:SHOWN]
        print(*(f"\n{text}" for text in shown), sep="")
        if len(shown) < len(differences):
            print(f"… and {len(differences) - len(shown)} more; --all names them")
    print()
    for kind, (names, spent) in counts.items():
        verdict = f"{len(found[kind])} differ" if found[kind] else "equal"
        print(f"{kind:10} {names:7.0f} compared, {verdict} ({spent:.0f} s)")
    print(f"{seconds:.0f} s in all")
    return int(any(found.values()))


def main(arguments: list[str] | None = None) -> int:
    """Compare two commits; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", metavar="OLD", help="a commit")
    parser.add_argument("new", nargs="?", metavar="NEW", help="a commit; the working tree if none")
    parser.add_argument("--only", default="", metavar="KINDS", help="some kinds, with commas")
    parser.add_argument("--all", action="store_true", help="name every difference")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="ask each Nth thing, for a quick look"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--repository", type=Path, default=TOOLS.parent, help=argparse.SUPPRESS)
    parser.add_argument("--masks", action="store_true", help="what is not compared, and why")
    options = parser.parse_args(arguments)
    if options.masks:
        for pattern, word, why in MASKS:
            print(f"{pattern}  ->  {word}  {why}")
        return 0
    if options.every < 1 or options.jobs < 1:
        parser.error("expected --every and --jobs of at least 1")
    if unknown := _unknown(options.only):
        parser.error(f"--only: expected some of {', '.join(KINDS)}; got {unknown[0]!r}")
    if options.old is None:
        parser.error("expected the commit OLD")
    with tempfile.TemporaryDirectory(prefix="posenc-same-") as folder:
        try:
            return run(options, Path(folder).resolve())
        except TreeError as error:
            return _usage(str(error))


if __name__ == "__main__":
    sys.exit(main())
