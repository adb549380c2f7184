"""Where a flow is: where its next pass begins, and how far the last one has come."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass
from typing import Any

from penstock.run.stage import At


@dataclass
class Pass:
    """How far an iteration has come."""

    epoch: int = 0
    position: int = 0


class Place:
    """Where the next pass begins, and the last pass that was begun.

    Guaranteed: a start that was loaded is that of one pass only, be it in DataLoader workers, whose
    number and lives do not matter. They read what their parent writes on the `board`: three integers
    in shared memory, epoch, start and the mark of the pass that took this start, 0 if none has.
    """

    def __init__(self) -> None:
        self.next = At()
        self.last = Pass()
        self.board: Any = None
        self._owner = 0
        self._shares = 0  # passes begun as a worker

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "board": None}  # goes its own way: see FlowDataset

    def share(self, board: Any, owner: int) -> None:
        """Write on this board from now on, or read what process `owner` writes there."""
        self.board, self._owner = board, owner
        if owner == os.getpid():
            self.move(self.next.epoch, self.next.start)

    @property
    def owner(self) -> int:
        """The process that writes on the board."""
        return self._owner

    def set_epoch(self, epoch: int) -> None:
        """Another epoch from its beginning; the same one changes nothing."""
        self._own_board()
        if epoch != self.next.epoch:
            self.move(epoch)

    def move(self, epoch: int, start: int = 0) -> None:
        """Let the next pass begin there."""
        self._own_board()
        self.next, self.last = At(epoch, start), Pass(epoch, start)
        if self.board is not None:
            self.board[0], self.board[1], self.board[2] = epoch, start, 0

    def begin(self) -> Pass:
        """The next pass; the one after it gives the whole epoch."""
        self._own_board()
        taken = self.board is not None and int(self.board[2])
        begun = Pass(self.next.epoch, 0 if taken else self.next.start)
        self.move(begun.epoch)
        self.last = begun
        return begun

    def begin_share(self, seed: int) -> Pass:
        """The next pass, in a DataLoader worker; `seed` is that of all workers that share it out.

        In its first pass a worker is where its parent was when it started it.
        """
        begun = Pass(self.next.epoch, self.next.start)
        parent = multiprocessing.parent_process()
        if self.board is None or parent is None or parent.pid != self._owner:
            return begun
        if self._shares:
            begun = Pass(int(self.board[0]), int(self.board[1]))
        self._shares += 1
        mark = (seed + self._shares) % 2**62 + 1
        if int(self.board[2]) not in (0, mark):
            begun.position = 0
        elif begun.position:
            self.board[2] = mark
        return begun

    def _own_board(self) -> None:
        """A copy of a flow in another process has a board, and workers, of its own."""
        if self.board is not None and self._owner != os.getpid():
            self.board, self._owner = self.board.clone().share_memory_(), os.getpid()
