"""Translate timm's policies and its RandomErasing, by what the objects hold. timm is not imported."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.recipe.patched_steps import find_change
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.random_erasing import RandomErasing
from headrace.recipe.timm_config import read_hparams
from headrace.recipe.timm_policies import AugmentOp, LayeredAugment, PolicyAugment


def read_op(op: Any) -> AugmentOp | str:
    """Return our operation for an `AugmentOp`, or why the core cannot run it."""
    if _is_changed(op):
        return "its operations are not timm's own"
    settings = {
        **op.hparams,
        "magnitude_std": op.magnitude_std,
        "magnitude_max": op.magnitude_max,
        "interpolation": op.kwargs["resample"],
        "img_mean": op.kwargs["fillcolor"],
    }
    base = read_hparams(settings)
    if isinstance(base, str):
        return base
    return replace(base, name=op.name, p=float(op.prob), magnitude=float(op.magnitude))


def _is_changed(op: Any) -> bool:
    """Return whether an operation does something else than what timm means by its name."""
    timm = sys.modules["timm.data.auto_augment"]  # imported: the user has made one of its objects
    if type(op) is not timm.AugmentOp or find_change(op):
        return True
    own = timm.NAME_TO_OP.get(op.name), timm.LEVEL_TO_ARG.get(op.name)
    return own[0] is not op.aug_fn or own[1] is not op.level_fn


def _read_ops(ops: Any) -> tuple[AugmentOp, ...] | str:
    read = []
    for op in ops:
        one = read_op(op)
        if isinstance(one, str):
            return one
        read.append(one)
    return tuple(read)


def read_layers(step: Any) -> LayeredAugment | str:
    """Return our step for timm's `RandAugment`."""
    ops = _read_ops(step.ops)
    weights = step.choice_weights
    if isinstance(ops, str):
        return ops
    return LayeredAugment(
        ops, int(step.num_layers), None if weights is None else tuple(map(float, weights))
    )


def read_lists(step: Any) -> PolicyAugment | str:
    """Return our step for timm's `AutoAugment`."""
    lists = []
    for part in step.policy:
        ops = _read_ops(part)
        if isinstance(ops, str):
            return ops
        lists.append(ops)
    return PolicyAugment(tuple(lists))


def read_timm_erasing(step: Any, form: str) -> RandomErasing | str:
    """Return our step for timm's `RandomErasing`, which is for floats."""
    if form != "floats":
        return "it is for floats: put it after what makes tensors"
    value: Any = "random" if step.per_pixel else "color" if step.rand_color else 0.0
    low, high = (math.exp(bound) for bound in step.log_aspect_ratio)
    scale = float(step.min_area), float(step.max_area)
    count = int(step.min_count), int(step.max_count)
    return RandomErasing(float(step.probability), scale, (low, high), value, count)


TIMM_READERS: dict[str, Callable[[Any], ProgramStep | str]] = {
    "AugmentOp": read_op,
    "RandAugment": read_layers,
    "AutoAugment": read_lists,
}
"""By the name of the class, what reads it."""
