"""Random erasing, as a step that becomes operations of the core."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.plan.erasing import ERASING_UNIFORMS, erasing_boxes
from headrace.plan.operations import Op
from headrace.plan.steps import Steps
from headrace.recipe.program_step import (
    ProgramStep,
    Size,
    check_integer,
    check_probability,
    make_tuples,
    read_range,
    spread_side,
)
from headrace.recipe.randomness import Randomness

_BOX_UNIFORMS = ERASING_UNIFORMS + 4
Value = float | tuple[float, ...] | Literal["random", "color"]


@dataclass(frozen=True)
class RandomErasing(ProgramStep):
    """Cover random boxes of the image with probability `p`. It comes after `Normalize`, and so does `value`.

    Args:
        p: probability.
        scale: range of the share of the area.
        ratio: range of height divided by width.
        value: what is written: one number; one for each channel; "random" for normal noise; or "color" for one normal
            colour a box, which timm calls `rand`.
        count: number of boxes, or a range of it, as in timm. They share the area.
        pixels: whether `value` is a colour of bytes that is written before images are normalised.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Value = 0.0
    count: int | tuple[int, int] = 1
    pixels: bool = False

    def __post_init__(self) -> None:
        make_tuples(self)
        check_probability(self.p)
        if read_range("scale", self.scale, 0.0)[1] > 1:
            raise ValueError(f"scale is {self.scale}; give shares of the area from 0 to 1")
        if read_range("ratio", self.ratio)[0] <= 0:
            raise ValueError(f"ratio is {self.ratio}; give positive numbers")
        for bound in read_range("count", self.count):
            check_integer("count", int(bound), 1)
        if isinstance(self.value, str):
            if self.value not in ("random", "color") or self.pixels:
                raise ValueError(f"value is {self.value!r}; give numbers, 'random' or 'color'")
        elif not all(math.isfinite(level) for level in self.levels):
            raise ValueError(f"value is {self.value}; give finite numbers")
        elif self.pixels and not self.fits_bytes:
            raise ValueError(f"value is {self.value}; give levels from 0 to 255")

    @property
    def fits_bytes(self) -> bool:
        """Whether what is written makes sense in images of bytes."""
        if isinstance(self.value, str):
            return self.value == "random"
        return all(level in range(256) for level in self.levels)

    @property
    def levels(self) -> tuple[float, float, float]:
        """What is written into the three channels, if it is the same for all images."""
        value = self.value if isinstance(self.value, tuple) else (self.value,)
        numbers = tuple(float(level) for level in value)
        if len(numbers) not in (1, 3):
            raise ValueError(f"value is {self.value}; give one number, or one for each channel")
        return numbers[0], numbers[len(numbers) // 2], numbers[-1]

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        least, most = (int(bound) for bound in read_range("count", self.count))
        uniforms = randomness.step_uniforms(2 + most * _BOX_UNIFORMS)
        rows = len(uniforms)
        sides = spread_side(height, rows), spread_side(width, rows)
        counts = least + (uniforms[:, 1] * (most + 1 - least)).astype(np.int64)
        parts = []
        for number in range(most):
            begin = 2 + number * _BOX_UNIFORMS
            own = uniforms[:, begin : begin + _BOX_UNIFORMS]
            boxes, found = erasing_boxes(
                own[:, 4:], *sides, scale=self.scale, ratio=self.ratio, parts=counts
            )
            kept = found & (uniforms[:, 0] < self.p) & (number < counts)
            parts.append(self._fill(boxes, own[:, :4]).where(kept))
        return Steps.join(parts)

    def _fill(self, boxes: NDArray[np.int64], uniforms: NDArray[np.float64]) -> Steps:
        """Return what is written into boxes, from uniforms float64[B, 4]."""
        columns = boxes.astype(np.float64).T
        if self.value == "random":
            seeds = (uniforms[:, :2] * 2.0**32).T  # uniforms are multiples of 2**-32
            return Steps.one(Op.ERASE_NOISE, len(boxes), *columns, *seeds)
        if self.value == "color":
            radii = np.sqrt(-2 * np.log1p(-uniforms[:, 0::2]))
            angles = 2 * np.pi * uniforms[:, 1::2]
            normals = np.concatenate([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
            return Steps.one(
                Op.ERASE_OUTPUT, len(boxes), *columns, *normals[:, :3].T.astype(np.float32)
            )
        op = Op.ERASE if self.pixels else Op.ERASE_OUTPUT
        return Steps.one(op, len(boxes), *columns, *self.levels)
