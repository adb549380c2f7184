"""The matrices and depths of videos, next to the formulas of their standards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from headrace.formats.codecs.video_colours import Encoding, find_rgb_matrix, reduce_depth

WEIGHTS = {1: (0.2126, 0.0722), 2: (0.299, 0.114), 5: (0.299, 0.114), 6: (0.299, 0.114)}
WEIGHTS |= {9: (0.2627, 0.0593)}


def to_rgb(planes: list[np.ndarray], encoding: Encoding) -> np.ndarray:
    """The formulas of BT.601, BT.709 and BT.2020."""
    red, blue = WEIGHTS[encoding.matrix]
    unit, largest = 2.0 ** (encoding.bits - 8), 2.0**encoding.bits - 1
    luma, cb, cr = (plane.astype(np.float64) for plane in planes)
    if encoding.is_full:
        luma, cb, cr = luma / largest, (cb - 128 * unit) / largest, (cr - 128 * unit) / largest
    else:
        luma, cb, cr = (luma / unit - 16) / 219, (cb / unit - 128) / 224, (cr / unit - 128) / 224
    r, b = luma + 2 * (1 - red) * cr, luma + 2 * (1 - blue) * cb
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.rint(np.clip(np.stack([r, g, b], -1) * 255, 0, 255))


def list_colours(bits: int) -> list[np.ndarray]:
    values = np.arange(0, 1 << bits, 5 * (1 << (bits - 8)) + (bits > 8))
    grid = np.array(list(itertools.product(values, repeat=3)))
    return [grid[:, k].astype(np.uint16) for k in range(3)]


@pytest.mark.parametrize("bits", [8, 10, 12])
@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("matrix", sorted(WEIGHTS))
def test_colours_are_within_two_levels_of_the_formulas(
    matrix: int, is_full: bool, bits: int
) -> None:
    encoding, planes = Encoding(matrix, is_full, bits), list_colours(bits)
    wanted = to_rgb(planes, encoding)
    if bits > 8:
        planes = [reduce_depth(plane, encoding, k > 0) for k, plane in enumerate(planes)]
    ours = np.array(find_rgb_matrix(encoding)).reshape(3, 4)
    found = np.stack([*planes, np.ones(len(planes[0]))], -1) @ ours.T
    wrong = np.abs(np.rint(np.clip(found, 0, 255)) - wanted).max()
    assert wrong <= (0 if bits == 8 else 2)


def test_the_colours_of_a_jpeg_are_those_of_bt601_in_full_range() -> None:
    assert [Encoding(m, True, 8).is_jfif for m in (1, 2, 5, 6, 9)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert not Encoding(6, False, 8).is_jfif
