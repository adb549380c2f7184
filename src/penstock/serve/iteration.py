"""One pass over an epoch: reading and rendering run ahead in threads, batches come out in order."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from penstock.plan import EpochPlan, schedule_runs
from penstock.read.run_reader import RunReader
from penstock.serve.batch import Batch
from penstock.serve.handoff import Handoff
from penstock.serve.python_stage import Workers
from penstock.serve.renderer import Renderer


def iterate(
    plan: EpochPlan,
    renderer: Renderer,
    *,
    start: int,
    prefetch: int,
    make_workers: Callable[[], Workers] | None = None,
) -> Generator[Batch, None, None]:
    """The batches of an epoch from step `start`, after the Python of `make_workers` if there is any.

    Closing the generator ends all threads and processes.
    """
    owner = os.getpid()
    counters = renderer.counters
    workers = None if make_workers is None else make_workers()
    with _Production(plan, renderer, workers, start, prefetch) as production:
        last = time.perf_counter()
        while True:
            if os.getpid() != owner:
                raise RuntimeError(
                    "this iterator belongs to the parent process: call iter(loader) anew"
                )
            before = time.perf_counter()
            batch = production.ready.get()
            now = time.perf_counter()
            counters.wait_seconds += now - before
            counters.seconds += now - last
            counters.queued = len(production.ready)
            last = now
            if batch is None:
                return
            counters.batches += 1
            counters.images += int(batch.valid.sum())
            yield batch


class _Production:
    """The thread that renders, and the reader that it draws on."""

    def __init__(
        self,
        plan: EpochPlan,
        renderer: Renderer,
        workers: Workers | None,
        start: int,
        prefetch: int,
    ) -> None:
        self.ready: Handoff[Batch] = Handoff(prefetch)
        self._plan, self._renderer, self._start = plan, renderer, start
        self._ahead, self._workers = prefetch, workers
        self._thread = threading.Thread(target=self._run, name="penstock-render", daemon=True)
        # Daemon threads are not waited for at exit, and must not run into the end of the interpreter.
        self._at_exit = weakref.finalize(
            self, _stop, self.ready, self._thread, workers, os.getpid()
        )

    def __enter__(self) -> _Production:  # noqa: PYI034
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._at_exit()

    def _run(self) -> None:
        try:
            self._produce()
            self.ready.end()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the training loop
            self.ready.end(error)

    def _produce(self) -> None:
        rendered = self._render()
        batches: Iterator[Batch] = rendered
        if self._workers is not None:
            batches = self._workers.run(rendered, self._start)
        with closing(rendered):
            for batch in batches:
                if not self.ready.put(batch):
                    return
                del batch

    def _render(self) -> Generator[Batch, None, None]:
        layout, counters = self._renderer.layout, self._renderer.counters
        schedule = schedule_runs(self._plan)
        with RunReader(
            schedule,
            layout.read_run,
            layout.sizes,
            arenas=self._renderer.memory.arenas,
            start=self._start,
            ahead=self._ahead,
        ) as reader:
            for number in range(self._start, len(self._plan)):
                step = self._plan.step(number)
                before = time.perf_counter()
                runs = reader.take(sorted(set(layout.runs_of(step.rows).tolist())))
                between = time.perf_counter()
                batch = self._renderer.render(number, step, runs)
                counters.read_wait_seconds += between - before
                counters.render_seconds += time.perf_counter() - between
                counters.bytes_read = reader.bytes_read
                del runs
                reader.finish_step(number)
                yield batch
                del batch


def _stop(
    ready: Handoff[Batch], thread: threading.Thread, workers: Workers | None, owner: int
) -> None:
    if os.getpid() != owner:
        return  # a fork: the thread is not here, and its lock may be held for ever
    ready.end()
    if workers is not None:
        workers.stop()
    if thread.ident is not None and thread is not threading.current_thread():
        thread.join()
    if workers is not None:
        workers.close()
