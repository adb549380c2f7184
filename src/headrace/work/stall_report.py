"""Reports child processes that send nothing for a long time while someone waits for them.

A report is a warning of the logger `headrace`: which process, for how long, in which state, with which
items. The first one comes after HEADRACE_STALL_SECONDS (60 by default; 0 for never), the next ones
whenever the time has doubled. The child is not ended.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from headrace.work.child_process import Child

log = logging.getLogger("headrace")
STALL_SECONDS = 60.0
_STATES = {
    "T": "it is stopped (`kill -CONT {pid}` resumes it)",
    "t": "it is stopped by a debugger",
    "D": "it waits for a disk or a network file system",
    "R": "it is computing",
    "S": "it waits for something (`py-spy dump --pid {pid}` shows where)",
}


class StallWatch:
    """The children that are waited for, and since when. `describe` names the items of a child."""

    def __init__(self, describe: Callable[[Child], str]) -> None:
        self._describe = describe
        self._seconds = read_stall_seconds()
        self._since: dict[Child, float] = {}
        self._due: dict[Child, float] = {}

    def start(self, child: Child) -> None:
        """Start the clock of a child that was given work or has sent something."""
        self._since[child] = now = time.monotonic()
        self._due[child] = now + self._seconds

    def rest(self, child: Child) -> None:
        """Stop the clock of a child that has nothing to do."""
        self._since.pop(child, None)
        self._due.pop(child, None)

    def get_timeout(self) -> int | None:
        """Return the milliseconds until a report is due; None for never."""
        due = min(self._due.values(), default=math.inf)
        return None if due == math.inf else max(0, math.ceil(1000 * (due - time.monotonic())))

    def report(self) -> None:
        """Log the children whose report is due."""
        now = time.monotonic()
        for child, since in self._since.items():
            if self._due[child] <= now:
                waited = now - since
                self._due[child] = since + 2 * waited
                log.warning(
                    "%s (pid %d) has returned no result for %.0f s while the consumer waits%s%s",
                    child.name,
                    child.pid,
                    waited,
                    self._describe(child),
                    _describe_state(child.pid),
                )


def read_stall_seconds() -> float:
    """Return the time after which a child is reported, infinite for never."""
    text = os.environ.get("HEADRACE_STALL_SECONDS")
    try:
        seconds = STALL_SECONDS if text is None else float(text)
    except ValueError:
        seconds = -1
    if not seconds >= 0:
        raise ValueError(f"HEADRACE_STALL_SECONDS: {text!r}; set a number of seconds, 0 for never")
    return seconds or math.inf


def _describe_state(pid: int) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):  # another system, or it has just ended
        return ""
    return f"; {_STATES[state].format(pid=pid)}" if state in _STATES else ""
