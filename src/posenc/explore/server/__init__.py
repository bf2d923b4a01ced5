"""The ways to the page: a server, one frozen file, a widget."""
