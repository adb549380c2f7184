"""`penstock info` and `penstock verify`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import format_size, print_json, print_table, say
from penstock.pack.progress import progress_bar
from penstock.pack.verify import verify_dataset
from penstock.read.dataset import open_dataset


def info(
    dst: Annotated[Path, typer.Argument(help="A packed or indexed data set.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what is in a data set."""
    manifest = open_dataset(dst).manifest
    if as_json:
        print_json(
            {
                "path": str(dst),
                "samples": manifest.samples,
                "shards": len(manifest.shards),
                "bytes": manifest.bytes,
                "fields": list(manifest.fields),
                "classes": None if manifest.classes is None else list(manifest.classes),
                "kinds": dict(manifest.kinds),
            }
        )
        return
    rows = [
        ("samples", f"{manifest.samples}"),
        ("shards", f"{len(manifest.shards)}"),
        ("bytes", format_size(manifest.bytes)),
        ("fields", ", ".join(manifest.fields)),
        ("classes", _shorten(manifest.classes)),
        ("kinds", ", ".join(f"{count} {kind}" for kind, count in manifest.kinds.items())),
    ]
    print_table(str(dst), rows)


def _shorten(classes: object) -> str:
    if not isinstance(classes, list):
        return "not named"
    shown = ", ".join(classes[:8])
    return f"{len(classes)}: {shown}" + (", ..." if len(classes) > 8 else "")


def verify(
    dst: Annotated[Path, typer.Argument(help="A packed or indexed data set.")],
    workers: Annotated[
        int | None, typer.Option(help="Threads; as many as cores unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check every byte against its checksum and every shard against the manifest."""
    with progress_bar("verifying") as watcher:
        problems = verify_dataset(dst, workers=workers, watcher=watcher)
    if as_json:
        print_json(
            {"path": str(dst), "ok": not problems, "problems": [asdict(p) for p in problems]}
        )
    elif problems:
        for problem in problems:
            print(problem)
        say(f"{len(problems)} problems in {dst}")
    else:
        samples = open_dataset(dst).manifest.samples
        print(f"{dst}: {samples} samples, every byte is as it was packed")
    if problems:
        raise typer.Exit(1)
