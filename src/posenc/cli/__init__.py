"""The command `posenc`. Subcommands are imported when they are called."""

from posenc.cli._app import app, main

__all__ = ["app", "main"]
