"""A bounded queue from one producing thread to one consumer that either side can end at any moment, and the
thread that fills one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Handoff(Generic[T]):
    """Holds up to `depth` items. Errors and the end arrive behind the items before them.

    Made of queues alone: what is written in Python around a lock may be left with the lock held when Ctrl-C
    comes, and the next who needs it would wait for ever.
    """

    def __init__(self, depth: int) -> None:
        self._room: SimpleQueue[None] = SimpleQueue()
        self._items: SimpleQueue[tuple[T] | None] = SimpleQueue()
        self._put = self._taken = 0
        self._ended = self._read_out = False
        self._error: BaseException | None = None
        for _ in range(depth):
            self._room.put(None)

    def __len__(self) -> int:
        return self._put - self._taken

    def put(self, item: T) -> bool:
        """Waits for room; False if nobody wants it any more."""
        self._room.get()
        if self._ended:
            return False
        self._put += 1
        self._items.put((item,))
        return True

    def end(self, error: BaseException | None = None) -> None:
        """No more items: the consumer gets those that are there, then the error or the end."""
        self._error = self._error or error
        self._ended = True
        self._room.put(None)
        self._items.put(None)

    def get(self) -> T | None:
        """The next item, as soon as there is one; None at the end."""
        entry = None if self._read_out else self._items.get()
        if entry is not None:
            self._taken += 1
            self._room.put(None)
            return entry[0]
        self._read_out = True
        if self._error is not None:
            raise self._error
        return None


@contextmanager
def run_ahead(items: Iterable[T], name: str, depth: int) -> Iterator[Handoff[T]]:
    """Goes through `items` in a thread of its own, up to `depth` ahead of what was taken; ends it on leaving.

    Whatever `items` may wait for must be ended before.
    """
    ready: Handoff[T] = Handoff(depth)

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
