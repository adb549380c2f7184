"""Run the user's Python on rendered batches: ahead of need in worker processes, or in the training loop's thread.

Guaranteed: batches stay in order; at most one per worker and `prefetch` more are in flight; each is a function of
its samples and their seeds. A step that raises becomes a WorkerError with its traceback and the sample's key; a
worker that dies raises one at once; closing ends all workers, whatever they are doing.
"""

from __future__ import annotations

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
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.randomness import Randomness
from headrace.render import Output, render_batch
from headrace.serve.batch import Batch
from headrace.serve.python_batch import Done, Pictures, PythonSteps, Raw
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
        steps, renderer = self.steps, self.renderer
        randomness = Randomness(renderer.seed, renderer.epoch, batch.draws)
        parts, each = randomness.split(renderer.shape.clips), renderer.shape.pictures
        seeds = [
            np.repeat(parts.of_view(view).seeds(), each // renderer.shape.clips)
            for view in range(len(steps.pipelines))
        ]
        columns = dict(zip(steps.fields, batch))
        moved = {name: columns[name] for name in steps.moved}
        columns |= dict.fromkeys((*steps.moved, *steps.kept_behind), None)
        values = [
            {name: self._take_view(value, view) for name, value in moved.items()}
            for view in range(len(steps.pipelines))
        ]
        return Raw(values, tuple(columns.values()), seeds)

    def _take_view(self, value: Any, view: int) -> Any:
        """Return the values of one view, with the frames of all clips next to each other."""
        if self.renderer.views and len(self.renderer.pictures[0].recipes) > 1:
            value = value[view]
        elif self.renderer.views:
            value = value[0]  # encoded images are the same in all views
        if not (lead := self.steps.lead):
            return value
        if isinstance(value, np.ndarray):
            return value.reshape(-1, *value.shape[1 + len(lead) :])
        return [frame for frames in value for frame in frames]

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
        kept_behind = dict(zip(self.steps.fields, batch))
        values = dict(zip(self.steps.fields, done.values))
        values |= {name: kept_behind[name] for name in self.steps.kept_behind}
        if self.steps.moves_pixels:
            batch.finished = not any(self._has_pictures(values[n]) for n in self.steps.images)
            for name in self.steps.images:
                values[name] = self._finish_views(values[name])
        return batch.replace(tuple(values.values()))

    def _has_pictures(self, value: Any) -> bool:
        if isinstance(value, (tuple, list)):
            return any(map(self._has_pictures, value))
        return isinstance(value, Pictures)

    def _finish_views(self, value: Any) -> Any:
        """Run the last steps in the core, on each view with its own."""
        pipelines = self.steps.pipelines
        if self.renderer.views and isinstance(value, tuple):
            return tuple(map(self._finish_view, value, pipelines))
        return self._finish_view(value, pipelines[0])

    def _finish_view(self, value: Any, pipeline: Pipeline) -> Any:
        if isinstance(value, list) and self.steps.as_list:
            return [self._finish_view(item, pipeline) for item in value]
        if isinstance(value, Pictures):
            pixels = value.pixels
            return (
                pixels
                if pipeline.output.dtype == "uint8"
                else self._convert(pixels, pipeline.output)
            )
        if pipeline.normalizes and not pipeline.last:
            raise WorkerError("Normalize at the end needs RGB images of one size in bytes")
        return value

    def run_inline(self, batch: Batch) -> Batch:
        """Return the batch after Python in the calling thread, whose own random state is kept."""
        with _random_state_kept():
            done = self.steps(self.send(batch))
        return self.receive(batch, done)

    def _convert(self, pictures: Any, output: Output) -> Any:
        """Run the last steps in the core."""
        *counts, height, width, _ = pictures.shape
        pictures = np.ascontiguousarray(pictures)
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
        behind = self._part.steps.kept_behind

        def send() -> Generator[Raw, None, None]:
            for batch in batches:
                raw = self._part.send(batch)
                in_flight.append(batch.replace(()) if not behind else batch)
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
