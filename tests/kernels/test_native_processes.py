"""The compiled kernels in processes of their own: their threads, forks and interpreters."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

if importlib.util.find_spec("posenc.kernels._native") is None:
    pytest.skip("the compiled kernels were not built (make build)", allow_module_level=True)

from posenc.kernels import _native as native


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_posenc_does_not_load_them() -> None:
    assert run("import posenc, sys; print('posenc.kernels._native' in sys.modules)") == "False"


@pytest.mark.costly
def test_threads_follow_the_environment() -> None:
    code = "from posenc.kernels import _native as n; print(n.default_threads(), n.team())"
    assert run(code, OMP_NUM_THREADS="3") == "3 own"


GROUPS = {
    "none": ("0::/\n", "/ /sys/fs/cgroup", "cgroup2", {}, 0),
    "second version": (
        "0::/a/b\n",
        "/ /sys/fs/cgroup",
        "cgroup2",
        {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000", "cpu.max": "900000 100000"},
        1.5,
    ),
    "seen from a container": (
        "0::/docker/x/y\n",
        "/docker/x /sys/fs/cgroup",
        "cgroup2",
        {"y/cpu.max": "50000 100000", "cpu.max": "200000 100000"},
        0.5,
    ),
    "a group elsewhere": (
        "0::/../other\n",
        "/docker/x /sys/fs/cgroup",
        "cgroup2",
        {"cpu.max": "200000 100000"},
        2,
    ),
    "first version": (
        "5:cpuset:/z\n4:cpu,cpuacct:/a/b\n0::/\n",
        "/ /sys/fs/cgroup/cpu,cpuacct",
        "cgroup",
        {
            "a/b/cpu.cfs_quota_us": "-1",
            "a/b/cpu.cfs_period_us": "100000",
            "a/cpu.cfs_quota_us": "300000",
            "a/cpu.cfs_period_us": "100000",
        },
        3,
    ),
    "unreadable numbers": ("0::/\n", "/ /sys/fs/cgroup", "cgroup2", {"cpu.max": "x y"}, 0),
}


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
@pytest.mark.parametrize("name", GROUPS)
def test_the_quota_of_control_groups_is_read(name: str, tmp_path: Path) -> None:
    own, where, kind, files, expected = GROUPS[name]
    options = "rw" if kind == "cgroup2" else "rw,cpu,cpuacct"
    process = tmp_path / "proc" / "self"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(own)
    mounts = f"31 23 0:28 / / rw - ext4 x rw\n38 31 0:41 {where} rw shared:9 - {kind} x {options}\n"
    (process / "mountinfo").write_text(mounts)
    for file, text in files.items():
        path = tmp_path / where.partition(" /")[2] / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert native.processor_quota(str(tmp_path)) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.costly
def test_forked_children_beside_torch() -> None:
    """One uses as many threads as torch is told; one works where its parent already had threads."""
    code = """
        import os, signal, threading, warnings
        import numpy as np, posenc, torch
        from posenc.kernels import _native as n
        warnings.simplefilter("ignore")
        rope = posenc.RoPE(128, pairing="half")
        x = np.ones((64, 512, 128), np.float32)
        turn = n.Rotation(n.Phases(np.ones((1, 64), np.int64))).turn

        def threads():
            before = set(os.listdir("/proc/self/task"))
            posenc.rotate(rope, x, kernel="cpu")
            return len(set(os.listdir("/proc/self/task")) - before)

        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            found = [threads()]
            thread = threading.Thread(target=lambda: found.append(threads()))
            thread.start()
            thread.join()
            torch.set_num_threads(3)
            found.append(threads())
            os._exit(100 * found[0] + 10 * found[1] + found[2])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        turn((x,), (x,), 0, -2, 4)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            turn((x,), (x,), 0, -2, 4)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        turn((x,), (x,), 0, -2, 4)
    """
    pytest.importorskip("torch", reason="torch is not installed")
    assert run(code, OMP_NUM_THREADS="4") == "2\n7"


@pytest.mark.costly
def test_a_sub_interpreter_ends() -> None:
    code = """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        try:
            made = interpreters.create("legacy")
        except TypeError:
            made = interpreters.create()
        work = (
            "import numpy, posenc\\n"
            "x = numpy.ones((2, 8, 64), 'float32')\\n"
            "posenc.rotate(posenc.RoPE(64, pairing='half'), x, kernel='cpu')\\n"
            "posenc.add(posenc.Sinusoidal(64), x, kernel='cpu')\\n"
        )
        failed = interpreters.run_string(made, work)
        interpreters.destroy(made)
        print(failed)
    """
    assert run(code) == "None"


@pytest.mark.costly
def test_a_forked_child_works() -> None:
    # Its parent's threads do not exist in it.
    code = """
        import os, signal, sys, warnings
        import numpy as np
        from posenc.kernels import _native as n
        warnings.simplefilter("ignore")
        x = np.ones((64, 512, 128), np.float32)
        turn = n.Rotation(n.Phases(np.ones((1, 64), np.int64))).turn
        turn((x,), (x,), 0, -2, 4)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            turn((x,), (x,), 0, -2, 4)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        turn((x,), (x,), 0, -2, 4)
    """
    assert run(code) == "7"
