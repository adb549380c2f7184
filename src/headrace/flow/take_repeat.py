"""Length and repetition: take, fixed_size, repeat, cache."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from headrace.flow.stage import At, Items, Length, Opener, Stage, opened

ENDLESS = 2**32  # the epochs that one epoch of an endless repetition may use up
MOST_EMPTY = 1000  # empty epochs in a row after which an endless repetition gives up


@dataclass(frozen=True)
class Take(Stage):
    """The first `count` items."""

    count: int
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        wanted = len(range(at.start, self.count, at.step))
        if wanted:
            with opened(inputs[0], at) as items:
                yield from islice(items, wanted)

    def length(self, lengths: tuple[Length, ...]) -> Length:
        (length,) = lengths
        return None if length is None else int(min(length, self.count))

    @property
    def name(self) -> str:
        return f"take({self.count})"

    @property
    def exactness(self) -> str:
        return f"each once, first {self.count} only"


@dataclass(frozen=True)
class Repeat(Stage):
    """The epochs of the input one after another; each has its own epoch number, so its own order."""

    times: int | None
    input_length: Length
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        first = at.epoch * (self.times or ENDLESS)
        last = first + self.times if self.times else None
        chained = chain_epochs(inputs[0], self.input_length, at, first, last)
        yield from islice(chained, 0, None, at.step)

    def length(self, lengths: tuple[Length, ...]) -> Length:
        (length,) = lengths
        if length is None or length == 0:
            return length
        return length * self.times if self.times else math.inf

    @property
    def name(self) -> str:
        return f"repeat({self.times or ''})"

    @property
    def exactness(self) -> str:
        return f"{self.times} times each" if self.times else "each once per repetition"


def chain_epochs(opener: Opener, length: Length, at: At, first: int, last: int | None) -> Items:
    """Yield epochs `first`, `first + 1`, … before `last` as one sequence, from its item `at.start` on.

    Whole epochs before it are not opened if their length is known. Empty epochs are skipped;
    without a `last`, only MOST_EMPTY in a row, since the loop might never end.
    """
    if length == 0:
        return
    epoch, start, empty = first, at.start, 0
    if length and length != math.inf:
        gone, start = divmod(start, int(length))
        epoch += gone
    while last is None or epoch < last:
        given = 0
        with opened(opener, at.move(start if length else 0, epoch=epoch)) as items:
            for item in items:
                given += 1
                if length or given > start:
                    yield item
        start = 0 if length else max(0, start - given)
        epoch += 1
        empty = 0 if given else empty + 1
        if last is None and empty == MOST_EMPTY:
            raise ValueError(
                f"an endless repetition found {empty} epochs in a row without items; check the filters "
                "of its input"
            )


class Kept:
    """An input that is open at the beginning of an epoch: in this process, not in copies or forks."""

    def __init__(self) -> None:
        # By process, so that a fork neither uses nor drops what its parent keeps: that would close it.
        self._of_process: dict[int, tuple[int, Items]] = {}

    def __reduce__(self) -> Any:
        return Kept, ()

    def put(self, epoch: int, items: Items) -> None:
        self._of_process[os.getpid()] = epoch, items

    def take(self, at: At) -> Items | None:
        """Return the open input if it belongs to this position; close it otherwise."""
        epoch, items = self._of_process.pop(os.getpid(), (None, None))
        if items is not None and (epoch, 0, 1) == (at.epoch, at.start, at.step) and at.stop is None:
            return items
        if items is not None:
            items.close()
        return None


@dataclass(frozen=True)
class FixedSize(Stage):
    """Epochs of exactly `size` items, cut from the endless repetition of the input.

    Epoch e holds items e * size to (e + 1) * size - 1 of that repetition: nothing is lost between
    epochs, and any epoch can be made without those before it. Each epoch of an endless repetition of
    this one begins with a new epoch of the input: it cannot go on where one without end stopped.
    Where the length of the input is not known, its epochs that were read to their end are counted, and
    not read again for later ones; and after a whole pass the input stays open for the next epoch, if
    that comes next.
    """

    size: int
    input_length: Length
    counted: dict[int, int] = field(default_factory=dict, repr=False, compare=False)
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)
    seeks = True
    exactness = "each once per repetition, over the epochs"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        repetition, epoch = divmod(at.epoch, ENDLESS)
        epoch, start = self._skip_counted(repetition * ENDLESS, epoch * self.size + at.start)
        wanted = len(range(at.start, self.size, at.step))
        opener = inputs[0] if self.input_length else partial(_count, self.counted, inputs[0])
        chained = self.kept.take(at)
        if chained is None:
            chained = chain_epochs(opener, self.input_length, at.move(start), epoch, None)
        for item in islice(chained, 0, wanted * at.step, at.step):
            yield item
            wanted -= 1
        if wanted:
            raise ValueError(f"fixed_size({self.size}) needs items, and its input is empty")
        if self.input_length in (None, math.inf) and at.step == 1 and at.stop is None:
            self.kept.put(at.epoch + 1, chained)
            return
        usual = next(reversed(self.counted.values()), None)
        if usual and (start + self.size - at.start) % usual == 0:
            next(chained, None)  # an epoch that ends just here is counted when its end is seen

    def _skip_counted(self, epoch: int, start: int) -> tuple[int, int]:
        """Return (input epoch, position in it) of item `start` counted from `epoch`, as far as known."""
        while start >= self.counted.get(epoch, math.inf):
            start -= self.counted[epoch]
            epoch += 1
        return epoch, start

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return self.size

    @property
    def name(self) -> str:
        return f"fixed_size({self.size})"


def _count(counted: dict[int, int], opener: Opener, at: At) -> Items:
    count = 0
    with opened(opener, at) as items:
        for item in items:
            yield item
            count += 1
    counted[at.epoch] = count


@dataclass(frozen=True)
class Cache(Stage):
    """Epoch 0 of the input in every epoch, from memory once a pass over it was complete.

    Which epoch is kept must not depend on when and where the first pass was: a flow that is resumed,
    or runs in another process, has to fill its own. For a new order each epoch, shuffle after it.
    """

    kept: list[tuple[Any, ...]] = field(default_factory=list, repr=False, compare=False)
    name = "cache()"
    order = "that of epoch 0"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        if not self.kept:
            collected = []
            with opened(inputs[0], at.move(epoch=0)) as items:
                for item in items:
                    collected.append(item)
                    yield item
            if not self.kept:
                self.kept.append(tuple(collected))
        else:
            yield from self.kept[0]
