"""Progress bars on stderr; none are drawn where it is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.work.progress import Progress, ProgressCallback

_DRAW_EVERY = 0.1  # seconds
Draw = Callable[[int, "int | None", str], None]
"""Called with what is done, the total if it is known, and the text beside the bar."""


@contextmanager
def open_bar(what: str) -> Iterator[Draw | None]:
    """Yield a function that draws a bar with a note and the time left; None without a terminal."""
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
        yield lambda done, total, note: bar.update(task, completed=done, total=total, note=note)


@contextmanager
def progress_bar(what: str) -> Iterator[ProgressCallback | None]:
    """Yield a callback that draws a bar with rates; None without a terminal."""
    with open_bar(what) as draw:
        yield None if draw is None else _draw_rates(draw)


def _draw_rates(draw: Draw) -> ProgressCallback:
    began, drawn = time.monotonic(), 0.0

    def report(done: Progress) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < _DRAW_EVERY and done.bytes != done.total_bytes:
            return
        drawn, elapsed = now, max(now - began, 1e-3)
        of_all = "" if done.total_samples is None else f"/{done.total_samples}"
        rates = (
            f"{done.samples}{of_all} samples, {done.samples / elapsed:.0f}/s, "
            f"{done.bytes / elapsed / 1e6:.0f} MB/s"
        )
        draw(done.bytes, done.total_bytes, rates)

    return report
