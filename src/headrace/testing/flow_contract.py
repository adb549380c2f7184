"""Test what every flow guarantees, whichever stages it consists of."""

from __future__ import annotations

import math
import multiprocessing
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from headrace import Flow

COUNT = 23
"""The number of items of the source that the tests read."""


class Broken:
    """Yield ten items, then fail."""

    def __iter__(self) -> Iterator[int]:
        yield from range(10)
        raise OSError("the disk is gone")


def plain(value: Any) -> Any:
    """Return a value with its arrays and tuples as lists, so that items compare with ==."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def read(flow: Flow) -> list[Any]:
    """Return the items of one pass, each as `plain` returns it."""
    return [plain(item) for item in flow]


class FlowContract:
    """Test a flow: inherit this class, define `make` and `expect`.

    The tests cover order, length, early exit, iterating again, epochs, resuming, sharding, errors
    and other processes. Functions in the flow must be picklable.

        class TestSquares(FlowContract):
            def make(self, source):
                return Flow.of(source).map(square, workers=2)

            def expect(self):
                return [n * n for n in range(COUNT)]
    """

    ordered = True
    """Whether the flow keeps its order; otherwise the tests compare sorted items."""

    repeatable = True
    """Whether the flow can be resumed; otherwise the tests expect that it refuses."""

    def make(self, source: Any) -> Flow:
        """Build the flow.

        Args:
            source: An iterable of the integers from 0 to `COUNT` - 1, or of none of them.

        Returns:
            A new flow over `source`, the same each time.
        """
        raise NotImplementedError

    def expect(self) -> list[Any]:
        """Return the items of epoch 0, with arrays and tuples as lists."""
        raise NotImplementedError

    def expect_of_nothing(self) -> list[Any]:
        """Return the items of a flow over an empty source."""
        return []

    def check(self, items: list[Any], expected: list[Any]) -> None:
        """Assert that items are the expected ones."""
        if not self.ordered:
            items, expected = sorted(items), sorted(expected)
        assert items == expected

    @pytest.fixture(autouse=True)
    def nothing_is_left(self) -> Iterator[None]:
        """Fail a test that leaves a thread or a process behind."""
        threads = set(threading.enumerate())
        yield
        assert multiprocessing.active_children() == []
        assert set(threading.enumerate()) <= threads

    def test_yields_each_item_in_order(self) -> None:
        self.check(read(self.make(range(COUNT))), self.expect())

    def test_length_is_exact_or_absent(self) -> None:
        flow = self.make(range(COUNT))
        length = flow.length()
        if length is None or length == math.inf:
            with pytest.raises(TypeError, match="length"):
                len(flow)
        else:
            assert len(flow) == len(self.expect())

    def test_an_empty_input_ends(self) -> None:
        self.check(read(self.make([])), self.expect_of_nothing())

    def test_a_second_pass_is_like_the_first(self) -> None:
        flow = self.make(range(COUNT))
        self.check(read(flow), read(flow))

    def test_a_pass_after_an_early_break_is_complete(self) -> None:
        flow = self.make(range(COUNT))
        for _ in islice(flow, 2):
            pass
        self.check(read(flow), self.expect())

    def test_two_passes_may_be_alive_at_once(self) -> None:
        flow = self.make(range(COUNT))
        first, second = iter(flow), iter(flow)
        got: tuple[list[Any], list[Any]] = ([], [])
        for left, right in zip(first, second):
            got[0].append(plain(left))
            got[1].append(plain(right))
        self.check(got[0], self.expect())
        self.check(got[1], self.expect())

    def test_an_epoch_is_reproducible(self) -> None:
        first, second = self.make(range(COUNT)), self.make(range(COUNT))
        first.set_epoch(3)
        second.set_epoch(3)
        self.check(read(first), read(second))

    @pytest.mark.parametrize("position", [0, 1, 2, 5, 1000])
    def test_a_resumed_pass_equals_an_uninterrupted_one(self, position: int) -> None:
        flow = self.make(range(COUNT))
        flow.set_epoch(1)
        if not self.repeatable:
            with pytest.raises(ValueError, match="cannot be resumed"):
                flow.state_dict()
            return
        begun = iter(flow)
        head = [plain(item) for item in islice(begun, position)]
        state = flow.state_dict()
        del begun
        again = self.make(range(COUNT))
        again.load_state_dict(state)
        tail = read(again)
        whole = self.make(range(COUNT))
        whole.set_epoch(1)
        assert head + tail == read(whole)

    def test_shards_divide_the_items(self) -> None:
        flow, expected = self.make(range(COUNT)), self.expect()
        parts = [read(flow.shard(rank, 3)) for rank in range(3)]
        if not self.repeatable:  # each shard has an order of its own
            assert [len(part) for part in parts] == [len(expected[rank::3]) for rank in range(3)]
            assert all(item in expected for part in parts for item in part)
            return
        merged = [part[i] for i in range(len(parts[0])) for part in parts if i < len(part)]
        self.check(merged, expected)

    def test_an_error_of_the_source_is_raised(self) -> None:
        with pytest.raises(Exception, match="the disk is gone"):
            read(self.make(Broken()))

    @pytest.mark.parametrize("start", ["fork", "spawn"])
    def test_runs_in_another_process(self, start: str) -> None:
        self.check(read(self.make(range(COUNT)).in_process(start=start)), self.expect())

    def test_describes_itself(self) -> None:
        flow = self.make(range(COUNT))
        rows = flow.describe().rows
        assert rows[0].stage == "of(range)"
        assert all(row.order and row.items and row.length and row.runs_in for row in rows)
        assert len(str(flow.describe()).splitlines()) == len(rows) + 1
