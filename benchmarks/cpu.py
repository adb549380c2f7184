"""CPU time of a job with its workers, also of those that live on."""

from __future__ import annotations

import os
import resource
import time

from headrace.workbench.watch.monitor import read_tree_cpu


def cpu_seconds() -> float:
    """Of this process and those below it, also while they run, and of those that have ended.

    That of this process is exact; of workers that run, the system gives it in hundredths of a second.
    """
    here, ended = os.times(), resource.getrusage(resource.RUSAGE_CHILDREN)
    running = read_tree_cpu(os.getpid()) - (here.user + here.system)
    return time.process_time() + max(running, 0.0) + ended.ru_utime + ended.ru_stime
