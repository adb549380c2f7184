"""A bounded queue from one producing thread to one consumer, which either side can end at any moment."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from queue import SimpleQueue
from typing import Generic, TypeVar

from headrace.work.delay_interrupts import started
from headrace.work.stop import Stop
from headrace.work.worker_threads import start_thread

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """Hold up to `depth` items. Errors and the end arrive after the items that were put before them.

    Made of queues alone: Ctrl-C can leave a lock held that Python code takes, and the next thread
    that needs it would wait forever.
    """

    def __init__(self, depth: int) -> None:
        self._room: SimpleQueue[None] = SimpleQueue()
        self._items: SimpleQueue[tuple[T] | None] = SimpleQueue()
        self._put = self._taken = 0
        self._ended = self._drained = False
        self._error: BaseException | None = None
        for _ in range(depth):
            self._room.put(None)

    def __len__(self) -> int:
        return self._put - self._taken

    def __iter__(self) -> Iterator[T]:
        while (entry := self._take()) is not None:
            yield entry[0]

    def put(self, item: T) -> bool:
        """Add an item as soon as there is room; return False if the queue was ended."""
        if not self.reserve():
            return False
        self.add(item)
        return True

    def reserve(self) -> bool:
        """Wait until there is room for an item to `add`; return False if the queue was ended."""
        self._room.get()
        return not self._ended

    def add(self, item: T) -> None:
        """Add an item for which room is reserved."""
        self._put += 1
        self._items.put((item,))

    def end(self, error: BaseException | None = None) -> None:
        """End the queue: the consumer gets the items in it, then the error or the end. Idempotent."""
        self._error = self._error or error
        self._ended = True
        self._room.put(None)
        self._items.put(None)

    def get(self) -> T | None:
        """Return the next item as soon as there is one; None at the end."""
        entry = self._take()
        return None if entry is None else entry[0]

    def _take(self) -> tuple[T] | None:
        entry = None if self._drained else self._items.get()
        if entry is not None:
            self._taken += 1
            self._room.put(None)
            return entry
        self._drained = True
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # or the error and this frame would keep each other alive
        return None


@contextmanager
def run_ahead(
    items: Generator[T, None, None], name: str, depth: int, stop: Stop | None = None
) -> Iterator[BoundedQueue[T]]:
    """Iterate `items` in a thread called `name`, up to `depth` items ahead of the consumer.

    Leaving the block ends the thread, which closes `items`. If `items` may wait for something,
    either end that first, or let it wait on `stop`, which is set and closed here.
    """
    queue: BoundedQueue[T] = BoundedQueue(depth)

    def start() -> ExitStack:
        with ExitStack() as ending:  # in reverse order
            ending.callback(stop.close if stop else lambda: None)
            ending.callback(start_thread(name, _fill, queue, items).join)
            ending.callback(queue.end)
            ending.callback(stop.set if stop else lambda: None)
            return ending.pop_all()

    with started(start):
        yield queue


def _fill(queue: BoundedQueue[T], items: Generator[T, None, None]) -> None:
    try:
        with closing(items):
            while queue.reserve():
                queue.add(next(items))
    except StopIteration:
        pass
    except BaseException as error:  # noqa: BLE001 - raised again at the consumer
        queue.end(error)
        return
    queue.end()
