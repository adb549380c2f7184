"""A bounded queue from one producing thread to one consumer that either side can end at any moment, and the
thread that fills one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Handoff(Generic[T]):
    """Holds up to `depth` items. Errors and the end arrive behind the items before them."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[T] = deque()
        self._change = threading.Condition()
        self._ended = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> bool:
        """Waits for room; False if nobody wants it any more."""
        with self._change:
            while len(self._items) >= self._depth and not self._ended:
                self._change.wait()
            if self._ended:
                return False
            self._items.append(item)
            self._change.notify_all()
            return True

    def end(self, error: BaseException | None = None) -> None:
        """No more items: the consumer gets those that are there, then the error or the end."""
        with self._change:
            self._ended = True
            self._error = self._error or error
            self._change.notify_all()

    def get(self) -> T | None:
        """The next item, as soon as there is one; None at the end."""
        with self._change:
            while not self._items and not self._ended:
                self._change.wait()
            if self._items:
                item = self._items.popleft()
                self._change.notify_all()
                return item
            if self._error is not None:
                raise self._error
            return None


@contextmanager
def run_ahead(items: Iterable[T], name: str) -> Iterator[Handoff[T]]:
    """Goes through `items` in a thread of its own, up to one ahead of what was taken; ends it on leaving.

    Whatever `items` may wait for must be ended before.
    """
    ready: Handoff[T] = Handoff(1)

    def run() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not ready.put(item):
                    return
                del item
        except BaseException as raised:  # noqa: BLE001 - it is raised again where the item is taken
            error = raised
        ready.end(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield ready
    finally:
        ready.end()
        thread.join()
