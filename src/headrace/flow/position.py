"""The position of a flow: where its next pass begins, and how far the last one has come."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.flow.stage import At, Items, Stage
from headrace.work.delay_interrupts import run_undisturbed


@dataclass
class Pass:
    """How far an iteration has come."""

    epoch: int = 0
    position: int = 0


class Position:
    """Where the next pass begins, and the pass that was started last."""

    def __init__(self) -> None:
        self.next = At()
        self.last = Pass()

    def set_epoch(self, epoch: int) -> None:
        """Move to the start of another epoch; do nothing if it is the current one."""
        if epoch != self.next.epoch:
            self.move(epoch)

    def move(self, epoch: int, start: int = 0) -> None:
        """Let the next pass begin at item `start` of `epoch`."""
        self.next, self.last = At(epoch, start), Pass(epoch, start)

    def get_whole_epoch(self) -> int:
        """Return the epoch that workers share. RuntimeError if it would begin in the middle."""
        if self.next.start:
            raise RuntimeError(
                "a DataLoader with workers cannot resume in the middle of an epoch; finish this epoch "
                "with num_workers=0, or iterate the flow itself"
            )
        return self.next.epoch

    def begin(self) -> Pass:
        """Return the next pass; the pass after it covers the whole epoch."""
        begun = Pass(self.next.epoch, self.next.start)
        self.move(begun.epoch)
        self.last = begun
        return begun


def give_items(open_items: Callable[[], Items], begun: Pass, stages: Sequence[Stage]) -> Items:
    """Yield the items of a pass and count them.

    In a forked child, a pass with threads or processes is an error: the threads do not exist there, and
    the processes belong to the parent. A pass without them was copied and continues.
    """
    is_copied = all(stage.place == Stage.place for stage in stages)
    items, process = open_items(), os.getpid()
    try:
        for item in items:
            begun.position += 1
            yield item
            if not is_copied and os.getpid() != process:
                raise RuntimeError(
                    "this iterator belongs to the parent process; call iter(flow) again in this one"
                )
    finally:
        run_undisturbed(items.close)
