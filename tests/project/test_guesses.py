"""What people write first works, or names the right thing in one line."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib.util
import inspect
import io
import json
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc._core.calls import checked_call, numpy_rules
from posenc._names import OTHERS, SPECS, VALUES

GUESSES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "guesses.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
MOST = 400  # characters of a line that is still read


def names() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    q = np.random.default_rng(0).standard_normal((2, 8, 10, 64), dtype=np.float32)
    rope = posenc.RoPE(64, pairing="half")
    cos, sin = posenc.cos_sin(rope, 10)
    rows = posenc.table(posenc.Sinusoidal(64), 128)
    return {
        "np": np,
        "posenc": posenc,
        "torch": torch,
        "q": q,
        "k": q[:, :2],
        "qt": torch.from_numpy(q),
        "x": q[0, 0],
        "cos": cos,
        "sin": sin,
        "rope": rope,
        "alibi": posenc.ALiBi(heads=8),
        "sinusoidal": posenc.Sinusoidal(64),
        "rows": rows,
        "broken": np.where(np.arange(128)[:, None] == 100, 0, rows),
    }


def answer_of(call: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """The value of a call, and what it said where it failed."""
    if call.startswith("posenc "):
        from posenc.cli._app import app

        monkeypatch.chdir(tmp_path)
        said, printed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            with pytest.raises(SystemExit) as ended:
                app.main(shlex.split(call)[1:], prog_name="posenc")
        code = ended.value.code or 0
        lines = said.getvalue().strip().splitlines()
        errors = [line for line in lines if line.lower().startswith(("error", "posenc: error"))]
        return code, "\n".join(errors or lines) if code else ""
    try:
        return eval(call, names()), ""
    except Exception as error:  # noqa: BLE001 - whatever a user would see
        return None, str(error)


def verdict(call: str, answer: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a guess leads nowhere; nothing where it works or teaches."""
    value, said = answer_of(call, tmp_path, monkeypatch)
    if answer.startswith("= "):
        if said:
            return f"failed: {said}"
        expected = eval(answer[2:], names())
        return "" if value == expected else f"gave {value!r}, not {expected!r}"
    if not said:
        return f"accepted in silence: {value!r}"
    if "\n" in said or len(said) > MOST:
        return f"more than a line: {said}"
    named = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", said)
    return "" if named else f"does not name {answer}: {said}"


def rows() -> Iterator[Any]:
    for _, call, answer, *gap in GUESSES:
        marks = [pytest.mark.xfail(reason=gap[0])] if gap else []
        yield pytest.param(call, answer, id=call, marks=marks)


@pytest.mark.parametrize(("call", "answer"), [*rows()])
def test_a_guess_works_or_names_the_right_thing(
    call: str, answer: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not verdict(call, answer, tmp_path, monkeypatch)


def test_there_are_530_guesses_and_few_gaps() -> None:
    assert len({call for _, call, *_ in GUESSES}) == len(GUESSES) == 530
    assert sum(len(row) > 3 for row in GUESSES) <= 20


# --- what holds for every function and field ------------------------------------------------------

VERBS = [name for name in OTHERS["posenc.functional"] if name != "resolution"]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_names_its_own_arguments(name: str) -> None:
    verb = getattr(posenc, name)
    parameters = inspect.signature(verb).parameters
    assert not {"more", "others"} & set(parameters)
    with pytest.raises(
        posenc.KeywordError, match=f"^{name}: expected known arguments, got zz="
    ) as e:
        verb(*(None, None) if name == "rotate" else (), zz=1)
    assert "\n" not in str(e.value)
    if name != "rotate":  # Python tells of its own what `rotate` lacks, at no cost for a call
        with pytest.raises(posenc.KeywordError, match=f"^{name}: expected a value for"):
            verb()


@pytest.mark.parametrize("name", [*SPECS, *(n for n, m in VALUES.items() if "scaling." in m)])
def test_every_class_names_its_own_fields(name: str) -> None:
    cls = getattr(posenc if name in SPECS else posenc.scaling, name)
    first, *_ = fields = [field.name for field in dataclasses.fields(cls)]
    with pytest.raises(
        posenc.KeywordError, match=f"^{name}: expected known arguments, got {first}x="
    ):
        cls(**{f"{first}x": 1})
    for field in fields:
        with pytest.raises(TypeError, match="Did you mean|Write|It has|There|value for"):
            cls(**{f"{field}_": 1})


def test_errors_inside_a_verb_stay_what_they_are() -> None:
    """Only arguments that do not fit are explained."""

    @numpy_rules
    def verb(x: Any) -> Any:
        return verb(x, x)

    @numpy_rules
    def other(x: Any) -> Any:
        return len(x, x)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="len") as error:
        other(3)
    assert not isinstance(error.value, posenc.KeywordError)
    with pytest.raises(posenc.KeywordError, match="^verb: expected x by place"):
        verb(3)

    @checked_call
    def function(x: Any, **options: Any) -> Any:
        return len(x, **options)

    assert function([1, 2]) == 2
    with pytest.raises(TypeError, match="len") as error:  # an option that it takes, and another not
        function([1], more=2)
    assert not isinstance(error.value, posenc.KeywordError)
    with pytest.raises(posenc.KeywordError, match="^function: expected x by place"):
        function(1, 2)


