"""`posenc check`: the score card of an implementation."""

from __future__ import annotations

from typing import Any

import click

from posenc import testing
from posenc._core.errors import DataError
from posenc._core.io import inputs
from posenc._core.spec.spec import Spec
from posenc.cli.options.common import (
    KINDS,
    WordChoice,
    as_json,
    code_named,
    library_option,
    refuse,
    runs_code,
)
from posenc.cli.options.encodings import is_spec, spec_of
from posenc.cli.output.lines import print_answer, print_definitions, print_json
from posenc.cli.output.show import progress
from posenc.testing.battery import subject_of
from posenc.testing.peers import PEERS


@click.command(
    epilog="""\b
Examples:
  posenc check rope.py:rotate
  posenc check table.py:rows --spec 'Sinusoidal(64)'
  posenc check peer:NAME
"""
)
@click.argument("target", metavar="TARGET", required=False)
@click.option("--kind", type=WordChoice(KINDS), help="What it computes; found out by default.")
@click.option(
    "--dim", type=click.IntRange(1, 2**16), help="Width. [default: that of --spec, else found out]"
)
@click.option(
    "--heads", type=click.IntRange(1, 2**12), help="Heads. [default: those of --spec, else 8]"
)
@library_option
@click.option(
    "--layout",
    help="Axes of queries, as bhsd: batch, heads, seq, dim; found out by default.",
)
@click.option("--args", "arguments", metavar="JSON", help="More arguments of the class.")
@click.option("--spec", metavar="JSON|FILE", help="What it should compute.")
@click.option("--laws", metavar="NAME,…", help="The laws to try. [default: all]")
@click.option("--list", "listed", is_flag=True, help="List the laws and the wrapped packages.")
@runs_code
@as_json
def command(
    target: str | None, laws: str | None, *, listed: bool, json_: bool, **options: Any
) -> None:
    """Hold an implementation of positions to the laws of its kind.

    TARGET is MODULE:NAME or FILE.py:NAME, a class, function or posenc.testing.Subject, which is
    imported and run; or peer:NAME, a package that posenc knows how to call; or the JSON of a spec.
    Which arguments a class or function takes is found out by trying, as posenc.ask does.

    The exit code is 1 if a law fails, and 3 if TARGET could not be asked, no law could be tried,
    or its code ended the process or took longer than --timeout.
    """
    if listed:
        _list(json_)
        return
    if target is None:
        raise click.UsageError("TARGET is missing: MODULE:NAME, peer:NAME or the JSON of a spec.")
    try:
        subject = _subject(target, **options)
    except testing.NotOffered as why:
        if not why.answered or options["spec"] is None:
            raise
        card = _unlike(target, why)
        print_answer(json_, card.to_dict, card.lines())
        raise click.exceptions.Exit(1) from why
    names = [name.strip() for name in laws.split(",")] if laws is not None else None
    with progress("laws", len(names or testing.laws(subject.kind))) as step:
        card = testing.check(subject, laws=names, progress=step)
    print_answer(json_, card.to_dict, card.lines())
    if not card.passed or not card.count("pass"):
        raise click.exceptions.Exit(3 if card.passed else 1)


def _unlike(target: str, why: Exception) -> testing.Card:
    """The card of code that answers, with what is no encoding at all."""
    result = testing.Result("calls", "in every kind of call the numbers of the spec", "fail",
                            says=str(why))  # fmt: skip
    return testing.Card(target, "no encoding", (result,))


def _subject(target: str, *, arguments: str | None, spec: str | None, **how: Any) -> Any:
    """What the command line names, as a subject."""
    named: Any = target
    if is_spec(target):
        named = _spec(target, "TARGET")
    elif not target.startswith("peer:"):
        named = code_named(target)
    return subject_of(
        named,
        name=target,
        arguments=_arguments(arguments),
        spec=None if spec is None else _spec(spec, "--spec"),
        **how,
    )


def _spec(text: str, caller: str) -> Spec:
    spec = spec_of(text, caller)
    refuse(not isinstance(spec, Spec), f"{caller}: {type(spec).__name__} is no encoding.")
    return spec


def _arguments(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        arguments = inputs.parse(text, "--args", inputs.PAGE)
    except DataError as error:
        raise click.UsageError(str(error)) from error
    refuse(
        not isinstance(arguments, dict), '--args is no JSON object, such as {"max_seq_len": 512}.'
    )
    return arguments


def _list(json_: bool) -> None:
    kinds = ("rotary", "table", "bias")
    rows = {kind: [(law.name, law.statement) for law in testing.laws(kind)] for kind in kinds}  # type: ignore[arg-type]
    if json_:
        peers = [{"name": n, "package": p.package, "symbol": p.symbol} for n, p in PEERS.items()]
        laws = {
            kind: [{"law": n, "statement": s} for n, s in stated] for kind, stated in rows.items()
        }
        print_json({"laws": laws, "peers": peers})
    else:
        packages = [(n, f"{p.package}: {p.symbol}") for n, p in PEERS.items()]
        sections = {f"laws of a {kind}:": stated for kind, stated in rows.items()}
        print_definitions({**sections, "wrapped packages (peer:NAME):": packages})
