"""Lays out the rows of a dataset in runs, and reads the bytes of a run into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from headrace.plan import cut_runs, find_runs, group_files
from headrace.read.columns import Columns
from headrace.read.seeks import NO_TABLES, SeekTables, read_seeks
from headrace.store.rows import CHANGED, describe_short


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one shard: `start` to `stop` - 1 of the whole, with their files below `root`."""

    start: int
    stop: int
    root: Path
    seek: Path | None
    """The file of its seek tables."""
    loose: bool
    """Whether every row is a file of its own (an image folder)."""


@dataclass(frozen=True, eq=False)
class Run:
    """The bytes of a run in memory, the seek tables of its rows, and why some rows could not be read.

    The bytes of such a row are undefined. `size` is how many bytes were read.
    """

    data: NDArray[np.uint8]
    seeks: SeekTables
    lost: Mapping[int, str]
    size: int = 0


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
_OPEN_AGAIN = "open its folder or listing again, or remove an index that `headrace index` made and index again"
_RESTORE = "`headrace verify` lists what is damaged; restore the file, or pack or index again"


class Layout:
    """The runs of one or several datasets, and where in its run each row lies."""

    def __init__(self, columns: Columns, parts: Sequence[Part], run_bytes: int) -> None:
        self.columns = columns
        self._parts = list(parts)
        self._starts = np.array([part.start for part in parts])
        self.runs = self._cut(run_bytes)
        self.places, self.sizes = self._place_rows()

    def _cut(self, run_bytes: int) -> NDArray[np.int64]:
        """Return the bounds of runs. They never cross a shard, so that seek tables are one read too."""
        anchor, bounds = self.columns.anchor, [np.zeros(1, np.int64)]
        for part in self._parts:
            rows = slice(part.start, part.stop)
            if part.loose:
                runs = group_files(anchor.size[rows], run_bytes)
            else:
                files = self.columns.file[rows]
                runs = cut_runs(files, anchor.offset[rows], anchor.size[rows], run_bytes)
            bounds.append(part.start + runs[1:])
        return np.concatenate(bounds)

    def _place_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where in its run the span of each row begins, and the bytes of each run."""
        span, firsts = self.columns.span, self.runs[:-1]
        if not len(firsts):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        lengths = np.diff(self.runs)
        begins = np.minimum.reduceat(np.where(span.size > 0, span.offset, 2**62), firsts)
        ends = np.maximum.reduceat(span.offset + span.size, firsts)
        places = span.offset - np.repeat(begins, lengths)
        sizes = np.maximum(ends - begins, 0)
        for part in (part for part in self._parts if part.loose):
            runs = slice(*np.searchsorted(self.runs, [part.start, part.stop]))
            rows = slice(part.start, part.stop)
            sizes[runs] = np.add.reduceat(span.size, firsts)[runs]
            packed = np.cumsum(span.size[rows]) - span.size[rows]
            places[rows] = packed - np.repeat(packed[self.runs[runs] - part.start], lengths[runs])
        return places, sizes

    def runs_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the run of each row."""
        return find_runs(self.runs, rows)

    def part_of(self, row: int) -> Part:
        """Return the part that a row lies in."""
        return self._parts[int(np.searchsorted(self._starts, row, side="right")) - 1]

    def path_of(self, row: int) -> Path:
        """Return the file that a row lies in."""
        return self.part_of(row).root / self._name_of(row)

    def _name_of(self, row: int) -> str:
        return str(self.columns.files[self.columns.file[row]])

    def read_run(self, run: int, take: Allocate) -> Run:
        """Read a run into memory that `take` returns, once the file is known to be long enough. Thread-safe.

        A loose file that is missing or too short loses its row; a shard is an error.
        """
        start, stop = int(self.runs[run]), int(self.runs[run + 1])
        part = self.part_of(start)
        if part.loose:
            memory, lost = self._read_files(part, run, take)
        else:
            memory, lost = self._read_stretch(part, run, take), dict[int, str]()
        seeks = NO_TABLES
        if part.seek is not None:
            seeks = read_seeks(part.seek, *self.columns.bound_seeks(slice(start, stop)))
        return Run(memory, seeks, lost, int(self.sizes[run]))

    def _read_files(
        self, part: Part, run: int, take: Allocate
    ) -> tuple[NDArray[np.uint8], dict[int, str]]:
        """Read each row from a file of its own; return the memory, and why rows could not be read."""
        lost: dict[int, str] = {}
        span, rows = self.columns.span, range(int(self.runs[run]), int(self.runs[run + 1]))
        paths = {row: os.path.join(part.root, self._name_of(row)) for row in rows}
        if self.sizes[run] > _TRUSTED_BYTES:
            # A huge file is always the last of its run (see plan.group_files), so that the rest is small.
            for row in rows:
                reason = _check_size(paths[row], int(span.offset[row] + span.size[row]))
                if reason is not None:
                    lost[row] = reason
        ends = [int(self.places[row] + span.size[row]) for row in rows if row not in lost]
        memory = take(max(ends, default=0))
        for row in rows:
            place, size = int(self.places[row]), int(span.size[row])
            if row in lost or not size:
                continue
            target = memory[place : place + size]
            reason = _fill_from(paths[row], target, int(span.offset[row]), whole=True)
            if reason is not None:
                lost[row] = reason
        return memory, lost

    def _read_stretch(self, part: Part, run: int, take: Allocate) -> NDArray[np.uint8]:
        start, stop, size = int(self.runs[run]), int(self.runs[run + 1]), int(self.sizes[run])
        rows = np.flatnonzero(self.columns.span.size[start:stop] > 0)
        if not len(rows):
            return take(0)
        row = start + int(rows[0])
        path = part.root / self._name_of(row)
        offset = int(self.columns.span.offset[row] - self.places[row])
        reason = _check_size(path, offset + size) if size > _TRUSTED_BYTES else None
        if reason is None:
            memory = take(size)
            reason = _fill_from(path, memory[:size], offset)
        if reason is not None:
            raise CorruptError(f"{path}: {reason}")
        return memory

    def read_pieces(self, row: int, pieces: Pieces, take: Allocate) -> Run:
        """Read parts of the file of a row, one after the other. The run has no seek tables."""
        path = self.path_of(row)
        # A power of two: spans of all lengths then share a few sizes of memory, which is used again.
        memory = take(1 << pieces.size.bit_length())
        if pieces.wanted is not None and _fill_cached(path, memory, pieces):
            return Run(memory, NO_TABLES, {}, int(pieces.wanted[:, 1].sum()))
        for start, stop, place in zip(*pieces[:2], pieces.places, strict=True):
            reason = _fill_from(path, memory[place : place + stop - start], int(start))
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
