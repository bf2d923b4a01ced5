"""Options that several commands share, and the spec they describe."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from posenc._core.errors import ArgumentError, DataError, PosencError, mismatch, suggest
from posenc._core.io import inputs
from posenc._core.numeric.counts import counted
from posenc.cli._child import SECONDS, limit
from posenc.cli.options.inputs import file_there, standard_input
from posenc.encodings.table.base import TableSpec

F = TypeVar("F", bound=Callable[..., Any])

ORDERS = ("interleaved", "sin_cos", "cos_sin")
ODDS = ("sin_extra", "zero_pad", "cut", "error")
FIELDS = ("dim", "base", "heads", "order", "odd", "pairing")
LARGEST_DIM = 2**19  # a spec works its frequencies out to 50 digits each


def _limit(_ctx: click.Context, _param: click.Parameter, value: float) -> None:
    if not value > 0:
        raise click.BadParameter(f"{value:g} is not positive.")
    limit[0] = value


# Of every command that runs code which its arguments name, and of no other.
runs_code = click.option(
    "--timeout",
    type=float,
    default=SECONDS,
    metavar="SECONDS",
    callback=_limit,
    expose_value=False,
    help=f"For the import, and for each call, of code that is run. [default: {SECONDS:g}]",
)


class WordChoice(click.ParamType):
    """One of some words, with a suggestion for a misspelt one."""

    name = "choice"

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word itself."""
        if value not in self.words:
            listed = ", ".join(self.words)
            self.fail(f"{value!r} is none of {listed}. {suggest(value, self.words)}", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The words that begin with what is typed."""
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """The words, in the help."""
        return "[" + "|".join(self.words) + "]"


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


class Whole(click.types.IntParamType):
    """A whole number, which may be written 128k or 1M."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number itself."""
        return super().convert(counted(value), param, ctx)


class Count(Whole, click.IntRange):
    """A whole number between ends, which may be written 128k or 1M."""


def grouped(
    kind: type[Any], name: str, *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command, which gets their values as one value."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            fields = {field: values.pop(field) for field in kind._fields}
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


class SpecChoice(NamedTuple):
    """What the command line says about the spec."""

    dim: int | None = None
    base: float | None = None
    order: str | None = None
    odd: str | None = None
    preset: str | None = None
    spec: str | None = None


spec_options = grouped(
    SpecChoice,
    "choice",
    click.option("--dim", type=click.IntRange(1, LARGEST_DIM), help="Width of the encoding."),
    click.option("--base", type=float, help="Base of the frequencies. [default: 10000]"),
    click.option("--order", type=WordChoice(ORDERS), help="Order of the channels."),
    click.option("--odd", type=WordChoice(ODDS), help="What happens at an odd width."),
    click.option(
        "--preset",
        metavar="NAME",
        help="A family of models; see `posenc list`.",
        shell_complete=preset_names,
    ),
    click.option(
        "--spec", metavar="JSON|FILE", help="The JSON of a spec, or a file that holds it."
    ),
)


as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")


library_option = click.option(
    "--library",
    type=WordChoice(("torch", "numpy", "jax")),
    help="Of the arrays that MODULE:NAME takes, where that is not to be found out.",
)


def make_spec(choice: SpecChoice, *, width: int | None = None, default: int) -> TableSpec:
    """The table that the options describe."""
    fields = _fields(choice)
    if width is not None and choice.dim not in (None, width):
        raise click.UsageError(f"--dim is {choice.dim}, but the data are {width} wide.")
    if width is not None and width > LARGEST_DIM:
        raise ArgumentError(mismatch("encode", f"a width up to {LARGEST_DIM}", width))
    return _table(_encoding(choice, choice.dim or width or default, fields), width)


def any_spec(choice: SpecChoice, *, width: int | None = None) -> Any:
    """The encoding that the options describe, of any kind."""
    return _encoding(choice, choice.dim or width, _fields(choice))


def _fields(choice: SpecChoice) -> dict[str, Any]:
    """The fields that are given, unless something else settles them."""
    values = {key: getattr(choice, key) for key in ("base", "order", "odd")}
    fields = {key: value for key, value in values.items() if value is not None}
    options = [f"--{key}" for key in fields]
    if choice.spec is not None:
        others = [
            *options,
            *(["--preset"] if choice.preset else []),
            *(["--dim"] if choice.dim else []),
        ]
        if others:
            raise click.UsageError(f"--spec says everything: leave out {', '.join(others)}.")
    if choice.preset is not None and options:
        raise click.UsageError(
            f"--preset settles {', '.join(options)}: leave them out, or use --spec."
        )
    return fields


def is_json(text: str) -> bool:
    """Whether an argument is the JSON of a spec itself, not the name of a file or a preset."""
    return text.lstrip().startswith("{")


def spec_of(text: str, option: str) -> Any:
    """What the JSON of an option says, or the file that it names."""
    from posenc.registry import from_json

    if not text:
        raise click.UsageError(f"{option} is empty: give the JSON of a spec, or a file of it.")
    if not is_json(text):
        try:
            return from_json(inputs.content(file_there(text), inputs.SPEC))
        except click.BadParameter as error:
            raise click.UsageError(f"{option}: {error.message}") from error
    try:
        return from_json(text)
    except PosencError as error:
        raise click.UsageError(f"{option}: {error}") from error


def standard_json(expected: str) -> str:
    """The JSON that comes on standard input."""
    text = standard_input(expected, inputs.CONFIG)
    if not is_json(text):  # else it would be taken for the name of a file
        raise DataError(mismatch("standard input", expected, repr(text.strip()[:40])))
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


def of_options(error: PosencError) -> str:
    """An error of a spec whose fields are options."""
    return re.sub(rf"^(?:from_json: )?\w+: ({'|'.join(FIELDS)}): ", r"--\1: ", str(error))


def _encoding(choice: SpecChoice, dim: int | None, fields: dict[str, Any]) -> Any:
    if choice.spec is not None:
        return spec_of(choice.spec, "--spec")
    if dim is None:
        raise click.UsageError("--dim says how wide the encoding is.")
    try:
        if choice.preset is not None:
            from posenc.presets import preset

            return preset(choice.preset, dim)
        from posenc.encodings.table.sinusoidal import Sinusoidal

        return Sinusoidal(dim, **fields)
    except PosencError as error:
        raise click.UsageError(of_options(error)) from error


def _table(spec: Any, width: int | None) -> TableSpec:
    if not isinstance(spec, TableSpec):
        name = type(spec).__name__
        raise click.UsageError(f"{name} is no table: this command adds tables to embeddings.")
    if width is not None and spec.dim != width:
        raise ArgumentError(mismatch("encode", f"data {spec.dim} wide, as the spec", f"{width}"))
    return spec


def table_width(spec: TableSpec) -> int:
    """Numbers in a row of the table itself: of one that is appended, what it adds to the width."""
    return spec.dim if spec.width == spec.dim else spec.width - spec.dim


def count_of(items: Sized, what: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"
