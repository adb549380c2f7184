"""One long job in several threads: after an error or Ctrl-C, all of them end soon.

results = run_cancellable(hash_file, paths)  # hash_file: for piece in until_cancelled(pieces): ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from headrace.work.cores import count_cores

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_thread = threading.local()


class _Cancelled(Exception):
    """Ends a call whose result nobody waits for."""


def run_cancellable(
    call: Callable[[_Item], _Result], items: Iterable[_Item], workers: int | None = None
) -> list[_Result]:
    """Call a function on every item, in threads; return the results in the order of the items.

    The first error of any call cancels the others. No call is running when this is left.
    """
    cancelled = threading.Event()
    with ThreadPoolExecutor(
        workers or count_cores(), "headrace-job", initializer=_enter, initargs=(cancelled,)
    ) as pool:
        try:
            futures = [pool.submit(call, item) for item in items]
            wait(futures, return_when=FIRST_EXCEPTION)
            done = [future for future in reversed(futures) if future.done()]
            futures.clear()  # no frame holds a future: it and its error would keep each other alive
            return [done.pop().result() for _ in range(len(done))]
        finally:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)


def until_cancelled(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items; raise if the job that this thread works for was cancelled."""
    cancelled: threading.Event | None = getattr(_thread, "cancelled", None)
    for item in items:
        if cancelled is not None and cancelled.is_set():
            raise _Cancelled
        yield item


def _enter(cancelled: threading.Event) -> None:
    _thread.cancelled = cancelled
