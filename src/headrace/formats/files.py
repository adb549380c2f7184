"""Samples that are one image file each: what folders and listings have in common."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import SourceChangedError, SourceError
from headrace.formats.limits import check_size, current_limit
from headrace.formats.names import split_path, unique_keys
from headrace.formats.pread import open_regular, pread_all
from headrace.sample import IMAGE_FIELDS, Sample, field_name

UNREADABLE = -1
"""The mtime of a file that could not even be looked at when the source was listed."""

MISSING = -2
"""The mtime of a file that a listing names and that is not there."""

_LEFT_BEHIND = {
    "#recycle",
    "$recycle.bin",
    "@eadir",
    "__macosx",
    "lost+found",
    "system volume information",
}


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    _, dot, suffix = name.rpartition(".")
    return bool(dot) and field_name(suffix) in IMAGE_FIELDS


def is_hidden(name: str) -> bool:
    """Whether a file or folder is no part of a dataset: dotted, or what systems leave behind, such as `@eaDir`."""
    return name.startswith(".") or name.lower() in _LEFT_BEHIND


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or a link to one; a link to itself is none, and no error."""
    if entry.is_symlink():
        return os.path.isdir(entry.path)
    return entry.is_dir()


def is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file or a link to one."""
    if entry.is_symlink():
        return os.path.isfile(entry.path)
    return entry.is_file()


@dataclass(frozen=True)
class ImageFiles:
    """A `Source` of loose image files below `root`: sample `i` is the file `names[i]`."""

    root: Path
    names: Sequence[str]
    sizes: np.ndarray
    mtimes: np.ndarray
    labels: Sequence[int | None]
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    rows: Sequence[Mapping[str, Any]] = ()
    ignored: Sequence[str] = ()
    max_file_size: int = field(default_factory=current_limit)
    keys: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", unique_keys(self.names))

    def read(self, i: int) -> Sample:
        """The file, its key and its label."""
        suffix = split_path(self.names[i])[1]
        name = field_name(suffix)
        return Sample(
            key=self.keys[i],
            fields={name: self._read_file(i)},
            label=self.labels[i],
            columns=self.rows[i] if self.rows else {},
            suffixes={name: suffix},
        )

    @property
    def missing(self) -> list[str]:
        """The files that are not there."""
        return [self.names[row] for row in np.flatnonzero(self.mtimes == MISSING).tolist()]

    def take(self, rows: Sequence[int]) -> ImageFiles:
        """Some of the files."""
        return replace(
            self,
            names=[self.names[row] for row in rows],
            sizes=self.sizes[rows],
            mtimes=self.mtimes[rows],
            labels=[self.labels[row] for row in rows],
            rows=[self.rows[row] for row in rows] if self.rows else (),
        )

    def _read_file(self, i: int) -> bytes:
        if self.mtimes[i] == MISSING:
            raise SourceError(f"no such file below {self.root}")
        size = int(self.sizes[i])
        check_size(size, self.max_file_size)
        try:
            fd = open_regular(self.root / self.names[i])
            try:
                info = os.fstat(fd)
                data = pread_all(fd, size, 0) if info.st_size == size else b""
            finally:
                os.close(fd)
        except FileNotFoundError:
            if self.mtimes[i] == UNREADABLE:
                raise SourceError("cannot be read: a link to nowhere") from None
            raise SourceChangedError("the file vanished after the source was listed") from None
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
        if (info.st_size, len(data), info.st_mtime_ns) != (size, size, self.mtimes[i]):
            raise SourceChangedError(
                f"the file changed after the source was listed: {size} bytes then, {info.st_size} now"
            )
        return data


def stat_files(root: Path, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of files, MISSING where there is no image file of this name.

    Raises:
        SourceError: A file cannot be looked at, or is not a regular file.
    """
    sizes = np.empty(len(names), np.int64)
    mtimes = np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        sizes[i], mtimes[i] = 0, MISSING
        if not is_image_name(name):
            continue
        try:
            info = os.stat(root / name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SourceError(f"{root / name!s:.1000}: {error.strerror}") from None
        if not stat.S_ISREG(info.st_mode):
            raise SourceError(f"{root / name}: not a regular file")
        sizes[i], mtimes[i] = info.st_size, info.st_mtime_ns
    return sizes, mtimes
