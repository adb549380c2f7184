"""A CSV or JSON Lines file that lists images: path, label and any columns of the user's own.

`path` (also `file`, `filename` or `file_name`) is relative to the image folder. `label` holds whole
numbers, taken as they are, or names, which are numbered in sorted order; one that is empty is no
label, and spaces around one are an error. Every other column becomes a column of the index (see `listing_table` for its type).
Both columns may have another name, which the caller gives; paths in a column so named may lack the suffix of
their file, as Kaggle's ids do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.files import MISSING, ImageFiles, is_image_name, stat_files
from headrace.formats.ids import find_images
from headrace.formats.labels import list_classes
from headrace.formats.listing_table import read_csv, read_json_lines
from headrace.formats.names import is_below

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".tsv")
PATH_COLUMNS = ("path", "file", "filename", "file_name")


def open_listing(
    listing: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    path_column: str | None = None,
    label_column: str | None = None,
) -> ImageFiles:
    """Return the images that `listing` names, in its order.

    Args:
        listing: A CSV, TSV or JSON Lines file.
        root: The folder of the images. Default: the folder of the listing.
        path_column: The column of paths, or of file names without their suffix. Default: one of `PATH_COLUMNS`.
        label_column: The column of labels. Default: `label`, if there is one.

    Raises:
        SourceError: The listing cannot be read, or lacks a column.
    """
    listing = Path(listing)
    root = Path(root) if root is not None else listing.parent
    table = _read_table(listing, PATH_COLUMNS if path_column is None else (path_column,))
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise SourceError(f"{listing}: the columns {twice} come twice")
    _check_columns(listing, table, path_column, label_column)
    path_name = path_column or next(n for n in PATH_COLUMNS if n in table.column_names)
    names = [_check_path(listing, i, value) for i, value in enumerate(_values(table, path_name))]
    if not names:
        raise SourceError(f"{listing}: lists no images")
    if path_column is None:
        _check_suffixes(listing, names)
    else:
        names = find_images(listing, root, names)
    _check_unique(listing, names)
    label_name = label_column or "label"
    labels, classes = _read_labels(listing, table, label_name)
    extra = table.drop_columns([n for n in (path_name, label_name) if n in table.column_names])
    sizes, mtimes = stat_files(root, names)
    if path_column is not None and (mtimes == MISSING).all():
        raise SourceError(
            f"{listing}: none of its {len(names)} images, such as {names[0]!r:.80}, is below {root}; "
            "give the folder of the images, as in `headrace pack FOLDER OUT --listing LISTING`"
        )
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


def _read_table(listing: Path, paths: Sequence[str]) -> pa.Table:
    suffix = listing.suffix.lower()
    if suffix not in SUFFIXES:
        raise SourceError(f"{listing}: a listing is .csv, .tsv, .jsonl or .ndjson")
    try:
        if suffix in (".csv", ".tsv"):
            return read_csv(listing, "\t" if suffix == ".tsv" else ",", paths)
        return read_json_lines(listing, paths)
    except FileNotFoundError:
        raise SourceError(f"{listing}: no such file") from None
    except OSError as error:
        raise SourceError(f"{listing}: {error.strerror}") from None


def _check_columns(
    listing: Path, table: pa.Table, path_column: str | None, label_column: str | None
) -> None:
    """Raise SourceError if a column that was asked for is not there, or none of paths."""
    names = table.column_names
    for option, column in (("path", path_column), ("label", label_column)):
        if column is not None and column not in names:
            raise SourceError(
                f"{listing}: no column {column!r} among {names!s:.300}; name one of them with "
                f"--{option}-column ({option}_column=)"
            )
    if path_column is not None and path_column == label_column:
        raise SourceError(f"{listing}: the column {path_column!r} cannot hold both path and label")
    if path_column is None and not set(PATH_COLUMNS) & set(names):
        raise SourceError(
            f"{listing}: no column named path among {names!s:.300}; name the column of paths with --path-column "
            "(path_column=), and that of labels with --label-column (label_column=)"
        )


def _values(table: pa.Table, column: str) -> list[Any]:
    values: list[Any] = table[column].to_pylist()
    return values


def _check_path(listing: Path, row: int, value: object) -> str:
    text = str(value) if value is not None else ""
    if not is_below(text):
        raise SourceError(
            f"{listing}, row {row + 1}: {value!r} is not a path below the image folder"
        )
    return str(PurePosixPath(text))


def _check_suffixes(listing: Path, names: Sequence[str]) -> None:
    for row, name in enumerate(names):
        if not is_image_name(name):
            raise SourceError(
                f"{listing}, row {row + 1}: {name!r} does not have the suffix of an image; where a column has "
                "names without suffixes, name it with --path-column (path_column=)"
            )


def _check_unique(listing: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise SourceError(f"{listing}, row {row + 1}: {name!r} is listed twice")
        seen.add(name)


def _read_labels(
    listing: Path, table: pa.Table, label_name: str
) -> tuple[list[int | None], list[str] | None]:
    """Return the label of each row, and class names, or None where the labels are numbers."""
    if label_name not in table.column_names:
        for name in table.column_names:
            if name.strip().lower() == "label":
                raise SourceError(
                    f"{listing}: a column is called {name!r}; call it 'label', or name it with --label-column "
                    "(label_column=)"
                )
        return [None] * table.num_rows, None
    column = table[label_name]
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.to_pylist(), None
    if not pa.types.is_string(column.type):
        raise SourceError(f"{listing}: labels are {column.type}, not integers or names")
    classes = list_classes(listing, column.to_pylist())
    number = {name: label for label, name in enumerate(classes)}
    return [number.get(name) for name in column.to_pylist()], classes
