"""Draw the rows of mixtures: several datasets in one index, each with its share of the epoch.

The datasets are concatenated; source *s* has the rows `sources[s]` to `sources[s + 1] - 1`, and no
run lies in two sources. The drawn rows are then ordered like the rows of any epoch.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from math import floor

import numpy as np
from numpy.typing import NDArray

from headrace.plan.line import Line
from headrace.plan.philox import Stream
from headrace.plan.runs import Runs
from headrace.plan.shuffle import order_randomly
from headrace.plan.weights import check_weights

# Epoch 0 rounds to the nearest integer. The second term is for shares that are integers but for the error of floats,
# which another epoch would round down: 0.7 / (0.7 + 0.3) of 10.
_PHASE = Fraction(1, 2) + Fraction(1, 2**20)


def draw_mixture(
    runs: Runs,
    sources: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    seed: int,
    epoch: int,
    count: int,
) -> NDArray[np.int64]:
    """Return int64[count]: rows, ascending and repeated; each source has its share to one sample.

    A source continues where the previous epoch stopped: all its samples come once before any comes
    twice. It goes by whole runs, in an order fixed by the seed, so that only those runs are read.
    """
    bounds = runs.list_bounds()
    cuts = np.searchsorted(bounds, sources)
    if len(sources) != len(weights) + 1 or not np.array_equal(bounds[cuts], sources):
        raise ValueError("each source needs a weight, and begins and ends where a run does")
    empty = np.flatnonzero((np.diff(sources) == 0) & (weights > 0))
    if count and len(empty):
        raise ValueError(f"source {empty[0]} has a weight but no samples")
    before, after = (count_before(weights, count, e) for e in (epoch, epoch + 1))
    taken = [
        _take_turn(bounds[cuts[s] : cuts[s + 1] + 1], before[s], after[s], seed, s)
        for s in range(len(weights))
    ]
    return np.concatenate(taken)


def count_before(weights: NDArray[np.float64], count: int, epoch: int) -> list[int]:
    """Return how many samples of each source come before an epoch, in epochs of `count`.

    Any 2**k epochs from a multiple of 2**k on have their share of each source to one sample. So has
    each epoch, and the result is exact to as many samples as `epoch` has ones in binary.
    """
    check_weights(weights)
    sums = [Fraction(0), *accumulate(map(Fraction, weights.tolist()))]
    ends = [_add_rounded(total * count / sums[-1], epoch) for total in sums]
    return [end - start for start, end in pairwise(ends)]


def _add_rounded(share: Fraction, epochs: int) -> int:
    """Return the sum of floor(share + _PHASE + mirror(e)) over the first `epochs`.

    In 2**k epochs from a multiple of 2**k on, the mirrored numbers are 2**-k apart, and Hermite's
    identity adds them up: floor(x) + floor(x + 1/m) + ... + floor(x + (m - 1)/m) = floor(m x).
    """
    stretches = [k for k in range(epochs.bit_length()) if epochs >> k & 1]
    return sum(floor((share + _PHASE) * 2**k + _mirror(epochs >> k ^ 1)) for k in stretches)


def _mirror(number: int) -> Fraction:
    """Return the bits of a number in reverse behind the binary point: 0, 1/2, 1/4, 3/4, 1/8, ..."""
    return Fraction(int(f"{number:b}"[::-1], 2), 2 ** number.bit_length())


def _take_turn(
    bounds: NDArray[np.int64], start: int, stop: int, seed: int, source: int
) -> NDArray[np.int64]:
    """Return rows `start` to `stop` - 1 of the endless repetition of one source, ascending."""
    if start == stop:
        return np.empty(0, np.int64)
    # intentional: the source's number stands in for the epoch, so that the runs keep one order
    order = order_randomly(seed, source, Stream.MIXTURE, len(bounds) - 1)
    line = Line.lay(Runs.of_bounds(bounds), order)
    positions = (start % len(line) + np.arange(stop - start)) % len(line)
    return np.sort(line.find(positions)[0])
