"""Each stage alone as a job: reading, decoding, rendering, the user's Python, copying.

All stages but reading work on samples in memory, so that each shows its own speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.core_recipe import Recipe, compile_recipe
from headrace.recipe.pixels import convert_pixels
from headrace.recipe.randomness import Randomness
from headrace.recipe.transforms import RandomResizedCrop
from headrace.render import Jobs, RenderRequest, decode_jpeg, render_batch, status_message
from headrace.workbench.bench import results
from headrace.workbench.bench.dataset_sample import DatasetSample, Held
from headrace.workbench.bench.page_cache import Residency, drop_pages
from headrace.workbench.bench.rounds import Job, Turn, repeat

_PYTHON_IMAGES = 16
READERS = 2
"""Number of threads that a Loader reads with."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Samples in memory and the transforms that the stages apply to them."""

    subset: DatasetSample
    held: Held
    pipeline: Pipeline

    @property
    def recipe(self) -> Recipe:
        """The native part of the transform; a plain crop if Python comes first."""
        return self.pipeline.recipe or compile_recipe([RandomResizedCrop(224)], None)

    def render(self, threads: int, chosen: Sequence[int] | None = None) -> NDArray[Any]:
        """Render the samples in memory, or those with the numbers `chosen`."""
        held = self.held
        picked = np.arange(len(held.rows)) if chosen is None else np.asarray(chosen)
        randomness = Randomness(0, 0, held.rows[picked])
        draws = self.recipe.draw(randomness, held.heights[picked], held.widths[picked])
        images, seeks = ([data[i] for i in picked] for data in (held.images, held.seeks))
        target = replace(self.recipe.make_target(draws), threads=threads)
        out, status = RenderRequest(Jobs(images, draws, seeks), target).render()
        self._check(status, picked)
        return out

    def render_all(self, threads: int) -> int:
        """Render the samples in memory; return their number."""
        return len(self.render(threads))

    def decode_entropy(self, threads: int) -> int:
        """Decode the last pixel of every native image: all its entropy-coded data, and little else."""
        chosen = [i for i, seek in enumerate(self.held.seeks) if seek]
        boxes = [(self.held.widths[i] - 1, self.held.heights[i] - 1, 1, 1) for i in chosen]
        images = [self.held.images[i] for i in chosen]
        _, status = render_batch(images, np.array(boxes), (1, 1), threads=threads)
        self._check(status, chosen)
        return len(chosen)

    def _check(self, status: NDArray[np.int32], chosen: Sequence[int] | NDArray[np.int64]) -> None:
        for place in np.flatnonzero(status)[:1]:
            name = self.subset.name_row(int(self.held.rows[chosen[place]]))
            raise DecodeError(f"{name}: {status_message(int(status[place]))}")


def storage_jobs(subset: DatasetSample, on_kept: Callable[[Residency], None]) -> list[Job]:
    """Return jobs that read from disk and from the page cache.

    `on_kept` is called with the pages that the system did not drop.
    """
    files = subset.list_files()

    def read_cold(seconds: float) -> Turn:
        on_kept(drop_pages(files))
        return _read_runs(subset, seconds, once=True)

    warm = partial(_read_runs, subset, once=False)
    size = subset.mean_bytes
    return [
        Job(results.COLD, READERS, read_cold, size),
        Job(results.WARM, READERS, warm, size),
    ]


def _read_runs(subset: DatasetSample, seconds: float, *, once: bool) -> Turn:
    """Read runs until the time is over; if `once`, each at most once, since it is cached afterwards."""
    runs, images = subset.runs.tolist(), 0
    with ThreadPoolExecutor(READERS) as pool:
        cpu, start = time.process_time(), time.perf_counter()
        while True:
            for place in range(0, len(runs), READERS):
                images += sum(pool.map(subset.read_run, runs[place : place + READERS]))
                if time.perf_counter() - start >= seconds:
                    break
            elapsed = time.perf_counter() - start
            if once or elapsed >= seconds:
                return Turn(images, elapsed, time.process_time() - cpu)


def compute_jobs(load: Workload, threads: Sequence[int]) -> list[Job]:
    """Return jobs that decode and render, for each number of threads."""
    size = load.held.mean_bytes
    jobs = []
    for number in threads:
        if any(load.held.seeks):
            jobs.append(_job(results.ENTROPY, number, partial(load.decode_entropy, number), size))
        jobs.append(Job(results.DECODE, number, partial(_decode, load.held, number), size))

        jobs.append(_job(results.RENDER, number, partial(load.render_all, number), size))
    return jobs


def _job(name: str, threads: int, work: Callable[[], int], size: float) -> Job:
    return Job(name, threads, partial(repeat, work), size)


def _decode(held: Held, threads: int, seconds: float) -> Turn:
    with ThreadPoolExecutor(threads) as pool:
        return repeat(lambda: len(list(pool.map(decode_jpeg, held.images))), seconds)


def python_job(load: Workload) -> Job | str:
    """Return a job that runs the user's Python in one process, or why there is none."""
    pipeline = load.pipeline
    if not pipeline.steps:
        return "no step of the transform runs in Python"
    chosen = list(range(min(_PYTHON_IMAGES, len(load.held.rows))))
    if pipeline.recipe is None:
        pixels = [decode_jpeg(load.held.images[i]) for i in chosen]
    else:
        pixels = list(load.render(1, chosen))

    def transform() -> int:
        for image in pixels:
            value = convert_pixels(image, pipeline.entry)
            for step in pipeline.steps:
                value = step(value)
        return len(pixels)

    note = "in one process; the pipeline runs it in as many as it has threads"
    return Job(results.PYTHON, 1, partial(repeat, transform), pixels[0].nbytes, note)


def collate_job(load: Workload) -> Job:
    """Return a job that copies images into one batch: the cost that rendering in place avoids."""
    pixels = load.render(1)
    images, out = [image.copy() for image in pixels], np.empty_like(pixels)

    def collate() -> int:
        np.stack(images, out=out)
        return len(images)

    note = "not part of the pipeline: images are rendered in place"
    return Job(results.COLLATE, 1, partial(repeat, collate), pixels[0].nbytes, note)


def copy_job(load: Workload) -> Job | str:
    """Return a job that copies batches from pinned memory to the GPU, or why there is none."""
    if not Path(
        "/dev/nvidiactl"
    ).exists():  # checked first: importing torch takes 200 MB and a second
        return "no CUDA device"
    try:
        import torch
    except ModuleNotFoundError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "no CUDA device"
    batch = torch.from_numpy(load.render(1)).pin_memory()

    def copy() -> int:
        batch.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        return len(batch)

    return Job(results.COPY, 1, partial(repeat, copy), batch[0].nbytes)
