"""The `headrace` command: one verb a job, `--json` for machines, no bars where nobody looks."""

from headrace.cli.app import main

__all__ = ["main"]
