"""Matrices of rotations, shears and the like, as torchvision and Pillow compute them for PIL images, to the last bit.

A matrix (a, b, c, d, e, f) says where a pixel of the result comes from: (a x + b y + c, d x + e y + f). Sines and
cosines are Python's, value by value: NumPy's differ from them in the last bit on some machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Center = tuple[float, float]
NEAREST = 0


def rotation_matrices(
    angles: Floats, heights: Floats, widths: Floats, center: Center | None = None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return float64[B, 6] of Pillow's `Image.rotate`, and bool[B]: where it moves whole pixels, by no filter.

    Args:
        angles: float64[B], degrees, counter-clockwise.
        heights: float64[B] of the images.
        widths: float64[B] of the images.
        center: (x, y) around which they turn. Default: the middle.
    """
    angles = np.mod(angles, 360.0)
    turns = -_map(math.radians, angles)
    cos, sin = _map(_round15(math.cos), turns), _map(_round15(math.sin), turns)
    x = widths / 2 if center is None else np.full(len(angles), float(center[0]))
    y = heights / 2 if center is None else np.full(len(angles), float(center[1]))
    left, top = cos * -x + sin * -y + 0.0, -sin * -x + cos * -y + 0.0
    matrices = np.stack([cos, sin, left + x, -sin, cos, top + y], axis=1)
    whole = (angles == 0) | (angles == 180)
    whole |= ((angles == 90) | (angles == 270)) & (heights == widths)
    return matrices, whole & (center is None)


def affine_matrices(
    centers: Floats, angles: Floats, translations: Floats, scales: Floats, shears: Floats
) -> Floats:
    """Return float64[B, 6] of torchvision's `F.affine` of a PIL image.

    Args:
        centers: float64[B, 2], x and y of what stays in place.
        angles: float64[B], degrees, clockwise.
        translations: float64[B, 2], pixels to the right and down.
        scales: float64[B].
        shears: float64[B, 2], degrees along x and y.
    """
    turn = _map(math.radians, angles)
    shear_x, shear_y = (_map(math.radians, column) for column in shears.T)
    tilt, tangent, along = turn - shear_y, _map(math.tan, shear_x), _map(math.cos, shear_y)
    cos, sin = _map(math.cos, tilt), _map(math.sin, tilt)
    a, b = cos / along, -cos * tangent / along - _map(math.sin, turn)
    c, d = sin / along, -sin * tangent / along + _map(math.cos, turn)
    a, b, c, d = d / scales, -b / scales, -c / scales, a / scales
    x, y = centers.T
    left, top = -x - translations[:, 0], -y - translations[:, 1]
    right, down = 0.0 + (a * left + b * top) + x, 0.0 + (c * left + d * top) + y
    return np.stack([a, b, right, c, d, down], axis=1)


def shear_angles(levels: Floats) -> Floats:
    """Return the degrees by which torchvision's policies shear for a magnitude, which is a tangent."""
    return _map(lambda level: math.degrees(math.atan(level)), levels)


def _map(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.tolist()], np.float64)


def _round15(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: round(function(value), 15)
