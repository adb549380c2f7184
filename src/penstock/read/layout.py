"""How the rows of a data set lie in runs, and how the bytes of a run get into memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.errors import CorruptError
from penstock.formats.pread import pread_into
from penstock.plan import cut_runs, find_runs, group_files
from penstock.read.columns import Columns
from penstock.read.seeks import SeekReader, SeekTables


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one index file: `start` to `stop` - 1 of the whole, with their files below `root`."""

    start: int
    stop: int
    root: Path
    index: Path
    seek: str
    """The column of the index that has the seek tables of the pictures."""
    loose: bool
    """Whether every row is a file of its own (an image folder)."""


@dataclass(frozen=True, eq=False)
class Run:
    """The bytes of a run in memory, the seek tables of its rows, and why the files of some could not be read."""

    data: NDArray[np.uint8]
    seeks: SeekTables
    lost: Mapping[int, str]


_NOTHING: Mapping[int, str] = {}
_OPEN_AGAIN = "open its folder or listing again, or remove an index that `penstock index` made and index again"


class Layout:
    """Runs of a data set, or of several one after the other, and where in its run each row lies."""

    def __init__(self, columns: Columns, parts: Sequence[Part], run_bytes: int) -> None:
        self.columns = columns
        self._parts = list(parts)
        self._starts = np.array([part.start for part in parts])
        self._seeks = SeekReader()
        self.runs = self._cut(run_bytes)
        self.places, self.sizes = self._place_rows()

    def _cut(self, run_bytes: int) -> NDArray[np.int64]:
        """Runs never cross an index file, so that their seek tables are one read too."""
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
        """(where in its run the span of each row begins, bytes of each run)."""
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
        """The run of each row."""
        return find_runs(self.runs, rows)

    def part_of(self, row: int) -> Part:
        """The part that a row lies in."""
        return self._parts[int(np.searchsorted(self._starts, row, side="right")) - 1]

    def path_of(self, row: int) -> Path:
        """The file that a row lies in."""
        return self.part_of(row).root / self._name_of(row)

    def _name_of(self, row: int) -> str:
        return str(self.columns.files[self.columns.file[row]])

    def read_run(self, run: int, memory: NDArray[np.uint8]) -> Run:
        """Reads a run into memory. Thread-safe.

        A file that is gone loses its rows if it is a loose one, and is an error if it is a shard.
        """
        start, stop = int(self.runs[run]), int(self.runs[run + 1])
        part = self.part_of(start)
        lost = _NOTHING
        if part.loose:
            lost = self._read_files(part, start, stop, memory)
        else:
            self._read_stretch(part, start, stop, memory[: self.sizes[run]])
        seeks = self._seeks.read(part.index, part.seek, start - part.start, stop - part.start)
        return Run(memory, seeks or SeekTables.make_empty(stop - start), lost)

    def _read_files(
        self, part: Part, start: int, stop: int, memory: NDArray[np.uint8]
    ) -> Mapping[int, str]:
        """Each row from a file of its own; why those that could not be read were not."""
        lost: dict[int, str] = {}
        span = self.columns.span
        for row in range(start, stop):
            place, size = int(self.places[row]), int(span.size[row])
            target = memory[place : place + size]
            path = os.path.join(
                part.root, self._name_of(row)
            )  # a Path would take as long as opening it
            reason = _fill(path, target, int(span.offset[row]), whole=True) if size else None
            if reason is not None:
                lost[row] = reason
                target[:] = 0  # not what lay here before
        return lost

    def _read_stretch(self, part: Part, start: int, stop: int, memory: NDArray[np.uint8]) -> None:
        rows = np.flatnonzero(self.columns.span.size[start:stop] > 0)
        if not len(rows):
            return
        row = start + int(rows[0])
        path = part.root / self._name_of(row)
        reason = _fill(path, memory, int(self.columns.span.offset[row] - self.places[row]))
        if reason is not None:
            raise CorruptError(f"{path}: {reason}")


def _fill(
    path: str | Path, memory: NDArray[np.uint8], offset: int, *, whole: bool = False
) -> str | None:
    """Fills memory from a file, from all of it if `whole`; what went wrong, if anything."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return "the file is missing; it was there when the index was made"
    except OSError as error:
        return str(error.strerror)
    try:
        got = pread_into(fd, memory.data, offset)
        if whole and got == len(memory):
            got = os.fstat(fd).st_size
    except OSError as error:
        return str(error.strerror)
    finally:
        os.close(fd)
    if got == len(memory):
        return None
    return (
        f"{len(memory)} bytes at {offset} are indexed, {got} are there; the file changed after it was indexed: "
        f"{_OPEN_AGAIN if whole else 'open it again if it is loaded by its own path, else pack or index again'}"
    )
