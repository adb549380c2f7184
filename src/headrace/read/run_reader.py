"""Reads runs ahead, in the order of the plan, in a few threads and into reused memory.

In: what each step of an epoch needs. Out: for each step, its runs.
Guaranteed: a run is read once, with one system call if it lies in one file; memory holds only the
runs of the current step and of `ahead` steps after it; an error of a reading thread arrives at the
step that needs the run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.read.reading import Reading
from headrace.read.run_layout import Run

if TYPE_CHECKING:
    from typing_extensions import Self

# Small runs that a thread reads in a row: waiting and waking costs more than reading one.
_CLAIMED_RUNS = 16
_CLAIMED_BYTES = 1 << 20
_PAGE = 4096


class Arenas:
    """Memory for runs, reused for another run of about the same size.

    Unused memory is freed before more is allocated: the total never exceeds 9/4 of the largest
    demand, and a page for each run.
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
    """Return memory that begins in the middle of a page, unless it is small.

    Large arrays begin 16 bytes into a page, files at its start. Copying between these offsets takes
    three times as long: the CPU mistakes its loads for its recent stores (4K aliasing).
    """
    if size < 16 * _PAGE:
        return np.empty(size, np.uint8)
    memory = np.empty(size + _PAGE, np.uint8)
    start = (_PAGE // 2 - memory.ctypes.data) % _PAGE
    return memory[start : start + size]


def _round_up(size: int) -> int:
    """Round up to one of eight sizes between two powers of two, so that few sizes serve all runs."""
    unit = 1 << max(size.bit_length() - 4, 0)
    return max(-(-size // unit) * unit, 1)


class RunReader:
    """Return the runs of an epoch, step by step, to one consumer. A context manager that ends its threads."""

    def __init__(
        self,
        reading: Reading,
        *,
        arenas: Arenas | None = None,
        start: int = 0,
        ahead: int = 2,
        threads: int = 2,
    ) -> None:
        """Begin at step `start` of a reading, whose units are the runs.

        `arenas` may come from an earlier reader: memory that was used before is quicker to fill.
        """
        self._reading, self._ahead = reading, ahead
        self._arenas = arenas or Arenas()
        self._change = threading.Condition()
        self._step = self._planned = start
        self._due: deque[int] = deque()  # planned, and not claimed yet
        self._uses: dict[int, Mapping[int, int]] = {}  # by step
        self._left: dict[int, int] = {}  # uses of each run that is planned and not released
        self._before = dict(reading.count_units_before(start)) if start else {}
        self._ready: dict[int, Run] = {}
        self._failed: dict[int, BaseException] = {}
        self._error: BaseException | None = None
        self._missing: set[int] = set()
        self._closed = False
        self._new_bytes = 0
        self._new_seconds = 0.0
        self._threads = [
            threading.Thread(target=self._work, name=f"headrace-read-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads. Idempotent."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()
        while self._ready:
            self._arenas.give(self._ready.popitem()[1].data)

    def take(self, runs: list[int]) -> dict[int, Run]:
        """Return the runs of a step that is not finished; wait for them."""
        with self._change:
            self._missing = set(runs) - self._ready.keys() - self._failed.keys()
            while self._missing:
                if self._error is not None:
                    raise self._error
                if self._closed:
                    raise RuntimeError("the reader is closed")
                self._change.wait()
            for run in runs:
                if run in self._failed:
                    raise self._failed[run]
            return {run: self._ready[run] for run in runs}

    def finish_step(self, step: int) -> None:
        """Release the runs that no later step needs, and go on to the next step."""
        with self._change:
            while self._planned <= step:  # all of its runs were there, and nobody had to read
                self._plan_step()
            for run, uses in self._uses.pop(step).items():
                self._left[run] -= uses
                if self._left[run] <= 0:
                    del self._left[run]
                    self._arenas.give(self._ready.pop(run).data)
            self._step = step + 1
            self._change.notify_all()

    def take_counts(self) -> tuple[int, float]:
        """Return the bytes read since the last call, and the seconds that all threads took for them."""
        with self._change:
            counts = self._new_bytes, self._new_seconds
            self._new_bytes, self._new_seconds = 0, 0.0
            return counts

    def _work(self) -> None:
        while claimed := self._claim_or_fail():
            before = time.perf_counter()
            new_bytes = 0
            done: dict[int, Run] = {}
            failed: dict[int, BaseException] = {}
            for run in claimed:
                if self._closed:
                    break
                try:
                    done[run] = self._reading.read(run, self._arenas.take)
                    new_bytes += done[run].size
                except BaseException as error:  # noqa: BLE001 - raised again where the run is needed
                    failed[run] = error
            with self._change:
                self._ready.update(done)
                self._failed.update(failed)
                self._new_bytes += new_bytes
                self._new_seconds += time.perf_counter() - before
                if self._missing:
                    self._missing -= done.keys() | failed.keys()
                    if not self._missing:
                        self._change.notify_all()

    def _claim_or_fail(self) -> list[int]:
        try:
            return self._claim()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            with self._change:
                self._error = error
                self._change.notify_all()
            return []

    def _claim(self) -> list[int]:
        """Wait until runs are due and return the next ones to read; none at the end.

        Small runs of one step are returned together, so that each thread gets its share of them.
        """
        with self._change:
            while not self._closed and self._error is None:
                if self._due:
                    share = -(-len(self._due) // max(len(self._threads), 1))
                    return self._claim_together(min(share, _CLAIMED_RUNS))
                if self._planned >= len(self._reading):
                    break
                if self._planned <= self._step + self._ahead:
                    self._plan_step()
                else:
                    self._change.wait()
            return []

    def _claim_together(self, most: int) -> list[int]:
        claimed, size = list[int](), 0
        while len(claimed) < most and size < _CLAIMED_BYTES:
            claimed.append(self._due.popleft())
            size += self._reading.measure(claimed[-1])
        return claimed

    def _plan_step(self) -> None:
        """Make the runs due that the next step needs and that no earlier one did."""
        uses = self._reading.count_units(self._planned)
        for run in uses:
            if run not in self._left:
                self._left[run] = self._reading.count_uses(run) - self._before.pop(run, 0)
                self._due.append(run)
        self._uses[self._planned] = uses
        self._planned += 1
