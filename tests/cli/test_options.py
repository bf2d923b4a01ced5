"""All commands at once: one option means one thing, one mistake has one exit code."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file
from tools.pages import shelf

from posenc.cli import app
from posenc.cli.options import flags
from posenc.cli.options.common import looks_like_a_file

ROOT = Path(__file__).resolve().parents[2]


def commands(command: click.Command = app, name: str = "") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from commands(found, f"{name} {inner}".strip())


def options() -> Iterator[tuple[str, str, click.Option]]:
    """Command, spelling and option; without spellings that are not shown."""
    for name, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                for spelling in getattr(option, "shown", option.opts):
                    yield name, spelling, option


def kind(option: click.Option) -> object:
    """What the words behind an option are."""
    if option.is_flag:
        return "flag"
    if hasattr(option.type, "words"):
        return option.type.words
    for number in (click.IntRange, click.FloatRange):
        if isinstance(option.type, number):
            return number.name.removesuffix(" range")
    return option.type.name if option.type.name in ("integer", "float") else "text"


def test_an_option_has_one_kind_of_value() -> None:
    kinds: dict[str, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, spelling, option in options():
        kinds[spelling][kind(option)].append(name)
    kinds.pop("--to")  # what is made: a convention in `convert`, a length in `extend`
    kinds.pop("--tokens")  # how many run in `trace`; a flag in `extend`
    several = {spelling: dict(found) for spelling, found in kinds.items() if len(found) > 1}
    assert not several


def test_an_option_that_commands_share_has_one_meaning_that_is_written_down() -> None:
    page = shelf.whole(ROOT / "docs" / "command.md")
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `-")]
    listed = [spelling for row in rows for spelling in re.findall(r"`(--?[a-z-]+)`", row)]
    assert len(listed) == len(set(listed))
    users: dict[str, set[str]] = defaultdict(set)
    for name, spelling, _ in options():
        # The pictures share their options by their code; the group counts as one command.
        users[spelling].add(name.split()[0] if name else "")
    shared = {spelling for spelling, names in users.items() if len(names) > 1}
    assert shared <= set(listed)
    assert set(listed) <= set(users)


def test_old_spellings_work_and_are_not_shown() -> None:
    for name, command in commands():
        context = click.Context(command)
        text = command.get_help(context)
        for option in command.params:
            for old in getattr(option, "old", ()):
                assert old in option.opts
                assert not re.search(rf"^  [^\n]*{old} ", text, re.MULTILINE), (name, old)
                assert f"'{old}'" not in option.get_error_hint(context)


def test_no_help_shows_a_mark_of_its_source() -> None:
    for name, command in commands():
        text = command.get_help(click.Context(command))
        assert "\\b" not in text, name
        assert "\b" not in text, name


# --- mistakes -------------------------------------------------------------------------------------

MODULE = """
def f(x, positions):
    return x
number = 3
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.ones((6, 8), "float32")
    np.save("x.npy", x)
    Path("junk.npy").write_bytes(b"junk" * 40)
    save_file({"a": x, "b": x}, "two.safetensors")
    save_file({"a": np.ones((1, 6, 8), "float32")}, "one.safetensors")
    rows = np.ones((8, 8), "float32")
    save_file({"self_attn.q_proj.weight": rows, "self_attn.k_proj.weight": rows}, "qk.safetensors")
    Path("bad.json").write_text("{")
    Path("other.json").write_text('{"a": 1}')
    Path("config.json").write_text(json.dumps({"model_type": "llama"}))
    Path("mine_of_the_options.py").write_text(MODULE)
    Path("needs_of_the_options.py").write_text("import no_such_library_anywhere")
    Path("fails_of_the_options.py").write_text("raise RuntimeError('no such luck')")


