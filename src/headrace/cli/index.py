"""`headrace index`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.dataset_summary import describe_classes, describe_dataset, print_summary
from headrace.cli.progress_bar import progress_bar
from headrace.cli.source_options import (
    MAX_FILE_SIZE,
    Annotations,
    LabelColumn,
    LayoutOption,
    MaxFileSize,
    OnError,
    PathColumn,
)
from headrace.cli.terminal import AsJson, Workers, parse_size
from headrace.formats.file_patterns import find_root
from headrace.formats.layouts.webdataset import find_tars
from headrace.pack.index_in_place import index_dataset
from headrace.read.dataset import open_indexed


def _find_place(path: Path) -> Path:
    """Return the folder of index and manifest if they are beside the data."""
    if path.exists():
        return path if path.is_dir() else path.parent
    return find_root(find_tars(path))


def index(
    path: Annotated[
        Path,
        typer.Argument(
            help="WebDataset tars, gulp directory, TFRecords, LMDB database, image folder or listing."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for index and manifest. Default: beside the data.")
    ] = None,
    layout: LayoutOption = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    annotations: Annotations = None,
    max_file_size: MaxFileSize = MAX_FILE_SIZE,
    on_error: Annotated[
        OnError, typer.Option(help="Action for samples that cannot be read.")
    ] = OnError.stop,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Index existing data in place, without copying it."""
    with progress_bar("indexing") as progress:
        index_dataset(
            path,
            format=layout.value if layout else None,
            path_column=path_column,
            label_column=label_column,
            annotations=annotations,
            max_file_size=parse_size(max_file_size),
            out=out,
            on_error=on_error.value,
            workers=workers,
            progress=progress,
        )
    folder = out if out is not None else _find_place(path)
    dataset = open_indexed(folder)
    print_summary(folder, describe_dataset(dataset), describe_classes(dataset), as_json)
