"""How far a long job has come, counted by its threads and shown by whoever wants to."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_DRAW_EVERY = 0.1  # seconds


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


@contextmanager
def progress_bar(what: str, unit: str = "samples") -> Iterator[Watcher | None]:
    """A watcher that draws a bar with rates and time left; None where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich_progress  # only where somebody looks
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[rates]}"),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, rates="", total=None)

        drawn = 0.0

        def watch(done: Progress) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn < _DRAW_EVERY and done.samples < done.total_samples:
                return
            drawn = now
            elapsed = max(bar.tasks[0].elapsed or 0.0, 1e-3)
            rates = (
                f"{done.samples}/{done.total_samples} {unit}, {done.samples / elapsed:.0f}/s, "
                f"{done.bytes / elapsed / 1e6:.0f} MB/s"
            )
            bar.update(task, completed=done.bytes, total=done.total_bytes, rates=rates)

        yield watch
