"""Where the rows of a dataset lie, and reading the bytes of consecutive rows into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._core import read_cached
from headrace.errors import CorruptError
from headrace.files.pread import (
    open_file,
    open_regular,
    pread_into,
    retry_stale,
)
from headrace.plan import Runs, cut_runs
from headrace.read.columns import Columns
from headrace.read.seeks import NO_TABLES, SeekTables, read_seeks
from headrace.store.rows import CHANGED, describe_short


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one shard: `start` to `stop` - 1 of the whole, with their files below `root`."""

    start: int
    stop: int
    bytes: int
    """About how many bytes they have, which decides into how many runs they are cut."""
    root: Path
    seek: Path | None
    """The file of its seek tables."""
    loose: bool
    """Whether every row is a file of its own (an image folder)."""


@dataclass(frozen=True, eq=False)
class Run:
    """The bytes of rows in memory, their seek tables, and why some rows could not be read.

    The bytes of such a row are undefined. `size` is how many bytes were read. What row `rows[i]` has at some offset of
    its file lies `shifts[i]` further on in memory.
    """

    data: NDArray[np.uint8]
    seeks: SeekTables
    lost: Mapping[int, str]
    size: int = 0
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    shifts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class Pieces(NamedTuple):
    """The parts of a file that a sample needs, in order: `starts` to `stops` - 1.

    `wanted` has (offset, size) of the bytes in them that are really needed, if these are much fewer.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    wanted: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return int((self.stops - self.starts).sum())

    @property
    def places(self) -> NDArray[np.int64]:
        """Where each part begins in memory, in which they follow one another."""
        lengths: NDArray[np.int64] = self.stops - self.starts
        return np.cumsum(lengths) - lengths

    def find(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in memory the bytes at these offsets of the file lie."""
        part = np.searchsorted(self.starts, offsets, side="right") - 1
        places: NDArray[np.int64] = self.places[part] + offsets - self.starts[part]
        return places


Allocate = Callable[[int], NDArray[np.uint8]]
"""Returns memory of at least this many bytes."""

# The sizes of larger runs are compared with those of the files before memory is allocated.
_TRUSTED_BYTES = 64 << 20
_SMALL_GAP = 1 << 20
"""Bytes that are quicker to read than to leave out."""
_OPEN_AGAIN = "open its folder or listing again, or remove an index that `headrace index` made and index again"
_RESTORE = "`headrace verify` lists what is damaged; restore the file, or pack or index again"


class Layout:
    """The rows of one or several datasets, and the files that they lie in."""

    def __init__(self, columns: Columns, parts: Sequence[Part]) -> None:
        self.columns = columns
        self._parts = list(parts)
        self._starts = np.array([part.start for part in parts])
        self.mean_bytes = int(columns.span.size.mean()) if len(columns) else 0

    def cut_runs(self, run_bytes: int) -> Runs:
        """Return runs of about so many bytes. They never cross a shard, so that seek tables are one read too."""
        rows = np.array([part.stop - part.start for part in self._parts], np.int64)
        sizes = np.array([part.bytes for part in self._parts], np.int64)
        return cut_runs(rows, sizes, run_bytes)

    def part_of(self, row: int) -> Part:
        """Return the part that a row lies in."""
        return self._parts[int(np.searchsorted(self._starts, row, side="right")) - 1]

    def path_of(self, row: int) -> Path:
        """Return the file that a row lies in."""
        return self.part_of(row).root / self._name_of(row)

    def _name_of(self, row: int) -> str:
        return str(self.columns.files[self.columns.file[row]])

    def read_rows(self, rows: NDArray[np.int64], take: Allocate) -> Run:
        """Read rows of one part, ascending, into memory that `take` returns, once the file is known to be long enough.

        Thread-safe. What lies between rows is read too unless it is long. A loose file that is missing or too short
        loses its row; a shard is an error.
        """
        part = self.part_of(int(rows[0]))
        run = (self._read_files if part.loose else self._read_stretch)(part, rows, take)
        if part.seek is None:
            return run
        first, last = int(rows[0]), int(rows[-1])
        return replace(
            run, seeks=read_seeks(part.seek, *self.columns.bound_seeks(slice(first, last + 1)))
        )

    def _read_files(self, part: Part, rows: NDArray[np.int64], take: Allocate) -> Run:
        """Read each row from a file of its own; say why rows could not be read."""
        lost: dict[int, str] = {}
        offsets, sizes = self.columns.span.offset[rows], self.columns.span.size[rows]
        paths = [os.path.join(part.root, self._name_of(row)) for row in rows.tolist()]
        if int(sizes.sum()) > _TRUSTED_BYTES:
            for row, path, end in zip(rows.tolist(), paths, offsets + sizes, strict=True):
                reason = _check_size(path, int(end))
                if reason is not None:
                    lost[row] = reason
            sizes = np.where(np.isin(rows, list(lost)), 0, sizes)
        places = np.cumsum(sizes) - sizes
        memory = take(int(sizes.sum()))
        values = (array.tolist() for array in (rows, places, sizes, offsets))
        for row, place, size, offset, path in zip(*values, paths, strict=True):
            if size:
                reason = _fill_from(path, memory[place : place + size], offset, whole=True)
                if reason is not None:
                    lost[row] = reason
        return Run(memory, NO_TABLES, lost, int(sizes.sum()), rows, places - offsets)

    def _read_stretch(self, part: Part, rows: NDArray[np.int64], take: Allocate) -> Run:
        """Read rows of one file."""
        if len(rows) == 1:
            return self._read_row(part, int(rows[0]), rows, take)
        offsets, sizes = self.columns.span.offset[rows], self.columns.span.size[rows]
        there = sizes > 0
        pieces = merge_near(offsets[there], sizes[there])
        shifts = np.zeros(len(rows), np.int64)
        if not len(pieces.starts):
            return Run(take(0), NO_TABLES, {}, 0, rows, shifts)
        path = part.root / self._name_of(int(rows[0]))
        _check_long(path, pieces.size, int(pieces.stops[-1]))
        memory = take(pieces.size)
        reason = _fill_pieces(path, memory, pieces)
        if reason is not None:
            raise CorruptError(f"{path}: {reason}")
        shifts[there] = pieces.find(offsets[there]) - offsets[there]
        return Run(memory, NO_TABLES, {}, pieces.size, rows, shifts)

    def _read_row(self, part: Part, row: int, rows: NDArray[np.int64], take: Allocate) -> Run:
        """Read a single row of a file, of which full shuffles read as many as there are samples."""
        offset, size = int(self.columns.span.offset[row]), int(self.columns.span.size[row])
        path = os.path.join(part.root, self._name_of(row))
        _check_long(path, size, offset + size)
        memory = take(size)
        reason = _fill_from(path, memory[:size], offset) if size else None
        if reason is not None:
            raise CorruptError(f"{path}: {reason}")
        return Run(memory, NO_TABLES, {}, size, rows, np.array([-offset]))

    def read_pieces(self, row: int, pieces: Pieces, take: Allocate) -> Run:
        """Read parts of the file of a row, one after the other. The run has no seek tables."""
        path = self.path_of(row)
        # A power of two: spans of all lengths then share a few sizes of memory, which is used again.
        memory = take(1 << pieces.size.bit_length())
        if pieces.wanted is not None and _fill_cached(path, memory, pieces):
            return Run(memory, NO_TABLES, {}, int(pieces.wanted[:, 1].sum()))
        reason = _fill_pieces(path, memory, pieces)
        if reason is not None:
            if self.part_of(row).loose:
                return Run(memory, NO_TABLES, {row: reason}, 0)
            raise CorruptError(f"{path}: {reason}")
        return Run(memory, NO_TABLES, {}, pieces.size)

    def measure_seeks(self) -> int:
        """Return the bytes of all seek tables."""
        return int(self.columns.seek.size.sum())

    def describe_changed(self, row: int) -> str:
        """Say that the bytes of a row do not have their checksum, and what to do."""
        return f"{CHANGED}; {_OPEN_AGAIN if self.part_of(row).loose else _RESTORE}"


