"""What differs from job to job besides the bytes: geometry and colours, an array row per job.

Nothing here is random: the caller draws the values. All arrays are checked when they are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.render.program import Program

Rows = slice | NDArray[np.int64]
MAX_SIDE = 1 << 26  # a picture of 1 x 65,500 whose shorter side becomes 1,024


def read_rows(name: str, values: ArrayLike, dtype: Any, *shape: int) -> NDArray[Any]:
    """Return `values` as a C-contiguous array. Raise ValueError if it does not have this shape."""
    array = np.ascontiguousarray(values, dtype)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name}: {list(array.shape)}; give finite values {list(shape)}, a row per box"
        )
    return array


@dataclass(frozen=True, eq=False)
class Color:
    """Changes of colour, a row per job, applied in the order of the fields.

    Args:
        jitter: float32[B, 3], the factors of brightness, contrast and saturation. Each is applied as by
            Pillow's `ImageEnhance`, and so by torchvision's `ColorJitter` on PIL images; 1 changes nothing.
        order: uint8[B, 3], permutations of 0, 1, 2: the order in which the three are applied.
            Default: brightness, contrast, saturation.
        lighting: float32[B, 3], levels (of 255) added to red, green and blue, as AlexNet's PCA noise
            does. The sum is rounded to the nearest level, ties to even, and clipped.
    """

    jitter: NDArray[np.float32] | None = None
    order: NDArray[np.uint8] | None = None
    lighting: NDArray[np.float32] | None = None

    def take(self, rows: Rows) -> Color:
        """Return the colours of some of the jobs."""
        return Color(*(None if array is None else array[rows] for array in vars(self).values()))

    def check(self, count: int) -> Color:
        """Return the colours of `count` jobs as the core takes them."""
        jitter, order, lighting = self.jitter, self.order, self.lighting
        if lighting is not None:
            lighting = read_rows("lighting", lighting, np.float32, count, 3)
        if jitter is None:
            return Color(lighting=lighting)
        jitter = read_rows("jitter", jitter, np.float32, count, 3)
        order = np.tile(np.arange(3, dtype=np.uint8), (count, 1)) if order is None else order
        order = read_rows("order", order, np.uint8, count, 3)
        if np.any(np.sort(order, axis=1) != [0, 1, 2]):
            raise ValueError(f"order must be permutations of 0, 1, 2, uint8[{count}, 3]")
        return Color(jitter, order, lighting)


@dataclass(frozen=True, eq=False)
class Viewport:
    """The part of each resized picture that is rendered, where this is not all of it.

    The box is resized to `sizes` int[B, 2] (height, width). The result shows what lies from `offsets`
    int[B, 2] (left, top) on, and the target's `fill` outside the picture. So torchvision's Resize and CenterCrop
    come out exactly, without resizing what is cut off.
    """

    sizes: NDArray[np.integer[Any]]
    offsets: NDArray[np.integer[Any]]

    def take(self, rows: Rows) -> Viewport:
        """Return the viewports of some of the jobs."""
        return Viewport(self.sizes[rows], self.offsets[rows])

    @property
    def rows(self) -> NDArray[np.int32]:
        """int32[B, 4] as (width, height, left, top), as the core takes them."""
        offsets = np.clip(self.offsets, -MAX_SIDE, MAX_SIDE)
        return np.ascontiguousarray(np.hstack([self.sizes[:, ::-1], offsets]), np.int32)

    def check(self, count: int) -> None:
        """Raise ValueError unless these are the viewports of `count` jobs."""
        for name, array in vars(self).items():
            if np.shape(array) != (count, 2) or (count and array.dtype.kind not in "iu"):
                raise ValueError(
                    f"viewport.{name} must be int[{count}, 2], not {array.dtype}{list(array.shape)}"
                )
        if count and (self.sizes.min() < 1 or self.sizes.max() > MAX_SIDE):
            raise ValueError(f"viewport.sizes must be from 1 to {MAX_SIDE} pixels")


@dataclass(frozen=True, eq=False)
class Draws:
    """The geometry and the colours of each job; see `render_batch`.

    Args:
        boxes: int[B, 4] as (left, top, width, height).
        viewport: The part of each resized picture that is rendered. Default: all of it.
        flips: bool[B], which results are mirrored. Default: none.
        color: Changes of colour. Default: none.
        vertical_flips: bool[B], which results are turned upside down. Default: none.
        program: Operations on the pixels, after the changes of colour. Default: none.
    """

    boxes: NDArray[np.int32]
    viewport: Viewport | None = None
    flips: NDArray[np.bool_] | None = None
    color: Color | None = None
    vertical_flips: NDArray[np.bool_] | None = None
    program: Program | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", _read_boxes(self.boxes))
        count = len(self)
        if self.viewport is not None:
            self.viewport.check(count)
        for name in ("flips", "vertical_flips"):
            if (flips := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_rows(name, flips, np.bool_, count))
        if self.color is not None:
            object.__setattr__(self, "color", self.color.check(count))
        if self.program is not None:
            object.__setattr__(self, "program", self.program.check(count))

    def __len__(self) -> int:
        return len(self.boxes)

    def repeat(self, count: int) -> Draws:
        """Return the draws of `count` jobs for each one, next to each other."""
        return self if count == 1 else self.take(np.repeat(np.arange(len(self)), count))

    def take(self, rows: Rows, boxes: NDArray[np.int32] | None = None) -> Draws:
        """Return the draws of some of the jobs, with other boxes if they are given."""
        return Draws(
            self.boxes[rows] if boxes is None else boxes,
            None if self.viewport is None else self.viewport.take(rows),
            None if self.flips is None else self.flips[rows],
            None if self.color is None else self.color.take(rows),
            None if self.vertical_flips is None else self.vertical_flips[rows],
            None if self.program is None else self.program.take(rows),
        )

    def take_moved(self, row: int, left: int, top: int) -> Draws:
        """Return the draws of one job, for the part of its image that begins at (left, top)."""
        rows = slice(row, row + 1)
        return self.take(rows, self.boxes[rows] - np.array([left, top, 0, 0], np.int32))


def _read_boxes(boxes: ArrayLike) -> NDArray[np.int32]:
    array = np.asarray(boxes)
    if array.ndim != 2 or array.shape[1] != 4 or array.dtype.kind not in "iu":
        raise ValueError(
            f"boxes must be integers [B, 4] (left, top, width, height), "
            f"not {array.dtype}{list(array.shape)}"
        )
    # A box that does not fit into 32 bits lies outside every picture, also after clipping.
    return array.astype(np.int64).clip(-1, 2**31 - 1).astype(np.int32)
