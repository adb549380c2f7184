"""The `penstock` command: one verb a job, `--json` for machines, no bars where nobody looks."""

from penstock.cli.app import main

__all__ = ["main"]
