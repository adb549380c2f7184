"""`headrace doctor`: what a machine can deliver against what a training needs, or what a program waits for."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console

from headrace.cli import measuring
from headrace.cli.terminal import AsJson, print_json, print_wide, say
from headrace.errors import HeadraceError
from headrace.pack.progress import open_bar
from headrace.workbench.advice import diagnose
from headrace.workbench.bench import run_bench
from headrace.workbench.need import read_need
from headrace.workbench.options import Options
from headrace.workbench.report.bench_page import bench_page
from headrace.workbench.report.page import write_report
from headrace.workbench.report.watch_page import watch_page
from headrace.workbench.table import tabulate_diagnosis
from headrace.workbench.watch.judge import judge
from headrace.workbench.watch.rate import measure_rate
from headrace.workbench.watch.run import watch_command
from headrace.workbench.watch.table import tabulate_judgement

REPORT = Path("headrace-report.html")


class DoctorCommand(typer.core.TyperCommand):
    """Keeps what stands behind `--`, which is a command and not a path."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta["command"] = args[place + 1 :]
            args = args[:place]
        elif len(args) > 1 and shutil.which(args[0]) and not os.path.exists(args[0]):
            raise typer.BadParameter(f"put -- before a command: headrace doctor -- {args[0]} ...")
        return super().parse_args(ctx, args)


def doctor(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(help="Dataset or image folder; or: -- python train.py ..."),
    ] = None,
    batch_size: measuring.BatchSize = 256,
    step_ms: Annotated[
        float | None, typer.Option(help="Milliseconds that a training step takes.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="Images per second that the training needs.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the loader; all cores unless given.")
    ] = None,
    size: measuring.Size = 224,
    transform: measuring.Transform = None,
    image: measuring.ImageField = None,
    samples: measuring.Samples = 2048,
    windows: measuring.Windows = 5,
    seconds: measuring.Seconds = 0.2,
    html: Annotated[
        Path | None, typer.Option(help=f"Write the report to this file; {REPORT} for a command.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what limits a training: `doctor PATH --step-ms 120`, or `doctor -- python train.py ...`."""
    measuring.check_report(html)
    command = context.meta.get("command")
    if command is not None and path is not None:
        raise typer.BadParameter("give a dataset or a command behind --, not both")
    if not command and path is None:
        raise typer.BadParameter("give a dataset, or a command behind --")
    if command is not None:
        _watch(command, html or REPORT, as_json)
        return
    assert path is not None
    options = Options(
        batch_size=batch_size,
        threads=None if threads is None else [threads],
        size=size,
        transform=measuring.load_transform(transform),
        image=image,
        samples=samples,
        rounds=windows,
        seconds=seconds,
        command=measuring.shown_command(),
    )
    _examine(path, options, read_need(target, step_ms, batch_size), html, as_json)


def _examine(path: Path, options: Options, need: Any, html: Path | None, as_json: bool) -> None:
    with open_bar("examining") as watcher:
        bench = run_bench(path, options, watcher)
    if measuring.is_cut_short(bench):
        raise KeyboardInterrupt
    diagnosis = diagnose(bench, need)
    if as_json:
        print_json({"diagnosis": diagnosis.to_json(), "bench": bench.to_json()})
    else:
        print_wide(tabulate_diagnosis(diagnosis))
    if not bench.complete:
        say("interrupted: this is from the windows until then")
    measuring.finish(bench, lambda: bench_page(bench, diagnosis), html)


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
        Console(stderr=True).print(tabulate_judgement(watched, judgement))
    try:
        write_report(html, watch_page(watched, judgement))
        say(f"report: {html}")
    except OSError as error:
        say(f"no report: {error}")  # the exit code stays the program's
    if watched.exit_code:
        raise typer.Exit(watched.exit_code if watched.exit_code > 0 else 128 - watched.exit_code)
