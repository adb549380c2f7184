"""What all random steps of a program share: how they draw, and what their arguments may be.

A step says how many streams of random numbers it draws from. So steps that come one after the other, or inside of
`RandomApply`, draw independent numbers, also where the same step comes twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.plan.steps import Steps
from headrace.plan.warps import Canvas, Fill
from headrace.recipe.randomness import Randomness

Size = int | NDArray[np.int64]
"""Height or width of the images: one for all, or int64[B]."""
Interpolation = Literal["nearest", "bilinear", "bicubic"]
FILTERS: dict[str, int] = {"nearest": 0, "bilinear": 2, "bicubic": 3}
"""Pillow's numbers of the filters."""


class ProgramStep(ABC):
    """A transform that becomes operations of the core."""

    @property
    def streams(self) -> int:
        """How many streams of random numbers it draws from."""
        return 1

    @abstractmethod
    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations for a batch: a pure function of its arguments.

        Args:
            randomness: seed, epoch and samples, of this step.
            height: height of the images when they come to this step.
            width: their width.
        """


def draw_steps(
    steps: Sequence[ProgramStep], randomness: Randomness, height: Size, width: Size
) -> Steps:
    """Return the operations of several steps, one after the other."""
    parts = draw_parts(steps, randomness, height, width)
    return Steps.join(parts) if parts else Steps.empty(len(randomness.ids))


def draw_parts(
    steps: Sequence[ProgramStep], randomness: Randomness, height: Size, width: Size
) -> list[Steps]:
    """Return the operations of each of several steps, which draw from streams of their own."""
    parts = []
    for step in steps:
        parts.append(step.draw(randomness, height, width))
        randomness = randomness.of_step(step.streams)
    return parts


def make_canvas(
    randomness: Randomness, height: Size, width: Size, interpolation: str, fill: Any
) -> Canvas:
    """Return the images of a batch as steps that move pixels see them."""
    count = len(randomness.ids)
    filters = np.full(count, FILTERS[interpolation])
    return Canvas(spread_side(height, count), spread_side(width, count), filters, read_fill(fill))


def spread_side(side: Size, count: int) -> NDArray[np.int64]:
    """Return int64[B] of a height or a width."""
    return np.broadcast_to(np.asarray(side, np.int64), (count,))


def read_fill(fill: Any) -> Fill:
    """Return the colour that torchvision means by None, a level, or one or three levels."""
    levels = tuple(fill) if isinstance(fill, Sequence) else (fill or 0,)
    levels = levels * 3 if len(levels) == 1 else levels
    if len(levels) != 3 or not all(isinstance(v, (int, float)) and 0 <= v <= 255 for v in levels):
        raise ValueError(f"fill is {fill}; give a level from 0 to 255, or (red, green, blue)")
    return int(levels[0]), int(levels[1]), int(levels[2])


def read_filter(interpolation: Any) -> Interpolation | None:
    """Return a filter from torchvision's enum, a string, or Pillow's number; None if pixels cannot be moved with it."""
    value = getattr(interpolation, "value", interpolation)
    names: dict[Any, Interpolation] = {
        "nearest": "nearest",
        "nearest-exact": "nearest",
        0: "nearest",
        "bilinear": "bilinear",
        2: "bilinear",
        "bicubic": "bicubic",
        3: "bicubic",
    }
    return names.get(value) if isinstance(value, (str, int)) else None


def read_range(name: str, value: Any, least: float = -np.inf) -> tuple[float, float]:
    """Return (low, high) of a pair, or of one number that is both."""
    bounds = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(bounds) != 2 or not least <= bounds[0] <= bounds[1]:
        raise ValueError(f"{name} is {value}; give one number or two, the smaller first")
    return float(bounds[0]), float(bounds[1])


def scale_uniforms(
    uniforms: NDArray[np.float64], bounds: tuple[float, float]
) -> NDArray[np.float64]:
    """Return numbers that are uniform between two bounds, rounded to float32 as those that torch draws."""
    return round_floats(bounds[0] + (bounds[1] - bounds[0]) * uniforms)


def round_floats(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers rounded to float32: a range of one angle then has torchvision's pixels."""
    return values.astype(np.float32).astype(np.float64)


def make_tuples(step: object) -> None:
    """Make tuples of the lists in the fields of a step, so that it is a value."""
    for name, value in list(vars(step).items()):
        if isinstance(value, list):
            object.__setattr__(step, name, tuple(value))


def check_probability(p: float) -> None:
    """Raise ValueError unless `p` is a probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"p is {p}; give a probability from 0 to 1")


def check_interpolation(interpolation: str) -> None:
    """Raise ValueError unless Pillow can move pixels with it."""
    if interpolation not in FILTERS:
        raise ValueError(
            f"interpolation is {interpolation!r}; give 'nearest', 'bilinear' or 'bicubic'"
        )


def check_integer(name: str, value: int, least: int) -> None:
    """Raise ValueError unless `value` is an integer from `least` on."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} is {value}; give an integer from {least} on")
