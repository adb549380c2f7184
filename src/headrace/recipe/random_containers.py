"""Steps inside of steps: applied with a probability, one of several, or in random order. Names are torchvision's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.plan import jitter_order
from headrace.plan.steps import Steps
from headrace.recipe.program_step import (
    ProgramStep,
    Size,
    check_probability,
    draw_parts,
    draw_steps,
    make_tuples,
)
from headrace.recipe.random_erasing import RandomErasing
from headrace.recipe.randomness import Randomness


def _check_steps(transforms: tuple[ProgramStep, ...]) -> None:
    for step in transforms:
        if not isinstance(step, ProgramStep):
            raise TypeError(
                f"transforms has {step!r}; give transforms of colours and pixels, such as ColorJitter(0.4)"
            )
        if isinstance(step, RandomErasing) and not step.pixels:
            raise ValueError(
                f"transforms has {step!r}, which writes into finished images, after all other steps: put it after Normalize, "
                "with a probability of its own, or give it pixels=True"
            )
    if not transforms:
        raise ValueError("transforms is empty; give one or more transforms")


@dataclass(frozen=True)
class RandomApply(ProgramStep):
    """Apply all of `transforms` with probability `p`, or none."""

    transforms: tuple[ProgramStep, ...]
    p: float = 0.5

    def __post_init__(self) -> None:
        make_tuples(self)
        _check_steps(self.transforms)
        check_probability(self.p)

    @property
    def streams(self) -> int:
        """One for itself, and those of the steps inside."""
        return 1 + sum(step.streams for step in self.transforms)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        kept = randomness.step_uniforms(1)[:, 0] < self.p
        return draw_steps(self.transforms, randomness.of_step(1), height, width).where(kept)


@dataclass(frozen=True)
class RandomChoice(ProgramStep):
    """Apply one of `transforms`, with probabilities in the proportions of `p`. Default: all the same."""

    transforms: tuple[ProgramStep, ...]
    p: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        make_tuples(self)
        _check_steps(self.transforms)
        p = self.p
        if p is not None and (
            len(p) != len(self.transforms) or min(p) < 0 or not 0 < sum(p) < np.inf
        ):
            raise ValueError(f"p is {p}; give a number >= 0 for each transform, not all 0")

    @property
    def streams(self) -> int:
        """One for itself, and those of the steps inside."""
        return 1 + sum(step.streams for step in self.transforms)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(1)[:, 0]
        bounds = np.cumsum(self.p or (1.0,) * len(self.transforms))
        choices = np.searchsorted(bounds, uniforms * bounds[-1], side="right")
        parts = draw_parts(self.transforms, randomness.of_step(1), height, width)
        return Steps.choose(parts, choices)


@dataclass(frozen=True)
class RandomOrder(ProgramStep):
    """Apply all of `transforms` in random order."""

    transforms: tuple[ProgramStep, ...]

    def __post_init__(self) -> None:
        make_tuples(self)
        _check_steps(self.transforms)

    @property
    def streams(self) -> int:
        """One for itself, and those of the steps inside."""
        return 1 + sum(step.streams for step in self.transforms)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        orders = jitter_order(randomness.step_uniforms(len(self.transforms)))
        parts = draw_parts(self.transforms, randomness.of_step(1), height, width)
        return Steps.order(parts, orders)
