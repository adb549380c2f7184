"""`headrace bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import bench_options as shared
from headrace.cli.bench_report import check_report, finish_bench
from headrace.cli.print_table import print_table
from headrace.cli.progress_bar import open_bar
from headrace.cli.terminal import AsJson, print_json
from headrace.workbench.bench.bench_table import (
    COLUMNS,
    KIND_COLUMNS,
    describe_bench,
    format_stage,
    list_kinds,
    list_notes,
)
from headrace.workbench.bench.measure_options import Options
from headrace.workbench.bench.results import Bench
from headrace.workbench.bench.run_bench import run_bench


def bench(
    path: Annotated[Path, typer.Argument(help="Packed or indexed dataset, or image folder.")],
    batch_size: shared.BatchSize = 256,
    threads: Annotated[
        str | None,
        typer.Option(help="Thread counts, such as 1,2,8. Default: doubling up to all cores."),
    ] = None,
    size: shared.Size = 224,
    transform: shared.Transform = None,
    image: shared.ImageField = None,
    samples: shared.Samples = 4096,
    rounds: shared.Rounds = 5,
    seconds: shared.Seconds = 0.5,
    cold: Annotated[
        bool, typer.Option("--cold", help="Drop the page cache before every round of the pipeline.")
    ] = False,
    html: shared.Html = None,
    as_json: AsJson = False,
) -> None:
    """Measure every stage alone and the whole pipeline. Ctrl-C stops and prints what was measured."""
    check_report(html)
    options = Options(
        batch_size=batch_size,
        threads=None if threads is None else parse_threads(threads),
        size=size,
        transform=shared.load_transform(transform),
        image=image,
        samples=samples,
        rounds=rounds,
        seconds=seconds,
        cold=cold,
        command=shared.shown_command(),
    )
    with open_bar("measuring") as progress:
        result = run_bench(path, options, progress)
    if as_json:
        print_json(result.to_json())
    else:
        print_bench(result)
    finish_bench(result, None, html)


def print_bench(bench: Bench) -> None:
    """Print the setting, a row per stage, a row per kind of image, and notes."""
    print(describe_bench(bench))
    print_table([[stage.name, *format_stage(stage)] for stage in bench.stages], COLUMNS)
    print_table(list_kinds(bench.data), KIND_COLUMNS)
    for note in list_notes(bench):
        print(note)


def parse_threads(text: str) -> list[int]:
    """Return [1, 2, 8] for `1,2,8`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"not a list of integers: {text!r}; write 1,2,8") from None
