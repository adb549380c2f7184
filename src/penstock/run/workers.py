"""N worker processes: numbered tasks in, numbered results out.

Guaranteed: every task gives exactly one result, its value or its Failure; a worker that dies is a
WorkerError at once, naming the items that it had; nothing is left behind after close, whatever
happened; arrays cross in shared memory (see `port`). The pool belongs to one thread at a time.

    with closing(WorkerProcesses(task, count=4)) as pool:
        pool.submit(0, position, item)
        number, result = pool.take()

Each worker seeds `random`, `numpy.random` and torch per item from the task's seed and epoch.
"""

from __future__ import annotations

import select
from collections import deque
from dataclasses import replace
from typing import Any

from penstock.errors import WorkerError
from penstock.run.child import Child, check_crosses
from penstock.run.port import Port
from penstock.run.stop import Stop, Stopped
from penstock.run.task import Failure, Task


class WorkerProcesses:
    """A pool of processes that all call one task. `take` waits on sockets and deaths, never polls.

    Setting `stop`, from any thread, makes whoever waits here leave with Stopped.
    """

    def __init__(
        self, task: Task, count: int, start: str | None = None, stop: Stop | None = None
    ) -> None:
        check_crosses(task.fn, task.name, start)
        task = replace(task, seeds_globals=True)
        self._name = task.name
        self._ready: deque[tuple[int, Any]] = deque()
        self._poll = select.poll()
        self._stop_fd = -1 if stop is None else stop.fd
        if stop is not None:
            self._poll.register(stop.fd, select.POLLIN)
        self._workers: list[Child] = []
        self._of_fd: dict[int, Child] = {}
        self._tasks: dict[Child, dict[int, int]] = {}  # number: position, of what each has in hand
        try:
            for index in range(count):
                self._add(Child(f"worker {index}", _work, (task, f"in worker {index}"), start))
        except BaseException:
            self.close()
            raise

    def _add(self, worker: Child) -> None:
        self._workers.append(worker)
        self._tasks[worker] = {}
        for fd in (worker.port.connection.fileno(), worker.death_fd):
            self._of_fd[fd] = worker
            self._poll.register(fd, select.POLLIN)

    def submit(self, number: int, position: int, item: Any) -> None:
        """Give a task to the worker with the least to do."""
        worker = min(self._workers, key=self._load)
        try:
            message = worker.port.pack(number, (position, item))
        except Exception as error:
            raise TypeError(f"item {position} cannot be sent to a worker: {error}") from error
        self._tasks[worker][number] = position
        worker.busy = True
        # Never wait to send: the worker may be waiting for us to read its results.
        while not self._try_send(worker, message):
            self._receive()

    def take(self) -> tuple[int, Any]:
        """The number and the result of some finished task. Waits for one."""
        while not self._ready:
            self._receive()
        return self._ready.popleft()

    def close(self) -> None:
        """End all workers; those in the middle of work are not waited for."""
        for worker in self._workers:
            worker.port.close()
        for worker in self._workers:
            worker.close()

    def _try_send(self, worker: Child, message: bytes) -> bool:
        try:
            return worker.port.try_send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._make_death(worker) from None

    def _load(self, worker: Child) -> int:
        return len(self._tasks[worker])

    def _receive(self) -> None:
        """Wait until something is there and take it all in."""
        events = self._poll.poll()
        if any(fd == self._stop_fd for fd, _ in events):
            raise Stopped
        for fd, _ in events:
            worker = self._of_fd[fd]
            message = None if fd == worker.death_fd else worker.port.receive()
            if message is None:
                raise self._make_death(worker)
            del self._tasks[worker][message[0]]
            worker.busy = bool(self._tasks[worker])
            self._ready.append(message)

    def _make_death(self, worker: Child) -> WorkerError:
        items = sorted(self._tasks[worker].values())
        shown = ", ".join(map(str, items[:8])) + (", …" if len(items) > 8 else "")
        of = f" with items {shown} of {self._name} in hand" if items else f" of {self._name}, idle"
        error = WorkerError(worker.describe_death() + of)
        error.position = items[0] if items else None
        return error


def _work(port: Port, task: Task, where: str) -> None:
    """The loop of a worker: until the consumer closes."""
    while (message := port.receive()) is not None:
        number, (position, item) = message
        result = task.call(position, item, where)
        try:
            port.send(number, result)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever pickling it raises
            what = f"the result of {task.name} on item {position} cannot leave its process"
            port.send(number, _explain(error, what, task, position, where))
        del message, item, result  # gives their shared memory back


def _explain(error: Exception, what: str, task: Task, position: int, where: str) -> Failure:
    return replace(task.fail(error, position, where), what=f"{what}: {error}")
