"""`posenc explain`: what a model's config says about positions, and what it leaves open."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import click

from posenc.cli.options.common import (
    RenamedOption,
    WordChoice,
    as_json,
    base_option,
    pairing_option,
    plan_names,
    standard_json,
)
from posenc.cli.options.inputs import InputFile
from posenc.cli.output.show import print_answer, print_json, print_lines

CONFIG = "the JSON of a config, which begins with {"


@click.command()
@click.argument("config", metavar="[CONFIG]", type=InputFile(stream=True), required=False)
@click.option(
    "--plan",
    "name",
    metavar="NAME",
    help="Explain the plan of a published model; see posenc list.",
    shell_complete=plan_names,
)
@pairing_option
@base_option
@click.option(
    "--dialect",
    cls=RenamedOption,
    old=("--to",),
    type=WordChoice(("hf4", "hf5")),
    help="Write the config in this dialect instead.",
)
@as_json
def command(
    config: str | None,
    name: str | None,
    *,
    pairing: str | None,
    base: float | None,
    dialect: str | None,
    json_: bool,
) -> None:
    """Explain the positions of a model from its config.

    CONFIG is a config.json of transformers, a folder that holds one, a GGUF file, or - for standard
    input. With --dialect, the same parameters are written in that of transformers 4 or 5, and what
    it cannot say is listed on standard error. The exit code is 1 where something that changes
    numbers is left open, or left out of the plan. With --plan, a published model is explained layer
    by layer, and no config is read.
    """
    if name is not None and config is None:
        if pairing is not None or base is not None or dialect is not None:
            raise click.UsageError(
                "--plan takes no option of configs: --pairing, --base or --dialect."
            )
        _explain_plan(name, json_)
        return
    if config is None or name is not None:
        both = "" if config is None else ", not both"
        raise click.UsageError(f"Give a CONFIG, or --plan NAME{both}.")
    source = standard_json(CONFIG) if config == "-" else Path(config)
    if dialect is not None:
        _translate(source, dialect, json_)
        return
    from posenc.detect.explain import describe, is_open, lines
    from posenc.detect.facts import explain

    plan = explain(source, pairing=pairing, base=base, on_error="report")  # type: ignore[arg-type]
    print_answer(json_, functools.partial(describe, plan), lines(plan))
    if plan.errors or any(is_open(note) for note in plan.notes):
        raise click.exceptions.Exit(1)


def _explain_plan(name: str, json_: bool) -> None:
    from posenc._core.spec.spec import to_json
    from posenc.detect.explain import plan_lines
    from posenc.presets import plan_row

    row = plan_row(name)
    plan = row.build()
    if json_:
        description = {"name": row.name, "sizes": dict(row.sizes), "sources": list(row.sources)}
        print_json({**description, "note": row.note, "plan": json.loads(to_json(plan))})
        return
    first, *rest = plan_lines(plan)
    sources = [
        " ".join(
            str(source[key])
            for key in ("repository", "version", "path", "symbol", "paper")
            if key in source
        )
        for source in row.sources
    ]
    print_lines((f"{row.name}: {first}", *rest, "", row.note, "", "read in", *sources))


def _translate(source: str | Path, dialect: str, json_: bool) -> None:
    from posenc.detect.explain import to_hf

    translation = to_hf(source, dialect)  # type: ignore[arg-type]
    if json_:
        print_json({"config": translation.config, "lost": list(translation.lost)})
        return
    click.echo(json.dumps(translation.config, indent=2))
    print_lines((f"lost: {sentence}" for sentence in translation.lost), err=True)
