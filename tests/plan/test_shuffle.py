"""The line of runs and its shuffles: bijections, bounded where bounded, uniform where uniform."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import make_runs
from headrace.plan.line import Line
from headrace.plan.permutation import Permutation
from headrace.plan.philox import Stream
from headrace.plan.shuffle import Shuffle, order_randomly, shuffle_places

lengths = st.lists(st.integers(0, 9), max_size=30)


def lay(sizes: list[int], order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a line, and their stretches."""
    return Line.lay(make_runs(sizes), order).find(np.arange(sum(sizes)))


@given(lengths, st.integers(0, 99))
def test_the_line_holds_every_entry_once_and_keeps_runs_whole(sizes: list[int], epoch: int) -> None:
    entries, _ = lay(sizes, order_randomly(1, epoch, Stream.RUNS, len(sizes)))
    assert sorted(entries) == list(range(sum(sizes)))
    for a, b in pairwise(make_runs(sizes).list_bounds()):
        place = np.flatnonzero(entries == a)[0] if b > a else 0
        assert entries[place : place + b - a].tolist() == list(range(a, b))


def test_runs_are_laid_in_the_order_given() -> None:
    entries, stretches = lay([2, 0, 3], np.array([2, 1, 0]))
    assert entries.tolist() == [2, 3, 4, 0, 1] and stretches.tolist() == [0, 0, 0, 2, 2]


@given(lengths, st.booleans())
def test_stretches_begin_where_the_one_before_ends(sizes: list[int], shuffled: bool) -> None:
    order = order_randomly(0, 0, Stream.RUNS, len(sizes)) if shuffled else None
    line = Line.lay(make_runs(sizes), order)
    lengths = np.array(sizes, int)[np.arange(len(sizes)) if order is None else order]
    begins = np.append(0, np.cumsum(lengths))
    assert line.find_begins(np.arange(len(sizes) + 1)).tolist() == begins.tolist()
    expected = np.append(np.repeat(np.arange(len(sizes)), lengths), len(sizes))
    assert line.find_stretches(np.arange(len(line) + 1)).tolist() == expected.tolist()


def shuffle_lane(start: int, length: int, window: int, seed: int) -> np.ndarray:
    return shuffle_places(start, length, window, range(length), seed, epoch=0)


@given(st.data(), st.integers(1, 300), st.integers(0, 200))
def test_places_alone_are_those_of_the_whole_lane(
    data: st.DataObject, length: int, window: int
) -> None:
    first = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(first + 1, length))
    found = shuffle_places(7, length, window, range(first, stop), 5, epoch=0)
    assert found.tolist() == shuffle_lane(7, length, window, 5)[first:stop].tolist()


@given(st.integers(0, 200), st.integers(0, 50), st.integers(0, 200), st.integers(0, 2**64 - 1))
def test_a_lane_is_permuted_and_nothing_moves_as_far_as_the_window(
    length: int, start: int, window: int, seed: int
) -> None:
    lane = shuffle_lane(start, length, window, seed)
    assert sorted(lane) == list(range(length))
    assert (abs(lane - np.arange(length)) < max(window, 1)).all()


@given(st.integers(1, 200), st.integers(0, 100))
def test_when_a_sample_is_out_all_that_lie_a_window_before_it_are_out(
    length: int, window: int
) -> None:
    lane = shuffle_lane(0, length, window, seed=3)
    furthest_out = np.maximum.accumulate(lane)
    nearest_in = np.minimum.accumulate(lane[::-1])[::-1]
    assert (furthest_out - nearest_in < max(window, 1)).all()


def test_displacements_are_distributed_like_uniform_keys() -> None:
    n, window = 200_000, 1000
    lane = shuffle_lane(0, n, window, seed=0)
    moves = (np.arange(n) - lane)[window:-window] / window
    # Far from the ends a sample at p comes out at about p + window * (u - 1/2).
    assert abs(moves.mean()) < 0.005
    assert abs(moves.std() - 12**-0.5) < 0.005
    quantiles = np.quantile(moves, [0.1, 0.3, 0.7, 0.9])
    np.testing.assert_allclose(quantiles, [-0.4, -0.2, 0.2, 0.4], atol=0.01)


def test_even_a_window_of_two_mixes() -> None:
    lane = shuffle_lane(0, 10_000, 2, seed=0)
    swapped = (np.diff(lane) < 0).mean()  # neighbours p, p + 1 with 2 u > 1 + 2 v: one in eight
    assert abs(swapped - 1 / 8) < 0.02


def test_a_permutation_is_uniform() -> None:
    counts = np.zeros((5, 5), int)
    for epoch in range(4000):
        counts[np.arange(5), order_randomly(0, epoch, Stream.PERMUTATION, 5)] += 1
    chi2 = ((counts - 800) ** 2 / 800).sum()
    assert 4 < chi2 < 40  # 16 degrees of freedom


@given(st.integers(1, 2000) | st.integers(2**16, 2**17), st.integers(0, 99))
def test_a_permutation_is_a_bijection(count: int, epoch: int) -> None:
    found = Permutation(3, epoch, Stream.PERMUTATION, count).find(np.arange(count))
    assert np.array_equal(np.sort(found), np.arange(count))


@pytest.mark.parametrize("count", [2**16 + 1, 100_000, 2**17, 10**9])
def test_a_long_permutation_looks_uniform(count: int) -> None:
    """Where numbers go, how far neighbours are apart, and how epochs differ: 64 cells of equal probability each."""
    places = np.random.default_rng(0).integers(0, count - 1, 50_000)
    first, other = (Permutation(0, epoch, Stream.PERMUTATION, count) for epoch in (0, 1))
    found = first.find(places)
    apart = (first.find(places + 1) - found) % count
    moved, between = (found - places) % count, (other.find(places) - found) % count
    for values in (found, apart, moved, between):
        cells = np.bincount(values * 64 // count, minlength=64)
        chi2 = ((cells - len(places) / 64) ** 2 / (len(places) / 64)).sum()
        assert 25 < chi2 < 120  # 63 degrees of freedom
    joint = np.bincount(places * 8 // count * 8 + found * 8 // count, minlength=64)
    assert 25 < ((joint - len(places) / 64) ** 2 / (len(places) / 64)).sum() < 120


@given(st.integers(0, 99), st.integers(100, 10_000))
def test_a_window_as_long_as_the_epoch_is_global(entries: int, window: int) -> None:
    assert Shuffle(window=window).is_global(entries)
    assert Shuffle(window=None).is_global(entries)
    assert not Shuffle(window=entries).is_global(entries + 1)


@pytest.mark.parametrize("window", [-1, 2**32])
def test_impossible_windows_are_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"window is {window}"):
        Shuffle(window=window)
