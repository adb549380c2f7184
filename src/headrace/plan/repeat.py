"""Repeated augmentation: each entry of an epoch comes several times in its batch, with draws of its own each time.

An epoch has as many steps with repeats as without. So with `repeat` copies it takes one entry in `repeat`, and
consecutive epochs take turns. Guaranteed, of the `repeat` epochs with the same epoch // repeat:

- each takes ceil(entries / repeat) distinct entries;
- together they take every entry at least once, and fewer than `repeat` of them a second time, if there are that many.

Runs are dealt whole, so that little is read that is not used. Berman et al., "MultiGrain", 2019; Hoffer et al.,
"Augment your batch", CVPR 2020.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.plan.line import Line
from headrace.plan.philox import Stream
from headrace.plan.runs import Runs
from headrace.plan.shuffle import order_randomly
from headrace.plan.split import Split

_FEWEST_RUNS = 64
"""Runs per epoch that make a random part of the dataset; if there are fewer, entries are dealt one by one."""
_COPY_BIT = 48


def deal_entries(
    runs: Runs, split: Split, seed: int, epoch: int
) -> tuple[Runs, NDArray[np.int64] | None]:
    """Return the runs of an epoch, cut where it takes a part of them; and its entries if they are dealt one by one.

    In that case the runs are those of places in the entries, which ascend.
    """
    entries, (deal, turn) = runs.entries, divmod(epoch, split.repeat)
    count = split.count_distinct(entries)
    start, stop = turn * count, (turn + 1) * count
    if not count:
        return runs, None
    used = np.count_nonzero(runs.measure_all())
    if used < _FEWEST_RUNS * split.repeat or used == entries:
        deck = order_randomly(seed, deal, Stream.REPEAT, entries)
        # The last epochs begin again where the first one began: all have the same length.
        dealt = np.sort(deck[np.arange(start, stop) % entries])
        return Runs.of_bounds(np.searchsorted(dealt, runs.list_bounds())), dealt
    line = Line.lay(runs, order_randomly(seed, deal, Stream.REPEAT, len(runs)))
    parts = [_cut(line, start, min(stop, entries)), _cut(line, 0, max(stop - entries, 0))]
    starts, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    ascending = np.argsort(starts, kind="stable")
    return Runs(starts[ascending], lengths[ascending], np.ones(len(starts), np.int64)), None


def _cut(line: Line, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first entry and the length of each stretch between two positions of a line."""
    if start >= stop:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first, last = line.find_stretches(np.array([start, stop - 1])).tolist()
    stretches = np.arange(first, last + 1)
    begins = np.maximum(line.find_begins(stretches), start)
    lengths = np.minimum(line.find_begins(stretches + 1), stop) - begins
    kept = lengths > 0
    return line.find(begins[kept])[0], lengths[kept]


def number_copies(draws: NDArray[np.int64], repeat: int) -> NDArray[np.int64]:
    """Return the ids of `repeat` copies of each entry, next to each other: the first copy keeps its entry's id."""
    copies = np.arange(repeat, dtype=np.int64) << _COPY_BIT
    return (draws[:, None] + copies).reshape(-1)
