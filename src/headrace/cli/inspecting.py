"""`headrace info` and `headrace verify`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from headrace.cli.classes import describe_classes, format_classes
from headrace.cli.opening import Format, SourceView, open_samples
from headrace.cli.terminal import (
    AsJson,
    Workers,
    format_size,
    print_json,
    print_table,
    say,
    warn_of_depth,
)
from headrace.errors import SourceError
from headrace.formats.names import printable
from headrace.pack.describe import describe_sample
from headrace.pack.index import DAMAGED, user_columns
from headrace.pack.progress import progress_bar
from headrace.pack.verify import verify_dataset
from headrace.read.dataset import open_indexed

_LOOKED_AT = 100
_SHOWN = 10


def info(
    path: Annotated[Path, typer.Argument(help="Dataset, or any layout that can be packed.")],
    format: Annotated[
        Format | None, typer.Option(help="Layout of PATH. Detected automatically if omitted.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset contains."""
    samples = open_samples(path, format.value if format else None)
    if isinstance(samples, SourceView):
        _describe_source(path, samples, as_json)
        return
    manifest = samples.manifest
    warn_of_depth(manifest.kinds)
    if as_json:
        print_json(
            {
                "path": str(path),
                "samples": manifest.samples,
                "shards": len(manifest.shards),
                "bytes": manifest.bytes,
                "fields": list(manifest.fields),
                "columns": _list_columns(samples.index.schema),
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
        *_describe_columns(_list_columns(samples.index.schema)),
        ("classes", describe_classes(samples)),
        ("kinds", ", ".join(f"{count} {kind}" for kind, count in manifest.kinds.items())),
    ]
    print_table(str(path), rows)


def _list_columns(schema: pa.Schema) -> dict[str, str]:
    """Return the types of the user's columns in an index."""
    return {name: str(schema.field(name).type) for name in user_columns(schema)}


def _describe_columns(columns: dict[str, str]) -> list[tuple[str, str]]:
    """Return the row of a table that lists them; none where there are no columns."""
    shown = [f"{printable(name)} ({kind})" for name, kind in columns.items()]
    return [("columns", ", ".join(shown))] if shown else []


def _describe_source(path: Path, view: SourceView, as_json: bool) -> None:
    """Print what is known of a source without reading all of it: fields and kinds are those of a few."""
    rows = sorted({i * len(view) // _LOOKED_AT for i in range(_LOOKED_AT)})
    fields: set[str] = set()
    kinds: Counter[str] = Counter()
    for row in rows:
        try:
            sample, images = describe_sample(view[row])
        except SourceError:
            kinds[DAMAGED] += 1
            continue
        fields |= set(sample)
        kinds.update(note.header.kind for note in images.values())
    columns = {
        name: str(view.source.columns.field(name).type) for name in view.source.columns.names
    }
    warn_of_depth(kinds)
    content = {
        "path": str(path),
        "format": view.format,
        "samples": len(view),
        "bytes": int(view.source.sizes.sum()),
        "fields": sorted(fields),
        "columns": columns,
        "classes": None if view.classes is None else list(view.classes),
        "looked_at": len(rows),
        "kinds": dict(sorted(kinds.items())),
        "ignored": list(view.source.ignored),
    }
    if as_json:
        print_json(content)
        return
    table = [
        ("format", view.format),
        ("samples", f"{len(view)}"),
        ("bytes", format_size(float(view.source.sizes.sum()))),
        ("fields", ", ".join(sorted(fields))),
        *_describe_columns(columns),
        ("classes", format_classes(view.classes)),
        (f"kinds of {len(rows)}", ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))),
    ]
    if view.source.ignored:
        table.append(("ignored", ", ".join(printable(n) for n in view.source.ignored[:_SHOWN])))
    print_table(str(path), table)


def verify(
    path: Annotated[Path, typer.Argument(help="Packed or indexed dataset.")],
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Check every byte against its checksum and every shard against the manifest."""
    with progress_bar("verifying") as watcher:
        problems = verify_dataset(path, workers=workers, watcher=watcher)
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
        print(f"{path}: {samples} samples, every byte is as it was packed")
    if problems:
        raise typer.Exit(1)
