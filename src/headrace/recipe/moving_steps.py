"""Which steps of a program move pixels, so that masks, points and boxes would have to follow."""

from __future__ import annotations

from headrace.recipe.policies import (
    AutoAugment,
    RandAugment,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomFlip,
    RandomOrder,
    RandomPerspective,
    RandomRotation,
    TrivialAugmentWide,
)
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.timm_policies import AugmentOp, LayeredAugment, PolicyAugment

_MOVING = (
    AutoAugment,
    RandAugment,
    TrivialAugmentWide,
    RandomAffine,
    RandomFlip,
    RandomPerspective,
    RandomRotation,
    AugmentOp,
    LayeredAugment,
    PolicyAugment,
)


def moves_pixels(step: object) -> bool:
    """Return whether a step moves pixels of images, and nothing else of a sample."""
    if isinstance(step, (RandomApply, RandomChoice, RandomOrder)):
        return any(map(moves_pixels, step.transforms))
    return isinstance(step, ProgramStep) and isinstance(step, _MOVING)
