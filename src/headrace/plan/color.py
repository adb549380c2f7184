"""Draw the numbers of ColorJitter and of PCA lighting, for a whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def jitter_range(strength: float | Sequence[float]) -> tuple[float, float]:
    """Return the range of factors that torchvision's `ColorJitter` means by one number or by a pair."""
    if isinstance(strength, Sequence):
        bounds = tuple(strength)
    else:
        bounds = (max(0.0, 1 - strength), 1 + strength)
    if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:
        raise ValueError(f"strength is {strength}: give a number >= 0, or a range above 0")
    return float(bounds[0]), float(bounds[1])


def jitter_factors(
    uniforms: NDArray[np.float64], ranges: tuple[tuple[float, float], ...]
) -> NDArray[np.float64]:
    """Return float64[B, k], factor *i* uniform in `ranges[i]`, from `uniforms` float64[B, k]."""
    lows, highs = np.array(ranges).T
    factors: NDArray[np.float64] = lows + (highs - lows) * uniforms
    return factors


def jitter_order(uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return int64[B, k]: the order in which to apply k operations, each order equally likely."""
    return np.argsort(uniforms, axis=1, kind="stable")


def lighting_alphas(uniforms: NDArray[np.float64], std: float = 0.1) -> NDArray[np.float32]:
    """Return float32[B, 3], normal with mean 0 and the given standard deviation, from float64[B, 4].

    float32 hides the last bit of `log` and `cos`, in which machines may differ.
    """
    radii = np.sqrt(-2 * np.log1p(-uniforms[:, 0::2]))  # Box and Muller; 1 - u is never 0
    angles = 2 * np.pi * uniforms[:, 1::2]
    normals = np.concatenate([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    return (std * normals[:, :3]).astype(np.float32)
