"""prefetch: everything before it in a thread of its own."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, replace
from typing import Any

from penstock.run.stage import At, Items, Opener, Stage, opened
from penstock.run.stop import Stop


@dataclass(frozen=True)
class Prefetch(Stage):
    """Run everything before it in a thread of its own, up to `count` items ahead."""

    count: int
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        room = threading.Semaphore(self.count)
        results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        stop = Stop(at.stop)
        below = replace(at, stop=stop)

        def produce() -> None:
            try:
                with opened(inputs[0], below) as items:
                    while not stop.is_set():
                        room.acquire()
                        if not stop.is_set():
                            results.put((True, next(items)))
                results.put((False, None))  # someone further down may still wait for an answer
            except StopIteration:
                results.put((False, None))
            except BaseException as error:  # noqa: BLE001 - raised again at the consumer
                results.put((False, error))

        thread = threading.Thread(target=produce, name="prefetch", daemon=True)
        thread.start()
        try:
            yield from _receive(results, room)
        finally:
            stop.set()
            room.release()
            thread.join()
            stop.close()

    @property
    def name(self) -> str:
        return f"prefetch({self.count})"

    place = "1 thread, with all before it"


def _receive(results: queue.SimpleQueue[tuple[bool, Any]], room: threading.Semaphore) -> Items:
    while True:
        more, value = results.get()
        if not more:
            try:
                if value is not None:
                    raise value
                return
            finally:
                del value  # or the error and this frame would keep each other, and the pass, alive
        room.release()
        yield value
