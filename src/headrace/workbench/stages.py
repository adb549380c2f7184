"""Each stage of the path alone, as a job to be measured: reading, decoding, rendering, the user's Python, copying.

The samples of all stages but the first are held in memory, so that a stage shows its own speed and no other's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.formats.header import read_header
from headrace.render import decode_jpeg, render_batch, status_message
from headrace.serve.conversion import convert_pixels
from headrace.serve.pipeline import Pipeline
from headrace.serve.recipe import Draw, Recipe, compile_recipe
from headrace.serve.transforms import RandomResizedCrop
from headrace.workbench import numbers
from headrace.workbench.page_cache import Residency, drop_pages
from headrace.workbench.subject import Held, Subject
from headrace.workbench.windows import Job, Window, repeat

_PYTHON_IMAGES = 16
READERS = 2
"""Threads that the loader reads with."""


@dataclass(frozen=True, eq=False)
class Workload:
    """What the stages work on: held samples, and what is to be made of them."""

    subject: Subject
    held: Held
    pipeline: Pipeline

    @property
    def recipe(self) -> Recipe:
        """What the core does; a plain crop where it has nothing to do because Python comes first."""
        return self.pipeline.recipe or compile_recipe([RandomResizedCrop(224)], None)

    def render(self, threads: int, chosen: Sequence[int] | None = None) -> NDArray[Any]:
        """The held samples, or those of them with the numbers `chosen`, through the whole render."""
        held = self.held
        picked = np.arange(len(held.rows)) if chosen is None else np.asarray(chosen)
        drawn = self.recipe.draw(
            Draw(0, 0, held.rows[picked]), held.heights[picked], held.widths[picked]
        )
        out, status = render_batch(
            [held.images[i] for i in picked],
            drawn.boxes,
            self.recipe.size,
            window=drawn.window,
            flips=drawn.flips,
            seeks=[held.seeks[i] for i in picked],
            color=drawn.color,
            output=self.recipe.output,
            resample=self.recipe.resample,
            threads=threads,
        )
        self._check(status, picked)
        return out

    def decode_entropy(self, threads: int) -> int:
        """All entropy-coded data and next to nothing else: the last pixel of every native image."""
        chosen = [i for i, seek in enumerate(self.held.seeks) if seek]
        boxes = [(self.held.widths[i] - 1, self.held.heights[i] - 1, 1, 1) for i in chosen]
        images = [self.held.images[i] for i in chosen]
        _, status = render_batch(images, np.array(boxes), (1, 1), threads=threads)
        self._check(status, chosen)
        return len(chosen)

    def _check(self, status: NDArray[np.int32], chosen: Sequence[int] | NDArray[np.int64]) -> None:
        for place in np.flatnonzero(status)[:1]:
            name = self.subject.name_row(int(self.held.rows[chosen[place]]))
            raise DecodeError(f"{name}: {status_message(int(status[place]))}")


def storage_jobs(subject: Subject, on_kept: Callable[[Residency], None]) -> list[Job]:
    """Reading runs from disk and from the page cache. `on_kept` hears what the system would not drop."""
    files = subject.list_files()

    def read_cold(seconds: float) -> Window:
        on_kept(drop_pages(files))
        return _read_runs(subject, seconds, once=True)

    warm = partial(_read_runs, subject, once=False)
    size = subject.mean_bytes
    return [
        Job(numbers.COLD, READERS, read_cold, size),
        Job(numbers.WARM, READERS, warm, size),
    ]


def _read_runs(subject: Subject, seconds: float, *, once: bool) -> Window:
    """Reads runs until the time is over; if `once`, at most all of them, since they are warm then."""
    runs, images = subject.runs.tolist(), 0
    with ThreadPoolExecutor(READERS) as pool:
        cpu, start = time.process_time(), time.perf_counter()
        while True:
            for place in range(0, len(runs), READERS):
                images += sum(pool.map(subject.read_run, runs[place : place + READERS]))
                if time.perf_counter() - start >= seconds:
                    break
            elapsed = time.perf_counter() - start
            if once or elapsed >= seconds:
                return Window(images, elapsed, time.process_time() - cpu)


def compute_jobs(load: Workload, threads: Sequence[int]) -> list[Job]:
    """Decoding, rendering and the user's Python, at each number of threads."""
    size, count = load.held.mean_bytes, len(load.held.rows)
    jobs = []
    for number in threads:
        if any(load.held.seeks):
            jobs.append(_job(numbers.ENTROPY, number, partial(load.decode_entropy, number), size))
        jobs.append(Job(numbers.DECODE, number, partial(_decode, load.held, number), size))

        def render(number: int = number) -> int:
            load.render(number)
            return count

        jobs.append(_job(numbers.RENDER, number, render, size))
    return jobs


def _job(name: str, threads: int, work: Callable[[], int], size: float) -> Job:
    return Job(name, threads, partial(repeat, work), size)


def _decode(held: Held, threads: int, seconds: float) -> Window:
    with ThreadPoolExecutor(threads) as pool:
        return repeat(lambda: len(list(pool.map(decode_jpeg, held.images))), seconds)


def python_job(load: Workload) -> Job | None:
    """The user's Python, an image after the other in one process; None if there is none."""
    pipeline = load.pipeline
    if not pipeline.steps:
        return None
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
    return Job(numbers.PYTHON, 1, partial(repeat, transform), pixels[0].nbytes, note)


def collate_job(load: Workload) -> Job:
    """Putting images of their own into one batch: what Headrace saves by rendering in place."""
    pixels = load.render(1)
    images, out = [image.copy() for image in pixels], np.empty_like(pixels)

    def collate() -> int:
        np.stack(images, out=out)
        return len(images)

    note = "not part of the pipeline: images are rendered in place"
    return Job(numbers.COLLATE, 1, partial(repeat, collate), pixels[0].nbytes, note)


def copy_job(load: Workload) -> Job | str:
    """Copying batches to the accelerator from pinned memory; or why that is not measured."""
    if not Path("/dev/nvidiactl").exists():  # asked first: torch costs 200 MB and a second
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

    return Job(numbers.COPY, 1, partial(repeat, copy), batch[0].nbytes)


def measure_kinds(load: Workload, rounds: int = 3) -> tuple[float, float]:
    """CPU milliseconds to render an image on the native path and one on the slow path; 0 if none is there."""
    kinds = [read_header(image).kind for image in load.held.images]
    native = [i for i, kind in enumerate(kinds) if kind in numbers.NATIVE_KINDS]
    slow = [i for i, kind in enumerate(kinds) if kind not in numbers.NATIVE_KINDS]
    return _time_render(load, native, rounds), _time_render(load, slow, rounds)


def _time_render(load: Workload, chosen: list[int], rounds: int) -> float:
    if not chosen:
        return 0.0
    times = []
    for _ in range(rounds):
        before = time.process_time()
        load.render(1, chosen)
        times.append(time.process_time() - before)
    return min(times) * 1e3 / len(chosen)
