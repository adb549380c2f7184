"""Runs read ahead of their need, in the order of the plan, by a few threads into reused memory.

In: where samples lie, and the schedule of an epoch. Out: for each step, the runs that it needs.
Guaranteed: a run is read once, with one system call where it lies in one file; memory holds the runs
of the steps from the current one to `ahead` steps later and no others; an error of a reading thread
arrives at the step that needed the run.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.plan import RunSchedule
from headrace.read.layout import Allocate, Run

if TYPE_CHECKING:
    from typing_extensions import Self

ReadRun = Callable[[int, Allocate], Run]

# What a thread reads at one go, of runs of a file each: to wait and to wake costs more than to read one.
_CLAIMED_RUNS = 16
_CLAIMED_BYTES = 1 << 20
_PAGE = 4096


class Arenas:
    """Memory for runs, given back when a run is done with and used again for one of about its size.

    Memory that is free is let go before more is taken: what is held never exceeds 9/4 of the most that was
    wanted at one time, and a page for each run.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        room = _round_up(size)
        with self._lock:
            fits = [length for length in self._free if room <= length <= 2 * room]
            if fits:
                return self._pop(min(fits))
            let_go = 0
            while self._free and let_go < room:
                let_go += len(self._pop(next(iter(self._free))))
        return _allocate(room)

    def give(self, arena: NDArray[np.uint8]) -> None:
        with self._lock:
            self._free.setdefault(len(arena), []).append(arena)

    def _pop(self, length: int) -> NDArray[np.uint8]:
        arenas = self._free[length]
        arena = arenas.pop()
        if not arenas:
            del self._free[length]
        return arena


def _allocate(size: int) -> NDArray[np.uint8]:
    """Memory that begins in the middle of a page, unless it is small.

    Large arrays begin 16 bytes behind a page, and files lie in whole pages. To copy to 16 bytes further into a page than
    from takes three times as long: the CPU takes what it loads for what it has just stored.
    """
    if size < 16 * _PAGE:
        return np.empty(size, np.uint8)
    memory = np.empty(size + _PAGE, np.uint8)
    start = (_PAGE // 2 - memory.ctypes.data) % _PAGE
    return memory[start : start + size]


def _round_up(size: int) -> int:
    """To one of eight sizes between two powers of two, so that few sizes serve all runs."""
    unit = 1 << max(size.bit_length() - 4, 0)
    return max(-(-size // unit) * unit, 1)


class RunReader:
    """Serves the runs of an epoch, step by step. One consumer; a context manager that ends its threads."""

    def __init__(
        self,
        schedule: RunSchedule,
        read_run: ReadRun,
        sizes: NDArray[np.int64],
        *,
        arenas: Arenas | None = None,
        start: int = 0,
        ahead: int = 2,
        threads: int = 2,
    ) -> None:
        """`read_run(run, take)` reads a run of about `sizes[run]` bytes. Begins at step `start`.

        `arenas` may be those of readers before: memory that was touched once is quicker to fill.
        """
        wanted = schedule.last >= start
        self._runs = schedule.runs[wanted].tolist()
        self._first = schedule.first[wanted].tolist()
        self._last = dict(zip(self._runs, schedule.last[wanted].tolist(), strict=True))
        self._read_run, self._sizes, self._ahead = read_run, sizes, ahead
        self._arenas = arenas or Arenas()
        self._change = threading.Condition()
        self._step = start
        self._next = 0
        self._ready: dict[int, Run] = {}
        self._failed: dict[int, BaseException] = {}
        self._missing: set[int] = set()
        self._closed = False
        self._new_bytes = 0
        self._new_seconds = 0.0
        self._threads = [
            threading.Thread(target=self._work, name=f"headrace-read-{i}", daemon=True)
            for i in range(min(threads, max(len(self._runs), 1)))
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads. Again is fine."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()
        while self._ready:
            self._arenas.give(self._ready.popitem()[1].data)

    def take(self, runs: list[int]) -> dict[int, Run]:
        """The runs of a step that is not finished, as soon as they are there."""
        with self._change:
            self._missing = set(runs) - self._ready.keys() - self._failed.keys()
            while self._missing:
                if self._closed:
                    raise RuntimeError("the reader is closed")
                self._change.wait()
            for run in runs:
                if run in self._failed:
                    raise self._failed[run]
            return {run: self._ready[run] for run in runs}

    def finish_step(self, step: int) -> None:
        """Forgets what no later step needs, and goes on to the next step."""
        with self._change:
            done = [run for run in self._ready if self._last[run] <= step]
            for run in done:
                self._arenas.give(self._ready.pop(run).data)
            self._step = step + 1
            self._change.notify_all()

    def count_new_bytes(self) -> int:
        """Bytes read since this was last asked."""
        with self._change:
            count, self._new_bytes = self._new_bytes, 0
            return count

    def count_new_seconds(self) -> float:
        """Seconds that the threads read, together, since this was last asked."""
        with self._change:
            count, self._new_seconds = self._new_seconds, 0.0
            return count

    def _work(self) -> None:
        while claimed := self._claim():
            before = time.perf_counter()
            done: dict[int, Run] = {}
            failed: dict[int, BaseException] = {}
            for run in claimed:
                if self._closed:
                    break
                try:
                    done[run] = self._read_run(run, self._arenas.take)
                except BaseException as error:  # noqa: BLE001 - it is raised again where the run is needed
                    failed[run] = error
            with self._change:
                self._ready.update(done)
                self._failed.update(failed)
                self._new_bytes += sum(int(self._sizes[run]) for run in done)
                self._new_seconds += time.perf_counter() - before
                if self._missing:
                    self._missing -= done.keys() | failed.keys()
                    if not self._missing:
                        self._change.notify_all()

    def _claim(self) -> list[int]:
        """The next runs to read, when their time has come; none at the end.

        Several if they are small and of the same step, so that each thread gets its share of them.
        """
        with self._change:
            while not self._closed and self._next < len(self._runs):
                step = self._first[self._next]
                if step <= self._step + self._ahead:
                    left = bisect_right(self._first, step) - self._next
                    share = min(-(-left // max(len(self._threads), 1)), _CLAIMED_RUNS)
                    claimed, size = list[int](), 0
                    while len(claimed) < share and size < _CLAIMED_BYTES:
                        claimed.append(self._runs[self._next])
                        size += int(self._sizes[claimed[-1]])
                        self._next += 1
                    return claimed
                self._change.wait()
            return []
