"""Where a flow is: where its next pass begins, and how far the last one has come."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.run.interrupts import run_undisturbed
from headrace.run.stage import At, Items, Stage


@dataclass
class Pass:
    """How far an iteration has come."""

    epoch: int = 0
    position: int = 0


class Place:
    """Where the next pass begins, and the last pass that was begun."""

    def __init__(self) -> None:
        self.next = At()
        self.last = Pass()

    def set_epoch(self, epoch: int) -> None:
        """Another epoch from its beginning; the same one changes nothing."""
        if epoch != self.next.epoch:
            self.move(epoch)

    def move(self, epoch: int, start: int = 0) -> None:
        """Let the next pass begin there."""
        self.next, self.last = At(epoch, start), Pass(epoch, start)

    def get_whole_epoch(self) -> int:
        """The epoch that workers share out; they would all begin at its start."""
        if self.next.start:
            raise RuntimeError(
                "a DataLoader with workers cannot go on inside an epoch: finish this one with "
                "num_workers=0, or by the flow itself"
            )
        return self.next.epoch

    def begin(self) -> Pass:
        """The next pass; the one after it gives the whole epoch."""
        begun = Pass(self.next.epoch, self.next.start)
        self.move(begun.epoch)
        self.last = begun
        return begun


def give_items(open_items: Callable[[], Items], begun: Pass, stages: Sequence[Stage]) -> Items:
    """The items of a pass, counted.

    A pass with threads or processes is refused in a fork: its threads are not there, and the items of its
    processes are the parent's. One without them was copied as it is.
    """
    is_copied = all(stage.place == Stage.place for stage in stages)
    items, process = open_items(), os.getpid()
    try:
        for item in items:
            begun.position += 1
            yield item
            if not is_copied and os.getpid() != process:
                raise RuntimeError(
                    "this iterator belongs to the parent process: call iter(flow) anew"
                )
    finally:
        run_undisturbed(items.close)
