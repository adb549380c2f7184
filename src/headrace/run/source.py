"""Where a flow begins: any iterable, what `open_source` opened, a function, or an iterator read once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from headrace.errors import SourceError
from headrace.formats import source as formats
from headrace.formats.names import printable
from headrace.run.stage import At, Items, Length, Opener, Stage, name_of, opened
from headrace.sample import Sample


@dataclass(frozen=True)
class Source(Stage):
    """The items of `iterable`, in its own order; what can be indexed is read by index.

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
            raise SourceError(f"{self.name} says its length is {said} but gave {count} items")

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return _measure(self.iterable)

    @property
    def name(self) -> str:
        return f"of({type(self.iterable).__name__})"

    @property
    def unrepeatable(self) -> str | None:
        if isinstance(self.iterable, (set, frozenset)):
            return "a set has another order in each process: sort it"
        return None


def _measure(iterable: object) -> int | None:
    """The length that an iterable says it has; some define `__len__` and raise in it."""
    try:
        return len(iterable) if isinstance(iterable, Sized) else None
    except (TypeError, NotImplementedError):
        return None


@dataclass(frozen=True)
class MadeSource(Stage):
    """The items of what `make()` returns, made afresh for every pass."""

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
    """The items of an iterator: one pass, and a clear refusal of the second."""

    iterator: Iterator[Any]
    used: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        self.take()
        yield from self.iterator

    def take(self) -> None:
        """Mark it as read, or refuse."""
        if not self.used.acquire(blocking=False):
            raise SourceError(
                f"{self.name} is an iterator, which can be read once and was read before: give the "
                "flow a list, or a function that makes a new iterator"
            )

    def hand_on(self) -> None:
        """In a process forked by who took it: it is this one's to take."""
        self.used.release()

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"of({name_of(self.iterator)})"

    @property
    def exactness(self) -> str:
        return "each once, one pass only"

    @property
    def unrepeatable(self) -> str | None:
        return "its source is an iterator, which can be read only once"


@dataclass(frozen=True)
class Pick(Stage):
    """`sequence[index]` for each index: an order over what is too large to be held."""

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
    """The samples of what `open_source` opened, by number."""

    source: formats.Source

    def __len__(self) -> int:
        return len(self.source.names)

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.source.read(int(index))
        except SourceError as error:
            raise type(error)(f"{printable(self.source.names[index])}: {error}") from error


def make_source(source: object) -> Stage:
    """The stage for whatever the user calls a source."""
    if isinstance(source, Iterator):
        return OnceSource(source)
    if isinstance(source, Iterable):
        return Source(source)
    if isinstance(source, formats.Source):
        return Source(Samples(source))
    if callable(source):
        return MadeSource(source)
    raise TypeError(f"a flow begins with an iterable or a function that makes one, not {source!r}")
