"""Colour numbers have torchvision's ranges and the distributions that they promise."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

from headrace.plan import (
    Stream,
    draw_uniforms,
    jitter_factors,
    jitter_order,
    jitter_range,
    lighting_alphas,
)


def draw(count: int, columns: int) -> np.ndarray:
    return draw_uniforms(0, 0, Stream.JITTER, np.arange(count), columns)


@pytest.mark.parametrize("strength", [0.4, 1.0, 2.5, (0.2, 0.9), [1.0, 3.0]])
def test_jitter_ranges_are_torchvisions(
    torchvision: ModuleType, strength: float | tuple[float, float]
) -> None:
    from torchvision.transforms import ColorJitter

    assert jitter_range(strength) == tuple(ColorJitter(brightness=strength).brightness)


def test_no_jitter_is_a_factor_of_one() -> None:
    assert jitter_range(0.0) == (1.0, 1.0)


@pytest.mark.parametrize("strength", [-0.1, (-1.0, 1.0), (2.0, 1.0)])
def test_impossible_strengths_are_refused(strength: float | tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="strength is"):
        jitter_range(strength)


def test_factors_are_uniform_in_their_ranges() -> None:
    ranges = ((0.6, 1.4), (0.0, 2.0), (1.0, 1.0))
    factors = jitter_factors(draw(50_000, 3), ranges)
    for column, (low, high) in zip(factors.T, ranges):
        quantiles = np.quantile(column, [0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(quantiles, np.linspace(low, high, 5), atol=0.02)


def test_every_order_of_operations_is_equally_likely() -> None:
    orders = jitter_order(draw(24_000, 4))
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # 23 degrees of freedom


def test_lighting_is_normal_and_its_channels_independent() -> None:
    alphas = lighting_alphas(draw(50_000, 4), std=0.1)
    assert alphas.dtype == np.float32 and alphas.shape == (50_000, 3)
    assert abs(alphas.mean()) < 0.001 and abs(alphas.std() - 0.1) < 0.001
    for column in np.sort(alphas, axis=0).T:
        normal = [0.5 * (1 + math.erf(x / 0.1 / math.sqrt(2))) for x in column.tolist()]
        assert abs(np.array(normal) - (np.arange(50_000) + 0.5) / 50_000).max() < 0.0105
    assert abs(np.corrcoef(alphas.T) - np.eye(3)).max() < 0.02
    assert abs(np.corrcoef(abs(alphas.T)) - np.eye(3)).max() < 0.02


def test_lighting_of_the_extreme_uniforms_is_finite() -> None:
    extremes = np.array([[0.0, 0.0, 0.0, 0.0], [1 - 2.0**-32] * 4])
    assert np.isfinite(lighting_alphas(extremes)).all()
