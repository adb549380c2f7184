"""`headrace bench`, and what it shares with `headrace doctor`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.terminal import AsJson, print_json, print_wide, say
from headrace.pack.progress import open_bar
from headrace.workbench.bench import run_bench
from headrace.workbench.numbers import Bench
from headrace.workbench.options import Options
from headrace.workbench.report.bench_page import bench_page
from headrace.workbench.report.page import Page, write_report
from headrace.workbench.table import tabulate_bench
from headrace.workbench.verdict import list_capacities


class Peer(str, Enum):
    torchvision = "torchvision"


BatchSize = Annotated[int, typer.Option(min=1)]
Size = Annotated[int, typer.Option(min=1, help="Pixels of the RandomResizedCrop.")]
Transform = Annotated[
    str | None, typer.Option(help="Transforms of your own: package.module:name or file.py:name.")
]
ImageField = Annotated[
    str | None, typer.Option("--image", help="The field to decode, where samples have several.")
]
Samples = Annotated[int, typer.Option(min=1, help="Measure about so many samples.")]
Windows = Annotated[int, typer.Option(min=1, help="Windows of each stage.")]
Seconds = Annotated[float, typer.Option(min=0.01, help="Length of a window.")]


def bench(
    path: Annotated[Path, typer.Argument(help="A packed or indexed dataset, or an image folder.")],
    batch_size: BatchSize = 256,
    threads: Annotated[
        str | None, typer.Option(help="Thread counts, as in 1,2,8; up to all cores unless given.")
    ] = None,
    size: Size = 224,
    transform: Transform = None,
    image: ImageField = None,
    samples: Samples = 4096,
    windows: Windows = 5,
    seconds: Seconds = 0.5,
    cold: Annotated[
        bool, typer.Option("--cold", help="Let every window of the pipeline read from disk.")
    ] = False,
    against: Annotated[
        Peer | None, typer.Option(help="Run the same work through this, side by side.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure every stage alone and the pipeline as a whole. Ctrl-C ends it with what was measured."""
    check_report(html)
    options = Options(
        batch_size=batch_size,
        threads=None if threads is None else parse_threads(threads),
        size=size,
        transform=load_transform(transform),
        image=image,
        samples=samples,
        rounds=windows,
        seconds=seconds,
        cold=cold,
        against=None if against is None else against.value,
        command=shown_command(),
    )
    with open_bar("measuring") as watcher:
        result = run_bench(path, options, watcher)
    if as_json:
        print_json(result.to_json())
    else:
        print_wide(tabulate_bench(result))
    finish(result, lambda: bench_page(result, None), html)


def check_report(html: Path | None) -> None:
    """Whether it can be written, before there is hours of work to write about."""
    if html is None:
        return
    if not os.access(html.parent, os.W_OK) or not html.parent.is_dir() or html.is_dir():
        raise typer.BadParameter(f"{html}: no file can be written there", param_hint="--html")


def is_cut_short(bench: Bench) -> bool:
    """Whether it was interrupted before there was anything to judge by."""
    return not bench.complete and not list_capacities(bench, None)


def finish(bench: Bench, make_page: Callable[[], Page], html: Path | None) -> None:
    """The report, where one is wanted, and the exit code."""
    if html is not None and not is_cut_short(bench):
        write_report(html, make_page())
        say(f"report: {html}")
    if not bench.complete:
        raise typer.Exit(130)


def shown_command() -> str:
    """The command as it was typed, without the place of the program."""
    return shlex.join(["headrace", *sys.argv[1:]])


def parse_threads(text: str) -> list[int]:
    """[1, 2, 8] from `1,2,8`."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,2,8") from None


def load_transform(spec: str | None) -> Any:
    """What `package.module:name` or `file.py:name` stands for: a list, a Compose, or a function; None for None."""
    if spec is None:
        return None
    source, colon, name = spec.rpartition(":")
    if not colon:
        raise typer.BadParameter(f"{spec!r} is not package.module:name or file.py:name")
    try:
        return getattr(_import_source(source), name)
    except (ImportError, AttributeError, OSError) as error:
        raise typer.BadParameter(f"{spec}: {error}") from None


def _import_source(source: str) -> Any:
    if not source.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # as `python -m`; a script of its own has its folder there
        return importlib.import_module(source)
    spec = importlib.util.spec_from_file_location("headrace_user_transform", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # workers look functions up there
    spec.loader.exec_module(module)
    return module
