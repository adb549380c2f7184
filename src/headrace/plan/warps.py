"""Steps that move pixels: what the policies of torchvision and timm call shear, translate and rotate.

Each function takes one argument per image, and the `Canvas` that the images share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.affine import (
    NEAREST,
    Center,
    Floats,
    affine_matrices,
    rotation_matrices,
    shear_angles,
)
from headrace.plan.operations import Op
from headrace.plan.steps import Steps

Fill = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Canvas:
    """What images are when a step moves their pixels.

    Args:
        heights: int64[B].
        widths: int64[B].
        filters: int64[B], Pillow's numbers: 0 nearest, 2 bilinear, 3 bicubic.
        fill: colour of what comes from outside of the image.
    """

    heights: NDArray[np.int64]
    widths: NDArray[np.int64]
    filters: NDArray[np.int64]
    fill: Fill = (0, 0, 0)

    def take(self, rows: NDArray[np.int64]) -> Canvas:
        """Return the canvas of some of the images."""
        return Canvas(self.heights[rows], self.widths[rows], self.filters[rows], self.fill)

    def repeat(self, count: int) -> Canvas:
        """Return the canvas of `count` steps for each image, next to each other."""
        return self.take(np.repeat(np.arange(len(self)), count))

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def middles(self) -> Floats:
        """float64[B, 2] (x, y), the centre that torchvision takes by default."""
        return np.stack([self.widths * 0.5, self.heights * 0.5], axis=1)


def warp(matrices: Floats, canvas: Canvas) -> Steps:
    """Return the steps of matrices float64[B, 6]."""
    columns = (*matrices.T, canvas.filters.astype(np.float64), *canvas.fill)
    return Steps.one(Op.AFFINE, len(canvas), *columns)


def rotate(angles: Floats, canvas: Canvas, center: Center | None = None) -> Steps:
    """Return the steps of Pillow's `Image.rotate`, which torchvision and timm call."""
    heights, widths = canvas.heights.astype(np.float64), canvas.widths.astype(np.float64)
    matrices, whole = rotation_matrices(angles, heights, widths, center)
    filters = np.where(whole, NEAREST, canvas.filters)
    return warp(matrices, Canvas(canvas.heights, canvas.widths, filters, canvas.fill))


def shear_from_corner(levels: Floats, canvas: Canvas, axis: int) -> Steps:
    """Return the shears of torchvision's policies, which leave the top left corner in place."""
    shears = np.zeros((len(canvas), 2))
    shears[:, axis] = shear_angles(levels)
    origin, still = np.zeros((len(canvas), 2)), np.zeros(len(canvas))
    return warp(affine_matrices(origin, still, origin, still + 1, shears), canvas)


def translate_pixels(pixels: Floats, canvas: Canvas, axis: int) -> Steps:
    """Return the translations of torchvision's policies, by whole pixels."""
    moves, still = np.zeros((len(canvas), 2)), np.zeros(len(canvas))
    moves[:, axis] = np.trunc(pixels)
    matrices = affine_matrices(canvas.middles, still, moves, still + 1, np.zeros((len(canvas), 2)))
    return warp(matrices, canvas)


def set_coefficient(values: Floats, canvas: Canvas, place: int) -> Steps:
    """Return the steps of the identity with one other coefficient, as timm shears and translates."""
    matrices = np.tile([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], (len(canvas), 1))
    matrices[:, place] = values
    return warp(matrices, canvas)
