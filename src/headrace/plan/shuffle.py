"""Order an epoch: runs in random order lay all samples on a line, and lanes shuffle it locally.

An *entry* is a sample's turn in the epoch. Entries are numbered in index order; entry *e* is row
`rows[e]`, or row *e* itself when the whole dataset is taken once. The functions here permute entry
numbers. They use only integers and stable sorts, so that the order is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.philox import Stream, draw_words

# Fraction bits of a shuffling key: enough to make ties rare (they keep the order of the line).
_FRACTION = 16

MAX_WINDOW = (1 << 32) - 1


@dataclass(frozen=True)
class Shuffle:
    """How an epoch is shuffled.

    `window` is counted in samples of the global order and divided among the lanes: in its lane, a
    sample moves by less than window / lanes places. So about `window` samples, over all ranks, are
    in memory at a time. `None`, or a window as long as the epoch, is a uniform permutation.
    """

    seed: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        if self.window is not None and not 0 <= self.window <= MAX_WINDOW:
            raise ValueError(f"window is {self.window}: give 0 to 2**32 - 1 samples, or None")

    def is_global(self, entries: int) -> bool:
        """Return whether an epoch of this many entries is permuted uniformly."""
        return self.window is None or self.window >= entries


def shuffle_runs(bounds: NDArray[np.int64], shuffle: Shuffle, epoch: int) -> NDArray[np.int64]:
    """Return the line: all entries, run after run in random order; run *j* has entries bounds[j:j+2]."""
    return lay_runs(bounds, order_randomly(shuffle.seed, epoch, Stream.RUNS, len(bounds) - 1))


def lay_runs(bounds: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries of the runs `order[0]`, `order[1]`, …, one run after the other."""
    lengths = np.diff(bounds)[order]
    ends = np.cumsum(lengths)
    shifts = bounds[order] - (ends - lengths)
    return np.repeat(shifts, lengths) + np.arange(bounds[-1] - bounds[0])


def shuffle_lane(
    line: NDArray[np.int64], start: int, stop: int, window: int, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the lane line[start:stop] with each sample moved by less than `window` places.

    The sample at position p gets the key p + window * u, with u uniform in [0, 1); keys are sorted.
    Before a sample come all those that lie `window` places before it, which bounds the memory.
    """
    length = stop - start
    ids = start + np.arange(-(-length // 4))  # four words per id; no other lane has these ids
    words = draw_words(seed, epoch, Stream.WINDOW, ids, 4).reshape(-1)[:length]
    delays = (words * np.uint64(window)) >> np.uint64(32 - _FRACTION)
    places = np.arange(length, dtype=np.uint64) << np.uint64(_FRACTION)
    return line[start:stop][np.argsort(places + delays, kind="stable")]


def order_randomly(seed: int, epoch: int, stream: int, count: int) -> NDArray[np.int64]:
    """Return a uniform permutation of `count` numbers: each gets random bits, and they are sorted."""
    words = draw_words(seed, epoch, stream, np.arange(-(-count // 2)), 4)
    keys = ((words[:, 0::2] << np.uint64(32)) | words[:, 1::2]).reshape(-1)[:count]
    # The number itself takes the lowest bits: sort is five times as fast as argsort.
    number = np.uint64((1 << count.bit_length()) - 1)
    keys = (keys & ~number) | np.arange(count, dtype=np.uint64)
    return (np.sort(keys) & number).astype(np.int64)
