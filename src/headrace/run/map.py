"""map: the user's function on each item, inline, on threads or in processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from headrace.errors import WorkerError
from headrace.run.interrupts import started
from headrace.run.seeding import owns_process
from headrace.run.stage import At, Items, Length, Opener, Stage, name_of, opened
from headrace.run.task import Failure, Task
from headrace.run.threads import WorkerThreads
from headrace.run.workers import WorkerProcesses

log = logging.getLogger("headrace")
OnError: TypeAlias = "str | Callable[[WorkerError], Any]"
_SKIP = object()


class Pool(Protocol):
    """What `drive` needs of workers, threads or processes alike."""

    def submit(self, number: int, position: int, item: Any) -> None: ...
    def take(self) -> tuple[int, Any]: ...


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
        """With errors skipped, which output an input becomes depends on those before it."""
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
        if not self.workers:
            task = replace(task, seeds_globals=owns_process())
            for number, item in enumerate(items):
                yield task.call(at.start + number * at.step, item, "in the consumer")
        elif self.kind == "threads":
            with started(lambda: WorkerThreads(task, self.workers)) as threads:
                yield from drive(threads, items, at, self.buffer, self.ordered)
        else:
            with started(lambda: WorkerProcesses(task, self.workers, self.start)) as processes:
                yield from drive(processes, items, at, self.buffer, self.ordered)

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


def drive(pool: Pool, items: Items, at: At, buffer: int, ordered: bool) -> Iterator[Any]:
    """Keep the pool busy with up to `buffer` tasks; results in the order of the items if asked.

    The pool is refilled when half of its tasks are done, not one by one: workers and consumer
    wake each other less often, which is most of what a small item costs.
    """
    finished: dict[int, Any] = {}
    failed: list[Exception] = []
    submitted = given = 0

    def take() -> Any:
        while ordered and given not in finished:
            number, result = pool.take()
            finished[number] = result
        return finished.pop(given) if ordered else pool.take()[1]

    tasks = _submit_each(pool, items, at)
    for submitted in _until_error(tasks, failed) if ordered else tasks:
        if submitted - given >= buffer:
            while submitted - given > buffer // 2:
                yield take()
                given += 1
    while given < submitted:
        yield take()
        given += 1
    if failed:
        raise failed.pop()


def _submit_each(pool: Pool, items: Items, at: At) -> Iterator[int]:
    """Submit the items one by one; how many they are by now."""
    for number, item in enumerate(items):
        pool.submit(number, at.start + number * at.step, item)
        yield number + 1


def _until_error(tasks: Iterator[int], failed: list[Exception]) -> Iterator[int]:
    """The tasks up to an error of their input, which waits in `failed` for its turn."""
    try:
        yield from tasks
    except Exception as error:  # noqa: BLE001 - raised after the results that come before it
        failed.append(error)
