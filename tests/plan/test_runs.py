"""Runs follow from the rows and bytes of shards: every row in one run, equal in length, about as long as asked."""

from __future__ import annotations

import timeit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import Runs, cut_runs

shards = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10_000)), max_size=6)


def cut(sizes: list[tuple[int, int]], run_bytes: int) -> Runs:
    rows, lengths = np.array(sizes, np.int64).reshape(-1, 2).T
    return cut_runs(rows, lengths, run_bytes)


@given(shards, st.integers(1, 2000))
def test_every_row_is_in_exactly_one_run_of_its_shard(
    sizes: list[tuple[int, int]], run_bytes: int
) -> None:
    runs, total = cut(sizes, run_bytes), sum(rows for rows, _ in sizes)
    bounds = runs.list_bounds()
    assert bounds[0] == 0 and bounds[-1] == total == runs.entries and len(bounds) == len(runs) + 1
    assert (np.diff(bounds) > 0).all() and np.array_equal(np.diff(bounds), runs.measure_all())
    assert set(np.cumsum([rows for rows, _ in sizes])) <= set(bounds.tolist())


@given(shards, st.integers(1, 2000))
def test_a_row_finds_its_run(sizes: list[tuple[int, int]], run_bytes: int) -> None:
    runs = cut(sizes, run_bytes)
    expected = np.repeat(np.arange(len(runs)), runs.measure_all())
    assert runs.find(np.arange(runs.entries)).tolist() == expected.tolist()


@given(st.integers(1, 60), st.integers(0, 10_000), st.integers(1, 2000))
def test_the_runs_of_a_shard_are_as_many_as_its_bytes_ask_for_and_equal_to_one_row(
    rows: int, size: int, run_bytes: int
) -> None:
    runs = cut([(rows, size)], run_bytes)
    assert len(runs) == min(max(1, (size + run_bytes // 2) // run_bytes), rows)
    lengths = runs.measure_all()
    assert lengths.max() - lengths.min() <= 1


def test_run_i_of_k_begins_at_row_i_n_over_k() -> None:
    assert cut([(10, 3 << 20)], 1 << 20).list_bounds().tolist() == [0, 3, 6, 10]


def test_runs_of_one_byte_are_single_rows() -> None:
    assert cut([(5, 1000), (3, 2)], 1).list_bounds().tolist() == [0, 1, 2, 3, 4, 5, 6, 8]


def test_no_rows_are_no_runs() -> None:
    for sizes in ([], [(0, 100)]):
        runs = cut(sizes, 10)
        assert len(runs) == runs.entries == 0 and runs.list_bounds().tolist() == [0]


def test_runs_of_no_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="run_bytes is 0"):
        cut([(3, 3)], 0)


def test_ten_million_runs_are_measured_within_a_second() -> None:
    runs = cut_runs(np.full(400_000, 2500), np.full(400_000, 200 << 20))
    assert len(runs) == 10_000_000
    assert min(timeit.repeat(runs.measure_all, number=1, repeat=2)) < 1.5
