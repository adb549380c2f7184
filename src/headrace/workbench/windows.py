"""Measuring in windows: every job has its turn in every round, so that a noisy machine disturbs all alike.

The first round warms up and is not counted. Ctrl-C ends the rounds; what was measured stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.workbench.numbers import Rate, Stage

Watcher = Callable[[int, int, str], None]
"""Told how many windows are done, of how many, and what runs now."""


class Window(NamedTuple):
    """What one window of a job did. `peak_bytes` is None where memory was not looked at."""

    images: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """Something to measure: `run(seconds)` works for about that long, at least once."""

    name: str
    threads: int
    run: Callable[[float], Window]
    image_bytes: float = 0.0
    note: str = ""


def repeat(work: Callable[[], int], seconds: float) -> Window:
    """Calls `work`, which returns how many images it did, until the time is over."""
    images = 0
    cpu, start = time.process_time(), time.perf_counter()
    while True:
        images += work()
        now = time.perf_counter()
        if now - start >= seconds:
            return Window(images, now - start, time.process_time() - cpu)


def take_turns(
    jobs: Sequence[Job], rounds: int, seconds: float, watcher: Watcher | None = None
) -> tuple[list[Stage], bool]:
    """The stages as far as they were measured, and whether that is all of them."""
    windows: dict[Job, list[Window]] = {job: [] for job in jobs}
    complete = True
    try:
        for number in range(rounds + 1):
            for place, job in enumerate(jobs):
                if watcher is not None:
                    watcher(number * len(jobs) + place, (rounds + 1) * len(jobs), _describe(job))
                window = job.run(seconds if number else seconds / 2)
                if number:
                    windows[job].append(window)
    except KeyboardInterrupt:
        complete = False
    return [_summarise(job, found) for job, found in windows.items() if found], complete


def _describe(job: Job) -> str:
    return f"{job.name}, {job.threads} thread" + ("s" if job.threads > 1 else "")


def _summarise(job: Job, windows: list[Window]) -> Stage:
    images = sum(window.images for window in windows)
    peaks = [window.peak_bytes for window in windows if window.peak_bytes is not None]
    return Stage(
        name=job.name,
        threads=job.threads,
        rate=Rate.of([window.images / window.seconds for window in windows]),
        cpu_ms=sum(window.cpu_seconds for window in windows) * 1e3 / images,
        image_bytes=job.image_bytes,
        peak_bytes=max(peaks, default=None),
        note=job.note,
    )


def reset_peak_memory() -> None:
    """Lets `read_peak_memory` begin anew, where the system allows that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def read_peak_memory() -> int | None:
    """The most bytes that this process had in memory since the last reset."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
