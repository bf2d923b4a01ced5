"""The command `posenc`. Subcommands are imported when they are called."""

from __future__ import annotations

from posenc.cli._app import app, main

__all__ = ["app", "main"]