VALUE = "--dim 8 --value 0.5 --at 1"
MISTAKES: dict[str, tuple[int, list[str]]] = {
    "a file that is not there": (
        2,
        [
            *(
                "encode none.npy -o o.npy",
                "encode a --embeddings NONE",
                "encode a --tokenizer NONE",
            ),
            *("table --spec NONE", "encode a --params NONE", "plot table --table NONE"),
            *("plot table --spec NONE", "plot sum --embeddings NONE", "plot table --params NONE"),
            *("plot compare table --b-table NONE", "locate NONE", "locate x.npy --before NONE"),
            *("locate x.npy --params NONE", "explore NONE", "explore --table NONE"),
            *("explore --embeddings NONE", "convert NONE o.safetensors --pairing half"),
            *("convert two.safetensors o --pairing half --config NONE", "pairing NONE"),
            *("convert two.safetensors o --tensor a --from NONE --resize 3", "infer none.npz"),
            *("pairing two.safetensors --config NONE", "explain NONE", "identify NONE"),
            *("check none.py:f", "check mine_of_the_options:f --kind rotary --spec NONE"),
            *(
                "study report --store NONE",
                "study status --store NONE",
                "study report --results NONE",
            ),
            *("study report --claims NONE", "study train order rope -o m --data NONE"),
            *(
                "study generate NONE text",
                "diff NONE NONE",
                "diff plan:smollm3 hf:NONE",
                "diff none.py:f NONE",
            ),
        ],
    ),
    "a name that is empty": (
        2,
        [
            *("encode a --embeddings ''", "encode a --tokenizer ''", "table --spec ''"),
            *("table --params ''", "plot table --table ''", "plot table --spec ''"),
            *("plot sum --embeddings ''", "locate ''", "locate x.npy --before ''", "explore ''"),
            *("explore --table ''", "explore --embeddings ''", "convert '' o --pairing half"),
            *("convert two.safetensors o --pairing half --config ''", "pairing ''", "explain ''"),
            *("convert two.safetensors '' --pairing half", "pairing two.safetensors --config ''"),
            *(
                "infer ''",
                "check ''",
                "diff '' ''",
                "identify ''",
                "quiz ''",
                "cite ''",
                "study run ''",
            ),
            *("study train '' rope -o m", "study train order '' -o m", "study generate '' text"),
            *("study report --store ''", "table --preset ''", "explain --plan ''"),
        ],
    ),
    "a path that is no file, where a text is asked for": (
        2,
        [
            *("encode embeddings.pt", "encode x.npz", "encode out/embeddings", "encode 'a b/c.pt'"),
            *("plot sum embeddings.pt", "plot sum out/embeddings"),
        ],
    ),
    "standard input that is empty": (1, ["explain -", "encode -", "locate -"]),
    "a preset or plan that nobody knows": (
        2,
        [
            *("encode a --preset lama", "table --preset lama", "plot table --preset lama"),
            *(f"locate {VALUE} --preset lama", "cite lama", "explain --plan lama", "list lamaa"),
            *("diff preset:lama:8 preset:lama:8", "diff plan:lama plan:lama"),
            "convert two.safetensors o --tensor a --from lama --resize 3",
        ],
    ),
    "a tensor that the file does not have": (
        2,
        [
            *("encode two.safetensors -o o.npy --tensor c", "locate two.safetensors --tensor c"),
            *("encode 'a b' --embeddings two.safetensors --tensor c", "identify x.npy --tensor c"),
            *(
                "plot table --table two.safetensors --tensor c",
                "identify two.safetensors --tensor c",
            ),
            "convert two.safetensors o --tensor c --resize 3",
        ],
    ),
    "several tensors and no name": (
        2,
        [
            *("encode two.safetensors -o o.npy", "locate two.safetensors --row 0"),
            "plot table --table two.safetensors",
        ],
    ),
    "a module that is not there": (2, ["infer none_such:f", "check none_such:f --kind rotary"]),
    "a name that the module does not have": (
        2,
        ["infer mine_of_the_options:g", "check mine_of_the_options:g --kind rotary"],
    ),
    "a name that is no function": (
        2,
        ["infer mine_of_the_options:number", "check mine_of_the_options:number --kind rotary"],
    ),
    "a module that needs an absent one": (
        1,
        [
            "infer needs_of_the_options:f",
            "check needs_of_the_options:f --kind rotary",
            "diff needs_of_the_options:f needs_of_the_options:f",
        ],
    ),
    "a module that fails": (
        1,
        [
            "infer fails_of_the_options:f",
            "check fails_of_the_options:f --kind rotary",
            "diff fails_of_the_options:f fails_of_the_options:f",
        ],
    ),
    "a spec of nothing, inline": (
        2,
        [
            *("encode a --spec '{}'", "table --spec '{}'", "plot table --spec '{}'"),
            *("locate x.npy --row 0 --spec '{}'", "plot compare table --b-spec '{}'", "check '{}'"),
            "check mine_of_the_options:f --kind rotary --spec '{}'",
        ],
    ),
    "a spec of nothing, in a file": (
        1,
        [
            *(
                "encode a --spec other.json",
                "table --spec bad.json",
                "plot table --spec other.json",
            ),
            *("plot table --spec bad.json", "locate x.npy --row 0 --spec other.json"),
            "check mine_of_the_options:f --kind rotary --spec other.json",
        ],
    ),
    "an array of no known format": (
        1,
        [
            *("encode junk.npy -o o.npy", "encode a --embeddings junk.npy", "locate junk.npy"),
            *("plot table --table junk.npy", "identify junk.npy", "explore --table junk.npy"),
        ],
    ),
    "a width that contradicts the data": (
        2,
        ["encode x.npy -o o.npy --dim 4", "locate x.npy --row 0 --dim 4"],
    ),
    "an output that exists": (
        2,
        [
            *("encode x.npy -o x.npy", "table -o x.npy", "explore --freeze page.html"),
            "convert one.safetensors two.safetensors --pairing half",
        ],
    ),
    "an unknown choice": (
        2,
        [
            *(
                "encode a --order ordr",
                "plot table --theme drak",
                "explain config.json --pairing x",
            ),
            *("infer x.npz --kind x", "check x:y --library x", "study run standrad", "quiz x"),
            "study report --format docx",
        ],
    ),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_has_one_exit_code(mistake: str) -> None:
    import shlex

    code, lines = MISTAKES[mistake]
    Path("page.html").touch()
    before = {path.name for path in Path().iterdir()} - {"__pycache__"}
    codes = {}
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line.replace("NONE", "none.npy")))
        assert "an error of posenc itself" not in result.output, line
        codes[line] = result.exit_code
    # The 1 of commands that compare is an answer: they end with 3 where there is none.
    comparing = {line for line in lines if line.split()[0] in ("check", "diff")}
    assert codes == {line: 3 if line in comparing and code == 1 else code for line in lines}
    assert {path.name for path in Path().iterdir()} - {"__pycache__"} == before


