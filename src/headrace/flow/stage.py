"""Stage: one step of a flow, a value that states its guarantees and opens as an iterator.

`open` takes one opener per input flow and returns an iterator over outputs `start`, `start + step`,
… of one epoch. Opening twice with the same `At` yields the same items in the same order, unless
`unrepeatable` says why it cannot; closing the iterator closes all iterators below it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from headrace.work.stop import Stop

Length: TypeAlias = "int | float | None"  # an exact count, math.inf, or None where it is unknown
Items: TypeAlias = "Generator[Any, None, None]"
Opener: TypeAlias = "Callable[[At], Items]"


@dataclass(frozen=True)
class At:
    """Where to begin: outputs `start`, `start + step`, … of `epoch`, with random numbers of `stream`."""

    epoch: int = 0
    start: int = 0
    step: int = 1
    stream: int = 0
    stop: Stop | None = field(
        default=None, compare=False
    )  # of the thread that reads, if it is ours

    def move(self, start: int = 0, step: int = 1, epoch: int | None = None) -> At:
        """Return another position, in the same epoch unless given, for the same reader."""
        return replace(self, epoch=self.epoch if epoch is None else epoch, start=start, step=step)


class Stage:
    """One step of a flow. Subclasses are frozen dataclasses: their fields are their options.

    A stage that sets `seeks` honours `start` and `step` itself, without doing the work of the
    outputs it skips; for other stages `open_stage` opens the whole epoch and drops them.
    """

    seeks = False
    draws = False  # whether it, or the user's function, draws random numbers
    place = "consumer"  # where the work is done, for `describe`

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        raise NotImplementedError

    def length(self, lengths: tuple[Length, ...]) -> Length:
        """Return the exact number of outputs, given the lengths of the inputs; None if it depends on data."""
        return lengths[0]

    @property
    def name(self) -> str:
        """The stage as the user wrote it: the method and its important arguments."""
        raise NotImplementedError

    @property
    def order(self) -> str:
        """What happens to the order of the items."""
        return "kept"

    @property
    def exactness(self) -> str:
        """How often each input item appears in the output."""
        return "each once"

    @property
    def unrepeatable(self) -> str | None:
        """Why an epoch cannot be replayed; None if it can, and the flow can be resumed."""
        return None


def open_stage(stage: Stage, inputs: tuple[Opener, ...], at: At) -> Items:
    """Open `stage` at any position, replaying what comes before where the stage cannot seek."""
    if stage.seeks or (at.start == 0 and at.step == 1):
        return stage.open(inputs, at)
    return _drop(stage.open(inputs, at.move()), at)


def _drop(items: Items, at: At) -> Items:
    with closing(items):
        yield from islice(items, at.start, None, at.step)


@contextmanager
def opened(opener: Opener, at: At) -> Iterator[Items]:
    """Yield the items of an input and close them when the block is left."""
    items = opener(at)
    try:
        yield items
    finally:
        items.close()
