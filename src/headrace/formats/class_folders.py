"""Files in a directory per class, any nesting below it, as torchvision's ImageFolder lists them.

Classes are the sorted names of the top directories, label `k` being the `k`-th. A folder without
such files in directories is one of unlabelled files. Symbolic links are followed; loops are not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.errors import SourceError
from headrace.formats.check_class_folders import ANNOTATIONS
from headrace.formats.folder_contents import list_folder, walk_files
from headrace.store.manifest import MANIFEST

UNREADABLE = -1
"""The mtime of a file whose state could not be read when the source was listed."""


class ClassFiles(NamedTuple):
    """The files of a folder in the order of ImageFolder; other files that are not hidden are `ignored`."""

    names: list[str]
    sizes: np.ndarray
    mtimes: np.ndarray
    labels: list[int | None]
    classes: list[str] | None
    ignored: list[str]


def list_class_files(root: Path, belongs: Callable[[str], bool], what: str) -> ClassFiles:
    """List the files below `root` that belong to the dataset, by their names.

    Raises:
        SourceError: There is no such folder, or none of the files (`what`) is below it.
    """
    if not root.is_dir():
        raise SourceError(f"{root}: not a directory")
    found, ignored = _list_files(root, belongs)
    if not found:
        raise SourceError(f"{root}: no {what} below it")
    names = [name for name, _, _ in found]
    classes = _list_classes(root, names)
    label_of = {name: label for label, name in enumerate(classes)}
    return ClassFiles(
        names=names,
        sizes=np.array([size for _, size, _ in found], np.int64),
        mtimes=np.array([mtime for _, _, mtime in found], np.int64),
        labels=[label_of[name.partition("/")[0]] if classes else None for name in names],
        classes=classes or None,
        ignored=ignored,
    )


def _list_classes(root: Path, names: list[str]) -> list[str]:
    """Return the top folders, if files of the dataset are in some of them.

    A folder without such files is an empty class, unless it is an index or holds annotations.
    """
    full = {folder for folder, slash, _ in (name.partition("/") for name in names) if slash}
    if not full:
        return []
    empty = set(list_folder(root).folders) - full
    return sorted(full | {name for name in empty if not _holds_other_data(root / name)})


def _holds_other_data(folder: Path) -> bool:
    """Return whether a folder without files of the dataset is an index, or has files and the name of annotations."""
    if (folder / MANIFEST).exists():
        return True
    return folder.name.lower() in ANNOTATIONS and any(walk_files(folder, strict=False))


def _list_files(
    root: Path, belongs: Callable[[str], bool]
) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Return (name, size, mtime) of the files that belong, and the names of all others.

    Where folders hold files that belong, such files beside those folders are among the others.
    """
    found: list[tuple[str, int, int]] = []
    ignored: list[str] = []
    for name, entry in walk_files(root):
        state = stat_entry(entry) if belongs(name) else None
        if state is not None:
            found.append((name, *state))
        else:
            ignored.append(name)
    if in_folders := [file for file in found if "/" in file[0]]:
        ignored += [name for name, _, _ in found if "/" not in name]
        found = in_folders
    found.sort(key=lambda entry: _sort_key(entry[0]))
    return found, sorted(ignored)


def _sort_key(name: str) -> str:
    """Sort as ImageFolder does: by class, then by the whole path of the directory, then by file name."""
    folder, _, file = name.rpartition("/")
    return f"{name.partition('/')[0]}\0{folder}\0{file}"


def stat_entry(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """Return (size, mtime); None for anything but a file: reading a pipe could block forever."""
    try:
        info = entry.stat()
    except OSError:
        return 0, UNREADABLE  # a dangling link: listed, and rejected with its reason when read
    return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None
