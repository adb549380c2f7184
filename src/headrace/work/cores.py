"""The number of threads and processes that are worth starting."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
