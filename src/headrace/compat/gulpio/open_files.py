"""Data files that stay open between accesses, and their bytes by place."""

from __future__ import annotations

import os
import resource
import weakref
from pathlib import Path
from typing import Any

from headrace.files.pread import open_regular, open_unchanged, pread_all

_GAP = 64 << 10  # bytes between two frames that are cheaper to read than to leave out
_MOST_FILES = 1024


class OpenFile:
    """A descriptor for reading, closed when nobody refers to it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        weakref.finalize(self, os.close, fd).atexit = False


class OpenFiles:
    """The files that were opened last; a quarter of the descriptors that the process may have.

    Thread-safe without a lock, which a fork could leave held: the dict is replaced, never changed, and a
    file that another thread still reads from is closed by that thread. Descriptors are read by offset, so
    forked processes can share them. A pickled copy has no open files.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, OpenFile] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenFiles, ()

    def open(self, path: Path, state: tuple[int, int] | None) -> OpenFile:
        """Return the file, opened now or before.

        Raises:
            SourceChangedError: It does not have this `state`, (size, time in nanoseconds).
            OSError: It cannot be opened.
        """
        file = self._kept.get(path)
        if file is None:
            file = OpenFile(open_regular(path) if state is None else open_unchanged(path, *state))
            recent = list(self._kept.items())[1 - _count_files() :]
            self._kept = {**dict(recent), path: file}
        return file


def _count_files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_FILES if limit < 0 else max(2, min(limit // 4, _MOST_FILES))


def read_places(fd: int, places: list[tuple[int, int]]) -> list[memoryview]:
    """Return the bytes at (offset, size) places, fewer where the file ends. Reads neighbours at once."""
    found = dict[tuple[int, int], memoryview]()
    for run in _join_neighbours(sorted(set(places))):
        start = run[0][0]
        data = memoryview(pread_all(fd, max(o + size for o, size in run) - start, start))
        found.update({(o, size): data[o - start : o - start + size] for o, size in run})
    return [found[place] for place in places]


def _join_neighbours(places: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Divide sorted places where the gap between two is large."""
    runs: list[list[tuple[int, int]]] = []
    end = 0
    for offset, size in places:
        if runs and offset - end <= _GAP:
            runs[-1].append((offset, size))
        else:
            runs.append([(offset, size)])
        end = max(end, offset + size)
    return runs
