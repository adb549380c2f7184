"""The whole pipeline as a job: a Loader used as a training loop uses it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.serve.loader import Loader
from headrace.workbench.bench import results
from headrace.workbench.bench.dataset_sample import DatasetSample
from headrace.workbench.bench.page_cache import Residency, drop_pages
from headrace.workbench.bench.rounds import Job, Turn, read_peak_memory, repeat, reset_peak_memory
from headrace.workbench.watch.monitor import read_cpu_seconds, read_tree_cpu

_PREFETCH = 2
_SKIPPED = _PREFETCH + 1
"""Batches before the clock starts: they were prefetched."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A dataset and how to load it."""

    subset: DatasetSample
    batch_size: int
    transform: Any
    cold: bool
    on_kept: Callable[[Residency], None]

    def job(self, threads: int) -> Job:
        return Job(results.PIPELINE, threads, partial(self._run, threads), self.subset.mean_bytes)

    def _run(self, threads: int, seconds: float) -> Turn:
        if self.cold:
            self.on_kept(drop_pages(self.subset.list_files()))
        reset_peak_memory()
        with self._loader(threads) as loader:
            turn = _time_batches(_repeat_epochs(loader), seconds)
        return turn._replace(peak_bytes=read_peak_memory())

    def _loader(self, threads: int) -> Loader:
        return Loader(
            self.subset.dataset,
            min(self.batch_size, len(self.subset.dataset)),
            shuffle=True,
            transform=self.transform,
            drop_last=True,
            fields=("image", "label") if self.subset.labelled else ("image",),
            threads=threads,
            num_workers=threads,
            prefetch=_PREFETCH,
            rank=0,
            world_size=1,
        )


def _repeat_epochs(loader: Loader) -> Iterator[int]:
    """Yield the batch sizes of epoch after epoch."""
    while True:
        for batch in loader:
            yield len(batch.rows)


def _time_batches(sizes: Iterator[int], seconds: float) -> Turn:
    for _ in range(_SKIPPED):
        next(sizes)
    return repeat(lambda: next(sizes), seconds, _read_cpu)


def _read_cpu() -> float:
    """Return the CPU seconds of this process and of its workers, which run the user's Python."""
    workers = read_tree_cpu(os.getpid()) - read_cpu_seconds(os.getpid())
    return time.process_time() + workers
