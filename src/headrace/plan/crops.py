"""Draw boxes: which part of an image is taken and what size it gets, for a whole batch at once.

The arithmetic and the distributions are torchvision's; the caller supplies the uniforms. Boxes are
integers, in pixels. They depend on the last bits of `exp`, in which machines may differ: that changes
less than one box in 10**10.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_TRIES = 10
CROP_UNIFORMS = 2 * _TRIES + 2


def random_resized_crop(
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> NDArray[np.int32]:
    """Return int32[B, 4] boxes (left, top, width, height), from `uniforms` float64[B, CROP_UNIFORMS].

    They are distributed as in torchvision's `RandomResizedCrop.get_params`: the first of ten tries (area
    uniform, aspect ratio log-uniform) that fits, anywhere it fits; else the largest central box within
    `ratio`.
    """
    if not 0 <= scale[0] <= scale[1] or not scale[1]:
        raise ValueError(f"scale is {scale}: give two parts of the area, the smaller first")
    if not 0 < ratio[0] <= ratio[1]:
        raise ValueError(f"ratio is {ratio}: give two positive numbers, the smaller first")
    tried_w, tried_h = _try_sizes(heights, widths, uniforms[:, :-2], scale, ratio)
    fits_w = (0 < tried_w) & (tried_w <= widths[:, None])
    fits_h = (0 < tried_h) & (tried_h <= heights[:, None])
    first = np.arange(len(heights)), (fits_w & fits_h).argmax(axis=1)
    found = (fits_w & fits_h)[first]
    central_w, central_h = _clamp_ratio(heights, widths, ratio)
    w = np.where(found, tried_w[first], central_w)
    h = np.where(found, tried_h[first], central_h)
    left = np.where(found, uniforms[:, -2] * (widths - w + 1), (widths - w) // 2)
    top = np.where(found, uniforms[:, -1] * (heights - h + 1), (heights - h) // 2)
    return np.stack([left, top, w, h], axis=1).astype(np.int32)


def random_flip(uniforms: NDArray[np.float64], p: float = 0.5) -> NDArray[np.bool_]:
    """Return which images to flip, each with probability `p`."""
    return uniforms < p


def resize_shorter(
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    size: int | NDArray[np.int64],
    max_size: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the (heights, widths) of images after torchvision's `Resize(size, max_size=max_size)`.

    `size` may differ from image to image.
    """
    if max_size is not None and np.any(max_size <= np.asarray(size)):
        raise ValueError(f"max_size is {max_size}: it must be greater than size, {size}")
    short, long = np.minimum(heights, widths), np.maximum(heights, widths)
    new_short, new_long = np.zeros_like(short) + size, size * long // short
    if max_size is not None:
        over = new_long > max_size
        new_short = np.where(over, max_size * size // new_long, new_short)
        new_long = np.where(over, max_size, new_long)
    upright = widths <= heights
    return np.where(upright, new_long, new_short), np.where(upright, new_short, new_long)


def center_crop_offsets(
    heights: NDArray[np.int64], widths: NDArray[np.int64], crop_height: int, crop_width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the (lefts, tops) of torchvision's `CenterCrop` in images of the given sizes.

    A negative offset is the number of black pixels to put before an image smaller than the crop.
    """
    return _center(widths, crop_width), _center(heights, crop_height)


def random_crop_offsets(
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    crop_height: int,
    crop_width: int,
    uniforms: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the (lefts, tops) of torchvision's `RandomCrop` in images of the given sizes, from `uniforms` float64[B, 2].

    All places are equally likely. An image smaller than the crop has none: its offset is 0.
    """
    spare = np.stack([widths - crop_width, heights - crop_height], axis=1)
    offsets = np.floor(uniforms * (np.maximum(spare, 0) + 1)).astype(np.int64)
    return offsets[:, 0], offsets[:, 1]


def pad_to_size(lengths: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the pixels that torchvision's `RandomCrop(pad_if_needed=True)` adds to either end of each length."""
    return np.maximum(size - lengths, 0)


def scale_sizes(
    heights: NDArray[np.int64], widths: NDArray[np.int64], factors: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the (heights, widths) of images scaled by `factors`, rounded down as torchvision does; at least 1."""
    scaled = (np.floor(lengths * factors).astype(np.int64) for lengths in (heights, widths))
    new_heights, new_widths = (np.maximum(lengths, 1) for lengths in scaled)
    return new_heights, new_widths


def cover_sizes(
    heights: NDArray[np.int64], widths: NDArray[np.int64], cover_height: int, cover_width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest (heights, widths) that images have, with about their aspect ratio, where they cover a size."""
    by_height = cover_height * widths >= cover_width * heights
    scaled_widths = (2 * widths * cover_height + heights) // (2 * heights)  # to the nearest
    scaled_heights = (2 * heights * cover_width + widths) // (2 * widths)
    return (
        np.where(by_height, cover_height, np.maximum(scaled_heights, cover_height)),
        np.where(by_height, np.maximum(scaled_widths, cover_width), cover_width),
    )


def three_crop_offsets(
    heights: NDArray[np.int64], widths: NDArray[np.int64], crop_height: int, crop_width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the (lefts, tops) int64[B, 3] of three crops along the longer side: its beginning, middle and end.

    The middle one is `CenterCrop`'s; so are all three where the image is not larger than the crop.
    """
    lefts, tops = center_crop_offsets(heights, widths, crop_height, crop_width)
    wide = widths - crop_width >= heights - crop_height
    return _spread(lefts, widths - crop_width, wide), _spread(tops, heights - crop_height, ~wide)


def _spread(
    middle: NDArray[np.int64], spare: NDArray[np.int64], along: NDArray[np.bool_]
) -> NDArray[np.int64]:
    moves = along & (spare > 0)
    return np.stack([np.where(moves, 0, middle), middle, np.where(moves, spare, middle)], axis=1)


def _center(lengths: NDArray[np.int64], crop: int) -> NDArray[np.int64]:
    spare = lengths - crop
    halves = np.rint(spare / 2).astype(np.int64)  # to even, as Python's round
    return np.where(spare < 0, -(-spare // 2), halves)


def _try_sizes(
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (widths, heights) float64[B, tries] of random area and aspect, rounded to integers."""
    # float64, because the product of two int32 columns of the index may overflow
    pixels = np.multiply(heights, widths, dtype=np.float64)
    areas = pixels[:, None] * _stretch(uniforms[:, :_TRIES], *scale)
    aspects = np.exp(_stretch(uniforms[:, _TRIES:], math.log(ratio[0]), math.log(ratio[1])))
    return np.rint(np.sqrt(areas * aspects)), np.rint(np.sqrt(areas / aspects))


def _clamp_ratio(
    heights: NDArray[np.int64], widths: NDArray[np.int64], ratio: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the (widths, heights) of the largest boxes whose aspect ratio is in `ratio`."""
    low, high = ratio
    aspects = widths / heights
    w = np.where(aspects > high, np.rint(heights * high), widths)
    h = np.where(aspects < low, np.rint(widths / low), heights)
    return w, h


def _stretch(uniforms: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    return low + (high - low) * uniforms
