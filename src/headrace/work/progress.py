"""The progress of a long job: counted by its threads, reported to a callback of the caller."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Progress(NamedTuple):
    """Samples and source bytes that are done, and their totals. None: the total is not known."""

    samples: int
    total_samples: int | None
    bytes: int
    total_bytes: int | None


ProgressCallback = Callable[[Progress], None]


class ProgressCounter:
    """Add up what several threads have done; call the callback from one thread at a time."""

    def __init__(
        self, total_samples: int | None, total_bytes: int, progress: ProgressCallback | None
    ) -> None:
        self._now = Progress(0, total_samples, 0, total_bytes)
        self._callback = progress
        self._lock = threading.Lock()

    def add(self, samples: int, size: int) -> None:
        if self._callback is None:
            return
        with self._lock:
            now = self._now
            self._now = now._replace(samples=now.samples + samples, bytes=now.bytes + size)
            self._callback(self._now)


@contextmanager
def show_on_terminal(what: str) -> Iterator[ProgressCallback | None]:
    """Yield a callback that draws a bar on stderr; None where stderr is not a terminal.

    Only for work that nobody asked for by name, such as indexing a folder that is being opened.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(what), total=None)
        yield lambda now: bar.update(task, completed=now.bytes, total=now.total_bytes)
