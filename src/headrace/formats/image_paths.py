"""Images that a table names by path: files in the folder of the table or below it, never elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headrace.errors import SourceError
from headrace.files.limits import blame_file, read_file
from headrace.formats.folder_contents import is_image_name
from headrace.store.keys import is_below


def stat_beside(folder: Path, names: Sequence[str | None]) -> np.ndarray:
    """Return (size, mtime) of each image below the folder of a table, int64[n, 2]; (0, 0) if it does not exist.

    Folders are listed once: paths that do not exist, as most beside embedded bytes, cost no system call each.
    """
    folders: dict[str, frozenset[str]] = {}
    states = np.zeros((len(names), 2), np.int64)
    for row, name in enumerate(names):
        parent, _, last = (name or "").rpartition("/")
        if not name or not is_below(name) or not is_image_name(name):
            continue
        if parent not in folders:
            folders[parent] = _list_names(folder / parent)
        if last in folders[parent]:
            states[row] = _stat_file(folder / name)
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
