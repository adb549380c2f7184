"""Automatic augmentation policies of torchvision, as values. Names and defaults are torchvision's.

They draw as on PIL images, from operations and magnitudes that are equal to the last bit. `version` tells whose numbers
these are: the transforms of `torchvision.transforms`, 1, or of `torchvision.transforms.v2`, 2, which round the
thresholds of Solarize differently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.plan.magnitudes import DRAWN, NAMES, Space, make_steps
from headrace.plan.policy_tables import TABLES
from headrace.plan.steps import Steps
from headrace.recipe.program_step import (
    Interpolation,
    ProgramStep,
    Size,
    check_integer,
    check_interpolation,
    make_canvas,
    make_tuples,
    read_fill,
)
from headrace.recipe.random_colors import (
    ColorJitter,
    GaussianBlur,
    PillowBlur,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from headrace.recipe.random_containers import RandomApply, RandomChoice, RandomOrder
from headrace.recipe.random_erasing import RandomErasing
from headrace.recipe.random_moves import (
    RandomAffine,
    RandomFlip,
    RandomPerspective,
    RandomRotation,
)
from headrace.recipe.randomness import Randomness

__all__ = [
    "AutoAugment",
    "ColorJitter",
    "GaussianBlur",
    "PillowBlur",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomEqualize",
    "RandomErasing",
    "RandomFlip",
    "RandomGrayscale",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomRotation",
    "RandomSolarize",
    "TrivialAugmentWide",
]
Levels = int | tuple[int, ...] | None
_AUTO_BINS = 10


def _check_policy(version: int, interpolation: str, fill: Levels) -> None:
    if version not in (1, 2):
        raise ValueError(
            f"version is {version}; give 1 or 2, a version of torchvision's transforms"
        )
    check_interpolation(interpolation)
    read_fill(fill)


def _pick(uniforms: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return integers below `count`, all equally likely."""
    return (uniforms * count).astype(np.int64)


@dataclass(frozen=True)
class TrivialAugmentWide(ProgramStep):
    """Apply one operation of 14, of a random strength."""

    num_magnitude_bins: int = 31
    interpolation: Interpolation = "nearest"
    fill: Levels = None
    version: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        make_tuples(self)
        check_integer("num_magnitude_bins", self.num_magnitude_bins, 2)
        _check_policy(self.version, self.interpolation, self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(3)
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        space = Space.wide(self.num_magnitude_bins, self.version)
        choices = _pick(uniforms[:, 0], DRAWN)
        bins = _pick(uniforms[:, 1], self.num_magnitude_bins)
        return make_steps(space, choices, bins, uniforms[:, 2] < 0.5, canvas)


@dataclass(frozen=True)
class RandAugment(ProgramStep):
    """Apply `num_ops` operations of 14, one after the other, all of the same strength."""

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Interpolation = "nearest"
    fill: Levels = None
    version: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        make_tuples(self)
        check_integer("num_ops", self.num_ops, 0)
        check_integer("num_magnitude_bins", self.num_magnitude_bins, 2)
        check_integer("magnitude", self.magnitude, 0)
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(
                f"magnitude is {self.magnitude}; give less than num_magnitude_bins, {self.num_magnitude_bins}"
            )
        _check_policy(self.version, self.interpolation, self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        if not self.num_ops:
            return Steps.empty(len(randomness.ids))
        uniforms = randomness.step_uniforms(2 * self.num_ops)
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        space = Space(self.num_magnitude_bins, version=self.version)
        choices = _pick(uniforms[:, 0::2].reshape(-1), DRAWN)
        bins = np.full(len(choices), self.magnitude)
        negative = uniforms[:, 1::2].reshape(-1) < 0.5
        steps = make_steps(space, choices, bins, negative, canvas.repeat(self.num_ops))
        return steps.fold(self.num_ops)


@lru_cache
def _read_table(
    policy: str,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the names as numbers, the probabilities and the bins of a table, each [25, 2]."""
    table = TABLES[policy]
    names = np.array([[NAMES.index(name) for name, _, _ in line] for line in table])
    probabilities = np.array([[p for _, p, _ in line] for line in table])
    return names, probabilities, np.array([[bin_ for _, _, bin_ in line] for line in table])


@dataclass(frozen=True)
class AutoAugment(ProgramStep):
    """Apply one of the 25 pairs of operations that were found best for a dataset."""

    policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet"
    interpolation: Interpolation = "nearest"
    fill: Levels = None
    version: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        make_tuples(self)
        if self.policy not in ("imagenet", "cifar10", "svhn"):
            raise ValueError(f"policy is {self.policy!r}; give 'imagenet', 'cifar10' or 'svhn'")
        _check_policy(self.version, self.interpolation, self.fill)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(5)
        canvas = make_canvas(randomness, height, width, self.interpolation, self.fill)
        names, probabilities, bins = _read_table(self.policy)
        pairs = _pick(uniforms[:, 0], len(names))
        space = Space(_AUTO_BINS, version=self.version)
        chosen = names[pairs].reshape(-1), bins[pairs].reshape(-1)
        negative = uniforms[:, 3:].reshape(-1) < 0.5
        steps = make_steps(space, *chosen, negative, canvas.repeat(2))
        kept = uniforms[:, 1:3] < probabilities[pairs]
        return steps.where(kept.reshape(-1)).fold(2)
