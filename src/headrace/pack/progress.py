"""How far a long job has come, counted by its threads and shown by whoever wants to."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

DRAW_EVERY = 0.1  # seconds


class Progress(NamedTuple):
    """Samples and source bytes done, of how many; the samples of tars are not known before they are read."""

    samples: int
    total_samples: int | None
    bytes: int
    total_bytes: int


Watcher = Callable[[Progress], None]
Draw = Callable[[int, "int | None", str], None]
"""Called with what is done, of how much if that is known, and what stands beside the bar."""


class ProgressCounter:
    """Adds up what several threads have done; calls the watcher one thread at a time."""

    def __init__(
        self, total_samples: int | None, total_bytes: int, watcher: Watcher | None
    ) -> None:
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
def open_bar(what: str) -> Iterator[Draw | None]:
    """A function that draws a bar with a note and the time left; None where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich_progress  # only where somebody looks
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[note]}", markup=False),
        rich_progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, note="", total=None)

        def draw(done: int, total: int | None, note: str) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield draw


@contextmanager
def progress_bar(what: str) -> Iterator[Watcher | None]:
    """A watcher that draws a bar with rates; None where stderr is not a terminal."""
    with open_bar(what) as draw:
        yield None if draw is None else _watch_with(draw)


def _watch_with(draw: Draw) -> Watcher:
    began, drawn = time.monotonic(), 0.0

    def watch(done: Progress) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < DRAW_EVERY and done.bytes < done.total_bytes:
            return
        drawn, elapsed = now, max(now - began, 1e-3)
        of_all = "" if done.total_samples is None else f"/{done.total_samples}"
        rates = (
            f"{done.samples}{of_all} samples, {done.samples / elapsed:.0f}/s, "
            f"{done.bytes / elapsed / 1e6:.0f} MB/s"
        )
        draw(done.bytes, done.total_bytes, rates)

    return watch
