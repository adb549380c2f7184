"""The whole pipeline as a job: a Loader as a training loop would use it, its first batches not counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.serve.loader import Loader
from headrace.workbench import numbers
from headrace.workbench.page_cache import Residency, drop_pages
from headrace.workbench.subject import Subject
from headrace.workbench.watch.monitor import read_cpu_seconds, read_tree_cpu
from headrace.workbench.windows import Job, Window, read_peak_memory, reset_peak_memory

_PREFETCH = 2
_SKIPPED = _PREFETCH + 1
"""Batches before the clock starts: those that were made while nobody was waiting."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """What is loaded, and how."""

    subject: Subject
    batch_size: int
    transform: Any
    cold: bool
    on_kept: Callable[[Residency], None]

    def job(self, threads: int) -> Job:
        return Job(numbers.PIPELINE, threads, partial(self._run, threads), self.subject.mean_bytes)

    def _run(self, threads: int, seconds: float) -> Window:
        if self.cold:
            self.on_kept(drop_pages(self.subject.list_files()))
        reset_peak_memory()
        with self._loader(threads) as loader:
            window = _time_batches(_repeat_epochs(loader), seconds)
        return window._replace(peak_bytes=read_peak_memory())

    def _loader(self, threads: int) -> Loader:
        return Loader(
            self.subject.dataset,
            min(self.batch_size, len(self.subject.dataset)),
            shuffle=True,
            transform=self.transform,
            drop_last=True,
            fields=("image", "label") if self.subject.labelled else ("image",),
            threads=threads,
            num_workers=threads,
            prefetch=_PREFETCH,
            rank=0,
            world_size=1,
        )


def _repeat_epochs(loader: Loader) -> Iterator[int]:
    """The sizes of the batches of one epoch after the other."""
    while True:
        for batch in loader:
            yield len(batch.rows)


def _time_batches(sizes: Iterator[int], seconds: float) -> Window:
    for _ in range(_SKIPPED):
        next(sizes)
    images = 0
    cpu, start = _read_cpu(), time.perf_counter()
    while True:
        images += next(sizes)
        now = time.perf_counter()
        if now - start >= seconds:
            return Window(images, now - start, _read_cpu() - cpu)


def _read_cpu() -> float:
    """CPU seconds of this process, and of its workers where the user's Python runs."""
    workers = read_tree_cpu(os.getpid()) - read_cpu_seconds(os.getpid())
    return time.process_time() + workers


def pipeline_jobs(pipeline: Pipeline, threads: Sequence[int]) -> list[Job]:
    return [pipeline.job(number) for number in threads]
