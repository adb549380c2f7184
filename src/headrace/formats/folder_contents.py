"""What lies in a folder: which names belong to a dataset, and the files below it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from headrace.errors import SourceError
from headrace.sample import IMAGE_FIELDS, field_name

VIDEO_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm")
"""Suffixes of video files, in lower case."""

_WALKED = 100_000  # files, in well under a second
_WALKED_ON = 10_000  # after the first image: a table lies among few files, if at all
_LEFT_BEHIND = {
    "#recycle",
    "$recycle.bin",
    "@eadir",
    "__macosx",
    "lost+found",
    "system volume information",
}


@dataclass(frozen=True)
class FolderContents:
    """The names in a folder, sorted and without hidden ones. Folders below are searched on first use."""

    path: Path
    files: Sequence[str]
    folders: Sequence[str]

    @property
    def has_images(self) -> bool:
        """Whether there are images in the folders below."""
        return self._below[0]

    @property
    def has_videos(self) -> bool:
        """Whether there are video files in the folders below, among the first images at least."""
        return self._below[2]

    @property
    def tables_below(self) -> Sequence[str]:
        """The first Parquet files in the folders below."""
        return self._below[1]

    @cached_property
    def _below(self) -> tuple[bool, list[str], bool]:
        has_images, tables, has_videos, walked = False, [], False, 0
        for name, _ in islice(walk_files(self.path, strict=False), _WALKED if self.folders else 0):
            if "/" in name:
                walked += 1
                has_images |= is_image_name(name)
                has_videos |= is_video_name(name)
                if has_suffix(name, ".parquet"):
                    tables.append(name)
            if has_images and (tables or walked > _WALKED_ON):
                break
        return has_images, tables, has_videos

    def only(self, names: Sequence[str], what: str) -> Path:
        """Return the path of the only name. Raise SourceError if there are several."""
        if len(names) > 1:
            shown = ", ".join(sorted(names))
            raise SourceError(f"{self.path}: several {what} ({shown}); say which one")
        return self.path / names[0]


def list_folder(path: Path) -> FolderContents:
    """List a folder; links count as what they lead to."""
    shown = [entry for entry in os.scandir(path) if not is_hidden(entry.name)]
    files = sorted(entry.name for entry in shown if _is_file(entry))
    return FolderContents(path, files, sorted(entry.name for entry in shown if is_folder(entry)))


def has_suffix(name: str, suffixes: str | tuple[str, ...]) -> bool:
    """Return whether a file name ends with one of the suffixes, ignoring case."""
    return name.lower().endswith(suffixes)


def is_image_name(name: str) -> bool:
    """Return whether a file name has the suffix of an image."""
    _, dot, suffix = name.rpartition(".")
    return bool(dot) and field_name(suffix) in IMAGE_FIELDS


def is_video_name(name: str) -> bool:
    """Return whether a file name has the suffix of a video file."""
    return has_suffix(name, VIDEO_SUFFIXES)


def is_hidden(name: str) -> bool:
    """Return whether a name begins with a dot, or was left behind by a system, such as `@eaDir`."""
    return name.startswith(".") or name.lower() in _LEFT_BEHIND


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a link to one; a link to itself is not, and not an error."""
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def _is_file(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Return whether there are images in a folder or below it."""
    return any(is_image_name(name) for name, _ in walk_files(path, strict=False))


def holds_videos(path: str | os.PathLike[str]) -> bool:
    """Return whether there are video files in a folder or below it."""
    return any(is_video_name(name) for name, _ in walk_files(path, strict=False))


def walk_files(
    path: str | os.PathLike[str],
    prefix: str = "",
    above: frozenset[tuple[int, int]] = frozenset(),
    *,
    strict: bool = True,
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below `path` but directories, by relative name. Links are followed, loops are not.

    Args:
        path: The folder.
        prefix: What names begin with.
        above: The directories on the way, as (device, inode).
        strict: Whether a directory that may not be read is an error instead of being skipped.
    """
    info = os.stat(path)
    here = (info.st_dev, info.st_ino)
    if here in above:
        return
    try:
        entries = os.scandir(path)
    except PermissionError:
        if strict:
            raise
        return
    with entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if is_folder(entry):
                below = f"{prefix}{entry.name}/"
                yield from walk_files(entry.path, below, above | {here}, strict=strict)
            else:
                yield prefix + entry.name, entry
