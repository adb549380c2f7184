"""Times jobs in turns, so that other work on the machine disturbs all alike."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable


def time_turns(
    jobs: dict[str, Callable[[], object]], rounds: int, before: Callable[[], object] = os.sync
) -> dict[str, float]:
    """Return the median wall time of each job in seconds; `before` runs before each turn, untimed."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            before()
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}
