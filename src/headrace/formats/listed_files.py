"""Reads a CSV or JSON Lines file that lists files: their paths, labels and any columns of the user's own.

`path` (also `file`, `filename` or `file_name`) is relative to the folder of the files. `label` holds integers, taken
as they are, or names, which are numbered in sorted order; an empty one means no label, and spaces around one are
an error. Every other column becomes a column of the index (see `listing_table` for its type). The caller may give
other names for both columns; paths in a column named so may lack the suffix of their file, as Kaggle's ids do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.codecs.listing_table import read_csv, read_json_lines
from headrace.formats.folder_contents import is_image_name, is_video_name
from headrace.formats.labels import number_names
from headrace.store.keys import is_below, printable

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".tsv")
PATH_COLUMNS = ("path", "file", "filename", "file_name")


class FileKind(NamedTuple):
    """Which files a listing names, and what messages call one and many of them."""

    belongs: Callable[[str], bool]
    one: str
    many: str


IMAGES = FileKind(is_image_name, "an image", "images")
VIDEOS = FileKind(is_video_name, "a video", "videos")


class ListedFiles(NamedTuple):
    """The files that a listing names, in its order, and the columns beside path and label."""

    names: list[str]
    labels: list[int | None]
    classes: list[str] | None
    columns: pa.Table


def read_listed(
    listing: Path, root: Path, kind: FileKind, path_column: str | None, label_column: str | None
) -> ListedFiles:
    """Return the files below `root` that `listing` names; a file that does not exist is among them.

    Raises:
        SourceError: The listing cannot be read, or lacks a column.
    """
    table = _read_table(listing, PATH_COLUMNS if path_column is None else (path_column,))
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise SourceError(f"{listing}: the columns {twice} come twice")
    _check_columns(listing, table, path_column, label_column)
    path_name = path_column or next(n for n in PATH_COLUMNS if n in table.column_names)
    values = table[path_name].to_pylist()
    names = [_check_path(listing, i, value, kind) for i, value in enumerate(values)]
    if not names:
        raise SourceError(f"{listing}: lists no {kind.many}")
    if path_column is None:
        _check_suffixes(listing, names, kind)
    else:
        names = _find_files(listing, root, names, kind)
    label_name = label_column or "label"
    labels, classes = _read_labels(listing, table, label_name)
    extra = table.drop_columns([n for n in (path_name, label_name) if n in table.column_names])
    return ListedFiles(names, labels, classes, extra)


def check_listed_once(listing: Path, names: Sequence[str]) -> None:
    """Raise SourceError if a name is listed twice."""
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise SourceError(f"{listing}, row {row + 1}: {name!r} is listed twice")
        seen.add(name)


def check_some_exist(
    listing: Path, root: Path, names: Sequence[str], found: bool, kind: FileKind
) -> None:
    """Raise SourceError if no file of a listing was found."""
    if not found:
        raise SourceError(
            f"{listing}: none of its {len(names)} {kind.many}, such as {names[0]!r:.80}, is below {root}; "
            f"give the folder of the {kind.many}, as in `headrace pack FOLDER OUT --listing LISTING`"
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
    """Raise SourceError if a requested column is missing, or no column holds paths."""
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
            "(path_column=), and the column of labels with --label-column (label_column=)"
        )


def _check_path(listing: Path, row: int, value: object, kind: FileKind) -> str:
    text = str(value) if value is not None else ""
    if not is_below(text):
        raise SourceError(
            f"{listing}, row {row + 1}: {value!r} is not a path below the folder of the {kind.many}"
        )
    return str(PurePosixPath(text))


def _check_suffixes(listing: Path, names: Sequence[str], kind: FileKind) -> None:
    for row, name in enumerate(names):
        if not kind.belongs(name):
            raise SourceError(
                f"{listing}, row {row + 1}: {name!r} does not have the suffix of {kind.one}; where a column has "
                "names without suffixes, name it with --path-column (path_column=)"
            )


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
    return number_names(listing, column.to_pylist())


def _find_files(listing: Path, root: Path, names: Sequence[str], kind: FileKind) -> list[str]:
    """Return the file below `root` that each name, with or without a suffix, stands for.

    A name that no file has stays as it is; several files of one name are a SourceError.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    found = []
    for row, name in enumerate(names):
        if kind.belongs(name):
            found.append(name)
            continue
        folder, slash, stem = name.rpartition("/")
        if folder not in folders:
            folders[folder] = _list_stems(root / folder, kind)
        files = folders[folder].get(stem, [])
        if len(files) > 1:
            shown = " and ".join(map(printable, sorted(files)[:2]))
            raise SourceError(
                f"{listing}, row {row + 1}: {name!r:.80} may be {shown}; list the files with their suffixes"
            )
        found.append(f"{folder}{slash}{files[0]}" if files else name)
    return found


def _list_stems(folder: Path, kind: FileKind) -> dict[str, list[str]]:
    """Return the files of a folder that belong, by their names without the suffix."""
    stems: dict[str, list[str]] = {}
    try:
        entries = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for entry in entries:
        if kind.belongs(entry):
            stems.setdefault(entry.rpartition(".")[0], []).append(entry)
    return stems