@pytest.mark.usefixtures("here")
def test_standard_input_is_never_the_name_of_a_file() -> None:
    result = CliRunner().invoke(app, ["explain", "-"], input="config.json")
    assert (result.exit_code, "got 'config.json'" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("embeddings.pt", True),
        ("Embeddings.NPY", True),
        ("out/embeddings", True),
        ("my data/embeddings.npz", True),
        ("/", True),
        (" embeddings.pt", False),
        ("the cat saw the dog", False),
        ("this and/or that", False),
        ("e.g.", False),
        ("3.14", False),
        ("one\ntwo/three", False),
        ("x" * 5000 + "/", False),
        ("", False),
    ],
)
def test_what_looks_like_a_file(text: str, expected: bool) -> None:
    assert looks_like_a_file(text) is expected


@pytest.mark.usefixtures("here")
def test_a_space_makes_a_text_of_it() -> None:
    result = CliRunner().invoke(app, ["encode", " embeddings.pt", "--json"])
    assert json.loads(result.stdout)["tokens"] == ["embeddings.pt"]


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "pairing qk.safetensors",
            "--config, or what it would say: --heads, --kv-heads, --rotary",
        ),
        ("pairing two.safetensors", "--name q=PATTERN --name k=PATTERN or --name qkv=PATTERN"),
        (
            "convert qk.safetensors o.safetensors --pairing half",
            "--heads, --kv-heads, --rotary, --stored",
        ),
        ("encode two.safetensors -o o.npy", "Name one: --tensor"),
        ("encode a --preset whisper --dim 7", "--dim 7"),
        ("locate x.npy --row 0 --preset llama", "--before"),
        ("explain other.json", "nothing in the config says"),
        ("explain bad.json", "error: bad.json is not JSON"),
    ],
)
def test_errors_name_flags_and_not_arguments(line: str, said: str) -> None:
    Path("config.json").unlink()
    output = CliRunner().invoke(app, line.split()).output
    assert said in output
    assert not re.search(r"\w=[\s.,)`]|from_hf|Projections", output), output


