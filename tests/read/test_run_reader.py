"""Memory for runs: used again, and never much more than was needed at one time."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.read.run_layout import Allocate, Run
from headrace.read.run_reader import Arenas, RunReader
from headrace.read.seeks import NO_TABLES


class Steps:
    """A reading of made-up units: which of them each step takes."""

    def __init__(self, steps: list[list[int]], size: int = 1, read: Any = None) -> None:
        self.steps, self.size = steps, size
        self.uses = Counter(unit for units in steps for unit in units)
        if read is not None:
            self.read = read

    def __len__(self) -> int:
        return len(self.steps)

    def count_units(self, number: int) -> dict[int, int]:
        return dict.fromkeys(self.steps[number], 1)

    def count_units_before(self, number: int) -> dict[int, int]:
        return Counter(unit for units in self.steps[:number] for unit in units)

    def count_uses(self, unit: int) -> int:
        return self.uses[unit]

    def measure(self, unit: int) -> int:
        return self.size

    def read(self, unit: int, take: Allocate) -> Run:
        return Run(take(1), NO_TABLES, {}, 1)


class Held:
    """How many bytes of arenas are alive, in use or free."""

    def __init__(self) -> None:
        self.arenas = Arenas()
        self.in_use: list[NDArray[np.uint8]] = []
        self.wanted: list[int] = []
        self.taken: list[weakref.ref[NDArray[np.uint8]]] = []

    def take(self, size: int) -> None:
        self.in_use.append(self.arenas.take(size))
        self.taken.append(weakref.ref(self.in_use[-1]))
        self.wanted.append(size)
        assert len(self.in_use[-1]) >= size

    def give(self, place: int) -> None:
        place %= len(self.in_use)
        self.arenas.give(self.in_use.pop(place))
        self.wanted.pop(place)

    def bytes(self) -> int:
        """Return how much memory is alive: in use, or kept by the arenas."""
        alive = {id(array): len(array) for ref in self.taken if (array := ref()) is not None}
        return sum(alive.values())


@given(st.lists(st.one_of(st.integers(1, 10_000), st.integers(-50, -1))))
def test_memory_is_bounded_by_the_largest_demand(steps: list[int]) -> None:
    held, most = Held(), 0
    for step in steps:
        if step > 0:
            held.take(step)
        elif held.in_use:
            held.give(step)
        most = max(most, sum(held.wanted))
        assert held.bytes() <= 9 / 4 * most + 8


def test_no_run_is_read_long_before_it_is_needed() -> None:
    read = [0]

    def read_run(run: int, take: Allocate) -> Run:
        read.append(run)
        return Run(take(1), NO_TABLES, {}, 1)

    with RunReader(Steps([[step] for step in range(20)], read=read_run), ahead=2) as reader:
        for step in range(20):
            reader.take([step])
            assert max(read) <= step + 2
            reader.finish_step(step)


def test_memory_is_used_again_for_a_run_of_about_its_size() -> None:
    held = Held()
    held.take(1000)
    first = weakref.ref(held.in_use[0])
    held.give(0)
    held.take(900)
    assert held.in_use[0] is first()
    held.give(0)
    held.take(100)  # a tenth of it: not worth the memory
    assert held.in_use[0] is not first() and held.bytes() < 200


def test_arenas_in_use_share_nothing() -> None:
    held = Held()
    for size in (500, 600, 700, 800):
        held.take(size)
        held.take(size)
        held.give(0)
    assert len({id(arena) for arena in held.in_use}) == len(held.in_use)


def test_large_memory_begins_in_the_middle_of_a_page_so_that_files_are_copied_fast() -> None:
    held = Held()
    for size in (100_000, 1 << 20, 8 << 20):
        held.take(size)
        assert held.in_use[-1].ctypes.data % 4096 == 2048


@pytest.mark.parametrize(("size", "together"), [(0, 16), (1, 16), (600_000, 2), (8 << 20, 1)])
def test_a_thread_claims_several_small_runs_together(size: int, together: int) -> None:
    with RunReader(Steps([list(range(40))], size), threads=0) as reader:
        assert reader._claim() == list(range(together))
        assert reader._claim() == list(range(together, 2 * together))


def test_a_thread_leaves_the_others_their_share_and_later_steps_for_later() -> None:
    both, read = threading.Barrier(2, timeout=60), []

    def read_run(run: int, take: Allocate) -> Run:
        read.append(run)
        if run in (0, 4):
            both.wait()  # for the other thread: it has something to read, too
        return Run(take(1), NO_TABLES, {}, 1)

    steps = Steps([list(range(8)), list(range(8, 12))], read=read_run)
    with RunReader(steps, threads=2, ahead=0) as reader:
        assert list(reader.take(list(range(8)))) == list(range(8))
        assert sorted(read) == list(range(8))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_arrives_at_the_step_that_needs_the_run(threads: int) -> None:
    def read_run(run: int, take: Allocate) -> Run:
        if run >= 5:
            raise OSError(f"{run} is gone")
        return Run(take(1), NO_TABLES, {}, 1)

    steps = Steps([list(range(step, 12)) for step in range(12)], read=read_run)
    with RunReader(steps, threads=threads) as reader:
        for step in range(5):
            assert list(reader.take([step])) == [step]
            reader.finish_step(step)
        with pytest.raises(OSError, match="5 is gone"):
            reader.take([5, 6])


def test_closing_does_not_wait_for_all_claimed_runs() -> None:
    begun, closing = threading.Event(), threading.Event()
    read = []

    def read_run(run: int, take: Allocate) -> Run:
        read.append(run)
        begun.set()
        closing.wait(60)
        return Run(take(1), NO_TABLES, {}, 1)

    reader = RunReader(Steps([list(range(16))], read=read_run), threads=1)
    begun.wait(60)
    with reader._change:
        reader._closed = True
    closing.set()
    reader.close()
    assert read == [0]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_run_is_released_with_its_last_use_wherever_one_resumes(start: int) -> None:
    steps, arenas = Steps([[0, 1], [1, 2], [0, 2], [0]]), Arenas()
    with RunReader(steps, arenas=arenas, start=start, ahead=0) as reader:
        for step in range(start, 4):
            reader.take(steps.steps[step])
            reader.finish_step(step)
            later = {unit for units in steps.steps[step + 1 :] for unit in units}
            assert set(reader._ready) <= later


def test_an_error_of_the_plan_arrives_where_the_run_is_needed() -> None:
    steps = Steps([[0], [1]])
    steps.steps[1] = None  # type: ignore[call-overload]
    with RunReader(steps, ahead=0) as reader:
        reader.take([0])
        reader.finish_step(0)
        with pytest.raises(TypeError):
            reader.take([1])
