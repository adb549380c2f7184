"""prefetch: everything before it in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

from headrace.run.interrupts import started
from headrace.run.stage import At, Items, Opener, Stage, opened
from headrace.run.stop import Stop
from headrace.run.threads import start_thread


@dataclass(frozen=True)
class Prefetch(Stage):
    """Run everything before it in a thread of its own, up to `count` items ahead."""

    count: int
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        # Not a semaphore: one written in Python may be left locked when Ctrl-C comes.
        room: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.count):
            room.put(None)
        results: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        stop = Stop(at.stop)
        below = replace(at, stop=stop)

        def produce() -> None:
            try:
                with opened(inputs[0], below) as items:
                    while not stop.is_set():
                        room.get()
                        if not stop.is_set():
                            results.put((True, next(items)))
                results.put((False, None))  # someone further down may still wait for an answer
            except StopIteration:
                results.put((False, None))
            except BaseException as error:  # noqa: BLE001 - raised again at the consumer
                results.put((False, error))

        with started(lambda: _Ahead(produce, stop, room)):
            yield from _receive(results, room)

    @property
    def name(self) -> str:
        return f"prefetch({self.count})"

    place = "1 thread, with all before it"


class _Ahead:
    """The thread that runs ahead."""

    def __init__(self, produce: Callable[[], None], stop: Stop, room: SimpleQueue[None]) -> None:
        self._stop, self._room = stop, room
        try:
            self._thread = start_thread("prefetch thread", produce)
        except BaseException:
            stop.close()
            raise

    def close(self) -> None:
        self._stop.set()
        self._room.put(None)
        self._thread.join()
        self._stop.close()


def _receive(results: SimpleQueue[tuple[bool, Any]], room: SimpleQueue[None]) -> Items:
    while True:
        more, value = results.get()
        if not more:
            try:
                if value is not None:
                    raise value
                return
            finally:
                del value  # or the error and this frame would keep each other, and the pass, alive
        room.put(None)
        yield value
