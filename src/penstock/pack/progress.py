"""How far a long job has come, counted by its threads and shown by whoever wants to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Samples and source bytes done, of how many."""

    samples: int
    total_samples: int
    bytes: int
    total_bytes: int


Watcher = Callable[[Progress], None]


class ProgressCounter:
    """Adds up what several threads have done; calls the watcher one thread at a time."""

    def __init__(self, total_samples: int, total_bytes: int, watcher: Watcher | None) -> None:
        self._now = Progress(0, total_samples, 0, total_bytes)
        self._watcher = watcher
        self._lock = threading.Lock()

    def add(self, samples: int, size: int) -> None:
        if self._watcher is None:
            return
        with self._lock:
            now = self._now
            self._now = now._replace(samples=now.samples + samples, bytes=now.bytes + size)
            self._watcher(self._now)
