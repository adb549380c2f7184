"""Several flows into one: concat, zip, join, mix, choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from headrace.flow.stage import At, Items, Length, Opener, Stage, opened
from headrace.work.seeding import CHOOSE, MIX, draw_uniform


@dataclass(frozen=True)
class Concat(Stage):
    """All items of the first flow, then all of the second, …"""

    name = "concat()"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        for opener in inputs:
            with opened(opener, at) as items:
                yield from items

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None if None in lengths else sum(length for length in lengths if length is not None)


@dataclass(frozen=True)
class Zip(Stage):
    """The n-th items of all flows together, until the shortest ends: as tuples, or `joined`.

    Joined means that the fields are put side by side: lists are added, dicts merged.
    """

    joined: bool = False
    seeks = True
    exactness = "each once, up to the shortest"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with ExitStack() as stack:
            columns = [stack.enter_context(opened(opener, at)) for opener in inputs]
            for items in zip(*columns):
                yield _join(items) if self.joined else items

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None if None in lengths else min(length for length in lengths if length is not None)

    @property
    def name(self) -> str:
        return "join()" if self.joined else "zip()"


def _join(items: tuple[Any, ...]) -> Any:
    if all(isinstance(item, dict) for item in items):
        merged = {key: value for item in items for key, value in item.items()}
        if len(merged) < sum(map(len, items)):
            raise ValueError("cannot join dicts that share a key: rename or select fields first")
        return merged
    if all(isinstance(item, (list, tuple)) for item in items):
        values = [value for item in items for value in item]
        return tuple(values) if isinstance(items[0], tuple) else values
    kinds = ", ".join(type(item).__name__ for item in items)
    raise TypeError(f"join needs items that are all lists or all dicts, not {kinds}")


@dataclass(frozen=True)
class Mix(Stage):
    """Every item of every flow once, drawn at random in proportion to `weights`.

    Without weights, in proportion to the items that remain: every interleaving is equally likely.
    """

    weights: tuple[float, ...] | None
    lengths: tuple[Length, ...]
    seed: int
    draws = True
    order = "kept within each flow"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        draws = draw_uniform(self.seed, at.epoch, 0, MIX, at.stream)
        left = [float(w) for w in self.weights or self._known()]
        with ExitStack() as stack:
            flows = [stack.enter_context(opened(opener, at)) for opener in inputs]
            while any(left):
                chosen = pick(left, next(draws))
                try:
                    item = next(flows[chosen])
                except StopIteration:
                    left[chosen] = 0.0
                    continue
                yield item
                if self.weights is None:
                    left[chosen] -= 1.0

    def _known(self) -> list[float]:
        return [float(length) for length in self.lengths if length is not None]

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return Concat().length(lengths)

    @property
    def name(self) -> str:
        return f"mix(weights={self.weights}, seed={self.seed})"


@dataclass(frozen=True)
class Choose(Stage):
    """Items from flows drawn at random by `weights`, until the flow that was drawn has ended."""

    weights: tuple[float, ...]
    seed: int
    draws = True
    order = "kept within each flow"
    exactness = "at most once, until one ends"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with ExitStack() as stack:
            flows = [stack.enter_context(opened(opener, at)) for opener in inputs]
            for draw in draw_uniform(self.seed, at.epoch, 0, CHOOSE, at.stream):
                for item in flows[pick(self.weights, draw)]:
                    yield item
                    break
                else:
                    return

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return math.inf if all(length == math.inf for length in lengths) else None

    @property
    def name(self) -> str:
        return f"choose(weights={self.weights}, seed={self.seed})"


@dataclass(frozen=True)
class Interleave(Stage):
    """One item of each flow in turn, until the next one has ended; the inverse of `shard`."""

    name = "interleave()"
    order = "in turns"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with ExitStack() as stack:
            flows = [stack.enter_context(opened(opener, at)) for opener in inputs]
            for turn in cycle(flows):
                for item in turn:
                    yield item
                    break
                else:
                    return

    def length(self, lengths: tuple[Length, ...]) -> Length:
        if None in lengths:
            return None
        known = [length for length in lengths if length is not None]
        return min(length * len(known) + turn for turn, length in enumerate(known))


def pick(weights: list[float] | tuple[float, ...], draw: float) -> int:
    """Return the index that a draw from [0, 1) selects by these weights."""
    place = draw * sum(weights)
    for index, weight in enumerate(weights):
        place -= weight
        if place < 0:
            return index
    return max(index for index, weight in enumerate(weights) if weight > 0)


def check_weights(weights: Sequence[float] | None, count: int) -> tuple[float, ...] | None:
    """Return one positive weight per flow, or None if no weights were given."""
    if weights is None:
        return None
    checked = tuple(float(weight) for weight in weights)
    if len(checked) != count or any(not 0 < weight < math.inf for weight in checked):
        raise ValueError(f"weights must be {count} positive numbers, one per flow, not {checked}")
    return checked
