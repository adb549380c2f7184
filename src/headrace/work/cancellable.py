"""One long job in several threads: after an error or Ctrl-C, all of them end soon.

results = run_cancellable(hash_file, paths)  # hash_file: for piece in until_cancelled(pieces): ...
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from headrace.work.cores import count_cores

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_thread = threading.local()


class _Cancelled(Exception):
    """Ends a call whose result nobody waits for."""


def run_cancellable(
    call: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int | None = None,
    helpers: int = 0,
) -> list[_Result]:
    """Call a function on every item, in threads; return the results in the order of the items.

    The first error of any call cancels the others. No call is running when this is left. With `helpers`, as many
    more threads do what the calls give to `map_ahead`.
    """
    cancelled = threading.Event()
    workers = workers or count_cores()
    with (
        _open_pool("headrace-helper", max(1, helpers), cancelled) as pool_of_helpers,
        _open_pool(
            "headrace-job", workers, cancelled, pool_of_helpers if helpers else None
        ) as pool,
    ):
        try:
            futures = [pool.submit(call, item) for item in items]
            wait(futures, return_when=FIRST_EXCEPTION)
            done = [future for future in reversed(futures) if future.done()]
            futures.clear()  # no frame holds a future: it and its error would keep each other alive
            return [done.pop().result() for _ in range(len(done))]
        finally:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)


def map_ahead(
    call: Callable[[_Item], _Result], items: Iterable[_Item], ahead: int
) -> Iterator[_Result]:
    """Yield the results of a call on every item, in order; the helpers of this job work on the next `ahead` items.

    Without helpers, each call is made when its result is asked for.
    """
    helpers: ThreadPoolExecutor | None = getattr(_thread, "helpers", None)
    if helpers is None:
        yield from map(call, items)
        return
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(helpers.submit(call, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        waiting.clear()


def until_cancelled(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items; raise if the job that this thread works for was cancelled."""
    cancelled: threading.Event | None = getattr(_thread, "cancelled", None)
    for item in items:
        if cancelled is not None and cancelled.is_set():
            raise _Cancelled
        yield item


def _open_pool(
    name: str,
    workers: int,
    cancelled: threading.Event,
    helpers: ThreadPoolExecutor | None = None,
) -> ThreadPoolExecutor:
    """Return a pool that starts its threads as it needs them."""
    return ThreadPoolExecutor(workers, name, initializer=_enter, initargs=(cancelled, helpers))


def _enter(cancelled: threading.Event, helpers: ThreadPoolExecutor | None) -> None:
    _thread.cancelled, _thread.helpers = cancelled, helpers
