"""Weighted draws have the right counts, exactly where exactness is promised, on average elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.plan import draw_weighted
from headrace.plan.weights import share_counts

some_weights = st.lists(st.integers(0, 50), min_size=1, max_size=60).filter(any)


@given(some_weights, st.integers(0, 300), st.integers(0, 99))
def test_each_sample_comes_as_often_as_its_share_rounded_up_or_down(
    weights: list[int], count: int, epoch: int
) -> None:
    rows = draw_weighted(np.array(weights, float), seed=0, epoch=epoch, count=count)
    assert len(rows) == count and (np.diff(rows) >= 0).all()
    shares = np.array(weights) / sum(weights) * count
    assert (abs(np.bincount(rows, minlength=len(weights)) - shares) < 1 + 1e-9).all()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True), st.integers(0, 99))
def test_inverse_class_sizes_balance_the_classes_to_one_sample(
    sizes: list[int], epoch: int
) -> None:
    classes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = draw_weighted(1 / np.array(sizes)[classes], seed=1, epoch=epoch)
    counts = np.bincount(classes[rows], minlength=len(sizes))
    assert (abs(counts - len(classes) / len(sizes)) < 1 + 1e-9).all()


def test_over_the_epochs_every_sample_has_its_share() -> None:
    weights = np.array([0.3, 1.7, 0.5, 0.5, 2.0, 0.0, 1.0])
    epochs = [draw_weighted(weights, seed=0, epoch=e) for e in range(4000)]
    mean = np.bincount(np.concatenate(epochs), minlength=7) / 4000
    np.testing.assert_allclose(mean, weights / weights.sum() * 7, atol=0.03)
    assert mean[5] == 0


def test_neighbours_of_equal_weight_are_drawn_independently() -> None:
    drawn = np.zeros((1000, 20), bool)
    for epoch in range(1000):
        drawn[epoch, draw_weighted(np.ones(20), seed=0, epoch=epoch, count=10)] = True
    agree = (drawn[:, :-1] == drawn[:, 1:]).mean()
    assert abs(agree - 9 / 19) < 0.02  # ten of twenty at random; in index order it would be 0


def test_draws_differ_between_epochs_and_repeat_for_the_same_one() -> None:
    weights = np.random.default_rng(0).uniform(0, 1, 100)
    draw = [draw_weighted(weights, seed=0, epoch=e).tolist() for e in (0, 1, 0)]
    assert draw[0] == draw[2] != draw[1]


def test_among_equals_each_epoch_draws_others() -> None:
    draws = {tuple(draw_weighted(np.ones(20), seed=0, epoch=e, count=10)) for e in range(10)}
    assert len(draws) == 10


@example([1], 10**9, 1 - 2.0**-32)  # the sum of the last two rounds up
@given(some_weights, st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_shares_add_up_and_are_right_to_one(weights: list[int], total: int, phase: float) -> None:
    counts = share_counts(np.array(weights, float), total, phase)
    assert counts.sum() == total and (counts >= 0).all()
    assert (abs(counts - np.array(weights) / sum(weights) * total) <= 1 + 1e-6).all()


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_impossible_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be"):
        draw_weighted(np.array(weights, float), seed=0, epoch=0)
