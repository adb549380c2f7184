"""Images that a table has only the path of: files in the folder of the table or below it, never elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.errors import SourceError
from headrace.formats.files import is_image_name
from headrace.formats.limits import blame_file, read_file
from headrace.formats.names import is_below


class Beside(NamedTuple):
    """Which rows of an image column have only a path, and sizes and mtimes of their files; 0 where one is missing."""

    rows: np.ndarray
    sizes: np.ndarray
    mtimes: np.ndarray


def find_beside(
    folder: Path, names: Sequence[str | None], find_nulls: Callable[[], np.ndarray]
) -> Beside:
    """Return the files of an image column's rows.

    Args:
        folder: The folder of the table.
        names: The path in each row.
        find_nulls: Returns whether the bytes in each row are null. It may have to read the whole column, so that
            it is only called if some path is that of a file.
    """
    states = np.array(_stat_files(folder, names), np.int64).reshape(-1, 2)
    rows = np.array([bool(name) for name in names], bool)
    rows &= find_nulls() if states.any() else False
    return Beside(rows, np.where(rows, states[:, 0], 0), np.where(rows, states[:, 1], 0))


def add_files(
    sizes: np.ndarray, mtimes: np.ndarray, found: Sequence[Beside], images: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of rows by those of their table and of the files of its `images` columns.

    A row without any bytes in the table has the size of its files alone.
    """
    if not found:
        return sizes, mtimes
    alone = np.sum([part.rows for part in found], axis=0) == images
    sizes = np.where(alone, 0, sizes) + np.sum([part.sizes for part in found], axis=0)
    return sizes, np.max([mtimes, *(part.mtimes for part in found)], axis=0)


def _stat_files(folder: Path, names: Sequence[str | None]) -> list[tuple[int, int]]:
    """Return (size, mtime) of each image; (0, 0) if there is none.

    Folders are listed once: paths that are not there, as most are beside embedded bytes, cost no system call each.
    """
    folders: dict[str, frozenset[str]] = {}
    states = []
    for name in names:
        parent, _, last = (name or "").rpartition("/")
        if not name or not is_below(name) or not is_image_name(name):
            states.append((0, 0))
            continue
        if parent not in folders:
            folders[parent] = _list_names(folder / parent)
        states.append(_stat_file(folder / name) if last in folders[parent] else (0, 0))
    return states


def _list_names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def _stat_file(path: Path) -> tuple[int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return 0, 0
    return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else (0, 0)


def read_beside(folder: Path, name: str, limit: int) -> bytes:
    """Return the bytes of the image `name` below `folder`.

    Raises:
        SourceError: There is no such file, it is too large, or the path leads out of the folder.
    """
    problem = _find_problem(folder, name)
    if problem is not None:
        raise SourceError(f"only the path {name!r:.80} of an image, which {problem}")
    with blame_file(folder / name):
        return read_file(folder / name, limit)


def check_beside(path: object, places: Sequence[tuple[Path, str]]) -> None:
    """Raise SourceError if a table has nothing but paths, and none of the first is an image beside it."""
    problems = [_find_problem(folder, name) for folder, name in places]
    if places and None not in problems:
        name = places[0][1]
        raise SourceError(
            f"{path}: its images are only paths, such as {name!r:.80}, which {problems[0]}; "
            "put the files there, or save the table again with the bytes of its images"
        )


def _find_problem(folder: Path, name: str) -> str | None:
    """Return why a path is not read; None if it is an image below the folder, links followed."""
    if os.path.isabs(name):
        return f"is an absolute path: paths are relative to the folder of the table, {folder}"
    if not is_below(name):
        return f"does not lie below {folder}"
    if not is_image_name(name):
        return "does not have the suffix of an image"
    place = os.path.realpath(folder / name)
    if not os.path.isfile(place):
        return f"is not a file below {folder}"
    if Path(os.path.realpath(folder)) not in Path(place).parents:
        return f"leads out of {folder}"
    return None
