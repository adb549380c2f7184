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
_BLOCK = 1 << 18
"""Numbers that are drawn at once."""


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


def shuffle_places(
    start: int, length: int, window: int, places: range, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the positions in a lane of the samples that come at `places`, each moved by less than `window`.

    The sample at position p gets the key p + window * u, with u uniform in [0, 1); keys are sorted. So what comes at
    places a to b - 1 lies at positions from a - window to b + window, and no other keys are computed. Before a sample
    come all those that lie `window` places before it, which bounds the memory.

    Args:
        start: first position of the lane on the line.
        length: positions of the lane.
        window: how far samples move, in places of the lane.
        places: places of the lane.
        seed: what the order comes from, together with the epoch.
        epoch: number of the epoch.
    """
    first, stop = max(places.start - window, 0), min(places.stop + window, length)
    keys = _draw_keys(start, first, stop, window, seed, epoch)
    order = np.argsort(keys, kind="stable")
    found: NDArray[np.int64] = first + order[places.start - first : places.stop - first]
    return found


def _draw_keys(
    start: int, first: int, stop: int, window: int, seed: int, epoch: int
) -> NDArray[np.uint64]:
    """Return the keys of the positions `first` to `stop` - 1 of a lane."""
    ids = start + np.arange(first // 4, -(-stop // 4))  # four words per id; no other lane has these
    words = draw_words(seed, epoch, Stream.WINDOW, ids, 4).reshape(-1)
    words = words[first % 4 : first % 4 + stop - first]
    delays = (words * np.uint64(window)) >> np.uint64(32 - _FRACTION)
    keys: NDArray[np.uint64] = (
        np.arange(first, stop).astype(np.uint64) << np.uint64(_FRACTION)
    ) + delays
    return keys


def order_randomly(seed: int, epoch: int, stream: int, count: int) -> NDArray[np.int64]:
    """Return a uniform permutation of `count` numbers: each gets random bits, and they are sorted.

    It takes the memory of the result and little more.
    """
    keys = np.empty(count, np.uint64)
    # The number itself takes the lowest bits: sort is five times as fast as argsort.
    number = np.uint64((1 << count.bit_length()) - 1)
    for first in range(0, count, _BLOCK):
        part = keys[first : first + _BLOCK]
        ids = np.arange(first // 2, first // 2 - (-len(part) // 2))
        words = draw_words(seed, epoch, stream, ids, 4)
        bits = ((words[:, 0::2] << np.uint64(32)) | words[:, 1::2]).reshape(-1)[: len(part)]
        part[:] = (bits & ~number) | np.arange(first, first + len(part), dtype=np.uint64)
    keys.sort()
    keys &= number
    return keys.view(np.int64)