def test_errors_of_python_say_what_to_write() -> None:
    """A name for an object, rows for axes, an offset that is not one for each row."""
    import posenc.plot

    spec = posenc.Sinusoidal(8)
    x = np.zeros((2, 4, 8), "float32")
    for scaling in ("yarn", "Yarn"):
        with pytest.raises(posenc.SpecError, match=r"object: posenc\.scaling\.YaRN\(…\)\.$"):
            posenc.RoPE(8, pairing="half", scaling=scaling)  # type: ignore[arg-type]
    with pytest.raises(posenc.SpecError, match=r"expected an Arrangement, .* Arrangement\(…\)"):
        posenc.Sinusoidal(8, arrangement="axial")  # type: ignore[arg-type]
    for call in (posenc.plot.table, posenc.plot.waves, posenc.plot.similarity, posenc.plot.sum):
        with pytest.raises(posenc.ArgumentError, match="axes of matplotlib, got 50"):
            call(spec, 50)
    for offset in ([1, 2, 3], np.arange(3)):
        with pytest.raises(posenc.ArgumentError, match="offset: .* each of the 2 rows, got shape"):
            posenc.add(spec, x, offset=offset)
    with pytest.raises(posenc.ArgumentError, match=r"shape \(4,\) or \(2, 4\), got shape \(3,\)"):
        posenc.add(spec, x, positions=[1, 2, 3])
    with pytest.raises(posenc.ArgumentError, match=r"shape \(4,\), got shape \(3,\)"):
        posenc.add(spec, x[0], positions=[1, 2, 3])


def test_entries_of_the_list_are_found_by_words() -> None:
    def found(*words: str) -> dict[str, list[dict[str, str]]]:
        return json.loads(CliRunner().invoke(app, ["list", *words, "--json"]).stdout)

    assert [row["name"] for row in found("alibi", "2d")["encodings"]] == ["ALiBi2D"]
    assert {row["kind"] for row in found("rotary")["presets"]} >= {"rotary"}
    assert len(found()["encodings"]) > len(found("rotary")["encodings"]) > 0
    shown = CliRunner().invoke(app, ["list", "whisper"]).stdout
    assert "whisper" in shown
    assert len(shown.splitlines()) < 40


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Sinusoidal(8, base=100)", ""),
        (" posenc.Sinusoidal(8, base=1e2)", ""),
        ("Sinusoidal(8, **{'base': 100})", "is no spec: write it as Python does"),
        ("Sinusoidal(*[8])", "is no spec: write it as Python does"),
        ("Sinusoidal(open('x'))", "expected the name of an encoding or value, got 'open'"),
        ("Sinusoidal(2 ** 3)", "is no spec: write it as Python does"),
        ("RoPE(8)", "Write pairing="),
        ("RoPE(", "'RoPE(' is no whole spec: write it as Python does"),
        ("RoPE(8, base=1.5", "'RoPE(8, base=1.5' is no whole spec"),
        ("Nobody(8)", "is no spec, as Nobody is no encoding"),
        ("spec(2).json", "'spec(2).json' is not there"),
    ],
)
def test_a_spec_is_written_as_python_writes_it(text: str, says: str) -> None:
    """Classes and plain values alone; nothing else is called."""
    done = CliRunner().invoke(app, ["table", "--spec", text, "--positions", "3", "--json"])
    if says:
        assert done.exit_code == 2
        assert says in done.stderr
    else:
        flags = ["table", "--dim", "8", "--base", "100", "--positions", "3", "--json"]
        assert done.stdout == CliRunner().invoke(app, flags).stdout


