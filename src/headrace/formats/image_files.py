"""Samples that are one image file each, as folders and listings have them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import check_size, current_limit
from headrace.files.pread import open_regular, pread_all
from headrace.formats.class_folders import UNREADABLE
from headrace.formats.folder_contents import is_image_name
from headrace.formats.source import Located, PlacedSource, place_part
from headrace.sample import Sample, field_name
from headrace.store.index_schema import check_file_names
from headrace.store.keys import split_path, unique_keys

MISSING = -2
"""The mtime of a file that a listing names and that does not exist."""

_PART = 4096  # files in an index file, which one thread indexes


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
        """Return the file with its key, label and columns."""
        suffix = split_path(self.names[i])[1]
        return self._make_sample(i, {field_name(suffix): self._read_file(i)}, suffix)

    def _make_sample(self, i: int, fields: dict[str, bytes], suffix: str) -> Sample:
        return Sample(
            key=self.keys[i],
            fields=fields,
            label=self.labels[i],
            columns=self.rows[i] if self.rows else {},
            suffixes=dict.fromkeys(fields, suffix),
        )

    def locate(self, i: int) -> Located:
        """Return the file as it lies. A file that cannot be read now may be readable next time."""
        try:
            sample, is_unread = self.read(i), False
        except SourceError:
            sample, is_unread = self._make_sample(i, {"jpg": b""}, "jpg"), True
        return Located(sample, self.names[i], dict.fromkeys(sample, 0), is_unread)

    def find_rejected(self) -> dict[int, str]:
        """Return the reason for every file that does not exist or is too large, by row."""
        doubtful = (self.mtimes == MISSING) | (self.sizes > self.max_file_size)
        rejected = {}
        for row in np.flatnonzero(doubtful).tolist():
            try:
                self._check_file(row)
            except SourceError as error:
                rejected[row] = str(error)
        return rejected

    def _check_file(self, i: int) -> None:
        if self.mtimes[i] == MISSING:
            raise SourceError(f"no such file below {self.root}")
        check_size(int(self.sizes[i]), self.max_file_size)

    def _read_file(self, i: int) -> bytes:
        self._check_file(i)
        return read_unchanged(self.root / self.names[i], int(self.sizes[i]), int(self.mtimes[i]))


def read_unchanged(path: Path, size: int, mtime: int) -> bytes:
    """Return the bytes of a file. SourceError if it is not what it was when the source was listed."""
    try:
        fd = open_regular(path)
        try:
            info = os.fstat(fd)
            data = pread_all(fd, size, 0) if info.st_size == size else b""
        finally:
            os.close(fd)
    except FileNotFoundError:
        if mtime == UNREADABLE:
            raise SourceError("cannot be read: a link to nowhere") from None
        raise SourceChangedError("the file vanished after the source was listed") from None
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}") from None
    if (info.st_size, len(data), info.st_mtime_ns) != (size, size, mtime):
        raise SourceChangedError(
            f"the file changed after the source was listed: {size} bytes then, {info.st_size} now"
        )
    return data


def place_images(source: ImageFiles) -> PlacedSource:
    """Return how to index image files in place, each its own data file."""
    check_file_names(source.names)
    rejected = source.find_rejected()
    rows = [row for row in range(len(source.names)) if row not in rejected]

    groups = [rows[start : start + _PART] for start in range(0, len(rows), _PART)]
    return PlacedSource(
        root=source.root,
        parts=[place_part(source, f"files-{k:06d}", None, g) for k, g in enumerate(groups)],
        samples=len(rows),
        classes=source.classes,
        columns=source.columns,
        rejected=[(source.names[row], reason) for row, reason in rejected.items()],
        keeps_damaged=True,
    )


def stat_files(
    root: Path, names: Sequence[str], belongs: Callable[[str], bool] = is_image_name
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of files, MISSING where no file has this name, or its name does not belong.

    Raises:
        SourceError: The state of a file cannot be read, or it is not a regular file.
    """
    sizes = np.empty(len(names), np.int64)
    mtimes = np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        sizes[i], mtimes[i] = 0, MISSING
        if not belongs(name):
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
