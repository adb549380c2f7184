"""Mixtures give every source its share, and go through a source before they repeat it."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import make_runs
from headrace.plan import draw_mixture
from headrace.plan.mixture import count_before

RUNS = make_runs([10] * 10 + [7] * 5 + [20] * 10)
SOURCES = np.array([0, 100, 135, 335])


def draw(epoch: int, weights: list[float], count: int = 300, seed: int = 0) -> np.ndarray:
    weights = np.array(weights)
    return draw_mixture(RUNS, SOURCES, weights, seed=seed, epoch=epoch, count=count)


weights = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)
epochs = st.integers(0, 50) | st.integers(0, 2**70)


@given(weights, st.integers(0, 1000), epochs)
def test_every_source_has_its_share_to_one_sample(
    weights: list[int], count: int, epoch: int
) -> None:
    rows = draw(epoch, weights, count)
    assert len(rows) == count and (np.diff(rows) >= 0).all()
    counts = np.histogram(rows, SOURCES)[0]
    assert (abs(counts - np.array(weights) / sum(weights) * count) <= 1 + 1e-9).all()


@given(
    st.lists(st.integers(0, 9) | st.floats(0, 1e9), min_size=1, max_size=9).filter(any),
    st.integers(0, 10**9),
    st.integers(0, 40),
    st.integers(0, 2**40),
)
def test_shares_are_right_to_one_sample_over_all_stretches_of_a_power_of_two(
    weights: list[float], count: int, power: int, stretch: int
) -> None:
    first, last = stretch << power, (stretch + 1) << power
    before, after = (count_before(np.array(weights, float), count, e) for e in (first, last))
    counts = [b - a for a, b in zip(before, after, strict=True)]
    assert sum(counts) == count << power
    whole = sum(map(Fraction, weights))
    for weight, came in zip(weights, counts, strict=True):
        assert abs(came - (count << power) * Fraction(weight) / whole) < 1


def test_a_small_weight_comes_in_some_epochs() -> None:
    counts = [np.histogram(draw(e, [200, 1, 0], 60), SOURCES)[0][1] for e in range(256)]
    assert set(counts) == {0, 1} and sum(counts) in (76, 77)  # of 256 * 60 / 201


@pytest.mark.parametrize("weights", [[0.7, 0.3], [1 / 7, 6 / 7], [0.1] * 10])
def test_integer_shares_are_the_same_in_every_epoch(weights: list[float]) -> None:
    came = [count_before(np.array(weights), 70, epoch) for epoch in range(200)]
    shares = np.rint(np.array(weights) * 70).astype(int)
    assert np.array_equal(np.diff(came, axis=0), np.tile(shares, (199, 1)))


def test_epoch_0_rounds_shares_to_the_nearest() -> None:
    assert np.histogram(draw(0, [1, 2, 0], count=5), SOURCES)[0].tolist() == [2, 3, 0]


@given(weights, st.sampled_from([300, 301]), epochs, st.integers(1, 9))
def test_all_samples_of_a_source_come_before_any_comes_again(
    weights: list[int], count: int, first: int, epochs: int
) -> None:
    rows = np.concatenate([draw(e, weights, count) for e in range(first, first + epochs)])
    counts = np.bincount(rows, minlength=335)
    for a, b in pairwise(SOURCES):
        assert counts[a:b].max() - counts[a:b].min() <= 1


def test_a_small_share_of_a_source_reads_few_runs() -> None:
    rows = draw(epoch=0, weights=[0, 0, 1], count=60)
    assert len(np.unique(RUNS.find(rows))) == 3


def test_seeds_go_through_a_source_in_different_orders() -> None:
    assert draw(0, [1, 1, 1], 30, seed=0).tolist() != draw(0, [1, 1, 1], 30, seed=1).tolist()


def test_sources_of_equal_runs_have_different_orders() -> None:
    sources = np.array([0, 100, 200])
    rows = draw_mixture(make_runs([10] * 20), sources, np.ones(2), seed=0, epoch=0, count=60)
    assert rows[:30].tolist() != (rows[30:] - 100).tolist()


def test_a_source_that_cuts_a_run_is_refused() -> None:
    with pytest.raises(ValueError, match="begins and ends where a run does"):
        draw_mixture(RUNS, np.array([0, 95, 335]), np.ones(2), seed=0, epoch=0, count=10)


def test_sources_without_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="each source needs a weight"):
        draw_mixture(RUNS, SOURCES, np.ones(2), seed=0, epoch=0, count=10)


def test_an_empty_source_with_a_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="source 1 has a weight but no samples"):
        weights = np.array([1000, 1])  # not even where its share of the epoch is none
        draw_mixture(RUNS, np.array([0, 335, 335]), weights, seed=0, epoch=0, count=10)


@pytest.mark.parametrize("weights", [[0, 0, 0], [1, -1, 1], [1, np.nan, 1], [1, np.inf, 1]])
def test_impossible_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be"):
        draw(0, weights)
