"""Move points and boxes as the geometry of their images does: float32 in, float32 out.

A *move* is one geometric step of a batch, with arrays of B numbers, one per sample. The points of all samples lie in
one array; `samples` int64[P] says which sample each belongs to. The arithmetic and its order are those of torchvision's
v2 transforms on float32 `KeyPoints` and `BoundingBoxes`, so that the results are equal to the last bit:

- cropping subtracts, and clamps boxes to the result, but never points;
- resizing multiplies by the ratio of the sizes, rounded to float32;
- flipping takes x to W - 1 - x in points, and to W - x in boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]
Samples = NDArray[np.int64]
Corners = NDArray[np.float32]
"""float32[P, C, 2]: the x and y of C corners, 1 of a point or 2 of a box."""

_X, _Y = 0, 1


@dataclass(frozen=True, eq=False)
class CropMove:
    """Show the part of each image that begins at (left, top) and has this size. A negative offset pads the image.

    `clamps` bool[B] says which images are cropped at all: torchvision's `RandomCrop` leaves boxes alone where an image
    has its size already. Default: all.
    """

    left: Lengths
    top: Lengths
    height: Lengths
    width: Lengths
    clamps: NDArray[np.bool_] | None = None

    def move_corners(self, corners: Corners, samples: Samples) -> Corners:
        """Return corners in pixels of the crop."""
        shifts = np.stack([self.left, self.top], axis=1).astype(np.float32)
        return corners - shifts[samples, None]

    def move_boxes(self, corners: Corners, samples: Samples) -> Corners:
        """Return boxes in pixels of the crop, clamped to it."""
        low = np.zeros((len(self.left), 2), np.float32)
        high = np.stack([self.width, self.height], axis=1).astype(np.float32)
        if self.clamps is not None:
            low[~self.clamps], high[~self.clamps] = -np.inf, np.inf
        moved = self.move_corners(corners, samples)
        return np.clip(moved, low[samples, None], high[samples, None])


@dataclass(frozen=True, eq=False)
class ResizeMove:
    """Resize images from `heights` and `widths` to new ones."""

    heights: Lengths
    widths: Lengths
    new_heights: Lengths
    new_widths: Lengths

    def move_corners(self, corners: Corners, samples: Samples) -> Corners:
        """Return corners in pixels of the resized image."""
        old = np.maximum(np.stack([self.widths, self.heights], axis=1), 1)  # 0 if damaged
        ratios = np.stack([self.new_widths, self.new_heights], axis=1) / old
        return corners * ratios.astype(np.float32)[samples, None]

    def move_boxes(self, corners: Corners, samples: Samples) -> Corners:
        """Return boxes in pixels of the resized image."""
        return self.move_corners(corners, samples)


@dataclass(frozen=True, eq=False)
class FlipMove:
    """Mirror the images of `flips` bool[B], along the axis on which they have these `lengths`."""

    axis: Literal["x", "y"]
    flips: NDArray[np.bool_]
    lengths: Lengths

    def move_corners(self, corners: Corners, samples: Samples) -> Corners:
        """Return corners mirrored so that the first pixel becomes the last."""
        return self._mirror(corners, samples, self.lengths - 1)

    def move_boxes(self, corners: Corners, samples: Samples) -> Corners:
        """Return boxes mirrored within their images, with their two sides swapped."""
        mirrored = self._mirror(corners, samples, self.lengths)
        axis, flipped = self._axis, self.flips[samples]
        mirrored[flipped, :, axis] = mirrored[flipped, ::-1, axis]
        return mirrored

    @property
    def _axis(self) -> int:
        return _X if self.axis == "x" else _Y

    def _mirror(self, corners: Corners, samples: Samples, ends: Lengths) -> Corners:
        axis, flipped = self._axis, self.flips[samples]
        moved = corners.copy()
        ends_of = ends[samples[flipped], None].astype(np.float32)
        moved[flipped, :, axis] = ends_of - corners[flipped, :, axis]
        return moved


Move = CropMove | ResizeMove | FlipMove


def move_points(points: Corners, samples: Samples, moves: Sequence[Move]) -> NDArray[np.float32]:
    """Return points float32[P, 2] (x, y) after the moves. They may lie outside of their image.

    >>> move_points(points, samples, [CropMove(left, top, height, width), FlipMove("x", flips, width)])
    """
    corners = points.reshape(-1, 1, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        for move in moves:
            corners = move.move_corners(corners, samples)
    return corners.reshape(-1, 2)


def move_boxes(boxes: Corners, samples: Samples, moves: Sequence[Move]) -> NDArray[np.float32]:
    """Return boxes float32[P, 4] (left, top, right, bottom) after the moves. A box cut off has no area left."""
    corners = boxes.reshape(-1, 2, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        for move in moves:
            corners = move.move_boxes(corners, samples)
    return corners.reshape(-1, 4)
