"""The action and the hooks, run as they are written, in repositories made for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
REVIEW = ROOT / "tools" / "review"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

RULE = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
LLAMA = {
    "model_type": "llama",
    "head_dim": 64,
    "num_attention_heads": 2,
    "rope_theta": 500000.0,
    "rope_scaling": RULE,
}
MISTRAL = {"model_type": "mistral", "head_dim": 64, "num_attention_heads": 2, "rope_theta": 1e4}
MISTRAL |= {"max_position_embeddings": 32768, "sliding_window": 4096}
VAE = {"_class_name": "AutoencoderKL", "latent_channels": 4}
BEFORE = {
    "llama/config.json": LLAMA,
    "mistral/config.json": MISTRAL,
    "vae/config.json": VAE,
    "config.json": {"name": "an application", "version": 1},
    "port.py": "def rotate(x, positions):\n    raise NotImplementedError\n",
}


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *named, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


def write(folder: Path, files: dict[str, Any]) -> None:
    """Files of texts, JSON or nothing, committed."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
            path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=change")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, BEFORE)
    monkeypatch.chdir(folder)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "PRE_COMMIT_FROM_REF"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def review(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str]]]:
    """The program, in this process: its exit code and its lines."""
    monkeypatch.syspath_prepend(str(REVIEW))
    import posenc_review

    def run(*words: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(sys, "argv", ["posenc-review", *words])
        with pytest.raises(SystemExit) as ended:
            posenc_review.main()
        return int(ended.value.code or 0), capsys.readouterr().out.splitlines()

    return run


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A config that lacks keys."""
    return {key: value for key, value in config.items() if key not in keys}


# What each change gets: lines that fail the job, and those that do not.
WRONG = {
    "a dialect key is dropped": (
        {"llama/config.json": LLAMA | {"rope_scaling": without(RULE, "rope_type")}},
        ["llama/config.json:6: error: posenc diff: scaling: attention: scaling: Llama3(8, "],
    ),
    "a base is another": (
        {"llama/config.json": LLAMA | {"rope_theta": 10000.0}},
        ["llama/config.json:5: error: posenc diff: base: attention: base: 500000 against 10000;"],
    ),
    "a window is lost": (
        {"mistral/config.json": MISTRAL | {"sliding_window": None}},
        ["mistral/config.json:7: error: posenc diff: window: attention: window: 4096 against the "],
    ),
    "a file moves and changes": (
        {"llama/config.json": None, "new/config.json": LLAMA | {"rope_theta": 10000.0}},
        ["new/config.json:5: error: posenc diff: base: "],
    ),
    "keys contradict each other": (
        {"llama/config.json": LLAMA | {"rope_parameters": {"rope_type": "default"}}},
        [
            "llama/config.json:14: error: posenc explain: rope_parameters.rope_type='default' and ",
            "llama/config.json:5: error: posenc explain: rope_theta=500000.0 was not read",
            "llama/config.json:14: error: posenc diff: not compared: now/config.json: the ",
        ],
    ),
    "a new file contradicts itself": (
        {"new/config.json": LLAMA | {"rope_parameters": {"rope_type": "default"}}},
        [
            "new/config.json:14: error: posenc explain: rope_parameters.rope_type='default' and ",
            "new/config.json:5: error: posenc explain: rope_theta=500000.0 was not read",
        ],
    ),
    "nothing is left of it": (
        {"llama/config.json": {"name": "an application"}},
        [
            "llama/config.json:1: error: posenc explain: nothing in the config says what the ",
            "llama/config.json:1: error: posenc diff: not compared: now/config.json: ",
        ],
    ),
    "it is no JSON any more": (
        {"llama/config.json": json.dumps(LLAMA, indent=2).replace("64,", "64")},
        [
            "llama/config.json:4: error: posenc explain: explain: config.json is not JSON",
            "llama/config.json:1: error: posenc diff: not compared: now/config.json is not",
        ],
    ),
}  # fmt: skip
RIGHT: dict[str, dict[str, Any]] = {
    "other keys, and another order": {
        "llama/config.json": json.dumps({"vocab_size": 9, **LLAMA}, sort_keys=True),
        "vae/config.json": VAE | {"latent_channels": 8},
        "config.json": {"name": "an application", "version": 2, "position": "left"},
    },
    "the dialect of transformers 5": {
        "llama/config.json": without(LLAMA, "rope_theta", "rope_scaling")
        | {"rope_parameters": {"rope_theta": 500000.0, **RULE}}
    },
    "a file moves": {"llama/config.json": None, "new/config.json": LLAMA},
    "a file goes": {"llama/config.json": None},
    "a new family, which nobody knows": {"new/config.json": {"model_type": "unheard", "n": 1}},
    "a new file": {"new/config.json": MISTRAL},
}


@pytest.mark.parametrize("change", WRONG)
def test_what_is_wrong_is_told_at_its_line(
    repository: Path, review: Callable[..., tuple[int, list[str]]], change: str
) -> None:
    files, expected = WRONG[change]
    write(repository, files)
    code, lines = review("--base", "HEAD^")
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == len(expected), lines
    assert all(line.startswith(begin) for line, begin in zip(errors, expected, strict=True)), lines
    assert code == 1
    # Of the two hooks each sees its own half, of the files that are named.
    named = [name for name, content in files.items() if content is not None]
    for only in ("explain", "diff"):
        halves = [line for line in expected if f"error: posenc {only}" in line]
        if change != "a file moves and changes":  # of which a hook is told the new name alone
            code, lines = review("--only", only, "--base", "HEAD^", *named)
            assert sum(": error: " in line for line in lines) == len(halves)
            assert code == bool(halves)


@pytest.mark.parametrize("change", RIGHT)
def test_an_honest_change_passes(
    repository: Path, review: Callable[..., tuple[int, list[str]]], change: str
) -> None:
    write(repository, RIGHT[change])
    code, lines = review("--base", "HEAD^")
    assert code == 0
    assert not [line for line in lines if ": error: " in line]
    left_alone = {line.split(":")[1].strip() for line in lines if "left alone" in line}
    assert left_alone == {*RIGHT[change]} & {"vae/config.json", "config.json"}
    if change == "other keys, and another order":
        assert "posenc: llama/config.json: diff HEAD^: nothing differs: 1 compared" in lines


def test_what_fails_is_chosen(
    repository: Path, review: Callable[..., tuple[int, list[str]]]
) -> None:
    def codes() -> list[int]:
        grave = ("warning", "difference", "error")
        return [review("--base", "HEAD^", "--fail-on", each)[0] for each in grave]

    # Without a base, as for a first commit, every file is explained, and none compared.
    code, lines = review("--base", "0" * 40, "--fail-on", "warning")
    assert code == 0
    assert len(lines) == sum(name.endswith("config.json") for name in BEFORE)
    write(repository, {"new/config.json": {"model_type": "unheard", "n": 1}})
    assert codes() == [1, 0, 0]
    write(repository, {"new/config.json": MISTRAL | {"rope_alpha": 2}})
    assert codes() == [1, 1, 1]
    write(repository, {"llama/config.json": LLAMA | {"rope_theta": 1e4}})
    assert codes() == [1, 1, 0]
    # A hook sees what is to be committed beside the last commit, or what is pushed.
    (repository / "mistral/config.json").write_text(json.dumps(MISTRAL | {"rope_theta": 2e4}))
    assert review("--only", "diff", "mistral/config.json")[0] == 1
    assert review("--only", "diff", "llama/config.json")[0] == 0


@pytest.mark.slow("detect/contract", "cli/detective/models.py")
def test_engines_and_code_are_held_to_the_configs(
    repository: Path, review: Callable[..., tuple[int, list[str]]]
) -> None:
    port = (
        "import posenc\n\n\ndef rotate(x, positions):\n"
        "    return posenc.rotate(posenc.RoPE(64, pairing='half'), x, positions=positions)\n"
    )
    write(repository, {"port.py": port})
    lines = "engine:vllm\nmistral/config.json port.py:rotate\nllama/config.json port.py:rotate\n"
    code, told = review("--base", "HEAD^", "--engines", lines)
    # The code changed and no config did, so it alone is held, to both.
    assert "posenc: mistral/config.json: diff port.py:rotate: nothing differs: 1 compared" in told
    errors = [line for line in told if ": error: " in line]
    assert [line.partition(": attention")[0] for line in errors] == [
        "port.py:4: error: posenc diff port.py:rotate: base",
    ]
    assert code == 1
    assert not [line for line in told if "vllm" in line]
    write(repository, {"llama/config.json": LLAMA | {"vocab_size": 9}, "numpy.py": RAN})
    told = review("--base", "HEAD^", "--engines", "engine:vllm")[1]
    assert "posenc: llama/config.json: diff engine:vllm: nothing differs: 1 compared" in told
    assert not (repository / "ran").exists()


def test_nothing_of_a_file_is_a_command_or_a_cell(
    repository: Path,
    review: Callable[..., tuple[int, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evil = "rope_x\n::set-env name=PATH::/evil | <img src=x>"
    write(repository, {"::add-mask::\nx/config.json": LLAMA | {evil: 3}})
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(repository / "summary"))
    _, lines = review("--base", "HEAD^")
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert len(commands) == 1
    assert commands[0].startswith("::error file=%3A%3Aadd-mask%3A%3A%0Ax/config.json,line=")
    assert len(lines) == 2
    table = (repository / "summary").read_text()
    assert "<img" not in table
    assert {line.count("|") for line in table.splitlines()[2:] if line} == {4}


# --- as GitHub runs it ----------------------------------------------------------------------------


def rendered(text: str, context: dict[str, Any]) -> str:
    """A text of an action with its expressions: names, and the first of several that is there."""

    def value(found: re.Match[str]) -> str:
        named = (context.get(name.strip(), "") for name in found[1].split("||"))
        return str(next(filter(None, named), ""))

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def steps_run(
    folder: Path, github: dict[str, str], path: str, checkout: Path = ROOT, **inputs: str
) -> tuple[int, str, str]:
    """Run the steps of the action; the exit code of the last, what they print, and the summary."""
    usual = {name: rendered(str(row["default"]), github) for name, row in ACTION["inputs"].items()}
    context = github | {f"inputs.{name}": value for name, value in (usual | inputs).items()}
    summary, output, code = folder.parent / "summary.md", "", 0
    system = {"PATH": path, "HOME": str(folder.parent), "GITHUB_ACTIONS": "true"}
    system |= {"GITHUB_ACTION_PATH": str(checkout), "GITHUB_STEP_SUMMARY": str(summary)}
    for step in ACTION["runs"]["steps"]:
        chosen = re.fullmatch(r"\$\{\{ (inputs\.\w+) != '' \}\}", step.get("if", ""))
        if "run" not in step or (chosen and not context[chosen[1]]):
            continue
        assert step["shell"] == "bash"
        own = {name: rendered(value, context) for name, value in step.get("env", {}).items()}
        assert "${{" not in step["run"]  # what others wrote is no part of a script
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=folder, env=system | own, capture_output=True, check=False
        )
        output += done.stdout.decode() + done.stderr.decode()
        if code := done.returncode:
            break
    return code, output, summary.read_text() if summary.exists() else ""


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    """A folder with a Python that installs nothing but starts pip, and with what is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    code = f"exec env PYTHONPATH={shlex.quote(str(ROOT / 'src'))} {shlex.quote(sys.executable)} -P"
    before = 'for word in "$@"; do [ "$word" = install ] && break; words+=("$word"); done'
    scripts = {
        "python": f'echo "$@" >>"$HOME/pip"\n{before}\n'
        f'exec {shlex.quote(sys.executable)} "${{words[@]}}" --version',
        "posenc-review": f'{code} {shlex.quote(str(REVIEW / "posenc_review.py"))} "$@"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


RAN = "open('ran', 'w').close()\n"


@pytest.mark.costly
def test_the_steps_of_the_action(repository: Path, stand_ins: Path, tmp_path: Path) -> None:
    """A shallow clone, whose base has to be fetched; with modules that nothing may import."""
    base = git(repository, "rev-parse", "HEAD")
    modules = dict.fromkeys(
        ["numpy.py", "json.py", "pip.py", "posenc.py", "posenc/__init__.py"], RAN
    )
    write(repository, {"llama/config.json": LLAMA | {"rope_theta": 1e4}, **modules})
    write(repository, {"more": "\n"})
    git(repository, "config", "uploadpack.allowReachableSHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    path = f"{stand_ins}:{os.environ['PATH']}"
    code, output, summary = steps_run(clone, {"github.event.before": base}, path)
    assert code == 1
    errors = [line for line in output.splitlines() if line.startswith("::")]
    differs = (
        "500000 against 10000; cos and sin to position 4,096 differ by up to 2, "
        "by over 0.001 from position 1 on"
    )
    place = "file=llama/config.json,line=5,title=posenc diff%3A base"
    assert errors == [f"::error {place}::attention: base: {differs}"]
    assert "| llama/config.json:5 | posenc diff: base | attention: base: 500000 against" in summary
    assert not (clone / "ran").exists()
    [installed] = (tmp_path / "pip").read_text().splitlines()
    places = [word for word in shlex.split(installed) if not word.startswith("-")]
    assert places == ["pip", "install", str(ROOT), str(REVIEW)]
    # The same change without the base passes: what is there now is settled.
    assert steps_run(clone, {}, path)[0] == 0


def test_other_actions_are_named_by_their_commits() -> None:
    text = (ROOT / "action.yml").read_text()
    used = re.findall(r"uses: (.*)", text)
    pinned = re.findall(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[0-9]+\.[0-9]+\.[0-9]+", "\n".join(used))
    assert used == pinned
    workflows = "".join(p.read_text() for p in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert all(row in workflows for row in used)


def test_the_hooks_are_what_their_package_has() -> None:
    project = tomllib.loads((REVIEW / "pyproject.toml").read_text())["project"]
    assert [hook["id"] for hook in HOOKS] == ["posenc-explain", "posenc-diff"]
    for hook in HOOKS:
        program, *words = shlex.split(hook["entry"])
        assert project["scripts"][program] == "posenc_review:main"
        assert words == ["--only", hook["id"].removeprefix("posenc-")]
        [place] = hook["additional_dependencies"]
        assert (ROOT / place).resolve() == REVIEW
        pattern = re.compile(hook["files"])
        assert [name for name in BEFORE if pattern.search(name)] == [*BEFORE][:-1]
        assert not pattern.search("tokenizer_config.json")
    # Nothing is asked for by the name of this package, which somebody else could take.
    assert not [name for name in project["dependencies"] if name.startswith("posenc")]


@pytest.mark.slow(release=True)
def test_the_action_installs_from_its_own_checkout(repository: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in git(ROOT, "ls-files", "-z").split("\0")[:-1]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    base = git(repository, "rev-parse", "HEAD")
    write(repository, {"llama/config.json": LLAMA | {"rope_theta": 1e4}})
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", fresh], check=True)
    path = f"{fresh / 'bin'}:/usr/bin:/bin"
    github = {"github.event.pull_request.base.sha": base}
    code, output, summary = steps_run(repository, github, path, checkout)
    assert code == 1, output
    assert "::error file=llama/config.json,line=5,title=posenc diff%3A base::" in output
    assert "| llama/config.json:5 |" in summary
