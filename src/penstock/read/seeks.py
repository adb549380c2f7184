"""Seek tables of a stretch of rows, read from the index by two reads, without loading the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class SeekTables(NamedTuple):
    """Table `i` of a stretch is data[bounds[i]:bounds[i + 1]]."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]

    @classmethod
    def make_empty(cls, count: int) -> SeekTables:
        return cls(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))

    def table(self, i: int) -> memoryview:
        return self.data.data[self.bounds[i] : self.bounds[i + 1]]


class SeekReader:
    """Finds the seek column of each shard once, then reads what is asked for. Thread-safe.

    A seek table only saves work, so an index without a readable one gives empty tables, no error.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[Path, str], tuple[int, int] | None] = {}

    def read(self, index: Path, column: str, start: int, stop: int) -> SeekTables | None:
        """The tables of rows start to stop - 1 of a shard; None where there are none."""
        wanted = (index, column)
        if wanted not in self._places:  # two threads may look it up twice, and find the same
            self._places[wanted] = _find_column(index, column)
        place = self._places[wanted]
        if place is None:
            return None
        try:
            fd = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _read_tables(fd, *place, start, stop)
        except OSError:
            return None
        finally:
            os.close(fd)


def _read_tables(fd: int, offsets: int, data: int, start: int, stop: int) -> SeekTables | None:
    wanted = 4 * (stop - start + 1)
    raw = os.pread(fd, wanted, offsets + 4 * start)
    if len(raw) != wanted:
        return None
    bounds = np.frombuffer(raw, "<i4").astype(np.int64)
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    if first < 0 or np.count_nonzero(bounds[1:] < bounds[:-1]):
        return None
    tables = os.pread(fd, size, data + first)
    if len(tables) != size:
        return None
    return SeekTables(np.frombuffer(tables, np.uint8), bounds - first)


def _find_column(index: Path, name: str) -> tuple[int, int] | None:
    """Where in the file the offsets and the bytes of a binary column lie."""
    try:
        with pa.memory_map(os.fspath(index)) as file:
            base = file.read_buffer(file.size()).address
            reader = pa.ipc.open_file(file)
            if reader.num_record_batches != 1 or name not in reader.schema.names:
                return None
            column = reader.get_batch(0).column(name)
            _, offsets, data = column.buffers()
            if column.offset or offsets is None or data is None or not data.size:
                return None
            return offsets.address - base, data.address - base
    except (pa.ArrowException, OSError, ValueError):
        return None
