"""How many threads and processes are worth starting."""

from __future__ import annotations

import os


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
