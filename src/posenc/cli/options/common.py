"""What several commands read: files by their names, standard input, texts, and shared options.

A name is checked where it is given, so a mistyped one is a mistake of usage in every command, and
is never taken for something else: an empty name for the current folder, a path for a word.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import click

from posenc._core.errors import closest, refuse_data, suggest
from posenc._core.foreign import hub_advice
from posenc._core.io import inputs
from posenc._core.io.outputs import check_target
from posenc._core.numeric.counts import counted
from posenc.cli._child import SECONDS, limit

F = TypeVar("F", bound=Callable[..., Any])


class WordChoice(click.Choice[str]):
    """One of some words, with a suggestion for a misspelt one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word itself."""
        if value not in self.choices:
            listed = ", ".join(self.choices)
            self.fail(f"{value!r} is none of {listed}. {suggest(value, self.choices)}", param, ctx)
        return str(value)


def refuse(wrong: object, text: str, error: type[click.ClickException] = click.UsageError) -> None:
    """Say of a command line, or of a value of it, that something is wrong, where that is so."""
    if wrong:
        raise error(text)


class RenamedOption(click.Option):
    """An option that has older spellings, which still work and are not shown."""

    def __init__(self, names: list[str], old: Sequence[str] = (), **settings: Any) -> None:
        super().__init__([*names, *old], **settings)
        self.old = tuple(old)

    @property
    def shown(self) -> list[str]:
        """The spellings in the help."""
        return [name for name in self.opts if name not in self.old]

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The name of the option in an error."""
        return " / ".join(f"'{name}'" for name in self.shown)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help, without older spellings."""
        every = self.opts
        self.opts = self.shown
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


class Positive(click.types.FloatParamType):
    """A positive, finite number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number itself."""
        number = super().convert(value, param, ctx)
        if not 0 < number < math.inf:
            self.fail(f"{number:g} is not positive: write a finite number above 0.", param, ctx)
        return number


class WholeNumber(click.types.IntParamType):
    """A whole number, which may be written 128k or 1M."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number itself."""
        return super().convert(counted(value), param, ctx)


class Count(WholeNumber, click.IntRange):
    """A whole number between ends, which may be written 128k or 1M."""

    name = "number"  # it is said: 'abc' is not a valid number


class LengthOrSize(Count):
    """The same, or the size of a picture or film: 1024x1024."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number itself, or the text of a size."""
        return value if "x" in str(value) else super().convert(value, param, ctx)


# --- files, standard input, and texts that are no names -------------------------------------------

# Endings of files that hold numbers, models or texts.
ENDINGS = """
.bin .ckpt .csv .feather .gguf .ggml .gz .h5 .hdf5 .ipynb .json .jsonl .log .mat .md .msgpack .npy
.npz .onnx .parquet .pb .pickle .pkl .png .pt .pth .py .rst .safetensors .sqlite .svg .tar .tfrecord
.toml .tsv .txt .xml .yaml .yml .zip
"""
# Endings of files that hold arrays, which `posenc FILE` identifies; others are explained.
ARRAYS = (".npy", ".npz", ".safetensors", ".bin", ".pt", ".pth")
LONGEST_NAME = 4096


def looks_like_a_file(text: str) -> bool:
    """Whether a text is more likely the name of a file: it has a separator, or a known ending.

    A space in front makes it a text; so does a separator between words, unless the folder exists.
    """
    if text != text.lstrip() or "\n" in text or "\0" in text or len(text) > LONGEST_NAME:
        return False
    if Path(text).suffix.lower() in ENDINGS.split():
        return True
    separated = any(mark in text for mark in (os.sep, os.altsep) if mark)
    return separated and (len(text.split()) == 1 or Path(text).parent.is_dir())


def no_text(text: str) -> str:
    """What to say of a text that looks like the name of a file that is not there."""
    return (
        f"{text[:200]!r} is not there. If it is no file but the text itself, write a space in "
        f"front: {' ' + text[:60]!r}."
    )


def file_there(name: str) -> str:
    """The name of a file or folder that exists."""
    refuse(not name, "the name is empty.", click.BadParameter)
    try:
        there = Path(name).exists()
    except (OSError, ValueError):  # too long, or not to be entered; a null character
        there = False
    if not there:  # the advice imports all presets
        beside = (file.name for file in Path(name[:200]).parent.glob("*"))
        near = closest(Path(name).name, beside, cutoff=0.8)
        todo = hub_advice(name) or (f"Did you mean {near!r}?" if near else "")
        raise click.BadParameter(f"{name[:200]!r} is not there. {todo}".strip())
    return name


class InputFile(click.ParamType):
    """The name of a file or folder that exists."""

    name = "file"

    def __init__(self, *, stream: bool = False, advice: str = "") -> None:
        self.stream, self.advice = stream, advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself."""
        if value == "-" and self.stream:
            return str(value)
        if value == "-":
            self.fail("standard input is not read here: give the name of a file.", param, ctx)
        try:
            return file_there(str(value))
        except click.BadParameter as error:
            self.fail(f"{error.message} {self.advice}".rstrip(), param, ctx)


class InputText(click.ParamType):
    """A text, unless it looks like the name of a file."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        if looks_like_a_file(str(value)):
            self.fail(no_text(str(value)), param, ctx)
        return str(value)