@pytest.mark.costly
def test_an_import_of_a_part_asks_for_no_advice() -> None:
    """`from posenc import registry` looks for an attribute first, and pytest for `__wrapped__`.

    Finding words takes 6 ms.
    """
    code = "import posenc, posenc._core.foreign as words\nwords.name_advice = None\n"
    code += "from posenc import explore, registry\nassert registry.SPECS\n"
    code += "assert not hasattr(posenc, '__wrapped__')\n"
    # Loaded again, the package is still asked once for what it does not have.
    code += "import importlib, sys\nimportlib.reload(posenc)\n"
    code += "assert [f.__name__ for f in sys.meta_path if f.__module__ == 'posenc'] == ['_Parts']"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_for_a_module_is_answered_and_raises_nothing() -> None:
    assert importlib.util.find_spec("posenc.jax") is None
    assert importlib.util.find_spec("posenc.torch") is not None
    last = sys.meta_path[-1]
    assert last.find_spec("posenc.jax", path=None, target=None) is None
    with pytest.raises(ModuleNotFoundError, match="Here it is posenc.rotate"):
        importlib.import_module("posenc.jax")


def test_copies_need_no_arguments() -> None:
    for spec in (posenc.RoPE(8, pairing="half"), posenc.ALiBi(heads=4)):
        assert copy.deepcopy(spec) == copy.copy(spec) == pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("posenc table --preset whi", "whisper"),
        ("posenc plot table --encoding sinu", "Sinusoidal"),
        ("posenc plot table --pairing in", "interleaved"),
        ("posenc explain --plan smol", "smollm3"),
        ("posenc cite ali", "ALiBi"),
        ("posenc tab", "table"),
    ],
)
def test_completions(words: str, expected: str) -> None:
    from click.shell_completion import BashComplete

    from posenc.cli._app import app

    *args, begun = words.split()[1:]
    found = BashComplete(app, {}, "posenc", "_POSENC_COMPLETE").get_completions(args, begun)
    assert expected in [item.value for item in found]


def test_only_an_array_too_many_is_another_call() -> None:
    spec, x = posenc.RoPE(4, pairing="half"), np.ones((2, 4))
    for more, told in ((x, True), (5, False), ([1, 2], False)):
        with pytest.raises(posenc.KeywordError, match="spec, x by place") as error:
            posenc.rotate(spec, x, more)
        assert ("once for each array" in str(error.value)) is told
        assert ("Those are positions, offset" in str(error.value)) is not told


def test_print_of_a_result_says_what_the_command_says(tmp_path: Path) -> None:
    """A finding of thousands of letters in one line is read by nobody."""
    config = {"model_type": "llama", "head_dim": 8, "num_attention_heads": 2, "rope_theta": 1e4}
    config |= {"num_hidden_layers": 1, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    sinusoidal = posenc.Sinusoidal(8)
    rows = posenc.table(sinusoidal, 12)
    np.save(tmp_path / "rows.npy", rows)
    rope = posenc.RoPE(8, pairing="half")
    results = {
        "explain": posenc.explain(tmp_path),
        "extend": posenc.extend(tmp_path, 128),
        "diff": posenc.diff(tmp_path, rope.replace(base=50.0)),
        "identify": posenc.identify(tmp_path / "rows.npy"),
        "locate": posenc.locate(sinusoidal, rows[5]),
        "infer": posenc.infer(lambda positions: posenc.table(sinusoidal, positions), dim=8),
        "check": posenc.check(rope, library="numpy", laws=["shift", "norm"]),
        "golden": posenc.golden(tmp_path),
        "doctor": posenc.doctor(tmp_path, rope),
        "facts": posenc.facts(tmp_path),
    }
    for verb, result in results.items():
        assert str(result) != repr(result), verb
        assert max(map(len, str(result).splitlines())) < MOST, verb
    from click.testing import CliRunner

    from posenc.cli._app import app

    for call, verb in (("explain", "explain"), ("extend --to 128", "extend")):
        command, *options = call.split()
        output = CliRunner().invoke(app, [command, str(tmp_path), *options]).output
        assert output.split() == str(results[verb]).split(), verb
    assert str(rope) == repr(rope)
