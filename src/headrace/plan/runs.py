"""Runs: consecutive entries of a shard that are read at once.

Runs follow from the number of rows and of bytes of each shard, so that nothing is kept per row or per run. Every row
is in exactly one run, and no run lies in two shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

RUN_BYTES = 8 << 20
_BLOCK = 1 << 14
"""Runs that are measured at once."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of all shards, numbered one after the other.

    Args:
        starts: int64[S], the first entry of each shard, ascending.
        lengths: int64[S], how many entries it has.
        counts: int64[S], into how many runs it is cut: run i of k begins at entry i * n // k of its n.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of_bounds(cls, bounds: NDArray[np.int64]) -> Runs:
        """Return runs with these bounds: run j has the entries bounds[j] to bounds[j + 1] - 1; it may be empty."""
        return cls(bounds[:-1], np.diff(bounds), np.ones(len(bounds) - 1, np.int64))

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first run of each shard, and the number of runs."""
        return np.append(0, np.cumsum(self.counts))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @cached_property
    def entries(self) -> int:
        """The number of entries of all runs."""
        return int(self.lengths.sum())

    @cached_property
    def is_whole(self) -> bool:
        """Whether the entries are the numbers from 0 on, without a gap."""
        return bool((self.starts == np.cumsum(self.lengths) - self.lengths).all())

    @cached_property
    def is_single(self) -> bool:
        """Whether every run is a single entry."""
        return bool((self.lengths == self.counts).all())

    def find_starts(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first entry of each of these runs."""
        return self._find_bounds(numbers, 0)

    def find_lengths(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many entries each of these runs has."""
        return self._find_bounds(numbers, 1) - self._find_bounds(numbers, 0)

    def _find_bounds(self, numbers: NDArray[np.int64], end: int) -> NDArray[np.int64]:
        """Return where runs start, or where they end if `end` is 1."""
        if not len(self.counts):
            return np.zeros(len(numbers), np.int64)
        shards = np.searchsorted(self.firsts, numbers, side="right") - 1
        places = (numbers - self.firsts[shards] + end) * self.lengths[shards] // self.counts[shards]
        found: NDArray[np.int64] = self.starts[shards] + places
        return found

    def find(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the run that each entry is in."""
        shards = np.searchsorted(self.starts, entries, side="right") - 1
        places = entries - self.starts[shards]
        numbers = ((places + 1) * self.counts[shards] - 1) // self.lengths[shards]
        found: NDArray[np.int64] = self.firsts[shards] + numbers
        return found

    def list_bounds(self) -> NDArray[np.int64]:
        """Return int64[k + 1], the first entry of each of the k runs, and the number of entries."""
        return np.append(self.find_starts(np.arange(len(self))), self.entries)

    def measure_all(self) -> NDArray[np.int32]:
        """Return how many entries each run has, with little memory beside the result."""
        lengths = np.empty(len(self), np.int32)
        for first in range(0, len(self), _BLOCK):
            part = lengths[first : first + _BLOCK]
            numbers = np.arange(first, first + len(part))
            starts = self.find_starts(numbers)
            # Where runs follow one another, each ends where the next one starts: half of the work.
            part[:-1] = np.diff(starts)
            ends = numbers if not self.is_whole else numbers[-1:]
            part[-len(ends) :] = self._find_bounds(ends, 1) - starts[-len(ends) :]
        return lengths


def cut_runs(rows: NDArray[np.int64], sizes: NDArray[np.int64], run_bytes: int = RUN_BYTES) -> Runs:
    """Cut shards of so many rows and bytes each into runs of about `run_bytes`, equally long to one row.

    >>> cut_runs(np.array([2560, 2560]), np.array([256 << 20, 256 << 20])).find_lengths(np.arange(2))
    array([80, 80])
    """
    if run_bytes < 1:
        raise ValueError(f"run_bytes is {run_bytes}: a run needs at least one byte")
    used = rows > 0
    counts = np.clip((sizes + run_bytes // 2) // run_bytes, 1, np.maximum(rows, 1))
    return Runs((np.cumsum(rows) - rows)[used], rows[used], counts[used])
