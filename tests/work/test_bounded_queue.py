"""The bounded queue between two threads, and the thread that fills one."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Generator, Iterator

import pytest

from headrace.work.bounded_queue import BoundedQueue, run_ahead
from headrace.work.stop import Stop


def test_items_that_are_none_pass_through() -> None:
    queue: BoundedQueue[int | None] = BoundedQueue(2)
    queue.put(None)
    queue.put(1)
    queue.end()
    assert list(queue) == [None, 1]


def test_an_error_arrives_after_the_items_before_it() -> None:
    queue: BoundedQueue[int] = BoundedQueue(2)
    queue.put(1)
    queue.end(ValueError("bad"))
    assert queue.get() == 1
    with pytest.raises(ValueError, match="bad"):
        queue.get()
    assert queue.get() is None


def test_a_producer_that_waits_for_room_learns_of_the_end() -> None:
    queue: BoundedQueue[int] = BoundedQueue(1)
    assert queue.put(1)
    thread = threading.Thread(target=queue.end)
    thread.start()
    assert not queue.put(2)
    thread.join()


def test_an_item_is_made_when_there_is_room_for_it() -> None:
    made: list[int] = []
    enough = threading.Event()

    def count() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                enough.set()
            yield number

    with run_ahead((number for number in count()), "ahead", 3) as ready:
        assert enough.wait(20)
        assert made == [0, 1, 2]
        assert ready.get() == 0
    assert len(made) <= 4


def test_leaving_closes_the_items_in_their_thread_and_the_stop() -> None:
    stop, threads = Stop(), list[threading.Thread]()

    def wait() -> Iterator[int]:
        try:
            yield 1
            while not stop.is_set():
                pass
            yield 2
        finally:
            threads.append(threading.current_thread())

    with run_ahead((number for number in wait()), "ahead", 9, stop) as ready:
        assert ready.get() == 1
    assert [thread.name for thread in threads] == ["ahead"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        stop.close()


class Held:
    """Something that frames hold."""


def test_an_error_of_the_producer_keeps_nothing_alive() -> None:
    gone: list[weakref.ref[Held]] = []

    def fail() -> Generator[int, None, None]:
        held = Held()
        gone.append(weakref.ref(held))
        yield 1
        raise ValueError("bad")

    gc.disable()
    try:
        with run_ahead(fail(), "test", 2) as queue, pytest.raises(ValueError, match="bad"):
            list(queue)
        assert gone[0]() is None
    finally:
        gc.enable()
