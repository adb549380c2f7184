"""The user's Python over rendered batches: in worker processes ahead of need, or in the training loop's thread.

Guaranteed: batches stay in order, at most `prefetch` more than there are workers are under way, and each is
what its samples and their seeds make of it. A step that raises is a WorkerError with its traceback and the
sample's key; a worker that dies is one at once; closing ends all workers, whatever they are doing.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import random as numpy_random

from headrace.errors import WorkerError
from headrace.plan import draw_seeds
from headrace.render import Output, render_batch
from headrace.run.map import drive
from headrace.run.stage import At
from headrace.run.stop import Stop, Stopped
from headrace.run.task import Failure, Task
from headrace.run.workers import WorkerProcesses
from headrace.serve.batch import Batch
from headrace.serve.python_steps import Done, PythonSteps, Raw
from headrace.serve.renderer import Renderer


@dataclass(frozen=True, eq=False)
class PythonPart:
    """How batches of a renderer go into Python, and come back."""

    steps: PythonSteps
    output: Output
    normalizes: bool
    renderer: Renderer

    def send(self, batch: Batch) -> Raw:
        """What Python needs of a batch."""
        at = self.steps.image_at
        columns = (*batch[:at], None, *batch[at + 1 :])
        seeds = draw_seeds(self.renderer.seed, self.renderer.epoch, batch.draws)
        return Raw(batch[at], columns, seeds)

    def receive(self, batch: Batch, done: Done | Failure) -> Batch:
        """The batch with what Python made of it; raises what went wrong there."""
        if isinstance(done, Failure):  # of a worker, not of one sample
            raise self._explain(batch, replace(done, position=None))
        if done.failure is not None:
            raise self._explain(batch, done.failure)
        batch.errors += tuple(
            self.renderer.report(int(batch.rows[place]), reason)
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
        at = self.steps.image_at
        if done.pictures and self.output.dtype != "uint8":
            values[at] = self._convert(values[at])
        elif not done.pictures and self.normalizes and not self.steps.last:
            raise WorkerError("Normalize at the end needs RGB images of one size in bytes")
        batch.finished = not done.pictures
        return batch.replace(tuple(values))

    def run_inline(self, batch: Batch) -> Batch:
        """The batch after Python in the calling thread, whose own randomness is left as it was."""
        with _randomness_kept():
            done = self.steps(self.send(batch))
        return self.receive(batch, done)

    def _convert(self, pictures: Any) -> Any:
        """The last steps, in the core."""
        count, height, width = pictures.shape[:3]
        boxes = np.tile([0, 0, width, height], (count, 1))
        shape = self.output.shape(count, (height, width))
        out = self.renderer.memory.batches.take(shape, self.output.element)
        options: dict[str, Any] = {"output": self.output, "threads": self.renderer.threads}
        return render_batch(list(pictures), boxes, (height, width), out=out, **options)[0]

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
    """Processes that run the Python part of one iteration. Made in the thread that iterates."""

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
        """The batches, from step `start` on, after Python. In any one thread; ends when stopped."""
        under_way: deque[Batch] = deque()

        def send() -> Generator[Raw, None, None]:
            for batch in batches:
                raw = self._part.send(batch)
                under_way.append(batch.replace(()))
                del batch
                yield raw

        with closing(batches):
            try:
                for done in drive(self._pool, send(), At(start=start), self._ahead, ordered=True):
                    yield self._part.receive(under_way.popleft(), done)
                    del done
            except Stopped:
                return

    def stop(self) -> None:
        """Makes `run` end, from any thread."""
        self._stop.set()

    def close(self) -> None:
        """Ends the processes, when no thread is in `run` any more."""
        self._pool.close()
        self._stop.close()


@contextmanager
def _randomness_kept() -> Iterator[None]:
    torch = sys.modules.get("torch")
    # Not np.random, which is imported at its first use and swallows a Ctrl-C that comes then.
    python, numpy = random.getstate(), numpy_random.get_state()
    state = None if torch is None else torch.random.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        numpy_random.set_state(numpy)
        if torch is not None:
            torch.random.default_generator.set_state(state)
