"""Which items, and in what order: filter, shuffle, shard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from headrace.flow.stage import At, Items, Length, Opener, Stage, opened
from headrace.work.call_task import Failure, Task, name_of
from headrace.work.seeding import SHUFFLE, draw_uniform, owns_process


@dataclass(frozen=True)
class Filter(Stage):
    """The items for which `keep(item)` is true."""

    keep: Callable[[Any], bool]
    draws = True
    exactness = "at most once"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        task = Task(self.keep, self.name, 0, at.epoch, at.stream, owns_process())
        with opened(inputs[0], at) as items:
            for position, item in enumerate(items):
                kept = task.call(position, item, "in the consumer")
                if isinstance(kept, Failure):
                    raise kept.make_error()
                if kept:
                    yield item

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"filter({name_of(self.keep)})"


@dataclass(frozen=True)
class Shuffle(Stage):
    """A seeded permutation: the item at position p gets the key p + window * u(p); sort by key.

    Guaranteed: every item exactly once, less than `window` places from where it was, so at most
    `window` items are held; `window=None` holds them all and every order is equally likely.
    Resuming at output n re-reads at most `window` items.
    """

    window: int | None
    seed: int
    seeks = True
    draws = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        window = self.window or 0
        # Whatever lies `window` or more before output `start` has been given: begin after it, and
        # as many of the outputs from there are old as there were places gone back.
        low = max(0, at.start - window + 1) if window else 0
        with opened(inputs[0], at.move(low)) as items:
            keys = draw_uniform(self.seed, at.epoch, low, SHUFFLE, at.stream)
            ordered = sort_within(items, keys, low, window) if window else sort_all(items, keys)
            yield from islice(ordered, at.start - low, None, at.step)

    @property
    def name(self) -> str:
        return f"shuffle(window={self.window}, seed={self.seed})"

    @property
    def order(self) -> str:
        return f"within {self.window}" if self.window else "any"


def sort_within(
    items: Iterator[Any], draws: Iterator[float], first: int, window: int
) -> Iterator[Any]:
    """Stream `items`, whose positions count from `first`, in the order of position + window * u."""
    held: list[tuple[float, int, Any]] = []
    for position, item in enumerate(items, first):
        # Nothing from here on has a key below its position.
        while held and held[0][0] <= position:
            yield heappop(held)[2]
        heappush(held, (position + window * next(draws), position, item))
    while held:
        yield heappop(held)[2]


def sort_all(items: Iterator[Any], draws: Iterator[float]) -> Iterator[Any]:
    """Return all items in the order of their draws."""
    keyed = sorted(zip(draws, range(2**63), items), key=lambda entry: entry[:2], reverse=True)
    while keyed:
        yield keyed.pop()[2]


@dataclass(frozen=True)
class Shard(Stage):
    """Items rank, rank + world, rank + 2 * world, …: the ranks together give each item once."""

    rank: int
    world: int
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        start = self.rank + at.start * self.world
        with opened(inputs[0], at.move(start, at.step * self.world)) as items:
            yield from items

    def length(self, lengths: tuple[Length, ...]) -> Length:
        (length,) = lengths
        if length is None or length == math.inf:
            return length
        return len(range(self.rank, int(length), self.world))

    @property
    def name(self) -> str:
        return f"shard(rank={self.rank}, world={self.world})"

    @property
    def exactness(self) -> str:
        return f"each once over the {self.world} ranks"
