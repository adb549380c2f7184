"""map: apply the user's function to each item, inline, on threads or in processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

from headrace.errors import WorkerError
from headrace.flow.stage import At, Items, Length, Opener, Stage, opened
from headrace.work.call_task import Failure, Task, name_of
from headrace.work.delay_interrupts import started
from headrace.work.run_tasks import run_tasks
from headrace.work.seeding import owns_process
from headrace.work.worker_processes import WorkerProcesses
from headrace.work.worker_threads import WorkerThreads

log = logging.getLogger("headrace")
OnError: TypeAlias = "str | Callable[[WorkerError], Any]"
_SKIP = object()


@dataclass(frozen=True)
class Map(Stage):
    """`fn(item)` for each item, inline or by `workers` threads or processes.

    Guaranteed with any number of workers: each item exactly once; in order if `ordered`; at most
    `buffer` items between input and consumer; an error arrives as WorkerError with the item's
    position and the worker's traceback, in its turn if `ordered`, at once if not; a dead worker is
    an error at once. The input is read in the consumer's thread.
    """

    fn: Callable[[Any], Any]
    workers: int
    kind: str
    ordered: bool
    buffer: int
    on_error: OnError
    seed: int
    start: str | None
    draws = True

    @property
    def seeks(self) -> bool:  # type: ignore[override]
        """False if errors are skipped: an output's position then depends on the items before it."""
        return self.on_error != "skip"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as items:
            for result in self._run(items, at):
                if isinstance(result, Failure):
                    result = self._handle(result)
                    if result is _SKIP:
                        continue
                yield result

    def _run(self, items: Items, at: At) -> Iterator[Any]:
        task = Task(self.fn, self.name, self.seed, at.epoch, at.stream)
        positions = count(at.start, at.step)
        if not self.workers:
            task = replace(task, seeds_globals=owns_process())
            for position, item in zip(positions, items):
                yield task.call(position, item, "in the consumer")
        elif self.kind == "threads":
            with started(lambda: WorkerThreads(task, self.workers)) as threads:
                yield from run_tasks(threads, items, positions, self.buffer, self.ordered)
        else:
            with started(lambda: WorkerProcesses(task, self.workers, self.start)) as processes:
                yield from run_tasks(processes, items, positions, self.buffer, self.ordered)

    def _handle(self, failure: Failure) -> Any:
        if callable(self.on_error):
            return self.on_error(failure.make_error())
        if self.on_error == "raise":
            raise failure.make_error()
        log.warning("skipped: %s", failure.what)
        return _SKIP

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None if self.on_error == "skip" else lengths[0]

    @property
    def name(self) -> str:
        return f"map({name_of(self.fn)})"

    @property
    def place(self) -> str:  # type: ignore[override]
        return f"{self.workers} {self.kind}" if self.workers else "consumer"

    @property
    def order(self) -> str:
        return "kept" if self.ordered else "as they finish"

    @property
    def exactness(self) -> str:
        return "each once, failed ones skipped" if self.on_error == "skip" else "each once"

    @property
    def unrepeatable(self) -> str | None:
        return None if self.ordered else "its order depends on which worker is first"
