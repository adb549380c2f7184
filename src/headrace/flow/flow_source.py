"""Sources of flows: an iterable, a dataset, a function that makes an iterable, or an iterator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from headrace.errors import SourceError
from headrace.flow.stage import At, Items, Length, Opener, Stage, opened
from headrace.formats import source as formats
from headrace.sample import Sample
from headrace.store.keys import printable
from headrace.work.call_task import name_of


@dataclass(frozen=True)
class Source(Stage):
    """The items of `iterable` in its own order, read by index where that is possible.

    Guaranteed: exactly `len(iterable)` items where it has a length, or SourceError at the end.
    """

    iterable: Iterable[Any]
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        if isinstance(self.iterable, (Sequence, np.ndarray)):
            for index in range(at.start, len(self.iterable), at.step):
                yield self.iterable[index]
        else:
            yield from islice(self._count(), at.start, None, at.step)

    def _count(self) -> Iterator[Any]:
        count = 0
        for item in self.iterable:
            yield item
            count += 1
        said = _measure(self.iterable)
        if said is not None and said != count:
            raise SourceError(f"{self.name} states a length of {said} but yielded {count} items")

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return _measure(self.iterable)

    @property
    def name(self) -> str:
        return f"of({type(self.iterable).__name__})"

    @property
    def unrepeatable(self) -> str | None:
        if isinstance(self.iterable, (set, frozenset)):
            return "a set has a different order in each process; sort it"
        return None


def _measure(iterable: object) -> int | None:
    """Return the length that an iterable states; None if it has none, or raises in `__len__`."""
    try:
        return len(iterable) if isinstance(iterable, Sized) else None
    except (TypeError, NotImplementedError):
        return None


@dataclass(frozen=True)
class MadeSource(Stage):
    """The items of a new iterable from `make()` for every pass."""

    make: Callable[[], Iterable[Any]]

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        yield from self.make()

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"of({name_of(self.make)})"


@dataclass(frozen=True)
class OnceSource(Stage):
    """The items of an iterator: one pass, and a clear error at the second."""

    iterator: Iterator[Any]
    used: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    exactness = "each once, one pass only"
    unrepeatable = "its source is an iterator, which can be read only once"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        self.take()
        yield from self.iterator

    def take(self) -> None:
        """Mark the iterator as read. Raise SourceError if it was read before."""
        if not self.used.acquire(blocking=False):
            raise SourceError(
                f"{self.name} is an iterator that was already read; pass a list, or a function that "
                "makes a new iterator"
            )

    def hand_on(self) -> None:
        """Let this process, forked by the one that took the iterator, take it in turn."""
        self.used.release()

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"of({name_of(self.iterator)})"


@dataclass(frozen=True)
class Pick(Stage):
    """`sequence[index]` for each index, for sequences too large for memory."""

    sequence: Sequence[Any]
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as indices:
            for index in indices:
                yield self.sequence[index]

    @property
    def name(self) -> str:
        return f"pick({type(self.sequence).__name__})"


@dataclass(frozen=True)
class Samples(Sequence[Sample]):
    """The samples of an open source, by number."""

    source: formats.Source

    def __len__(self) -> int:
        return len(self.source.names)

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.source.read(int(index))
        except SourceError as error:
            raise type(error)(f"{printable(self.source.names[index])}: {error}") from error


def make_source(source: object) -> Stage:
    """Return the stage that reads whatever the user passed as a source."""
    if isinstance(source, Iterator):
        return OnceSource(source)
    if isinstance(source, Iterable):
        return Source(source)
    if isinstance(source, formats.Source):
        return Source(Samples(source))
    if callable(source):
        return MadeSource(source)
    raise TypeError(
        f"not a source of items: {source!r}; pass an iterable, or a function that makes one"
    )
