"""The line of runs and its shuffles: bijections, bounded where bounded, uniform where uniform."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import make_runs
from headrace.plan.philox import Stream
from headrace.plan.shuffle import Shuffle, lay_runs, order_randomly, shuffle_lane, shuffle_runs

lengths = st.lists(st.integers(0, 9), max_size=30)


@given(lengths, st.integers(0, 99))
def test_the_line_holds_every_entry_once_and_keeps_runs_whole(sizes: list[int], epoch: int) -> None:
    bounds = make_runs(sizes)
    line = shuffle_runs(bounds, Shuffle(seed=1), epoch)
    assert sorted(line) == list(range(bounds[-1]))
    for a, b in pairwise(bounds):
        place = np.flatnonzero(line == a)[0] if b > a else 0
        assert line[place : place + b - a].tolist() == list(range(a, b))


def test_runs_are_laid_in_the_order_given() -> None:
    assert lay_runs(np.array([0, 2, 2, 5]), np.array([2, 1, 0])).tolist() == [2, 3, 4, 0, 1]


@given(st.integers(0, 200), st.integers(0, 50), st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_a_lane_is_permuted_and_nothing_moves_as_far_as_the_window(
    length: int, start: int, window: int, seed: int
) -> None:
    line = np.arange(300)
    lane = shuffle_lane(line, start, start + length, window, seed, epoch=0)
    assert sorted(lane) == list(range(start, start + length))
    assert (abs(lane - start - np.arange(length)) < max(window, 1)).all()


@given(st.integers(1, 200), st.integers(0, 100))
def test_when_a_sample_is_out_all_that_lie_a_window_before_it_are_out(
    length: int, window: int
) -> None:
    lane = shuffle_lane(np.arange(length), 0, length, window, seed=3, epoch=0)
    furthest_out = np.maximum.accumulate(lane)
    nearest_in = np.minimum.accumulate(lane[::-1])[::-1]
    assert (furthest_out - nearest_in < max(window, 1)).all()


def test_displacements_are_distributed_like_uniform_keys() -> None:
    n, window = 200_000, 1000
    lane = shuffle_lane(np.arange(n), 0, n, window, seed=0, epoch=0)
    moves = (np.arange(n) - lane)[window:-window] / window
    # Far from the ends a sample at p comes out at about p + window * (u - 1/2).
    assert abs(moves.mean()) < 0.005
    assert abs(moves.std() - 12**-0.5) < 0.005
    quantiles = np.quantile(moves, [0.1, 0.3, 0.7, 0.9])
    np.testing.assert_allclose(quantiles, [-0.4, -0.2, 0.2, 0.4], atol=0.01)


def test_even_a_window_of_two_mixes() -> None:
    lane = shuffle_lane(np.arange(10_000), 0, 10_000, 2, seed=0, epoch=0)
    swapped = (np.diff(lane) < 0).mean()  # neighbours p, p + 1 with 2 u > 1 + 2 v: one in eight
    assert abs(swapped - 1 / 8) < 0.02


def test_a_permutation_is_uniform() -> None:
    counts = np.zeros((5, 5), int)
    for epoch in range(4000):
        counts[np.arange(5), order_randomly(0, epoch, Stream.PERMUTATION, 5)] += 1
    chi2 = ((counts - 800) ** 2 / 800).sum()
    assert 4 < chi2 < 40  # 16 degrees of freedom


def test_runs_come_in_a_uniform_order() -> None:
    firsts = [shuffle_runs(np.arange(7), Shuffle(seed=5), epoch)[0] for epoch in range(3000)]
    chi2 = ((np.bincount(firsts, minlength=6) - 500) ** 2 / 500).sum()
    assert chi2 < 21  # 5 degrees of freedom


@given(st.integers(0, 99), st.integers(100, 10_000))
def test_a_window_as_long_as_the_epoch_is_global(entries: int, window: int) -> None:
    assert Shuffle(window=window).is_global(entries)
    assert Shuffle(window=None).is_global(entries)
    assert not Shuffle(window=entries).is_global(entries + 1)


@pytest.mark.parametrize("window", [-1, 2**32])
def test_impossible_windows_are_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"window is {window}"):
        Shuffle(window=window)
