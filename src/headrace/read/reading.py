"""What a step reads: whole runs of rows, or of each of its samples the spans of its clips."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.plan import EpochPlan, StepPlan
from headrace.read.run_layout import Allocate, Layout, Pieces, Run
from headrace.read.seeks import NO_TABLES, SeekTables, read_seeks

Rows = NDArray[np.int64]
T = TypeVar("T")
_KEPT_SEEK_BYTES = 64 << 20  # of seek files that are read whole and kept
_KEPT_STEPS = 32
_ROW_BITS = 42
"""Of the number of a row."""


class Reading(Protocol):
    """Reads the bytes of an epoch in units, each of which one or several steps need. Thread-safe."""

    def __len__(self) -> int:
        """Return the number of steps."""

    def count_units(self, number: int) -> Mapping[int, int]:
        """Return the units that step `number` needs, in ascending order, with how many samples it takes of each."""

    def count_units_before(self, number: int) -> Mapping[int, int]:
        """Return how many samples were taken before step `number` of units that are needed later."""

    def count_uses(self, unit: int) -> int:
        """Return how many samples are taken of a unit in all: when they are, it is released."""

    def measure(self, unit: int) -> int:
        """Return about how many bytes a unit has. Called while others wait: it takes no time."""

    def read(self, unit: int, take: Allocate) -> Run:
        """Read a unit into memory that `take` returns."""

    def number_units(self, step: StepPlan, units: dict[int, Run]) -> Rows:
        """Return which of the units of a step, counted from 0, holds each of its rows."""

    def place(
        self, step: StepPlan, offsets: NDArray[np.int64], units: dict[int, Run]
    ) -> NDArray[np.int64]:
        """Return where in its unit each byte lies that a row has at `offsets` int64[B, J] of its file."""


class RunReading:
    """Reads whole runs, each once."""

    def __init__(self, layout: Layout, plan: EpochPlan) -> None:
        self._layout, self._plan = layout, plan

    def __len__(self) -> int:
        return len(self._plan)

    def count_units(self, number: int) -> Mapping[int, int]:
        return self._plan.count_units(number)

    def count_units_before(self, number: int) -> Mapping[int, int]:
        return self._plan.count_units_before(number)

    def count_uses(self, unit: int) -> int:
        return self._plan.count_entries(unit)

    def measure(self, unit: int) -> int:
        return self._layout.mean_bytes * self._plan.count_entries(unit)

    def read(self, unit: int, take: Allocate) -> Run:
        return self._layout.read_rows(self._plan.list_rows(unit), take)

    def number_units(self, step: StepPlan, units: dict[int, Run]) -> Rows:
        assert step.units is not None
        return np.searchsorted(list(units), step.units)

    def place(
        self, step: StepPlan, offsets: NDArray[np.int64], units: dict[int, Run]
    ) -> NDArray[np.int64]:
        runs = list(units.values())
        # Rows ascend within a run, so that all of them ascend with the number of their run before them.
        unit_of = np.repeat(np.arange(len(runs)), [len(run.rows) for run in runs])
        held = (unit_of << _ROW_BITS) + np.concatenate([run.rows for run in runs])
        wanted = (self.number_units(step, units) << _ROW_BITS) + step.rows
        shifts: Rows = np.concatenate([run.shifts for run in runs])[np.searchsorted(held, wanted)]
        return np.add(offsets, shifts[:, None])


class RecentSteps(Generic[T]):
    """What was computed for the most recent steps, for several threads that ask for the same ones."""

    def __init__(self) -> None:
        self._kept: dict[int, T] = {}
        self._lock = threading.Lock()

    def find(self, number: int, make: Callable[[int], T]) -> T:
        """Return what `make` returns for a step: computed now, or kept."""
        with self._lock:
            if number not in self._kept:
                self._kept[number] = make(number)
                if len(self._kept) > _KEPT_STEPS:
                    del self._kept[next(iter(self._kept))]
            return self._kept[number]


class StepSpans(NamedTuple):
    """For each sample of a step: its row, the parts of its file, and the bounds of its seek tables."""

    rows: Rows
    pieces: list[Pieces]
    seeks: list[tuple[int, int]]


class SpanReading:
    """Reads, for each sample of a step, the bytes from the first frame of a clip to its last, and other fields.

    Unit `number * batch_size + i` is sample i of a step. A clip is one read, and so are clips with small gaps.

    Args:
        layout: Where the rows lie.
        plan: The plan of the epoch.
        find_frames: Returns the frames int64[B, K, T] of a step. Called from several threads.
    """

    def __init__(
        self, layout: Layout, plan: EpochPlan, find_frames: Callable[[int], NDArray[np.int64]]
    ) -> None:
        self._layout, self._plan, self._find_frames = layout, plan, find_frames
        self._batch_size = plan.split.batch_size
        self._mean_bytes = int(layout.columns.image.size.mean()) if len(layout.columns) else 0
        self._keeps_seeks = layout.measure_seeks() <= _KEPT_SEEK_BYTES
        self._kept: dict[Path, SeekTables] = {}
        self._steps = RecentSteps[StepSpans]()

    def __len__(self) -> int:
        return len(self._plan)

    def count_units(self, number: int) -> Mapping[int, int]:
        first = number * self._batch_size
        return dict.fromkeys(range(first, first + len(self._plan.step(number).rows)), 1)

    def count_units_before(self, number: int) -> Mapping[int, int]:
        return {}

    def count_uses(self, unit: int) -> int:
        return 1

    def measure(self, unit: int) -> int:
        return self._mean_bytes

    def read(self, unit: int, take: Allocate) -> Run:
        row, pieces, seeks = self._find(unit)
        return replace(
            self._layout.read_pieces(row, pieces, take), seeks=self._read_seeks(row, *seeks)
        )

    def number_units(self, step: StepPlan, units: dict[int, Run]) -> Rows:
        return np.arange(len(step.rows))

    def place(
        self, step: StepPlan, offsets: NDArray[np.int64], units: dict[int, Run]
    ) -> NDArray[np.int64]:
        places = np.empty_like(offsets)
        for i, unit in enumerate(units):
            pieces = self._find(unit)[1]
            if len(pieces.starts):
                places[i] = pieces.find(offsets[i])
        return places

    def _find(self, unit: int) -> tuple[int, Pieces, tuple[int, int]]:
        """Return the row of a unit, its parts, and the bounds of its seek tables."""
        number, i = divmod(unit, self._batch_size)
        rows, pieces, seeks = self._steps.find(number, self._cut_step)
        return int(rows[i]), pieces[i], seeks[i]

    def _cut_step(self, number: int) -> StepSpans:
        rows, columns = self._plan.step(number).rows, self._layout.columns
        frames = self._find_frames(number)
        found = columns.find_pictures(rows, frames.reshape(len(rows), -1))
        starts, stops = (
            array.reshape(frames.shape) for array in (found.offset, found.offset + found.size)
        )
        spans = np.stack([starts.min(axis=2), stops.max(axis=2)], axis=2)
        frame_bytes, wanted = found.size.sum(axis=1), np.stack(found[:2], axis=2)
        pieces = []
        for i, row in enumerate(rows.tolist()):
            fields = [field.find_bytes(row) for field in columns.fields.values()]
            merged = merge_ranges([*spans[i].tolist(), *fields])
            if 2 * frame_bytes[i] < merged.size and not fields:
                merged = merged._replace(wanted=wanted[i])
            pieces.append(merged)
        begins = found.seek_offset.min(axis=1).tolist()
        finishes = (found.seek_offset + found.seek_size).max(axis=1).tolist()
        return StepSpans(rows, pieces, list(zip(begins, finishes, strict=True)))

    def _read_seeks(self, row: int, start: int, stop: int) -> SeekTables:
        """Return the seek tables of a clip. Small files of them are read once, so that a clip is one request."""
        part, seek = self._layout.part_of(row), self._layout.columns.seek
        path, rows = part.seek, slice(part.start, part.stop)
        if path is None or start >= stop:
            return NO_TABLES
        if not self._keeps_seeks:
            return read_seeks(path, start, stop)
        if path not in self._kept:
            end = int((seek.offset[rows] + seek.size[rows]).max())
            self._kept[path] = read_seeks(path, 0, end)
        return self._kept[path]


def merge_ranges(ranges: Sequence[Sequence[int]]) -> Pieces:
    """Return the same bytes in order, in few parts: gaps of a quarter of what follows them are read too.

    So at most 5/4 of the wanted bytes are read.
    """
    merged: list[list[int]] = []
    for start, stop in sorted(map(tuple, ranges)):
        if start == stop:
            continue
        if merged and (start - merged[-1][1]) * 4 <= stop - start:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    parts = np.array(merged, np.int64).reshape(-1, 2)
    return Pieces(parts[:, 0], parts[:, 1])
