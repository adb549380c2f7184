"""Runs inside the Python processes of `headrace doctor -- command`, to time and sample them.

It uses only the standard library and relative imports: it is loaded by path, also where headrace is not
installed. Each process writes `<pid>.json` every few seconds and at its end, so that a killed process loses
little. `headrace.workbench.watch.combine_records` reads these files.
"""

from __future__ import annotations

import atexit
import os
import sys

from .patches import watch_imports
from .watched_process import Process


def start(folder: str) -> Process:
    """Watch this process and the processes that it forks."""
    process = Process(folder)
    watch_imports(process)
    process.begin()
    atexit.register(process.finish)
    os.register_at_fork(after_in_child=lambda: _begin_in_child(process))
    return process


def _begin_in_child(process: Process) -> None:
    process.begin_forked()
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return

    def finish_at_exit(process: Process) -> None:
        util.Finalize(None, process.finish, exitpriority=-100)

    # Processes of multiprocessing skip atexit, and clear their finalizers at the start.
    util.register_after_fork(process, finish_at_exit)
