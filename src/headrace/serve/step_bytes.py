"""Find the bytes of a step in memory: its rows, and the runs that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.plan import StepPlan
from headrace.read.field_columns import ByteRanges
from headrace.read.reading import Reading
from headrace.read.run_layout import Run
from headrace.render import Arena

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StepBytes:
    """A step, and the runs in memory that hold the bytes of its rows."""

    reading: Reading
    step: StepPlan
    runs: dict[int, Run]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the step."""
        return self.step.rows

    @cached_property
    def lost(self) -> dict[int, str]:
        """The rows whose bytes could not be read, with the reason."""
        return {row: reason for run in self.runs.values() for row, reason in run.lost.items()}

    def gather(self, offsets: Offsets, sizes: Offsets) -> Arena:
        """Return where in memory the bytes lie that each row has at `offsets` [B, J] of its file."""
        places = self.reading.place(self.step, offsets, self.runs)
        if self.lost:
            sizes = np.where(np.isin(self.rows, list(self.lost))[:, None], 0, sizes)
        places = np.where(sizes > 0, places, 0)  # a field that a sample lacks has no place
        buffers = [run.data for run in self.runs.values()]
        return Arena(
            buffers, places.reshape(-1), sizes.reshape(-1), self._number_runs(sizes.shape[1])
        )

    def gather_field(self, ranges: ByteRanges) -> Arena:
        """Return where in memory a field of each row lies."""
        return self.gather(ranges.offset[self.rows][:, None], ranges.size[self.rows][:, None])

    def gather_seeks(self, offsets: Offsets, sizes: Offsets) -> Arena:
        """Return where in memory the seek tables lie that each row has at `offsets` [B, J] of its seek file."""
        tables, numbers = (
            [run.seeks for run in self.runs.values()],
            self._number_runs(sizes.shape[1]),
        )
        starts = np.array([table.start for table in tables])
        readable = np.array([len(table.data) > 0 for table in tables])
        sizes = np.where(readable[numbers], sizes.reshape(-1), 0)
        offsets = np.where(sizes > 0, offsets.reshape(-1) - starts[numbers], 0)
        return Arena([table.data for table in tables], offsets, sizes, numbers)

    def _number_runs(self, count: int) -> NDArray[np.int64]:
        return np.repeat(self.reading.number_units(self.step, self.runs), count)
