"""The line of an epoch: all of its entries in the order that lanes are cut from, one run after the other.

It holds at most 12 bytes per run, and nothing per entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan.runs import Runs


@dataclass(frozen=True, eq=False)
class Line:
    """Runs one after the other. A *stretch* is a run in its place on the line.

    Args:
        runs: The runs.
        order: integers [k], the run of each stretch; None for the order of the runs.
        ends: int64[k], the position after each stretch; None if entries are their own positions.
    """

    runs: Runs
    order: NDArray[Any] | None = None
    ends: NDArray[np.int64] | None = None

    @classmethod
    def lay(cls, runs: Runs, order: NDArray[Any] | None = None) -> Line:
        """Lay runs in an order, by default in their own."""
        if order is None and runs.is_whole:
            return cls(runs)
        lengths = runs.measure_all()
        if order is None:
            return cls(runs, None, np.cumsum(lengths, dtype=np.int64))
        return cls(runs, order, np.cumsum(lengths[order], dtype=np.int64))

    def __len__(self) -> int:
        return self.runs.entries

    def find(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the entry at each position, and its stretch."""
        if self.ends is None:
            return positions, self.runs.find(positions)
        stretches = np.searchsorted(self.ends, positions, side="right")
        starts = self.runs.find_starts(self._find_runs(stretches))
        return starts + positions - self.find_begins(stretches), stretches

    def find_begins(self, stretches: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first position of each stretch; of stretch k, which is behind the last, the length of the line."""
        if self.ends is None:
            begins = np.full(len(stretches), len(self))
            there = stretches < len(self.runs)
            begins[there] = self.runs.find_starts(stretches[there])
            return begins
        if not len(self.ends):
            return np.zeros(len(stretches), np.int64)
        return np.where(stretches > 0, self.ends[np.maximum(stretches, 1) - 1], 0)

    def find_stretches(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the stretch of each position; k for the end of the line."""
        if self.ends is not None:
            return np.searchsorted(self.ends, positions, side="right")
        stretches = np.full(len(positions), len(self.runs))
        there = positions < len(self)
        stretches[there] = self.runs.find(positions[there])
        return stretches

    def _find_runs(self, stretches: NDArray[np.int64]) -> NDArray[np.int64]:
        return stretches if self.order is None else self.order[stretches].astype(np.int64)
