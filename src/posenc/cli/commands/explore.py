"""`posenc explore`: the explorer in the browser, or in one file."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc._core.guard import Interrupted
from posenc._core.io import inputs, outputs
from posenc.cli.options.common import InputFile, OutputChoice, as_json, force_option, refuse
from posenc.cli.output.lines import print_json
from posenc.cli.output.show import progress

if TYPE_CHECKING:
    from posenc.explore.state.entry import Session


@click.command(
    epilog="""\b
Examples:
  posenc explore
  posenc explore config.json
  posenc explore config.json --compare other/config.json
  posenc explore --table positions.safetensors --no-browser
  posenc explore --qk heads.safetensors
  posenc explore --freeze explorer.html
  posenc explore --freeze one.html --states "v=stretch&d=64"
"""
)
@click.argument("configs", metavar="[FILE]...", type=InputFile(), nargs=-1)
@click.option(
    "--compare",
    type=InputFile(),
    metavar="FILE",
    help="Another config, beside the first, with the fields that differ.",
)
@click.option(
    "--table",
    "tables",
    type=InputFile(),
    multiple=True,
    metavar="FILE",
    help="A table of positions: .npy, .npz or .safetensors.",
)
@click.option(
    "--embeddings",
    type=InputFile(),
    metavar="FILE",
    help="Vectors for the words of the sentence.",
)
@click.option(
    "--qk",
    "heads",
    type=InputFile(),
    metavar="FILE",
    help="Queries and keys of heads for Attention: .npz or .safetensors with q and k.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="[default: one that is free]"
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
@click.option("--freeze", metavar="OUT.html", help="Write one page that needs no Python.")
@click.option(
    "--states",
    multiple=True,
    metavar="FILE|URL",
    help="What that page shows: addresses, or a file with one in each line.",
)
@force_option("a page that exists")
@as_json
def command(
    *,
    configs: tuple[str, ...],
    compare: str | None,
    port: int,
    no_browser: bool,
    freeze: str | None,
    states: tuple[str, ...],
    force: bool,
    json_: bool,
    **others: Any,
) -> None:
    """Explore encodings in the browser, on this machine alone.

    A FILE is the config.json of a model, a folder that holds one, a GGUF file, the JSON of a spec,
    or a table. What it holds can then be chosen as an encoding; the pages read no other file.
    """
    refuse((states or force) and freeze is None, "--states and --force go with --freeze.")
    from posenc.explore.state.files import load

    session = load((*configs, *([compare] if compare else [])), **others)
    first = _first(session, compare)
    if freeze is None:
        _serve(session, first, port, no_browser, json_)
    else:
        _freeze(session, first, OutputChoice(freeze, force), states, json_)


def _serve(session: Session, first: str, port: int, no_browser: bool, json_: bool) -> None:
    from posenc.explore.server.server import bound, serve

    with bound(port) as listening:
        state = f"#k=1&{first}" if first else ""
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/{state}"
        if json_:
            print_json({"address": address})
        else:
            click.echo(f"posenc explore: {address}  (Ctrl-C ends it)")
        if not no_browser:
            # A browser may take its time to start, or hold its caller until it ends.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            serve(session, listening)
        except (KeyboardInterrupt, Interrupted):
            if not json_:
                click.echo("\nposenc explore has ended.")


def _first(session: Session, compare: str | None) -> str:
    """The part of an address that shows the first encoding of the files, or two models."""
    from posenc.explore.state.catalogue import home_of

    if not session.entries:
        return "v=attention&qk=file" if session.heads else ""
    entry = session.entries[0]
    if compare is None:
        return f"v={home_of(entry)}&enc={entry.id}"
    models = {id(e.model): e for e in reversed(session.entries) if e.model is not None}
    other = next(iter(models.values()), entry)
    beside = len(models) > 1 and entry.model is not None
    refuse(
        not beside or other.model.source != Path(compare).name,
        "--compare takes a config beside another: posenc explore FILE.",
    )
    return f"v=layers&enc={entry.id}&b.enc={other.id}"


def _freeze(
    session: Session, first: str, target: OutputChoice, states: tuple[str, ...], json_: bool
) -> None:
    from posenc.explore.server.document import default_states, document, makes, state_of
    from posenc.plot.panels.text import plural

    target.check((".html", ".htm"), option="--freeze", listed=".html")
    lines = [line for text in states for line in _lines(text)]
    asked = [state_of(line) for line in lines] or default_states(state_of(first) if first else None)
    with progress("states", len(asked)) as done:
        page = document(asked, session, done=done)
    outputs.write_whole(target.path, page, existing=target.existing)
    still = sum(not makes(state, session) for state in asked)
    if json_:
        own = {"states": len(asked), "pictures": still, "bytes": len(page)}
        print_json({"output": str(target.path), **own})
    else:
        alone = f"; {still} as picture and data alone" if still else ""
        size = f"{round(len(page) / 1024)} KiB"
        click.echo(f"{target.path}: {plural(len(asked), 'state')}, {size}{alone}")


def _lines(text: str) -> list[str]:
    """An address, or the addresses of a file."""
    if "=" in text or "://" in text:
        return [text]
    refuse(
        not Path(text).exists(), f"--states {text[:80]!r}: no address such as v=table, and no file."
    )
    lines = [line.strip() for line in inputs.text_of(Path(text), inputs.PAGE).splitlines()]
    return [line for line in lines if line and not line.startswith("//")]
