"""Boxes that random erasing covers, as torchvision's and timm's `RandomErasing` draw them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_TRIES = 10
ERASING_UNIFORMS = 2 * _TRIES + 2


def erasing_boxes(
    uniforms: NDArray[np.float64],
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    *,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    parts: NDArray[np.int64] | int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return int64[B, 4] boxes (left, top, width, height), and bool[B]: whether one was found.

    A box is the first of ten tries (area uniform, aspect ratio log-uniform) that is smaller than the image in both
    directions, anywhere it fits.

    Args:
        uniforms: float64[B, ERASING_UNIFORMS].
        heights: int64[B] of the images.
        widths: int64[B] of the images.
        scale: least and greatest share of the area.
        ratio: least and greatest height divided by width.
        parts: how many boxes share the area of an image.
    """
    shares = scale[0] + (scale[1] - scale[0]) * uniforms[:, 0:-2:2]
    low, high = (math.log(bound) for bound in ratio)
    # float32, as in torchvision, hides the last bit of `exp`, in which machines may differ.
    ratios = np.exp(low + (high - low) * uniforms[:, 1:-2:2]).astype(np.float32)
    areas = shares * (heights * widths)[:, None] / np.reshape(parts, (-1, 1))
    tried_h = np.rint(np.sqrt(areas * ratios)).astype(np.int64)
    tried_w = np.rint(np.sqrt(areas / ratios)).astype(np.int64)
    fits = (tried_h < heights[:, None]) & (tried_w < widths[:, None])
    first = np.arange(len(heights)), fits.argmax(axis=1)
    h, w = tried_h[first], tried_w[first]
    left = (uniforms[:, -2] * (widths - w + 1)).astype(np.int64)
    top = (uniforms[:, -1] * (heights - h + 1)).astype(np.int64)
    return np.stack([left, top, w, h], axis=1), fits[first]
