"""`headrace verify`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.progress_bar import progress_bar
from headrace.cli.terminal import AsJson, Workers, print_json, say
from headrace.read.dataset import open_indexed
from headrace.store.verify import verify_dataset


def verify(
    path: Annotated[Path, typer.Argument(help="Packed or indexed dataset.")],
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Check every byte against its checksum and every shard against the manifest."""
    with progress_bar("verifying") as progress:
        problems = verify_dataset(path, workers=workers, progress=progress)
    if as_json:
        print_json(
            {"path": str(path), "ok": not problems, "problems": [asdict(p) for p in problems]}
        )
    elif problems:
        for problem in problems:
            print(problem)
        say(f"{len(problems)} problem{'' if len(problems) == 1 else 's'} in {path}")
    else:
        samples = open_indexed(path).manifest.samples
        print(f"{path}: {samples} samples, every byte matches its checksum")
    if problems:
        raise typer.Exit(1)
