"""Worker threads with the same contract as the worker processes: numbered tasks in, results out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from headrace.errors import WorkerError
from headrace.work.call_task import Task


def start_thread(name: str, main: Callable[..., None], *args: Any) -> threading.Thread:
    """Start a daemon thread that runs `main(*args)`; the interpreter does not wait for it at exit."""
    thread = threading.Thread(target=main, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise WorkerError(f"cannot start {name}: {error}") from error
    return thread


class WorkerThreads:
    """A pool of threads that all call one task.

    Guaranteed: every task gives exactly one result, its value or its Failure. Closing waits for the
    calls that are running, since a thread cannot be stopped, and drops the others.
    """

    def __init__(self, task: Task, count: int) -> None:
        self._task = task
        self._tasks: SimpleQueue[tuple[int, int, Any] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._closed = False
        self._threads: list[threading.Thread] = []
        try:
            for index in range(count):
                name = f"thread {index}"
                self._threads.append(start_thread(name, self._work, f"in {name}"))
        except BaseException:
            self.close()
            raise

    def submit(self, number: int, position: int, item: Any) -> None:
        """Queue a task for the next free thread."""
        self._tasks.put((number, position, item))

    def take(self) -> tuple[int, Any]:
        """Wait for a finished task; return its number and its result."""
        return self._results.get()

    def close(self) -> None:
        """End all threads."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _work(self, where: str) -> None:
        while (entry := self._tasks.get()) is not None and not self._closed:
            number, position, item = entry
            try:
                result = self._task.call(position, item, where)
            except BaseException as error:  # noqa: BLE001 - SystemExit ends the call, not the pool
                result = self._task.fail(error, position, where)
            self._results.put((number, result))
            del entry, item, result
