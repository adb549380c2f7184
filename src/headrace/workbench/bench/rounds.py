"""Measures in rounds: every job has a turn in every round, so that a noisy machine disturbs all alike.

The first round warms up and is not counted. Ctrl-C ends the rounds and keeps what was measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.workbench.bench.results import Rate, Stage

Report = Callable[[int, int, str], None]
"""Called with the turns done, the turns in all, and the job that runs now."""


class Turn(NamedTuple):
    """One measurement of a job. `peak_bytes` is None if memory was not measured."""

    images: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """Work to measure: `run(seconds)` repeats it for about that long, at least once."""

    name: str
    threads: int
    run: Callable[[float], Turn]
    image_bytes: float = 0.0
    note: str = ""


def repeat(
    work: Callable[[], int],
    seconds: float,
    read_cpu: Callable[[], float] = time.process_time,
) -> Turn:
    """Call `work`, which returns how many images it processed, until the time is over."""
    images = 0
    cpu, start = read_cpu(), time.perf_counter()
    while True:
        images += work()
        now = time.perf_counter()
        if now - start >= seconds:
            return Turn(images, now - start, read_cpu() - cpu)


def take_turns(
    jobs: Sequence[Job], rounds: int, seconds: float, report: Report | None = None
) -> tuple[list[Stage], bool]:
    """Return the stages that were measured, and whether all rounds were completed."""
    turns: dict[Job, list[Turn]] = {job: [] for job in jobs}
    complete = True
    try:
        for number in range(rounds + 1):
            for place, job in enumerate(jobs):
                if report is not None:
                    report(number * len(jobs) + place, (rounds + 1) * len(jobs), _describe(job))
                turn = job.run(seconds if number else seconds / 2)
                if number:
                    turns[job].append(turn)
    except KeyboardInterrupt:
        complete = False
    return [_summarise(job, found) for job, found in turns.items() if found], complete


def _describe(job: Job) -> str:
    return f"{job.name}, {job.threads} thread" + ("s" if job.threads > 1 else "")


def _summarise(job: Job, turns: list[Turn]) -> Stage:
    images = sum(turn.images for turn in turns)
    peaks = [turn.peak_bytes for turn in turns if turn.peak_bytes is not None]
    return Stage(
        name=job.name,
        threads=job.threads,
        rate=Rate.of([turn.images / turn.seconds for turn in turns]),
        cpu_ms=sum(turn.cpu_seconds for turn in turns) * 1e3 / images,
        image_bytes=job.image_bytes,
        peak_bytes=max(peaks, default=None),
        note=job.note,
    )


def reset_peak_memory() -> None:
    """Make `read_peak_memory` start over, if the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def read_peak_memory() -> int | None:
    """Return the peak memory of this process since the last reset, in bytes."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return None
