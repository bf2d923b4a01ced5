"""The group of commands, and what becomes of every error: one line, one exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import click

import posenc
from posenc._core.errors import ArgumentError, EndedError, PosencError, mismatch, printed, suggest
from posenc._core.guard import Interrupted, ended
from posenc.cli._child import watched
from posenc.cli.options.common import ARRAYS, file_there, looks_like_a_file
from posenc.cli.options.flags import SpecTextError, command_advice, in_flags, usage_advice
from posenc.cli.output.lines import error_text

# Name -> (module, with a name in it where that is not `command`; one line for the help), so that
# `posenc --help` imports no command. A command of another distribution has the name of that in
# place of a module.
COMMANDS: dict[str, tuple[str, str]] = {
    "encode": (
        "posenc.cli.commands.encode",
        "Add an encoding to the tokens of a text or to an array.",
    ),
    "table": ("posenc.cli.commands.encode:table", "Print or write the rows of a table."),
    "plot": ("posenc.cli.commands.plot", "Draw an encoding."),
    "locate": ("posenc.cli.detective.numbers:locate", "Find the position that numbers come from."),
    "explore": (
        "posenc.cli.commands.explore",
        "Explore encodings in the browser, on this machine alone.",
    ),
    "convert": (
        "posenc.cli.detective.convert:convert",
        "Write a checkpoint in another convention.",
    ),
    "convert-config": (
        "posenc.cli.detective.models:convert_config",
        "Write the positions of a config in another format.",
    ),
    "pairing": (
        "posenc.cli.detective.convert:pairing",
        "Tell half from interleaved by the config and the weights.",
    ),
    "infer": (
        "posenc.cli.detective.numbers:infer",
        "Infer the spec that an implementation follows.",
    ),
    "diff": (
        "posenc.cli.detective.models:diff",
        "Compare the positions of two models or implementations.",
    ),
    "trace": (
        "posenc.cli.detective.traces:trace",
        "Say which layer of a model turns queries and keys otherwise.",
    ),
    "explain": (
        "posenc.cli.detective.models:explain",
        "Explain the positions of a model from its config.",
    ),
    "extend": (
        "posenc.cli.detective.models:extend",
        "Plan a longer context for a model.",
    ),
    "golden": (
        "posenc.cli.detective.models:golden",
        "Write the numbers that a model's positions must give.",
    ),
    "check": (
        "posenc.cli.commands.check",
        "Hold an implementation of positions to the laws of its kind.",
    ),
    "mcp": (
        "posenc.cli.commands.mcp",
        "Serve explain, diff, golden, doctor and trace to programs.",
    ),
    "study": (
        "posenc-study",
        "Train small Transformers and test published claims (posenc-study).",
    ),
    "list": ("posenc.cli.commands.listing", "List the encodings, presets and plans of models."),
    "identify": (
        "posenc.cli.detective.numbers:identify",
        "Say which conventions the tables and frequencies of a file follow.",
    ),
    "quiz": ("posenc.cli.commands.quiz", "Answer questions about positional encodings."),
    "cite": ("posenc.cli.commands.listing:cite", "Print the BibTeX of encodings."),
    "doctor": (
        "posenc.cli.commands.doctor",
        "Find where a port and its model differ, or report what is installed.",
    ),
}

HELP = """Positional encodings for Transformers, exact at any position.

\b
  posenc encode "classify the book"
  posenc encode embeddings.npy --base 10000 -o encoded.npy
  posenc table --dim 8 --positions 16
  posenc config.json

Every command but mcp has --json. Exit codes:

\b
  0      done
  1      the data or the machine: a file that is not what it claims, a wrong
         shape, NaN, a missing library, a full disk; in diff, trace, check and
         doctor: there is a difference, or a law fails
  2      the command line: an unknown option or name, options that contradict
         each other or the data, a file that is not there, an output that
         exists
  3      diff, trace, check and doctor: nothing could be compared, as the data
         or the machine do not allow it; these and infer: the code that ran
         ended the process, or took longer than --timeout
  128+n  stopped by signal n; no unfinished file is left

