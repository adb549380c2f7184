"""Writes the HTML report of `headrace bench` and `headrace doctor PATH`, and ends the command."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from headrace._startup_interrupts import INTERRUPTED
from headrace.cli.terminal import say
from headrace.workbench.bench.dataset_bottleneck import Diagnosis, list_capacities
from headrace.workbench.bench.results import Bench
from headrace.workbench.report.bench_page import bench_page
from headrace.workbench.report.page import write_report


def check_report(html: Path | None) -> None:
    """Raise before any measuring if the report could not be written."""
    if html is None:
        return
    if not os.access(html.parent, os.W_OK) or not html.parent.is_dir() or html.is_dir():
        raise typer.BadParameter(
            f"cannot write {html}; choose a file in a writable folder", param_hint="--html"
        )


def has_results(bench: Bench) -> bool:
    """Return whether enough was measured for a diagnosis."""
    return bool(list_capacities(bench, None))


def finish_bench(bench: Bench, diagnosis: Diagnosis | None, html: Path | None) -> None:
    """Write the report if there is one to write; exit with the code for interrupted benches."""
    if html is not None and has_results(bench):
        write_report(html, bench_page(bench, diagnosis))
        say(f"report: {html}")
    if not bench.complete:
        raise typer.Exit(INTERRUPTED)
