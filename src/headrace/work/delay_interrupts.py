"""Delays Ctrl-C at moments when it would leave something behind, or be lost.

Python raises KeyboardInterrupt between any two instructions of the main thread: also while a thread or a process
runs that nobody has a name for yet, and in hooks around a fork and in finalizers of generators, where exceptions
are swallowed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

_LEAVING = 0.1  # seconds; leaving takes microseconds


class Closable(Protocol):
    """Anything with a `close` method."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Raise a Ctrl-C that comes inside the block when the block is left."""
    caught: list[int] = []
    try:
        with _catch_interrupts(caught):
            yield
    finally:
        if caught:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def started(make: Callable[[], T]) -> Iterator[T]:
    """Yield what `make` starts; close it when the block is left, whenever Ctrl-C comes."""
    thing: T | None = None
    try:
        with hold_interrupts():
            thing = make()
        yield thing
    finally:
        if thing is not None:
            run_undisturbed(thing.close)


def run_undisturbed(action: Callable[[], None]) -> None:
    """Run `action` to its end. A Ctrl-C is raised a moment later: in a finalizer it would be lost."""
    caught: list[int] = []
    done = False
    try:
        with _catch_interrupts(caught):
            action()
            done = True
    except KeyboardInterrupt:  # just before it could be caught, or just after
        caught.append(signal.SIGINT)
        if not done:
            with _catch_interrupts(caught):
                action()
    if caught:
        _interrupt_later()


@contextmanager
def _catch_interrupts(caught: list[int]) -> Iterator[None]:
    """Add Ctrl-C to `caught` instead of raising it."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # it is not raised here
        return
    signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_later() -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(_LEAVING, signal.pthread_kill, (main, signal.SIGINT))
    timer.daemon = True
    timer.start()