# --- words of other programs ----------------------------------------------------------------------


def error_of(*words: str) -> str:
    output = CliRunner().invoke(app, [*words], env={"COLUMNS": "500"}).output
    return output.rpartition("Error: ")[2]


@pytest.mark.parametrize("name", [name for name, _ in commands() if name and "study" not in name])
def test_an_option_that_nobody_knows_gets_options_and_an_example(name: str) -> None:
    said = error_of(*name.split(), "--zzqx")
    assert said.startswith("No such option '--zzqx'.")
    assert f"posenc {name}" in said or "posenc plot table" in said or "posenc list" in said, said
    assert (
        "--json" in said or name == "mcp" or "It takes words" in said or "--help lists" in said
    ), said
    assert ("It takes words" in said) == (name == "list"), said


def test_examples_of_the_help_are_calls_of_their_command() -> None:
    every = dict(commands())
    for name, command in every.items():
        if "study" in name:
            continue
        lines = re.findall(r"^  posenc (.*)$", command.epilog or "", re.MULTILINE)
        assert lines or name in ("", "plot"), name
        for line in lines:
            words = shlex.split(line.removesuffix("\\"))
            flags = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
            assert line.startswith(name), line
            assert {word for word in words if re.match("-[-a-z]", word)} <= flags | {"-h"}, line


@pytest.mark.parametrize("name", [name for name in flags.INSTEAD if name])
def test_words_of_other_programs_hide_no_option_and_name_calls_that_are_there(name: str) -> None:
    every = dict(commands())
    rows = flags.INSTEAD[name]
    own = {o.lstrip("-").replace("-", "_") for p in every[name].params for o in p.opts
           if isinstance(p, click.Option)}  # fmt: skip
    words = [word for row in rows for word in row.split()]
    assert len(words) == len({*words})
    assert not own & {*words}, own & {*words}
    for todo in rows.values():
        for called in re.findall(r"posenc (\w+)", todo):
            assert called in every
        for flag in re.findall(r"Write (--?[\w-]+)", todo):
            assert flag in {o for p in every[name].params for o in p.opts}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((r"x\1.py:f", "--function", "f"), r"posenc check x\1.py:f:NAME."),
        (("a" * 5000, "write"), "Got unexpected extra argument (write)."),
        ((__file__, "write"), "Got unexpected extra argument (write)."),
        ((__file__, "--verbose"), "POSENC_DEBUG=1 shows the traceback of an error."),
    ],
    ids=["backslash", "long", "file", "every command"],
)
def test_a_first_word_is_taken_as_it_is(words: tuple[str, ...], said: str) -> None:
    assert said in error_of("check", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plot", "rope"), "write `posenc plot rotation --encoding RoPE`; `posenc plot table --en"),
        (("plot", "alibi"), "--encoding ALiBi --numbers rows.csv` writes its numbers."),
        (("plot", "sinusoidal"), "write `posenc plot table --encoding Sinusoidal`."),
        (("plot", "table", "--encoding", "Windmill"), "by an entry point of an installed package"),
    ],
)
def test_an_encoding_in_the_place_of_a_picture_gets_one_command(
    words: tuple[str, ...], said: str
) -> None:
    text = error_of(*words)
    assert said in text
    assert text.lower().count("write") <= 2


def test_a_missing_or_an_extra_argument_gets_an_example() -> None:
    for name, command in commands():
        needed = [p for p in command.params if isinstance(p, click.Argument) and p.required]
        if needed and "study" not in name:
            said = error_of(*name.split())
            assert said.startswith("Missing argument"), name
            assert f"Such as: posenc {name}" in said, name
    said = error_of("explain", __file__, "other")
    assert said == "Got unexpected extra argument (other). Such as: posenc explain config.json\n"
