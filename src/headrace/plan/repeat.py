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

from headrace.plan.philox import Stream
from headrace.plan.shuffle import lay_runs, order_randomly
from headrace.plan.split import Split

_FEWEST_RUNS = 64
"""Runs per epoch that make a random part of the dataset; if there are fewer, entries are dealt one by one."""
_COPY_BIT = 48


def deal_entries(
    bounds: NDArray[np.int64], split: Split, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return the entries of an epoch, ascending; run *j* has entries bounds[j:j+2]."""
    entries, turn = int(bounds[-1]), epoch % split.repeat
    line = _lay_deck(bounds, split.repeat, seed, epoch // split.repeat)
    count = split.count_distinct(entries)
    # The last epochs begin again where the first one began: all have the same length.
    places = np.arange(turn * count, (turn + 1) * count) % max(entries, 1)
    return np.sort(line[places])


def number_copies(draws: NDArray[np.int64], repeat: int) -> NDArray[np.int64]:
    """Return the ids of `repeat` copies of each entry, next to each other: the first copy keeps its entry's id."""
    copies = np.arange(repeat, dtype=np.int64) << _COPY_BIT
    return (draws[:, None] + copies).reshape(-1)


def _lay_deck(bounds: NDArray[np.int64], repeat: int, seed: int, deal: int) -> NDArray[np.int64]:
    """Return all entries in the order in which the epochs of a deal take them."""
    if np.count_nonzero(np.diff(bounds)) < _FEWEST_RUNS * repeat:
        return order_randomly(seed, deal, Stream.REPEAT, int(bounds[-1]))
    return lay_runs(bounds, order_randomly(seed, deal, Stream.REPEAT, len(bounds) - 1))
