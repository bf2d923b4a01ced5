"""Options that several commands share, and the spec they describe."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence, Sized
from typing import Any, TypeVar

import click

from posenc._core.errors import DataError, PosencError, mismatch, suggest
from posenc._core.io import inputs
from posenc._core.numeric.counts import counted
from posenc.cli._child import SECONDS, limit
from posenc.cli.options.inputs import file_there, standard_input

F = TypeVar("F", bound=Callable[..., Any])


class WordChoice(click.Choice[str]):
    """One of some words, with a suggestion for a misspelt one."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.choices)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word itself."""
        if value not in self.words:
            listed = ", ".join(self.words)
            self.fail(f"{value!r} is none of {listed}. {suggest(value, self.words)}", param, ctx)
        return str(value)


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
    help=f"For the import, and for each call, of code that is run. [default: {SECONDS:g}]",
)


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


as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")


base_option = click.option("--base", type=Positive(), help="Where the source does not state it.")


pairing_option = click.option(
    "--pairing", type=WordChoice(("half", "interleaved")), help="For families not known."
)


library_option = click.option(
    "--library",
    type=WordChoice(("torch", "numpy", "jax")),
    help="Of the arrays that MODULE:NAME takes, where that is not to be found out.",
)


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


def count_of(items: Sized, what: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"
