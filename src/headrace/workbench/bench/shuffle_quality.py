"""How well a shuffle mixes the classes within batches, compared with a global shuffle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan import Runs, Shuffle, Split, plan_epoch

_BATCHES = 64


def measure_mixing(
    labels: NDArray[np.int64], runs: Runs, window: int | None, batch: int
) -> float | None:
    """Return the entropy of the classes in batches, relative to a global shuffle; None with one class.

    Args:
        labels: Labels of all samples in the order of the index.
        runs: The runs of samples that are read at once.
        window: Samples that the shuffle mixes; None for all.
        batch: Samples per batch.
    """
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2 or len(labels) < batch:
        return None
    plan = plan_epoch(runs, Split(batch), shuffle=Shuffle(0, window))
    steps = np.linspace(0, len(labels) // batch - 1, _BATCHES).astype(np.int64)
    found = np.stack([numbers[plan.step(int(step)).rows] for step in steps])
    chance = np.random.default_rng(0).choice(numbers, found.shape)
    return measure_entropy(found) / measure_entropy(chance)


def measure_entropy(labels: NDArray[Any]) -> float:
    """Return the mean entropy of the classes in the rows of `labels`, in bits."""
    steps, batch = labels.shape
    classes = int(labels.max()) + 1
    counts = np.bincount((np.arange(steps)[:, None] * classes + labels).ravel())
    counts = counts[counts > 0]
    return float(np.log2(batch) - (counts * np.log2(counts)).sum() / batch / steps)
