"""Seek tables of a run, read from the seek file of its shard by one read."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.files.pread import open_file, pread_all, retry_stale

_log = logging.getLogger("headrace")
_NO_BYTES = np.zeros(0, np.uint8)


class SeekTables(NamedTuple):
    """The bytes of a seek file from `start` on; none where they could not be read."""

    data: NDArray[np.uint8]
    start: int

    def table(self, offset: int, size: int) -> memoryview:
        """Return the table of `size` bytes at `offset` of the file."""
        begin = offset - self.start
        return self.data.data[begin : begin + size]


NO_TABLES = SeekTables(_NO_BYTES, 0)


def read_seeks(path: Path, start: int, stop: int) -> SeekTables:
    """Return the bytes `start` to `stop` - 1 of a seek file. Thread-safe.

    A seek table only saves work, and each has a checksum of its own. So a file that cannot be read is
    logged once and gives no tables, but no error.
    """
    if start >= stop:
        return NO_TABLES
    try:
        data = retry_stale(lambda: _pread(path, start, stop - start))
    except OSError as error:
        _warn_once(path, str(error.strerror))
        return NO_TABLES
    if len(data) != stop - start:
        _warn_once(path, "the file is too short")
        return NO_TABLES
    return SeekTables(np.frombuffer(data, np.uint8), start)


def _pread(path: Path, offset: int, size: int) -> bytes:
    with open_file(path) as fd:
        if os.fstat(fd).st_size < offset + size:  # before memory is taken
            return b""
        return pread_all(fd, size, offset)


@lru_cache(maxsize=1024)
def _warn_once(path: Path, reason: str) -> None:
    _log.warning("%s: %s; images decode without seek tables, which takes longer", path, reason)
