"""Run the user's Python on rendered batches: ahead of need in worker processes, or in the training loop's thread.

Guaranteed: batches stay in order; at most one per worker and `prefetch` more are in flight; each is a function of
its samples and their seeds. A step that raises becomes a WorkerError with its traceback and the sample's key; a
worker that dies raises one at once; closing ends all workers, whatever they are doing.
"""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import Any

import numpy as np
from numpy import random as numpy_random

from headrace.errors import WorkerError
from headrace.plan import draw_seeds
from headrace.recipe.randomness import Randomness
from headrace.render import Output, render_batch
from headrace.serve.batch import Batch
from headrace.serve.python_batch import Done, PythonSteps, Raw
from headrace.serve.renderer import Renderer
from headrace.work.call_task import Failure, Task
from headrace.work.run_tasks import run_tasks
from headrace.work.stop import Stop, Stopped
from headrace.work.worker_processes import WorkerProcesses


@dataclass(frozen=True, eq=False)
class PythonPart:
    """Sends batches of a renderer to Python, and receives them."""

    steps: PythonSteps
    renderer: Renderer

    def send(self, batch: Batch) -> Raw:
        """Return what Python needs of a batch."""
        at = self.steps.image_at
        columns = (*batch[:at], None, *batch[at + 1 :])
        renderer, images = self.renderer, batch[at]
        randomness = Randomness(renderer.seed, renderer.epoch, batch.draws)
        parts = randomness.split(renderer.shape.clips)
        seeds = draw_seeds(parts.seed, parts.epoch, parts.ids)
        if lead := self.steps.lead:
            seeds = np.repeat(seeds, math.prod(lead) // renderer.shape.clips)
            if isinstance(images, np.ndarray):
                images = images.reshape(-1, *images.shape[1 + len(lead) :])
            else:
                images = [frame for frames in images for frame in frames]
        return Raw(images, columns, seeds)

    def receive(self, batch: Batch, done: Done | Failure) -> Batch:
        """Return the batch with what Python made of it; raise what went wrong there."""
        if isinstance(done, Failure):  # a worker failed, not one sample
            raise self._explain(batch, replace(done, position=None))
        if done.failure is not None:
            raise self._explain(batch, done.failure)
        batch.errors += tuple(
            self.renderer.bad_samples.report(int(batch.rows[place]), reason)
            for place, reason in done.bad
            if batch.valid[place] or self.steps.on_error == "raise"
        )
        if done.kept is not None:
            bad = np.isin(done.kept, [place for place, _ in done.bad])
            batch = batch.take(done.kept)
            batch.valid = batch.valid & ~bad
        if self.steps.collate_fn is not None:
            return batch.replace((done.values,))
        values = list(done.values)
        at, pipeline = self.steps.image_at, self.steps.pipeline
        if done.pictures and pipeline.output.dtype != "uint8":
            values[at] = self._convert(values[at], pipeline.output)
        elif not done.pictures and pipeline.normalizes and not pipeline.last:
            raise WorkerError("Normalize at the end needs RGB images of one size in bytes")
        batch.finished = not done.pictures
        return batch.replace(tuple(values))

    def run_inline(self, batch: Batch) -> Batch:
        """Return the batch after Python in the calling thread, whose own random state is kept."""
        with _random_state_kept():
            done = self.steps(self.send(batch))
        return self.receive(batch, done)

    def _convert(self, pictures: Any, output: Output) -> Any:
        """Run the last steps in the core."""
        *counts, height, width, _ = pictures.shape
        flat = pictures.reshape(-1, height, width, 3)
        size, boxes = (height, width), np.tile([0, 0, width, height], (len(flat), 1))
        out = self.renderer.memory.batches.take(output.shape(len(flat), size), output.element)
        threads = self.renderer.threads
        images, _ = render_batch(flat, boxes, size, output=output, out=out, threads=threads)
        return images.reshape(*counts, *images.shape[1:])

    def _explain(self, batch: Batch, failure: Failure) -> WorkerError:
        where = f"in step {batch.step} of epoch {batch.epoch}"
        if failure.position is not None:
            row = int(batch.rows[failure.position])
            where = f"on sample {self.renderer.table.name_row(row)!r} (row {row}, {where[3:]})"
        head, _, rest = failure.what.partition(":")
        error = replace(failure, what=f"{head} {where}:{rest}").make_error()
        error.position = None if failure.position is None else row
        return error


class Workers:
    """Processes that run the Python part of one iteration. Create it in the thread that iterates."""

    def __init__(self, part: PythonPart, count: int, start: str | None, prefetch: int) -> None:
        self._part = part
        self._stop = Stop()
        renderer = part.renderer
        task = Task(part.steps, "transform", renderer.seed, renderer.epoch, noun="step")
        try:
            self._pool = WorkerProcesses(task, count, start, self._stop)
        except BaseException:
            self._stop.close()
            raise
        self._ahead = count + prefetch

    def run(self, batches: Generator[Batch, None, None], start: int) -> Iterator[Batch]:
        """Yield the batches, from step `start` on, after Python. Ends when stopped; use it in one thread."""
        in_flight: deque[Batch] = deque()

        def send() -> Generator[Raw, None, None]:
            for batch in batches:
                raw = self._part.send(batch)
                in_flight.append(batch.replace(()))
                del batch
                yield raw

        with closing(batches):
            try:
                for done in run_tasks(
                    self._pool, send(), count_from(start), self._ahead, ordered=True
                ):
                    yield self._part.receive(in_flight.popleft(), done)
                    del done
            except Stopped:
                return

    def stop(self) -> None:
        """Make `run` end. Thread-safe."""
        self._stop.set()

    def close(self) -> None:
        """End the processes. Call it when no thread is in `run` any more."""
        self._pool.close()
        self._stop.close()


@contextmanager
def _random_state_kept() -> Iterator[None]:
    torch = sys.modules.get("torch")
    # Not np.random: it is imported at its first use, and that import swallows a Ctrl-C.
    python, numpy = random.getstate(), numpy_random.get_state()
    state = None if torch is None else torch.random.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        numpy_random.set_state(numpy)
        if torch is not None:
            torch.random.default_generator.set_state(state)
