"""A CSV or JSON Lines file that lists images: path, label and any columns of the user's own (see `listed_files`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.errors import SourceError
from headrace.formats.check_class_folders import has_classes
from headrace.formats.codecs.listing_table import read_first_rows
from headrace.formats.folder_contents import (
    FolderContents,
    has_suffix,
    is_image_name,
    list_folder,
    walk_files,
)
from headrace.formats.image_files import MISSING, ImageFiles, stat_files
from headrace.formats.listed_files import (
    IMAGES,
    PATH_COLUMNS,
    SUFFIXES,
    FileKind,
    check_listed_once,
    check_some_exist,
    read_listed,
)
from headrace.store.keys import is_below, printable, some_names

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
    names, labels, classes, columns = read_listed(listing, root, IMAGES, path_column, label_column)
    check_listed_once(listing, names)
    sizes, mtimes = stat_files(root, names)
    if path_column is not None:
        check_some_exist(listing, root, names, bool((mtimes != MISSING).any()), IMAGES)
    return ImageFiles(
        root,
        names,
        sizes,
        mtimes,
        labels,
        classes,
        columns.schema.remove_metadata(),
        columns.to_pylist(),
    )


def is_listing(path: Path, head: bytes) -> bool:
    """Return whether a file has the suffix of a listing."""
    return has_suffix(path.name, SUFFIXES)


def find_listing(folder: FolderContents) -> Path | None:
    """Return the listing in a folder: one that names images there, or the only one where there are no folders.

    Raises:
        SourceError: There are several, or folders beside it that may be classes.
    """
    listings = list_listings(folder)
    naming = [name for name in listings if names_files(folder.path / name, IMAGES)]
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


def names_files(listing: Path, kind: FileKind, root: Path | None = None) -> bool:
    """Return whether one of the first rows has the path of a file of this kind that exists below `root`.

    Without `root`, the files lie below the folder of the listing.
    """
    folder = listing.parent if root is None else root
    return any(_is_file_below(folder, row, kind) for row in read_first_rows(listing))


def _is_file_below(root: Path, row: Any, kind: FileKind) -> bool:
    if not isinstance(row, dict):
        return False
    path = next((row[name] for name in PATH_COLUMNS if name in row), None)
    if not isinstance(path, str) or not is_below(path) or not kind.belongs(path):
        return False
    return os.path.isfile(root / path)  # not Path.is_file: it may be too long for a path
