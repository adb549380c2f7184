"""Iterates over an epoch: reading and rendering run ahead in threads, batches come out in order."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from headrace.plan import EpochPlan
from headrace.read.run_reader import RunReader
from headrace.serve.batch import Batch
from headrace.serve.python_workers import Workers
from headrace.serve.renderer import Begun, Prepared, Renderer
from headrace.serve.steps_in_flight import FEWEST
from headrace.work.bounded_queue import BoundedQueue, run_ahead
from headrace.work.delay_interrupts import started
from headrace.work.worker_threads import start_thread

# Samples that are drawn at once: for a single batch of 256, half of the time goes into calling NumPy.
_DRAWN_TOGETHER = 1024


def iterate(
    start: Callable[[], Production], finish: Callable[[Batch], Batch] | None = None
) -> Generator[Batch, None, None]:
    """Yield the batches of a production, which is started with the first one.

    `finish` is called on each batch in the calling thread. Closing the generator ends its threads and
    processes; the garbage collector may close it, in any thread.
    """
    owner = os.getpid()
    with started(start) as production:
        last = time.perf_counter()
        while True:
            if os.getpid() != owner:
                raise RuntimeError(
                    "this iterator belongs to the parent process; call iter(loader) in this process"
                )
            before = time.perf_counter()
            batch = production.ready.get()
            if batch is not None and finish is not None:
                batch = finish(batch)
            now = time.perf_counter()
            production.counters.wait_seconds += now - before
            production.counters.seconds += now - last
            last = now
            if batch is None:
                break
            production.counters.count_batch(batch, production.pictures)
            yield batch
            del batch
    if not production.finished:
        if not threading.main_thread().is_alive():
            raise SystemExit  # the interpreter exits, and daemon threads end silently
        raise RuntimeError("the loader was closed while this iterator was in use")


class Production:
    """The threads that render, read ahead and plan ahead, and the workers that get the batches."""

    def __init__(
        self,
        plan: EpochPlan,
        renderer: Renderer,
        workers: Workers | None,
        start: int,
        prefetch: int,
        finish: Callable[[Batch], Batch] | None = None,
    ) -> None:
        """Start the threads; `finish` is called on each batch in one of them."""
        self.ready: BoundedQueue[Batch] = BoundedQueue(prefetch)
        self.counters, self.pictures = renderer.counters, renderer.shape.pictures
        self.finished = False
        self._plan, self._renderer, self._first = plan, renderer, start
        self._in_flight, self._ahead = renderer.in_flight, prefetch + renderer.in_flight - FEWEST
        self._workers, self._owner, self._last = workers, os.getpid(), finish
        try:
            self._thread = start_thread("headrace-render", self._run)
        except BaseException:
            if workers is not None:
                workers.close()
            raise
        # Python does not wait for daemon threads at exit, and they must not outlive the interpreter.
        self._at_exit = weakref.finalize(self, _wait_for, self.ready, self._thread, self._owner)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread, and wait for it unless this is one of the threads that it may wait for."""
        if os.getpid() == self._owner:  # in a fork, the thread is not here
            self.ready.end()
            if self._workers is not None:
                self._workers.stop()
        if threading.current_thread().name.startswith("headrace-"):
            return
        _wait_for(self.ready, self._thread, self._owner)
        self._at_exit.detach()

    def _run(self) -> None:
        try:
            try:
                self.finished = self._produce()
            finally:
                if self._workers is not None:
                    self._workers.close()
        except BaseException as error:  # noqa: BLE001 - raised again in the training loop
            self.ready.end(error)
            return
        self.ready.end()

    def _produce(self) -> bool:
        """Make the batches; return whether all of them were made."""
        rendered = self._render()
        batches: Iterator[Batch] = rendered
        if self._workers is not None:
            batches = self._workers.run(rendered, self._first)
        if self._last is not None:
            batches = map(self._last, batches)
        with closing(rendered):
            last = self._first - 1
            for batch in batches:
                last = batch.step
                if not self.ready.put(batch):
                    return False
                del batch
        return last + 1 >= len(self._plan)

    def _render(self) -> Generator[Batch, None, None]:
        reader = self._open_reader()
        ahead = run_ahead(self._prepare(reader), "headrace-plan", self._in_flight + 1)
        # The reader is closed first, since preparing may wait for it.
        with reader, ahead as steps, closing(reader):
            in_flight: deque[Begun] = deque()
            try:
                while self._begin_next(steps, in_flight):
                    batch = self._finish(in_flight.popleft(), reader)
                    yield batch
                    del batch
            finally:
                in_flight.clear()  # which cancels their rendering

    def _finish(self, begun: Begun, reader: RunReader) -> Batch:
        batch = self._renderer.finish(begun)
        self.counters.render_seconds += begun.measure_seconds()
        new_bytes, new_seconds = reader.take_counts()
        self.counters.bytes_read += new_bytes
        self.counters.read_seconds += new_seconds
        reader.finish_step(batch.step)
        return batch

    def _begin_next(self, steps: BoundedQueue[Prepared], in_flight: deque[Begun]) -> bool:
        """Begin steps until enough are in flight, waiting only for the first; return False at the end."""
        while len(in_flight) < self._in_flight and (len(steps) or not in_flight):
            before = time.perf_counter()
            prepared = steps.get()
            self.counters.read_wait_seconds += time.perf_counter() - before
            if prepared is None:
                break
            in_flight.append(self._renderer.begin(prepared))
        return bool(in_flight)

    def _open_reader(self) -> RunReader:
        return RunReader(
            self._renderer.reading,
            arenas=self._renderer.memory.arenas,
            start=self._first,
            ahead=self._ahead,
        )

    def _prepare(self, reader: RunReader) -> Generator[Prepared, None, None]:
        """Yield what rendering needs for each step, made while earlier steps are rendered."""
        reading, total = self._renderer.reading, len(self._plan)
        together = max(1, _DRAWN_TOGETHER // self._plan.split.batch_size)
        for first in range(self._first, total, together):
            numbers = range(first, min(first + together, total))
            steps = [self._plan.step(number) for number in numbers]
            for number, step, drawn in zip(numbers, steps, self._renderer.draw(first, steps)):
                runs = reader.take(list(reading.count_units(number)))
                yield self._renderer.prepare(number, step, drawn, runs)


def _wait_for(ready: BoundedQueue[Batch], thread: threading.Thread, owner: int) -> None:
    """End the thread and wait for it, unless it is the current one or was left behind by a fork."""
    if os.getpid() != owner:
        return
    ready.end()
    if thread is not threading.current_thread():
        thread.join()
