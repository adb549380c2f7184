"""A CSV or JSON Lines file that lists images: path, label and any columns of the user's own.

`path` (also `file`, `filename` or `file_name`) is relative to the image folder. `label` holds whole
numbers, taken as they are, or names, which are numbered in sorted order; one that is empty is no
label, and spaces around one are an error. Every other column becomes a column of the index (see `listing_table` for its type).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from penstock.errors import SourceError
from penstock.formats.files import ImageFiles, is_image_name, stat_files
from penstock.formats.labels import list_classes
from penstock.formats.listing_table import read_csv, read_json_lines
from penstock.formats.names import is_below

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".tsv")
PATH_COLUMNS = ("path", "file", "filename", "file_name")


def open_listing(
    listing: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> ImageFiles:
    """The images that `listing` names, in its order; `root` is its own folder unless given."""
    listing = Path(listing)
    root = Path(root) if root is not None else listing.parent
    table = _read_table(listing)
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise SourceError(f"{listing}: the columns {twice} come twice")
    path_column = next((name for name in PATH_COLUMNS if name in table.column_names), None)
    if path_column is None:
        raise SourceError(f"{listing}: no column named path among {table.column_names}")
    names = [_check_path(listing, i, value) for i, value in enumerate(_values(table, path_column))]
    if not names:
        raise SourceError(f"{listing}: lists no images")
    _check_unique(listing, names)
    labels, classes = _read_labels(listing, table)
    extra = table.drop_columns(
        [name for name in (path_column, "label") if name in table.column_names]
    )
    sizes, mtimes = stat_files(root, names)
    return ImageFiles(
        root,
        names,
        sizes,
        mtimes,
        labels,
        classes,
        extra.schema.remove_metadata(),
        extra.to_pylist(),
    )


def _read_table(listing: Path) -> pa.Table:
    suffix = listing.suffix.lower()
    if suffix not in SUFFIXES:
        raise SourceError(f"{listing}: a listing is .csv, .tsv, .jsonl or .ndjson")
    try:
        if suffix in (".csv", ".tsv"):
            return read_csv(listing, "\t" if suffix == ".tsv" else ",")
        return read_json_lines(listing)
    except FileNotFoundError:
        raise SourceError(f"{listing}: no such file") from None


def _values(table: pa.Table, column: str) -> list[Any]:
    values: list[Any] = table[column].to_pylist()
    return values


def _check_path(listing: Path, row: int, value: object) -> str:
    text = str(value) if value is not None else ""
    if not is_below(text):
        raise SourceError(
            f"{listing}, row {row + 1}: {value!r} is not a path below the image folder"
        )
    if not is_image_name(text):
        raise SourceError(
            f"{listing}, row {row + 1}: {value!r} does not have the suffix of an image"
        )
    return str(PurePosixPath(text))


def _check_unique(listing: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise SourceError(f"{listing}, row {row + 1}: {name!r} is listed twice")
        seen.add(name)


def _read_labels(listing: Path, table: pa.Table) -> tuple[list[int | None], list[str] | None]:
    """(label per row, class names or None where the labels are numbers)."""
    if "label" not in table.column_names:
        for name in table.column_names:
            if name.strip().lower() == "label":
                raise SourceError(f"{listing}: a column is called {name!r}; call it 'label'")
        return [None] * table.num_rows, None
    column = table["label"]
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.to_pylist(), None
    if not pa.types.is_string(column.type):
        raise SourceError(f"{listing}: labels are {column.type}, not whole numbers or names")
    classes = list_classes(listing, column.to_pylist())
    number = {name: label for label, name in enumerate(classes)}
    return [number.get(name) for name in column.to_pylist()], classes
