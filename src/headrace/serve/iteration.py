"""One pass over an epoch: reading and rendering run ahead in threads, batches come out in order."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from headrace.plan import EpochPlan, schedule_runs
from headrace.read.run_reader import RunReader
from headrace.run.interrupts import started
from headrace.run.threads import start_thread
from headrace.serve.batch import Batch
from headrace.serve.handoff import Handoff, run_ahead
from headrace.serve.python_stage import Workers
from headrace.serve.renderer import Begun, Prepared, Renderer

# Samples that are drawn at once: for a batch of 256 alone, half of the time goes into calling NumPy.
_DRAWN_TOGETHER = 1024

# Steps that are rendered at one time: with the next one begun, no thread pauses at the end of a batch.
_UNDER_WAY = 2


def iterate(
    start: Callable[[], Production], finish: Callable[[Batch], Batch] | None = None
) -> Generator[Batch, None, None]:
    """The batches of a production that is started with the first of them, after `finish` in the calling thread.

    Closing the generator ends its threads and processes. It may be closed by the garbage collector, in any
    thread.
    """
    owner = os.getpid()
    with started(start) as production:
        last = time.perf_counter()
        while True:
            if os.getpid() != owner:
                raise RuntimeError(
                    "this iterator belongs to the parent process: call iter(loader) anew"
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
            production.counters.count_batch(batch)
            yield batch
            del batch
    if not production.finished:
        if not threading.main_thread().is_alive():
            raise SystemExit  # the interpreter ends: so does a daemon thread, without a word
        raise RuntimeError("the loader was closed while this iterator was in use")


class Production:
    """The thread that renders, those that read and plan ahead of it, and the workers that it feeds."""

    def __init__(
        self,
        plan: EpochPlan,
        renderer: Renderer,
        workers: Workers | None,
        start: int,
        prefetch: int,
    ) -> None:
        self.ready: Handoff[Batch] = Handoff(prefetch)
        self.counters = renderer.counters
        self.finished = False
        self._plan, self._renderer, self._first = plan, renderer, start
        self._ahead, self._workers, self._owner = prefetch, workers, os.getpid()
        try:
            self._thread = start_thread("headrace-render", self._run)
        except BaseException:
            if workers is not None:
                workers.close()
            raise
        # Daemon threads are not waited for at exit, and must not run into the end of the interpreter.
        self._at_exit = weakref.finalize(self, _wait_for, self.ready, self._thread, self._owner)

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _signal_end(self) -> None:
        if os.getpid() != self._owner:
            return  # a fork: the thread is not here, and its lock may be held for ever
        self.ready.end()
        if self._workers is not None:
            self._workers.stop()

    def close(self) -> None:
        """Ends the thread and waits for it, unless this is one of the threads that it may wait for."""
        self._signal_end()
        if threading.current_thread().name.startswith("headrace-"):
            return
        _wait_for(self.ready, self._thread, self._owner)
        self._at_exit.detach()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self.finished = self._produce()
        except BaseException as raised:  # noqa: BLE001 - it is raised again in the training loop
            error = raised
        if self._workers is not None:
            self._workers.close()
        self.ready.end(error)

    def _produce(self) -> bool:
        """Whether all batches were made."""
        rendered = self._render()
        batches: Iterator[Batch] = rendered
        if self._workers is not None:
            batches = self._workers.run(rendered, self._first)
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
        ahead = run_ahead(self._prepare(reader), "headrace-plan", _UNDER_WAY)
        # The reader is closed first, since preparing may wait for it.
        with reader, ahead as steps, closing(reader):
            under_way: deque[Begun] = deque()
            try:
                while self._begin_next(steps, under_way):
                    batch = self._finish(under_way.popleft(), reader)
                    yield batch
                    del batch
            finally:
                under_way.clear()  # which ends the rendering of what nobody waits for

    def _finish(self, begun: Begun, reader: RunReader) -> Batch:
        batch = self._renderer.finish(begun)
        if begun.rendering is not None:
            self.counters.render_seconds += begun.rendering.seconds
        self.counters.bytes_read += reader.count_new_bytes()
        self.counters.read_seconds += reader.count_new_seconds()
        reader.finish_step(batch.step)
        return batch

    def _begin_next(self, steps: Handoff[Prepared], under_way: deque[Begun]) -> bool:
        """Begins steps until enough are under way; False if none is left. Waits only if none is under way."""
        while len(under_way) < _UNDER_WAY and (len(steps) or not under_way):
            before = time.perf_counter()
            prepared = steps.get()
            self.counters.read_wait_seconds += time.perf_counter() - before
            if prepared is None:
                break
            under_way.append(self._renderer.begin(prepared))
        return bool(under_way)

    def _open_reader(self) -> RunReader:
        layout = self._renderer.layout
        return RunReader(
            schedule_runs(self._plan),
            layout.read_run,
            layout.sizes,
            arenas=self._renderer.memory.arenas,
            start=self._first,
            ahead=self._ahead,
        )

    def _prepare(self, reader: RunReader) -> Iterator[Prepared]:
        """What rendering needs of each step, made while those before it are rendered."""
        layout, total = self._renderer.layout, len(self._plan)
        together = max(1, _DRAWN_TOGETHER // self._plan.split.batch_size)
        for first in range(self._first, total, together):
            numbers = range(first, min(first + together, total))
            steps = [self._plan.step(number) for number in numbers]
            for number, step, drawn in zip(numbers, steps, self._renderer.draw(steps)):
                runs = reader.take(sorted(set(layout.runs_of(step.rows).tolist())))
                yield self._renderer.prepare(number, step, drawn, runs)


def _wait_for(ready: Handoff[Batch], thread: threading.Thread, owner: int) -> None:
    """Ends the thread, and waits for it unless that is the one we are in or it is not here."""
    if os.getpid() != owner:
        return
    ready.end()
    if thread is not threading.current_thread():
        thread.join()
