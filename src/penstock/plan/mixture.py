"""Mixtures: several datasets in one index, each with its share of the epoch.

The datasets are concatenated; source *s* has the rows `sources[s]` to `sources[s + 1] - 1`, and no
run lies in two sources. The drawn rows are ordered as those of any other epoch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.plan.order import lay_runs, order_randomly
from penstock.plan.philox import Stream
from penstock.plan.weights import share_counts


def draw_mixture(
    runs: NDArray[np.int64],
    sources: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    seed: int,
    epoch: int,
    count: int,
) -> NDArray[np.int64]:
    """int64[count]: rows, ascending and repeated; each source has its share to one sample.

    A source is taken up where the epoch before stopped: all its samples come once before any comes
    twice. It goes by whole runs, in an order fixed by the seed, so that only those runs are read.
    """
    cuts = np.searchsorted(runs, sources)
    if len(sources) != len(weights) + 1 or not np.array_equal(runs[cuts], sources):
        raise ValueError("each source needs a weight, and begins and ends where a run does")
    taken = [
        _take_turn(runs[cuts[s] : cuts[s + 1] + 1], int(share), seed, epoch, s)
        for s, share in enumerate(share_counts(weights, count, phase=0.5))
    ]
    return np.concatenate(taken)


def _take_turn(
    runs: NDArray[np.int64], share: int, seed: int, epoch: int, source: int
) -> NDArray[np.int64]:
    """The epoch's `share` of rows from the endless repetition of one source, ascending."""
    if not share:
        return np.empty(0, np.int64)
    if runs[0] == runs[-1]:
        raise ValueError(f"source {source} has a weight but no samples")
    # intentional: the source's number stands in for the epoch, so that the runs keep one order
    line = lay_runs(runs, order_randomly(seed, source, Stream.MIXTURE, len(runs) - 1))
    return np.sort(line[(epoch * share + np.arange(share)) % len(line)])
