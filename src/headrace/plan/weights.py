"""Weighted sampling: how often each sample comes in an epoch, as a draw of integer counts.

The draw decides only counts. The drawn rows are ordered like the rows of any epoch, run by run, so that
reading stays sequential.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.plan.philox import Stream, draw_uniforms
from headrace.plan.shuffle import order_randomly


def draw_weighted(
    weights: NDArray[np.float64], *, seed: int, epoch: int, count: int | None = None
) -> NDArray[np.int64]:
    """Return int64[count]: numbers of samples, ascending and repeated, drawn in proportion to `weights`.

    Let x be a sample's share of `count`, which by default is the number of samples. It comes
    floor(x) or ceil(x) times, and x times per epoch on average. All samples of one weight together
    have their share, to one sample: weights of 1 / class size balance the classes.
    """
    total = len(weights) if count is None else count
    phase = draw_uniforms(seed, epoch, Stream.WEIGHTS, np.array([len(weights)]), 1)[0, 0]
    # Systematic resampling along the samples by weight, in random order among equals: in index
    # order it would always draw the same neighbours together.
    line = order_randomly(seed, epoch, Stream.WEIGHTS, len(weights))
    line = line[np.argsort(weights[line], kind="stable")]
    counts = np.empty(len(weights), np.int64)
    counts[line] = share_counts(weights[line], total, phase)
    return np.repeat(np.arange(len(weights)), counts)


def share_counts(weights: NDArray[np.float64], total: int, phase: float) -> NDArray[np.int64]:
    """Return integers in proportion to `weights` that add up to `total`.

    Any consecutive ones have their share of the total, to one; `phase`, in [0, 1), says how their
    ends are rounded: down for 0, to the nearest for 0.5.
    """
    check_weights(weights)
    # cumsum adds one by one; sum may add in an order that depends on the machine.
    ends = np.cumsum(weights)
    ends = np.floor(ends / ends[-1] * total + phase)
    counts: NDArray[np.float64] = np.diff(np.minimum(ends, total), prepend=0.0)
    return counts.astype(np.int64)


def check_weights(weights: NDArray[np.float64]) -> None:
    """Raise ValueError unless there are shares in proportion to the weights."""
    with np.errstate(over="ignore"):
        total = np.cumsum(weights)[-1:]
    if not (np.isfinite(total).all() and (weights >= 0).all() and (weights > 0).any()):
        raise ValueError(
            "weights must be finite, as must their sum, not negative, and not all zero"
        )
