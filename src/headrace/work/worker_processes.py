"""Worker processes: numbered tasks in, numbered results out.

Guaranteed: every task gives exactly one result, its value or its Failure; a worker that dies is a
WorkerError at once, naming its items; one that hangs or is stopped is reported (see `stall_report`); nothing
is left behind after close, whatever happened; arrays are sent in shared memory (see `channel`). The
pool belongs to one thread at a time.

    with closing(WorkerProcesses(task, count=4)) as pool:
        pool.submit(0, position, item)
        number, result = pool.take()

Each worker seeds `random`, `numpy.random` and torch per item from the task's seed and epoch.
"""

from __future__ import annotations

import os
import select
from collections import deque
from dataclasses import replace
from typing import Any

from headrace.errors import WorkerError
from headrace.work.call_task import Task
from headrace.work.channel import Arrived, Channel
from headrace.work.child_process import Child, check_crosses
from headrace.work.stall_report import StallWatch
from headrace.work.stop import Stop, Stopped

GROUP = 16  # tasks that are sent at once to a worker that is busy


class WorkerProcesses:
    """A pool of processes that all call one task. Setting `stop`, from any thread, makes `take` raise Stopped."""

    def __init__(
        self, task: Task, count: int, start: str | None = None, stop: Stop | None = None
    ) -> None:
        check_crosses(task.fn, task.name, start)
        task = replace(task, seeds_globals=True)
        self._name, self._noun = task.name, task.noun
        self._owner = os.getpid()
        self._ready: deque[tuple[Child, Arrived]] = deque()
        self._poll = select.poll()
        self._stop_fd = -1 if stop is None else stop.fd
        if stop is not None:
            self._poll.register(stop.fd, select.POLLIN)
        self._workers: list[Child] = []
        self._of_fd: dict[int, Child] = {}
        self._tasks: dict[Child, dict[int, int]] = {}  # number: position, of what each has in hand
        self._held: dict[Child, int] = {}  # tasks of each that are posted and not sent yet
        self._waiting: set[Child] = set()  # whose socket was full
        self._watch = StallWatch(self._describe_work)
        try:
            for index in range(count):
                self._add(Child(f"worker {index}", _work, (task, f"in worker {index}"), start))
        except BaseException:
            self.close()
            raise

    def _add(self, worker: Child) -> None:
        self._workers.append(worker)
        self._tasks[worker] = {}
        for fd in (worker.channel.connection.fileno(), worker.death_fd):
            self._of_fd[fd] = worker
            self._poll.register(fd, select.POLLIN)

    def submit(self, number: int, position: int, item: Any) -> None:
        """Give a task to the worker with the least to do. Never waits.

        One that has plenty to do gets its next tasks in groups, at the latest when results are taken.
        """
        worker = min(self._workers, key=self._load)
        try:
            message = worker.channel.pack((number, position), item)
        except MemoryError:
            raise
        except Exception as error:
            # An OSError comes from the shared memory: the machine lacks it.
            kind = WorkerError if isinstance(error, OSError) else TypeError
            raise kind(f"item {position} cannot be sent to a worker: {error}") from error
        self._tasks[worker][number] = position
        worker.busy = True
        worker.channel.post(message)
        held = self._held[worker] = self._held.get(worker, 0) + 1
        if held >= min(GROUP, self._load(worker) - held):
            self._flush(worker)

    def take(self) -> tuple[int, Any]:
        """Wait for a finished task; return its number and its result."""
        for worker in list(self._held):
            self._flush(worker)
        while not self._ready:
            self._receive()
        worker, message = self._ready.popleft()
        return worker.channel.open(message)

    def close(self) -> None:
        """End all workers; those in the middle of work are not waited for.

        Nothing happens in a process that was forked meanwhile: the workers are its parent's.
        """
        if os.getpid() != self._owner:
            return
        for worker in self._workers:
            worker.channel.close()
        for worker in self._workers:
            worker.close()

    def _flush(self, worker: Child) -> None:
        # The rest is sent when the socket has room: the worker may be waiting for us to read.
        self._held.pop(worker, None)
        self._watch.start(worker)
        try:
            gone = worker.channel.flush()
        except (BrokenPipeError, ConnectionResetError):
            raise self._make_death(worker) from None
        wanted = select.POLLIN if gone else select.POLLIN | select.POLLOUT
        if (worker in self._waiting) == gone:
            self._waiting ^= {worker}
            self._poll.modify(worker.channel.connection.fileno(), wanted)

    def _load(self, worker: Child) -> int:
        return len(self._tasks[worker])

    def _receive(self) -> None:
        """Wait for results and receive all that have arrived."""
        events = self._poll.poll(self._watch.get_timeout())
        if not events:
            self._watch.report()
        for fd, event in events:
            if fd == self._stop_fd:
                raise Stopped
            worker = self._of_fd[fd]
            if event == select.POLLOUT:
                self._flush(worker)
                continue
            arrived = None if fd == worker.death_fd else worker.channel.drain()
            if arrived is None:
                raise self._make_death(worker)
            tasks = self._tasks[worker]
            for message in arrived:
                del tasks[message[0]]
                self._ready.append((worker, message))
            worker.busy = bool(tasks)
            (self._watch.start if tasks else self._watch.rest)(worker)

    def _make_death(self, worker: Child) -> WorkerError:
        error = WorkerError(worker.describe_death() + self._describe_work(worker))
        error.position = min(self._tasks[worker].values(), default=None)
        return error

    def _describe_work(self, worker: Child) -> str:
        items = sorted(self._tasks[worker].values())
        if not items:
            return f" of {self._name}, idle"
        shown = ", ".join(map(str, items[:8])) + (", …" if len(items) > 8 else "")
        return f" with {self._noun}s {shown} of {self._name} in hand"


def _work(channel: Channel, task: Task, where: str) -> None:
    """Call the task on items until the consumer closes."""
    while (message := channel.receive()) is not None:
        (number, position), item = message
        result = task.call(position, item, where)
        try:
            channel.send(number, result)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever pickling it raises
            what = f"the result of {task.name} on item {position} cannot leave its process"
            failure = task.fail(error, position, where)
            channel.send(number, replace(failure, what=f"{what}: {error}"))
        del message, item, result  # gives their shared memory back
