"""CPU time of a job with its workers, also of those that live on."""

from __future__ import annotations

import os
import resource

from penstock.workbench.watch.monitor import read_tree_cpu


def cpu_seconds() -> float:
    """Of this process and those below it, also while they run, and of those that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return read_tree_cpu(os.getpid()) + ended.ru_utime + ended.ru_stime
