"""The command: `posenc study`."""
