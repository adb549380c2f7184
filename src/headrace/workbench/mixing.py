"""How well a shuffle mixes the classes: what batches hold, beside what a global shuffle would put into them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan import Shuffle, Split, plan_epoch

_BATCHES = 64


def measure_mixing(
    labels: NDArray[np.int64], runs: NDArray[np.int64], window: int | None, batch: int
) -> float | None:
    """The entropy of the classes in batches of an epoch, in parts of that of a global shuffle; None with one class.

    `labels` are those of all samples in the order of the index, `runs` the bounds of what is read at once.
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
    """Mean entropy in bits of the classes in each row of `labels`."""
    steps, batch = labels.shape
    classes = int(labels.max()) + 1
    counts = np.bincount((np.arange(steps)[:, None] * classes + labels).ravel())
    counts = counts[counts > 0]
    return float(np.log2(batch) - (counts * np.log2(counts)).sum() / batch / steps)
