"""A CSV or JSON Lines file that lists images: path, label and any columns of the user's own.

`path` (also `file`, `filename` or `file_name`) is relative to the image folder. `label` holds integers, taken
as they are, or names, which are numbered in sorted order; an empty one means no label, and spaces around one are
an error. Every other column becomes a column of the index (see `listing_table` for its type). The caller may give
other names for both columns; paths in a column named so may lack the suffix of their file, as Kaggle's ids do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.check_class_folders import has_classes
from headrace.formats.codecs.listing_table import read_csv, read_first_rows, read_json_lines
from headrace.formats.folder_contents import (
    FolderContents,
    has_suffix,
    is_image_name,
    list_folder,
    walk_files,
)
from headrace.formats.image_files import MISSING, ImageFiles, stat_files
from headrace.formats.labels import number_names
from headrace.store.keys import is_below, printable, some_names

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".tsv")
PATH_COLUMNS = ("path", "file", "filename", "file_name")
_log = logging.getLogger("headrace")


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
    names = [_check_path(listing, i, value) for i, value in enumerate(table[path_name].to_pylist())]
    if not names:
        raise SourceError(f"{listing}: lists no images")
    if path_column is None:
        _check_suffixes(listing, names)
    else:
        names = _find_images(listing, root, names)
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
    return number_names(listing, column.to_pylist())


def _find_images(listing: Path, root: Path, names: Sequence[str]) -> list[str]:
    """Return the file below `root` that each name, with or without a suffix, stands for.

    A name that no file has stays as it is; several files of one name are a SourceError.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    found = []
    for row, name in enumerate(names):
        if is_image_name(name):
            found.append(name)
            continue
        folder, slash, stem = name.rpartition("/")
        if folder not in folders:
            folders[folder] = _list_stems(root / folder)
        files = folders[folder].get(stem, [])
        if len(files) > 1:
            shown = " and ".join(map(printable, sorted(files)[:2]))
            raise SourceError(
                f"{listing}, row {row + 1}: {name!r:.80} may be {shown}; list the files with their suffixes"
            )
        found.append(f"{folder}{slash}{files[0]}" if files else name)
    return found


def _list_stems(folder: Path) -> dict[str, list[str]]:
    """Return the images of a folder by their names without the suffix."""
    stems: dict[str, list[str]] = {}
    try:
        entries = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for entry in entries:
        if is_image_name(entry):
            stems.setdefault(entry.rpartition(".")[0], []).append(entry)
    return stems


def is_listing(path: Path, head: bytes) -> bool:
    """Return whether a file has the suffix of a listing."""
    return has_suffix(path.name, SUFFIXES)


def find_listing(folder: FolderContents) -> Path | None:
    """Return the listing in a folder: one that names images there, or the only one where there are no folders.

    Raises:
        SourceError: There are several, or folders beside it that may be classes.
    """
    listings = list_listings(folder)
    naming = [name for name in listings if _names_images(folder.path / name)]
    if not (naming or listings) or (folder.folders and not naming):
        return None
    listing = folder.only(naming or listings, "listings")
    if has_classes(folder):
        raise SourceError(
            f"{folder.path}: both {printable(listing.name)}, which names images, and folders of images "
            f"({some_names(folder.folders)}); say which to take with --format listing or --format folder"
        )
    return listing


def pick_listing(path: Path, columns: Sequence[str] = ()) -> Path:
    """Return the only listing in a folder; of several, the one that has the columns."""
    folder = list_folder(path)
    names = list_listings(folder)
    if not names:
        raise SourceError(f"{path}: no listing ({', '.join(SUFFIXES)}) in it")
    if columns and len(names) > 1:
        listings, names = names, [n for n in names if _has_columns(path / n, columns)]
        if not names:
            raise SourceError(
                f"{path}: none of its listings ({some_names(listings)}) has the columns {columns!s:.200}"
            )
    return folder.only(names, "listings")


def list_listings(folder: FolderContents) -> list[str]:
    """Return the names of the files in a folder that may be listings."""
    return [name for name in folder.files if has_suffix(name, SUFFIXES)]


def name_unlisted(source: ImageFiles, folder: Path, taken: str) -> ImageFiles:
    """Return the source of the listing `taken`, with the other listings and images of its folder in `ignored`."""
    listed = set(source.names)
    names = (name for name, _ in walk_files(folder, strict=False) if is_image_name(name))
    unlisted = sorted(name for name in names if name not in listed)
    others = [name for name in list_listings(list_folder(folder)) if name != taken]
    if others:
        _log.warning("%s: %s is the listing, and %s is ignored", folder, taken, some_names(others))
    return replace(source, ignored=[*(f"{n} (another listing)" for n in others), *unlisted])


def _has_columns(listing: Path, names: Sequence[str]) -> bool:
    row = next(iter(read_first_rows(listing)), None)
    return isinstance(row, dict) and all(name in row for name in names)


def _names_images(listing: Path) -> bool:
    """Return whether one of the first rows has the path of an image that exists."""
    return any(_is_image_below(listing.parent, row) for row in read_first_rows(listing))


def _is_image_below(root: Path, row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    path = next((row[name] for name in PATH_COLUMNS if name in row), None)
    if not isinstance(path, str) or not is_below(path) or not is_image_name(path):
        return False
    return os.path.isfile(root / path)  # not Path.is_file: it may be too long for a path