def standard_input(expected: str, kind: inputs.FileKind) -> str:
    """The text that comes on standard input."""
    text = inputs.standard_input(kind)
    refuse_data(not text.strip(), "standard input", expected, "nothing")
    return text


# --- options --------------------------------------------------------------------------------------


def _limit(_ctx: click.Context, _param: click.Parameter, value: float) -> None:
    limit[0] = value


# Of every command that runs code which its arguments name, and of no other.
runs_code = click.option(
    "--timeout",
    type=Positive(),
    default=SECONDS,
    metavar="SECONDS",
    callback=_limit,
    expose_value=False,
    help=f"The longest that an import or a call may take. [default: {SECONDS:g}]",
)


def grouped(
    kind: type[Any], name: str, *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command, which gets their values as one value."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            fields = {field: values.pop(field) for field in kind.__match_args__}
            return command(**values, **{name: kind(**fields)})

        return with_options(*options)(call)

    return decorated


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options to a command, in this order."""

    def decorated(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def encoding_names(_: Any, __: Any, begun: str) -> list[str]:
    """The encodings that begin with what is typed, for completion in a shell."""
    from posenc._names import SPECS

    return [name for name in SPECS if name.lower().startswith(begun.lower())]


def preset_names(_: Any, __: Any, begun: str) -> list[str]:
    """The presets that begin with what is typed."""
    from posenc.presets import names

    return [name for name in names() if name.startswith(begun.lower())]


def plan_names(_: Any, __: Any, begun: str) -> list[str]:
    """The plans that begin with what is typed."""
    from posenc.presets import plan_names

    return [name for name in plan_names() if name.startswith(begun.lower())]


as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")


base_option = click.option("--base", type=Positive(), help="Where the source does not state it.")


stored_option = click.option(
    "--stored",
    type=WordChoice(("half", "interleaved")),
    help="The pairing as it is, where nothing states it.",
)


config_option = click.option(
    "--config", type=InputFile(), metavar="FILE", help="Config, if not beside the weights."
)


pairing_option = click.option(
    "--pairing", type=WordChoice(("half", "interleaved")), help="For families not known."
)


KINDS = ("rotary", "cos_sin", "angles", "table", "bias")  # of what an implementation computes
library_option = click.option(
    "--library",
    type=WordChoice(("torch", "numpy", "jax", "mlx")),
    help="The library of the arrays that it takes, where this cannot be found out.",
)


def is_json(text: str) -> bool:
    """Whether an argument is the JSON of a spec itself, not the name of a file or a preset."""
    return text.lstrip().startswith("{")


def standard_json(expected: str) -> str:
    """The JSON that comes on standard input."""
    text = standard_input(expected, inputs.CONFIG)
    # Else it would be taken for the name of a file.
    refuse_data(not is_json(text), "standard input", expected, repr(text.strip()[:40]))
    return text


def code_named(text: str) -> Any:
    """What MODULE:NAME or FILE.py:NAME names, imported."""
    from posenc.testing import load

    if "" not in sys.path:  # as for `python -m`: what lies in the working directory
        sys.path.insert(0, "")
    return load(text)


def side_named(text: str) -> Any:
    """A side of a comparison: the text itself, or the code that it names."""
    from posenc.detect.contract.sides.sides import is_code

    return code_named(text) if is_code(text) else text


def count_of(items: Sized, what: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"


# --- outputs --------------------------------------------------------------------------------------


class OutputChoice(NamedTuple):
    """Where the command line says that a result goes, and whether it replaces what is there."""

    output: str | None
    force: bool

    @property
    def path(self) -> Path:
        """The path of a result that goes somewhere."""
        return Path(self.output or "")

    @property
    def format(self) -> str:
        """`npy`, `safetensors`, …: its ending."""
        return self.path.suffix[1:]

    @property
    def existing(self) -> Literal["replace", "refuse"]:
        """What becomes of a file that has the name."""
        return "replace" if self.force else "refuse"

    def check(self, endings: tuple[str, ...] = (), *, option: str = "-o", listed: str = "") -> None:
        """Say of an output that it cannot be written, before the work that makes it.

        Nor can one of another ending than those of an option, `listed` for people.
        """
        name = self.output
        if name is None:
            return
        if endings and Path(name).suffix not in endings:
            ends = listed or " or ".join(endings)
            raise click.UsageError(f"{option} {name!r}: its name must end in {ends}.")
        try:
            check_target(name, existing=self.existing)
        except FileExistsError:
            raise click.UsageError(f"{name} exists: --force replaces it.") from None


def force_option(what: str = "an output that exists") -> Callable[[F], F]:
    """Whether what is there may be replaced."""
    return click.option("--force", is_flag=True, help=f"Replace {what}.")


def length_options(to: str, factor: str) -> Callable[[F], F]:
    """How long a longer context is, in positions or as a multiple of what was trained."""
    return with_options(
        click.option("--to", type=Count(1), metavar="LENGTH", help=to),
        click.option("--factor", type=float, help=factor),
        click.option(
            "--trained", type=LengthOrSize(1), metavar="LENGTH", help="Where training ended."
        ),
    )


def output_options(
    text: str, *between: Callable[[Any], Any], metavar: str = "OUT"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Where a result goes: the command gets an `OutputChoice` as `target`."""
    output = click.option("-o", "--output", metavar=metavar, help=text)
    return grouped(OutputChoice, "target", output, *between, force_option())
