"""CPU time of a job and its workers, running or ended."""

from __future__ import annotations

import os
import resource
import time

from headrace.workbench.watch.monitor import read_tree_cpu


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, running or ended.

    They are exact for this process; for running workers the resolution is 10 ms.
    """
    here, ended = os.times(), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = read_tree_cpu(os.getpid()) - (here.user + here.system)
    return time.process_time() + max(running, 0.0) + ended.ru_utime + ended.ru_stime
