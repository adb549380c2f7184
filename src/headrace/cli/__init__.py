"""The `headrace` command: one file per command, named after it."""

from headrace.cli.app import main

__all__ = ["main"]