def merge_near(offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Pieces:
    """Return the same bytes in order, in few parts: gaps of at most a MiB are read too."""
    order = np.argsort(offsets, kind="stable")
    starts = offsets[order]
    stops = np.maximum.accumulate(starts + sizes[order])
    first = np.append(True, starts[1:] - stops[:-1] > _SMALL_GAP)[: len(starts)]
    last = np.append(first[1:], True)[: len(starts)]
    return Pieces(starts[first], stops[last])


def _fill_pieces(path: Path, memory: NDArray[np.uint8], pieces: Pieces) -> str | None:
    """Fill memory with parts of a file, one after the other; return what went wrong, if anything."""
    for start, stop, place in zip(*pieces[:2], pieces.places, strict=True):
        reason = _fill_from(path, memory[place : place + stop - start], int(start))
        if reason is not None:
            return reason
    return None


def _fill_from(
    path: str | Path, memory: NDArray[np.uint8], offset: int, *, whole: bool = False
) -> str | None:
    """Fill memory from a file, from all of it if `whole`; return what went wrong, if anything."""
    try:
        got = retry_stale(lambda: _fill(path, memory, offset, whole))
    except FileNotFoundError:
        return "the file is missing; it was there when the index was made"
    except OSError as error:
        return str(error.strerror)
    return None if got == len(memory) else _describe_short(len(memory), offset, got, whole)


def _fill_cached(path: Path, memory: NDArray[np.uint8], pieces: Pieces) -> bool:
    """Fill in only the wanted bytes of the parts, if all of them are in the page cache; return whether they were.

    A disk is read in one request, whatever lies between the wanted bytes. Memory is not: copying less is faster.
    """
    assert pieces.wanted is not None
    places = pieces.find(pieces.wanted[:, 0])
    try:
        with open_file(path) as fd:
            return read_cached(fd, np.column_stack([pieces.wanted, places]), memory)
    except OSError:
        return False  # whoever reads all of it says why


def _fill(path: str | Path, memory: NDArray[np.uint8], offset: int, whole: bool) -> int:
    """Fill memory from a file; return how many bytes there are, in the whole file if all of it is wanted."""
    fd = open_regular(path)
    try:
        got = pread_into(fd, memory.data, offset)
        return os.fstat(fd).st_size - offset if whole and got == len(memory) else got
    finally:
        os.close(fd)


def _check_long(path: str | Path, size: int, end: int) -> None:
    """Raise CorruptError if a file does not have `end` bytes, before memory is allocated for many of them."""
    reason = _check_size(path, end) if size > _TRUSTED_BYTES else None
    if reason is not None:
        raise CorruptError(f"{path}: {reason}")


def _check_size(path: str | Path, end: int) -> str | None:
    """Return why a file does not have `end` bytes, if so, before memory is allocated for them."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        return str(error.strerror)
    return None if size >= end else f"{end} bytes are indexed, {size} are there"


def _describe_short(size: int, offset: int, got: int, whole: bool) -> str:
    return (
        f"{describe_short(size, offset, got)}; the file changed after it was indexed: "
        f"{_OPEN_AGAIN if whole else 'open it again if it is loaded by its own path, else pack or index again'}"
    )
