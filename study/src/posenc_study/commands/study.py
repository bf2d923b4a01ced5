"""`posenc study`: train small Transformers with each encoding, and test the published claims."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc._core.errors import DataError, mismatch, suggest
from posenc.cli.api import InputText, RenamedOption, as_json, clean, print_json
from posenc_study.commands.cells import cells_of, place_of, run_on
from posenc_study.commands.options import (
    NarrowingChoice,
    duration,
    narrowed,
    narrowing_options,
    need,
    store_option,
    usage,
)

if TYPE_CHECKING:
    from posenc_study.engine import Summary
    from posenc_study.results.records import Results

EXAMPLES = """\b
Examples:
  posenc study run smoke
  posenc study run standard --workers 2
  posenc study run quick --tasks order --encodings none,rope --seeds 8
  posenc study status quick
  posenc study report -o out/study
  posenc study train order rope -o model
  posenc study generate model "John likes Jane"
"""


@click.group(epilog=EXAMPLES, invoke_without_command=True)
@click.option("--json", "json_", is_flag=True, help="List the commands as JSON.")
@click.pass_context
def command(ctx: click.Context, *, json_: bool) -> None:
    """Train small Transformers and test published claims (posenc-study).

    A model is trained with each encoding, from several seeds. Results go to an SQLite file as they
    come: if a run stops early, run the same command again to train what is left.
    """
    if ctx.invoked_subcommand is not None:
        if json_:
            raise click.UsageError("write --json after the name of the command.")
        return
    if json_:
        print_json({name: each.get_short_help_str(200) for name, each in command.commands.items()})
        return
    click.echo(ctx.get_help())


# --- run ------------------------------------------------------------------------------------------


@command.command()
@click.argument("tier", metavar="smoke|quick|standard|full")
@store_option
@narrowing_options
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file for the tasks that read one, in place of theirs.",
)
@click.option("--workers", type=click.IntRange(1), help="Processes. [default: one for each core]")
@click.option("--cluster", metavar="tcp://HOST:PORT", help="The scheduler of a Dask cluster.")
@click.option(
    "--scheduler-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that a Dask scheduler wrote.",
)
@click.option(
    "--retries",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    help="How often a cell is run again whose worker died.",
)
@as_json
def run(
    *,
    tier: str,
    store: Path,
    choice: NarrowingChoice,
    data: Path | None,
    workers: int | None,
    cluster: str | None,
    scheduler_file: Path | None,
    retries: int,
    json_: bool,
) -> None:
    """Run the cells of a tier that the store does not have.

    By the processor time of their cells, smoke takes two idle cores 20 s, quick a quarter of an
    hour, standard 45 min and full an hour and three quarters. The exit code is 1 if a cell failed.
    """
    need("torch", "joblib", "scipy")
    place = place_of(workers, cluster, scheduler_file)
    with usage():
        wanted = cells_of(tier, narrowed(choice), data)
    done = run_on(wanted, store, place, retries, data)
    if json_:
        print_json({"store": str(store), **dataclasses.asdict(done)})
    else:
        _told(done, store)
    if done.failed:
        raise click.exceptions.Exit(1)


def _told(done: Summary, path: Path) -> None:
    parts = [f"{done.finished} cells finished"]
    parts += [f"{done.skipped} were there already"] if done.skipped else []
    parts += [f"{done.failed} failed"] if done.failed else []
    parts += [f"workers died {done.deaths} times"] if done.deaths else []
    click.echo(f"{', '.join(parts)}; all are in {path}.")
    if done.failed:
        click.echo(f"Why: posenc study status --store {path}")


# --- status ---------------------------------------------------------------------------------------


@command.command()
@click.argument("tier", metavar="[STORE|smoke|quick|standard|full]", required=False)
@store_option
@as_json
def status(*, tier: str | None, store: Path, json_: bool) -> None:
    """Say what is in a store, also while a run writes to it, and what of a tier is left."""
    if tier is not None and Path(tier).suffix:
        store, tier = Path(tier), None
    results = _results(store)
    summary = _status(results, tier)
    if json_:
        print_json({"store": str(store), **summary})
        return
    for task, counts in summary["tasks"].items():
        click.echo(f"{task:<14} " + ", ".join(f"{n} {word}" for word, n in counts.items() if n))
    if tier is not None and summary["left"]:
        click.echo(
            f"left of {tier}: {summary['left']} cells, {duration(summary['seconds'])} of work"
        )
    for failure in summary["failures"]:
        click.echo(clean(f"failed: {failure['cell']}: {failure['reason']}"))


def _status(results: Results, tier: str | None) -> dict[str, Any]:
    tasks: dict[str, dict[str, int]] = {}
    for record in results.records:
        counts = tasks.setdefault(record.cell.task, {"finished": 0, "failed": 0})
        counts["failed" if record.failed else "finished"] += 1
    failures = [
        {"cell": str(record.cell), "reason": record.reason}
        for record in results.records
        if record.failed
    ]
    left, seconds = 0, 0.0
    if tier is not None:
        need("torch")
        from posenc_study.grid import cells, cost

        have = {record.cell.key for record in results.records if not record.failed}
        missing = [cell for cell in cells(tier) if cell.key not in have]
        left, seconds = len(missing), sum(map(cost, missing))
    return {"tasks": tasks, "failures": failures, "left": left, "seconds": round(seconds)}


def _results(store: Path, folder: Path | None = None) -> Results:
    from posenc_study.results.records import read_csv
    from posenc_study.results.store import read_store

    if folder is not None:
        return read_csv(folder)
    if not store.exists():
        todo = "Make one: posenc study run smoke, or name one with --store."
        raise click.UsageError(f"no store at {store}. {todo}")
    return read_store(store)


# --- export ---------------------------------------------------------------------------------------


@command.command()
@store_option
@click.option(
    "-o",
    "--output",
    "out",
    cls=RenamedOption,
    old=("--out",),
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="A folder; files of the same names in it are replaced.",
)
@as_json
def export(*, store: Path, out: Path, json_: bool) -> None:
    """Write the results as CSV: cells, metrics and provenance."""
    from posenc_study.results.records import write_csv

    results = _results(store)
    if not results.records:
        raise DataError(mismatch(str(store), "results", "none yet", "Run some cells first."))
    written = [str(path) for path in write_csv(results, out)]
    if json_:
        print_json({"written": written})
    else:
        click.echo("\n".join(written))


# --- report ---------------------------------------------------------------------------------------


@command.command()
@store_option
@click.option(
    "--results",
    "folder",
    cls=RenamedOption,
    old=("--from",),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that `export` wrote, in place of a store.",
)
@click.option(
    "-o",
    "--output",
    "out",
    cls=RenamedOption,
    old=("--out",),
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/study"),
    show_default=True,
    help="A folder; files of the same names in it are replaced.",
)
@click.option("--format", "formats", default="md,html,png", show_default=True, metavar="LIST")
@click.option(
    "--claims",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Claims of your own, in place of the registered ones.",
)
@as_json
def report(
    *, store: Path, folder: Path | None, out: Path, formats: str, file: Path | None, json_: bool
) -> None:
    """Write the report: claims and verdicts, tables with 95 % intervals, curves.

    Verdicts are printed; Markdown, HTML and PNG go to the folder.
    """
    kinds = tuple(kind.strip() for kind in formats.split(","))
    for kind in kinds:
        if kind not in ("md", "html", "png"):
            raise click.UsageError(f"--format {kind!r}: {suggest(kind, ('md', 'html', 'png'))}")
    need("scipy", *(["matplotlib"] if "png" in kinds else []))
    from posenc_study.claims.registered import claims, read_claims
    from posenc_study.claims.verdicts import judge
    from posenc_study.report.pages import write_report

    registered = claims() if file is None else read_claims(file)
    results = _results(store, folder)
    verdicts = judge(results, registered)
    written = [str(path) for path in write_report(results, registered, out, formats=kinds)]
    if json_:
        summary = [{"claim": v.claim.id, "verdict": v.word, "p": v.p} for v in verdicts]
        print_json({"verdicts": summary, "written": written})
        return
    for verdict in verdicts:
        click.echo(f"{verdict.word:<13} {verdict.claim.id:<26} {verdict.claim.text}")
    click.echo("\n".join(written))


# --- one model ------------------------------------------------------------------------------------


@command.command()
@click.argument("task")
@click.argument("encoding")
@click.option(
    "-o",
    "--output",
    "out",
    cls=RenamedOption,
    old=("--out",),
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="A folder for the model; its files are replaced.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A hyper-parameter, as in `run`."
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file for a task that reads one, in place of its own.",
)
@as_json
def train(
    *,
    task: str,
    encoding: str,
    out: Path,
    seed: int,
    settings: tuple[str, ...],
    data: Path | None,
    json_: bool,
) -> None:
    """Train one model and keep it, for `generate` and `posenc identify`."""
    need("torch", "safetensors")
    for what, name in (("TASK", task), ("ENCODING", encoding)):
        if not name.strip() or "," in name:
            raise click.UsageError(f"{what} {name[:80]!r}: name one.")
    narrowing = narrowed(NarrowingChoice(task, encoding, f"{seed},", None, settings))
    with usage():
        (cell,) = cells_of("smoke", narrowing, data)
    from posenc_study.training.train import train as trained

    outcome = trained(cell, save=out, data=data)
    if json_:
        print_json({"cell": cell.to_json(), "out": str(out), "rows": outcome.rows})
        return
    for row in outcome.rows:
        click.echo(f"{row['metric']:<10} {row['bucket']:>5} {row['value']:.3f}")
    click.echo(f"{outcome.parameters} parameters, {outcome.seconds:.0f} s; the model is in {out}.")


@command.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("text", type=InputText())
@click.option("--beams", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--length", type=click.IntRange(1, 4096), default=64, show_default=True)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file that the model was trained on, if it was not the task's own.",
)
@as_json
def generate(
    *, model: Path, text: str, beams: int, length: int, data: Path | None, json_: bool
) -> None:
    """Ask a trained model: who likes whom, what the invented language says, what comes next."""
    need("torch", "safetensors")
    from posenc_study.generation.answers import say
    from posenc_study.training.saved import load

    answers = say(load(model, data=data), text, beams=beams, steps=length)
    if json_:
        print_json([dataclasses.asdict(answer) for answer in answers])
        return
    for answer in answers:
        click.echo(f"{answer.probability:.3f}  {clean(answer.text)}")
