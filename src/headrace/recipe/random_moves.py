"""Random flips, rotations and warps that become operations of the core. Names and defaults are torchvision's.

They move the pixels of the finished crop, and its size stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.affine import affine_matrices
from headrace.plan.operations import Op
from headrace.plan.perspective import (
    PERSPECTIVE_UNIFORMS,
    draw_corners,
    perspective_coefficients,
)
from headrace.plan.steps import Steps
from headrace.plan.warps import rotate, warp
from headrace.recipe.program_step import (
    Interpolation,
    ProgramStep,
    Size,
    check_interpolation,
    check_probability,
    make_canvas,
    make_tuples,
    read_fill,
    round_floats,
    scale_uniforms,
)
from headrace.recipe.randomness import Randomness

Levels = int | tuple[int, ...]
Degrees = float | tuple[float, ...]


def _read_degrees(name: str, degrees: Degrees, lengths: tuple[int, ...]) -> tuple[float, ...]:
    """Return the bounds of angles; one number stands for both directions."""
    bounds = degrees if isinstance(degrees, tuple) else (-degrees, degrees)
    lows, highs = bounds[::2], bounds[1::2]
    if len(bounds) not in lengths or any(not low <= high for low, high in zip(lows, highs)):
        raise ValueError(f"{name} is {degrees}; give a number of degrees >= 0, or a range")
    return tuple(float(bound) for bound in bounds)


@dataclass(frozen=True)
class RandomFlip(ProgramStep):
    """Mirror the image with probability `p`, or with `rows` turn it upside down, in the place that it has."""

    p: float = 0.5
    rows: bool = False

    def __post_init__(self) -> None:
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        kept = randomness.step_uniforms(1)[:, 0] < self.p
        return Steps.one(Op.FLIP_ROWS if self.rows else Op.FLIP, len(kept)).where(kept)


@dataclass(frozen=True)
class RandomRotation(ProgramStep):
    """Rotate the image by an angle between two bounds, or between -`degrees` and `degrees`, around `center`."""

    degrees: Degrees
    interpolation: Interpolation = "nearest"
    center: tuple[float, float] | None = None
    fill: Levels = 0

    def __post_init__(self) -> None:
        make_tuples(self)
        _read_degrees("degrees", self.degrees, (2,))
        check_interpolation(self.interpolation)
        read_fill(self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        low, high = _read_degrees("degrees", self.degrees, (2,))
        angles = scale_uniforms(randomness.step_uniforms(1)[:, 0], (low, high))
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        return rotate(angles, canvas, self.center)


@dataclass(frozen=True)
class RandomAffine(ProgramStep):
    """Rotate, translate, scale and shear the image by random amounts, in one step.

    Args:
        degrees: range of angles, clockwise.
        translate: greatest translation along x and y, as shares of the width and the height.
        scale: range of factors.
        shear: range of degrees along x; four numbers are a range for x and one for y.
        interpolation: filter.
        fill: colour of what comes from outside of the image.
        center: (x, y) of what stays in place. Default: the middle.
    """

    degrees: Degrees
    translate: tuple[float, float] | None = None
    scale: tuple[float, float] | None = None
    shear: Degrees | None = None
    interpolation: Interpolation = "nearest"
    fill: Levels = 0
    center: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        make_tuples(self)
        _read_degrees("degrees", self.degrees, (2,))
        _read_degrees("shear", 0.0 if self.shear is None else self.shear, (2, 4))
        if self.translate is not None and not all(0 <= share <= 1 for share in self.translate):
            raise ValueError(f"translate is {self.translate}; give two shares from 0 to 1")
        if self.scale is not None and not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale is {self.scale}; give positive factors, the smaller first")
        check_interpolation(self.interpolation)
        read_fill(self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(6)
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        low, high = _read_degrees("degrees", self.degrees, (2,))
        angles = scale_uniforms(uniforms[:, 0], (low, high))
        sides = np.stack([canvas.widths, canvas.heights], axis=1)
        greatest = np.array(self.translate or (0.0, 0.0)) * sides
        moves = np.rint(greatest * (2 * uniforms[:, 1:3] - 1))
        scales = scale_uniforms(uniforms[:, 3], self.scale or (1.0, 1.0))
        centers = canvas.middles if self.center is None else np.zeros_like(moves) + self.center
        shears = self._draw_shears(uniforms[:, 4:])
        return warp(affine_matrices(centers, angles, moves, scales, shears), canvas)

    def _draw_shears(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        bounds = (0.0, 0.0) if self.shear is None else _read_degrees("shear", self.shear, (2, 4))
        low, high = np.array((*bounds, 0.0, 0.0)[:4]).reshape(2, 2).T
        return round_floats(low + (high - low) * uniforms)


@dataclass(frozen=True)
class RandomPerspective(ProgramStep):
    """Show the image from another side, with probability `p`; `distortion_scale` is from 0 to 1.

    Corners that would lie in a line, which has no solution, leave the image as it is.
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Interpolation = "bilinear"
    fill: Levels = 0

    def __post_init__(self) -> None:
        make_tuples(self)
        if not 0 <= self.distortion_scale <= 1:
            raise ValueError(f"distortion_scale is {self.distortion_scale}; give 0 to 1")
        check_probability(self.p)
        check_interpolation(self.interpolation)
        read_fill(self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(PERSPECTIVE_UNIFORMS + 1)
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        sides = canvas.heights, canvas.widths
        corners = draw_corners(uniforms[:, 1:], *sides, self.distortion_scale)
        coefficients, solved = perspective_coefficients(corners, *sides)
        columns = (*coefficients.T, canvas.filters.astype(np.float64), *canvas.fill)
        steps = Steps.one(Op.PERSPECTIVE, len(uniforms), *columns)
        return steps.where((uniforms[:, 0] < self.p) & solved)
