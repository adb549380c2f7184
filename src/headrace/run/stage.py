"""What a stage of a flow is: a value that says what it guarantees and opens as an iterator.

In: one opener per input flow. Out: an iterator over outputs number `start`, `start + step`, … of
one epoch. Guaranteed: opening twice with the same `At` gives the same items in the same order,
unless `unrepeatable` says why it cannot; closing the iterator closes all below it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

from headrace.run.stop import Stop

Length: TypeAlias = "int | float | None"  # an exact count, math.inf, or None where it is unknown
Items: TypeAlias = "Generator[Any, None, None]"
Opener: TypeAlias = "Callable[[At], Items]"


@dataclass(frozen=True)
class At:
    """Where to begin: outputs `start`, `start + step`, … of `epoch`. `stream`: random numbers of the stage's own."""

    epoch: int = 0
    start: int = 0
    step: int = 1
    stream: int = 0
    stop: Stop | None = field(
        default=None, compare=False
    )  # of the thread that reads, if it is ours

    def move(self, start: int = 0, step: int = 1, epoch: int | None = None) -> At:
        """Somewhere else, in the same epoch unless told, for the same reader."""
        return replace(self, epoch=self.epoch if epoch is None else epoch, start=start, step=step)


class Stage:
    """One step of a flow. Subclasses are frozen dataclasses: their fields are their options.

    A stage that sets `seeks` honours `start` and `step` itself, without doing the work of the
    outputs it leaves out; for the others `open_stage` opens the whole epoch and drops them.
    """

    seeks = False
    draws = False  # random numbers, or lets the user's function draw them
    place = "consumer"  # where the work is done, for `describe`

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        raise NotImplementedError

    def length(self, lengths: tuple[Length, ...]) -> Length:
        """The exact number of outputs, given those of the inputs; None where it depends on data."""
        return lengths[0]

    @property
    def name(self) -> str:
        """The stage as the user wrote it: the method and the arguments that matter."""
        raise NotImplementedError

    @property
    def order(self) -> str:
        """What happens to the order of the items."""
        return "kept"

    @property
    def exactness(self) -> str:
        """How often an item that comes in comes out."""
        return "each once"

    @property
    def unrepeatable(self) -> str | None:
        """Why an epoch cannot be replayed, or None where it can: then the flow can be resumed."""
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
    """The items of an input, closed when the block is left, whichever way."""
    items = opener(at)
    try:
        yield items
    finally:
        items.close()


def name_of(fn: object) -> str:
    """How a function is called in descriptions and errors."""
    names = (getattr(fn, name, None) for name in ("__qualname__", "__name__"))
    name = next(filter(None, names), type(fn).__qualname__)
    return str(name).replace("<locals>.", "")
