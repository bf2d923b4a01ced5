"""`posenc explore`: the explorer in the browser, or frozen in one file."""

from __future__ import annotations

import threading
import webbrowser

import click

from posenc.cli._app import Interrupted

__all__ = ["command"]

EXAMPLES = """\b
Examples:
  posenc explore
  posenc explore config.json
  posenc explore --table positions.safetensors --no-browser
  posenc explore --freeze explorer.html
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="[default: one that is free]"
)
@click.option("--no-browser", is_flag=True, help="Print the address and open nothing.")
def command(*, port: int, no_browser: bool) -> None:
    """Explore positional encodings in the browser, on this machine alone."""
    from posenc.explore.server import bound, serve
    from posenc.explore.session import Session

    with bound(port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        click.echo(f"posenc explore: {address}  (Ctrl-C ends it)")
        if not no_browser:
            # A browser may take its time to start, or hold its caller until it ends.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            serve(Session(), listening)
        except (KeyboardInterrupt, Interrupted):
            click.echo("\nposenc explore has ended.")
