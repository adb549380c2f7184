"""Runs cover the index, each in one file, each about as long as asked."""

from __future__ import annotations

import timeit
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import cut_runs, find_runs, group_files


def lay_out(shards: list[list[int]], gap: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(files, offsets, sizes) of shards whose samples lie one after the other."""
    files = np.repeat(np.arange(len(shards)), [len(sizes) for sizes in shards])
    offsets = [np.cumsum([0] + [size + gap for size in sizes])[:-1] for sizes in shards]
    sizes = [np.array(sizes, np.int64) for sizes in shards]
    empty = [np.empty(0, np.int64)]
    return files, np.concatenate(offsets + empty), np.concatenate(sizes + empty)


shards = st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=40), max_size=6)


@given(shards, st.integers(1, 2000))
def test_every_row_is_in_exactly_one_run_and_no_run_is_empty(
    sizes: list[list[int]], run_bytes: int
) -> None:
    files, offsets, lengths = lay_out(sizes, gap=5)
    runs = cut_runs(files, offsets, lengths, run_bytes)
    assert runs[0] == 0 and runs[-1] == len(files)
    assert (np.diff(runs) > 0).all()


@given(shards, st.integers(1, 2000))
def test_a_run_lies_in_one_file_and_is_at_most_half_as_long_again_but_for_its_last_sample(
    sizes: list[list[int]], run_bytes: int
) -> None:
    files, offsets, lengths = lay_out(sizes)
    runs = cut_runs(files, offsets, lengths, run_bytes)
    for a, b in pairwise(runs):
        assert files[a] == files[b - 1]
        assert offsets[b - 1] - offsets[a] <= 1.5 * run_bytes + 1


def test_a_shard_is_divided_into_equal_runs_of_about_the_size() -> None:
    files, offsets, sizes = lay_out([[100] * 1000])
    runs = cut_runs(files, offsets, sizes, 9000)
    assert np.diff(runs).tolist() == [91] * 10 + [90]


def test_going_backwards_in_a_file_begins_a_run() -> None:
    files, sizes = np.zeros(6, np.int64), np.full(6, 10)
    runs = cut_runs(files, np.array([0, 10, 20, 5, 15, 25]), sizes)
    assert runs.tolist() == [0, 3, 6]


def test_a_sample_longer_than_a_run_is_a_run() -> None:
    files, offsets, sizes = lay_out([[5000, 5000, 5000]])
    assert cut_runs(files, offsets, sizes, 1000).tolist() == [0, 1, 2, 3]


def test_small_files_are_grouped_to_the_size_of_a_run() -> None:
    assert group_files(np.full(1000, 100), 10_000).tolist() == list(range(0, 1001, 100))


def test_no_rows_are_no_runs() -> None:
    nothing = np.empty(0, np.int64)
    assert cut_runs(nothing, nothing, nothing).tolist() == [0]
    assert group_files(nothing).tolist() == [0]


def test_a_row_finds_its_run() -> None:
    assert find_runs(np.array([0, 3, 4, 9]), np.arange(9)).tolist() == [0] * 3 + [1] + [2] * 5


def test_runs_of_no_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="run_bytes is 0"):
        group_files(np.ones(3, np.int64), 0)


def test_a_million_rows_are_cut_in_a_tenth_of_a_second() -> None:
    sizes = np.random.default_rng(0).integers(50_000, 170_000, 1_281_167)
    files = np.arange(len(sizes)) // 10_000
    offsets = np.cumsum(sizes) - sizes
    seconds = timeit.repeat(lambda: cut_runs(files, offsets, sizes), number=1, repeat=5)
    assert min(seconds) < 0.1
    runs = cut_runs(files, offsets, sizes)
    assert abs(np.mean(np.diff(offsets[runs[:-1]])) / (8 << 20) - 1) < 0.02
