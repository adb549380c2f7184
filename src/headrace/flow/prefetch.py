"""prefetch: run everything before it in a thread of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.flow.stage import At, Items, Opener, Stage, opened
from headrace.work.bounded_queue import run_ahead
from headrace.work.stop import Stop


@dataclass(frozen=True)
class Prefetch(Stage):
    """Run everything before it in a thread of its own, up to `count` items ahead."""

    count: int
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        stop = Stop(at.stop)
        items = _open_lazily(inputs[0], replace(at, stop=stop))
        with run_ahead(items, "prefetch thread", self.count, stop) as ready:
            yield from ready

    @property
    def name(self) -> str:
        return f"prefetch({self.count})"

    place = "1 thread, with all before it"


def _open_lazily(opener: Opener, at: At) -> Items:
    """Open the input in the thread that asks for the first item."""
    with opened(opener, at) as items:
        yield from items
