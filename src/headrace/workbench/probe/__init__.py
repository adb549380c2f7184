"""What `headrace doctor -- command` puts into the Python processes of the command, to time and sample them.

Only the standard library, and relative imports: it is loaded by path, also where headrace is not installed.
Each process writes `<pid>.json` into the folder of the record, again and again and at its end, so that one
that is killed has told nearly all. Readers: `headrace.workbench.watch.record`.
"""

from __future__ import annotations

import atexit
import os
import sys

from .patches import watch_imports
from .process import Process


def start(folder: str) -> Process:
    """Watches this process and those that it forks."""
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

    # Processes of multiprocessing end without atexit, and forget at their start what was to be finalized.
    util.register_after_fork(process, finish_at_exit)
