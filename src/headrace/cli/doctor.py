"""`headrace doctor`: what limits a training, by measuring its dataset or by watching its program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from headrace.cli import bench_options as shared
from headrace.cli.bench_report import check_report, finish_bench, has_results
from headrace.cli.print_table import open_console, print_table
from headrace.cli.progress_bar import open_bar
from headrace.cli.terminal import AsJson, print_json, say
from headrace.errors import HeadraceError
from headrace.workbench.bench.dataset_advice import diagnose
from headrace.workbench.bench.dataset_bottleneck import Diagnosis
from headrace.workbench.bench.measure_options import Options
from headrace.workbench.bench.required_rate import Need, read_need
from headrace.workbench.bench.run_bench import run_bench
from headrace.workbench.report.page import write_report
from headrace.workbench.report.watch_page import watch_page
from headrace.workbench.watch.headrace_rate import measure_rate
from headrace.workbench.watch.program_advice import judge
from headrace.workbench.watch.program_bottleneck import Judgement
from headrace.workbench.watch.run_command import watch_command
from headrace.workbench.watch.watched_program import Watched

REPORT = Path("headrace-report.html")


class DoctorCommand(typer.core.TyperCommand):
    """Takes the arguments after `--` as a command to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            position = args.index("--")
            ctx.meta["command"] = args[position + 1 :]
            args = args[:position]
        elif len(args) > 1 and shutil.which(args[0]) and not os.path.exists(args[0]):
            raise typer.BadParameter(f"put -- before a command: headrace doctor -- {args[0]} ...")
        return super().parse_args(ctx, args)


def doctor(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(help="Dataset or image folder; or: -- python train.py ..."),
    ] = None,
    batch_size: shared.BatchSize = 256,
    step_ms: Annotated[
        float | None, typer.Option(help="Duration of a training step, in milliseconds.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="Rate that the training needs, in images per second.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the loader. Default: number of cores.")
    ] = None,
    size: shared.Size = 224,
    transform: shared.Transform = None,
    image: shared.ImageField = None,
    samples: shared.Samples = 2048,
    rounds: shared.Rounds = 5,
    seconds: shared.Seconds = 0.2,
    html: Annotated[
        Path | None,
        typer.Option(help=f"HTML file to write the report to. Default for a command: {REPORT}."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find what limits a training: `doctor PATH --step-ms 120`, or `doctor -- python train.py ...`."""
    check_report(html)
    command = context.meta.get("command")
    if bool(command) == (path is not None):
        raise typer.BadParameter("give either a dataset, or a command after --")
    if path is None:
        _watch(command or [], html or REPORT, as_json)
        return
    options = Options(
        batch_size=batch_size,
        threads=None if threads is None else [threads],
        size=size,
        transform=shared.load_transform(transform),
        image=image,
        samples=samples,
        rounds=rounds,
        seconds=seconds,
        command=shared.shown_command(),
    )
    _examine(path, options, read_need(target, step_ms, batch_size), html, as_json)


def _examine(
    path: Path, options: Options, need: Need | None, html: Path | None, as_json: bool
) -> None:
    with open_bar("examining") as progress:
        bench = run_bench(path, options, progress)
    if not has_results(bench):
        raise KeyboardInterrupt
    diagnosis = diagnose(bench, need)
    if as_json:
        print_json({"diagnosis": diagnosis.to_json(), "bench": bench.to_json()})
    else:
        _print_diagnosis(diagnosis)
    if not bench.complete:
        say("interrupted: only the rounds until then were measured")
    finish_bench(bench, diagnosis, html)


def _watch(command: list[str], html: Path, as_json: bool) -> None:
    watched = watch_command(command, sys.stderr if as_json else None)
    try:
        rate = measure_rate(watched)
    except (HeadraceError, OSError, ValueError) as error:
        say(f"no estimate for Headrace on the same images: {error}")
        rate = None
    judgement = judge(watched, rate)
    if as_json:
        print_json({"judgement": judgement.to_json(), "watched": watched.to_json()})
    else:
        _print_judgement(watched, judgement)
    try:
        write_report(html, watch_page(watched, judgement))
        say(f"report: {html}")
    except OSError as error:
        say(f"no report: {error}")  # the exit code stays the program's
    if watched.exit_code:
        raise typer.Exit(watched.exit_code if watched.exit_code > 0 else 128 - watched.exit_code)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    rows = []
    for capacity in diagnosis.capacities:
        rates = [f"{rate:,.0f}" for rate in (capacity.rate, capacity.low, capacity.high)]
        headroom = "" if capacity.headroom is None else f"{capacity.headroom:.2f}×"
        rows.append([capacity.stage, f"{capacity.threads}", *rates, headroom])
    header = ("stage", "threads", "images/s", "from", "to", "headroom")
    _print_verdict(diagnosis, rows, header, open_console(), diagnosis.bottleneck)


def _print_judgement(watched: Watched, judgement: Judgement) -> None:
    """Print on stderr: stdout is the program's."""
    rows = [
        [kind, f"{seconds:,.2f}", f"{seconds / max(watched.wall, 1e-9):.1%}"]
        for kind, seconds in watched.spans.items()
    ]
    header = ("the loop was", "seconds", "of wall time")
    _print_verdict(judgement, rows, header, open_console(stderr=True))


def _print_verdict(
    verdict: Diagnosis | Judgement,
    rows: Sequence[Sequence[str]],
    header: Sequence[str],
    console: Console,
    highlight: str | None = None,
) -> None:
    console.print(Text(verdict.headline, style="bold"))
    print_table(rows, header, console=console, highlight=highlight)
    for finding in verdict.findings:
        console.print(Text(f"• {finding.says} ").append(finding.advice, style="bold"))