POSENC_DEBUG=1 shows the traceback of an error.
"""

# Entry points of this group are commands of other distributions.
GROUP = "posenc.commands"
# Commands that run code which the command line names: those with --timeout.
RUNNING = ("check", "diff", "doctor", "infer", "trace")
# Errors of the operating system that the command line can mend.
_USAGE_ERRNOS = (errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class App(click.Group):
    """The group: commands by import string, and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        home = COMMANDS[cmd_name][0]
        if not home.startswith("posenc."):
            return _provided(cmd_name, home)
        module, _, name = home.partition(":")
        return getattr(importlib.import_module(module), name or "command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The section `Commands` of the help, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does, with a suggestion."""
        name = args[0]
        if name == "help" and args[1:2] and args[1] in COMMANDS:
            return super().resolve_command(ctx, [args[1], "--help"])
        if name not in COMMANDS and (verb := _verb_of(name)):
            click.echo(
                error_text(f"posenc: {name} is there, so this runs: posenc {verb}"), err=True
            )
            args = [verb, *args]
        elif name not in COMMANDS and not name.startswith("-"):
            text = f"No such command {name!r}"
            if looks_like_a_file(name) or Path(name).suffix[1:].isalpha():
                ctx.fail(f"{text}, and no file or folder of that name in {Path.cwd()}.")
            files = [word for word in args[1:3] if looks_like_a_file(word) or _verb_of(word)]
            verb = "diff" if files[1:] else _verb_of("".join(files))
            todo = command_advice(name, verb, *files) or suggest(name, COMMANDS, cutoff=0.75)
            ctx.fail(f"{text}. {todo}")
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Make the context as click does, which prints the help here."""
        with _closed_pipes_are_signals():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command as click does."""
        with _closed_pipes_are_signals():
            return super().invoke(ctx)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run, say in one line what went wrong, and exit with the documented code."""
        _left(_exit_code(self, sys.argv[1:] if args is None else args, prog_name, extra))


def _exit_code(
    group: App, args: Sequence[str], prog_name: str | None, extra: dict[str, Any]
) -> int:
    extra["standalone_mode"] = False
    failed = (
        3 if _name(args) in ("diff", "trace", "check", "doctor") else 1
    )  # whose 1 is a difference
    try:
        result = click.Group.main(group, args, prog_name, **extra)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _debug()
        # Without arguments click shows the help as it is.
        if type(error) is not click.exceptions.NoArgsIsHelpError and isinstance(
            error, click.UsageError
        ):
            text, command = error.format_message(), command_of(group, args)
            if not isinstance(error, SpecTextError):
                words = _words(args, command)
                text = in_flags(usage_advice(error, command, *words[1:2]), command)
            text = error_text(f"Error: {text}").removeprefix("Error: ")
            error = click.UsageError(text, error.ctx)
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort, Interrupted) as error:
        return _ended_by(getattr(error, "number", signal.SIGINT))
    except EndedError as error:
        return _fail(str(error), 3)
    except PosencError as error:
        text = in_flags(str(error), command_of(group, args))
        return _fail(text, 2 if isinstance(error, ArgumentError) else failed)
    except MemoryError:
        return _fail("out of memory. Ask for fewer rows or a smaller width", failed)
    except OSError as error:
        text = f"{error.filename or ''}: {error.strerror or error}".removeprefix(": ")
        return _fail(text, 2 if error.errno in _USAGE_ERRNOS else failed)
    except Exception as error:  # noqa: BLE001
        return _fail(
            f"an error of posenc itself, {type(error).__name__}: {error}. "
            "POSENC_DEBUG=1 shows where",
            failed,
        )
    except BaseException as error:  # noqa: BLE001 - of code that a command runs
        return _fail(str(ended(error)), 3)
    return result if isinstance(result, int) else 0


def _provided(name: str, distribution: str) -> click.Command:
    """The command of an entry point; without one, a command that says what to install."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        return point.load()

    def absent() -> None:
        raise click.UsageError(
            mismatch(
                f"posenc {name}",
                f"the package {distribution}",
                "no such package",
                f"Install it: pip install {distribution}",
            )
        )

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=absent, add_help_option=False, context_settings=anything)


def _verb_of(name: str) -> str:
    """The command that a file alone is meant for; nothing where it is no file."""
    try:
        file_there(name)
    except click.BadParameter:
        return ""
    return "identify" if Path(name).suffix in ARRAYS else "explain"


def _name(args: Sequence[str]) -> str:
    """The word that names the command."""
    return next((word for word in args if not word.startswith("-")), "")


def _words(args: Sequence[str], command: click.Command) -> list[str]:
    """What stands by place among the arguments, the command itself included."""
    options = (p for p in command.params if isinstance(p, click.Option) and not p.is_flag)
    valued = [spelling for option in options for spelling in option.opts]
    before = zip(("", *args), args, strict=False)
    return [word for last, word in before if not word.startswith("-") and last not in valued]


def command_of(group: click.Group, args: Sequence[str]) -> click.Command:
    """The command that the arguments name, as far as they do."""
    command: click.Command = group
    for word in args:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return command


def _fail(message: str, code: int = 1) -> int:
    _debug()
    _say(message)
    return code


def _say(message: str) -> None:
    click.echo(error_text(f"posenc: error: {message}"), err=True)


def _debug() -> None:
    if os.environ.get("POSENC_DEBUG") == "1":
        raise  # noqa: PLE0704


@contextlib.contextmanager
def _closed_pipes_are_signals() -> Iterator[None]:
    """Keep click from ending with code 1, an error in the data, when a reader has seen enough."""
    try:
        yield
    except BrokenPipeError:
        raise Interrupted(signal.SIGPIPE) from None


def _ended_by(number: int) -> int:
    if number == signal.SIGPIPE:
        # Python flushes once more when it ends; give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + number


def _left(code: int) -> NoReturn:
    """Exit with the code, and say once, in the process that was started, that a signal gave it."""
    if code > 128 and code != 128 + signal.SIGPIPE:
        name = signal.Signals(code - 128).name
        click.echo(f"posenc: stopped by {name}; no unfinished file is left", err=True)
    sys.exit(code)


@click.group(cls=App, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(posenc.__version__, prog_name="posenc")
def app() -> None:
    """See `HELP`."""


def main() -> NoReturn:
    """The entry point of the script: as `app`, with signals and streams set up for a process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks
    usual = warnings.formatwarning
    warnings.formatwarning = lambda *about, **more: printed(usual(*about, **more))
    args = sys.argv[1:]
    if _name(args) not in RUNNING:
        app.main(prog_name="posenc")
    try:
        code = watched(lambda: _exit_code(app, args, "posenc", {}), _say)
    except Interrupted as error:
        code = _ended_by(error.number)
    _left(code)


def _interrupt(number: int, frame: object) -> None:  # noqa: ARG001
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # the first one cleans up undisturbed
    raise Interrupted(number)
