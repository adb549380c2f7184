"""Stages that DataFlows need and Flow has no method for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from penstock.run.extent import FixedSize, chain_epochs
from penstock.run.stage import At, Items, Length, Opener, Stage, opened


@dataclass(frozen=True)
class RepeatItem(Stage):
    """Each item `times` times in a row."""

    times: int

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as items:
            for item in items:
                for _ in range(self.times):
                    yield item

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None if lengths[0] is None else lengths[0] * self.times

    @property
    def name(self) -> str:
        return f"repeat_item({self.times})"

    @property
    def exactness(self) -> str:
        return f"{self.times} times each"


@dataclass(frozen=True)
class CountedSize(FixedSize):
    """FixedSize of an input whose `input_length` is only what it says of itself, or None.

    Epochs that were read to their end are counted, and not read again for the later ones.
    """

    counted: dict[int, int] = field(default_factory=dict, repr=False, compare=False)

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        epoch, start = 0, at.epoch * self.size + at.start
        while start >= self.counted.get(epoch, math.inf):
            start -= self.counted[epoch]
            epoch += 1
        wanted = len(range(at.start, self.size, at.step))
        opener = partial(self._count, inputs[0])
        chained = chain_epochs(opener, None, at.move(start), epoch, None)
        for item in islice(chained, 0, wanted * at.step, at.step):
            yield item
            wanted -= 1
        if self.input_length and (at.epoch + 1) * self.size % self.input_length == 0:
            next(chained, None)  # an epoch that ends just here is counted when its end is seen
        if wanted:
            raise ValueError(f"{self.name} needs an input with items; it has none")

    def _count(self, opener: Opener, at: At) -> Items:
        count = 0
        with opened(opener, at) as items:
            for item in items:
                yield item
                count += 1
        if count:
            self.counted[at.epoch] = count
