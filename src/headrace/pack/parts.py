"""The parts of a long job in threads: when one has failed, or Ctrl-C has come, the others end soon after.

results = run_parts(hash_file, paths)  # in hash_file: for piece in while_wanted(pieces): ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.pack.cores import count_cores

_Item = TypeVar("_Item")
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
_thread = threading.local()


class _Unwanted(Exception):
    """Ends a part whose result nobody waits for any more."""


def run_parts(
    do_part: Callable[[_Part], _Result], parts: Iterable[_Part], workers: int | None = None
) -> list[_Result]:
    """The results of all parts, in their order. No part is at work any more when this is left."""
    ended = threading.Event()
    with ThreadPoolExecutor(
        workers or count_cores(), initializer=_enter, initargs=(ended,)
    ) as pool:
        try:
            return list(pool.map(do_part, parts))
        finally:
            ended.set()


def while_wanted(items: Iterable[_Item]) -> Iterator[_Item]:
    """The items, for as long as the job goes on whose part reads them."""
    ended: threading.Event | None = getattr(_thread, "ended", None)
    for item in items:
        if ended is not None and ended.is_set():
            raise _Unwanted
        yield item


def _enter(ended: threading.Event) -> None:
    _thread.ended = ended
