"""Automatic augmentation policies of timm, as values. `timm_config` reads timm's strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.plan.steps import Steps
from headrace.plan.timm_levels import (
    LEVEL_UNIFORMS,
    TIMM_NAMES,
    Levels,
    draw_levels,
    make_timm_steps,
)
from headrace.plan.warps import Canvas, Fill
from headrace.recipe.program_step import (
    FILTERS,
    Interpolation,
    ProgramStep,
    Size,
    check_interpolation,
    check_probability,
    make_tuples,
    read_fill,
    spread_side,
)
from headrace.recipe.randomness import Randomness


@dataclass(frozen=True)
class AugmentOp(ProgramStep):
    """Apply one of timm's operations with probability `p`.

    Args:
        name: timm's name of it, such as `ShearX` or `ColorIncreasing`.
        p: probability.
        magnitude: level from 0 to 10, or up to `magnitude_max`.
        magnitude_std: deviation of the level, which is normal then; with infinity it is uniform up to `magnitude`.
        magnitude_max: greatest level.
        translate_const: greatest translation of `TranslateX` and `TranslateY`, in pixels.
        translate_pct: greatest translation of `TranslateXRel` and `TranslateYRel`, as a share of the side.
        interpolation: filter, or several of which one is drawn.
        fill: colour of what comes from outside of the image.
    """

    name: str
    p: float = 0.5
    magnitude: float = 10.0
    magnitude_std: float = 0.0
    magnitude_max: float = 10.0
    translate_const: float = 250.0
    translate_pct: float = 0.45
    interpolation: Interpolation | tuple[Interpolation, ...] = ("bilinear", "bicubic")
    fill: int | Fill = (128, 128, 128)

    def __post_init__(self) -> None:
        make_tuples(self)
        if self.name not in TIMM_NAMES:
            raise ValueError(f"name is {self.name!r}; give one of {sorted(TIMM_NAMES)}")
        check_probability(self.p)
        for interpolation in self.filters:
            check_interpolation(interpolation)
        read_fill(self.fill)

    @property
    def filters(self) -> tuple[Interpolation, ...]:
        """The filters of which one is drawn."""
        names = self.interpolation
        return names if isinstance(names, tuple) else (names,)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        uniforms = randomness.step_uniforms(LEVEL_UNIFORMS)
        count = len(uniforms)
        return self.make(uniforms, spread_side(height, count), spread_side(width, count))

    def make(
        self,
        uniforms: NDArray[np.float64],
        heights: NDArray[np.int64],
        widths: NDArray[np.int64],
    ) -> Steps:
        """Return the operations of images, from uniforms float64[B, LEVEL_UNIFORMS]."""
        levels = draw_levels(
            uniforms[:, 1:3], self.magnitude, self.magnitude_std, self.magnitude_max
        )
        numbers = np.array([FILTERS[name] for name in self.filters])
        filters = numbers[(uniforms[:, 4] * len(numbers)).astype(np.int64)]
        canvas = Canvas(heights, widths, filters, read_fill(self.fill))
        drawn = Levels(
            levels,
            uniforms[:, 3] < 0.5,
            uniforms[:, 5],
            canvas,
            self.translate_const,
            self.translate_pct,
        )
        return make_timm_steps(self.name, drawn).where(uniforms[:, 0] < self.p)


def _make_chosen(
    ops: Sequence[AugmentOp],
    choices: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    height: Size,
    width: Size,
) -> Steps:
    """Return operations `ops[choices[i, k]]` for image i, from uniforms float64[B, K * LEVEL_UNIFORMS]."""
    count, slots = choices.shape
    heights, widths = (np.repeat(spread_side(side, count), slots) for side in (height, width))
    rows_uniforms, numbers = uniforms.reshape(-1, LEVEL_UNIFORMS), choices.reshape(-1)
    steps = Steps.empty(len(numbers), 1)
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        steps.put(rows, ops[number].make(rows_uniforms[rows], heights[rows], widths[rows]))
    return steps.fold(slots)


@dataclass(frozen=True)
class LayeredAugment(ProgramStep):
    """Apply `num_layers` of `ops`, one after the other: timm's RandAugment.

    With `weights`, which are relative probabilities, no operation comes twice.
    """

    ops: tuple[AugmentOp, ...]
    num_layers: int = 2
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        make_tuples(self)
        if not self.ops or self.num_layers < 0:
            raise ValueError(f"{len(self.ops)} ops, num_layers is {self.num_layers}; give some")
        weights = self.weights
        if weights is None:
            return
        if len(weights) != len(self.ops) or min(weights) < 0:
            raise ValueError(f"weights is {weights}; give a number >= 0 for each operation")
        if sum(weight > 0 for weight in weights) < self.num_layers:
            raise ValueError(f"num_layers is {self.num_layers}; give at most one a weight above 0")

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        if not self.num_layers:
            return Steps.empty(len(randomness.ids))
        own = self.num_layers * LEVEL_UNIFORMS
        choosing = self.num_layers if self.weights is None else len(self.ops)
        uniforms = randomness.step_uniforms(own + choosing)
        choices = self._choose(uniforms[:, own:])
        return _make_chosen(self.ops, choices, uniforms[:, :own], height, width)

    def _choose(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return int64[B, num_layers], numbers of operations."""
        if self.weights is None:
            return (uniforms * len(self.ops)).astype(np.int64)
        # The first of exponential arrivals at these rates: drawing without replacement.
        with np.errstate(divide="ignore"):
            arrivals = -np.log1p(-uniforms) / np.array(self.weights)
        return np.argsort(arrivals, axis=1, kind="stable")[:, : self.num_layers]


@dataclass(frozen=True)
class PolicyAugment(ProgramStep):
    """Apply one of several lists of operations: timm's AutoAugment."""

    policy: tuple[tuple[AugmentOp, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", tuple(tuple(part) for part in self.policy))
        if not self.policy or not all(self.policy):
            raise ValueError("policy has no operations; give lists of AugmentOp")

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        ops, table = _tabulate(self.policy)
        uniforms = randomness.step_uniforms(1 + table.shape[1] * LEVEL_UNIFORMS)
        chosen = (uniforms[:, 0] * len(table)).astype(np.int64)
        return _make_chosen(ops, table[chosen], uniforms[:, 1:], height, width)


@lru_cache
def _tabulate(
    policy: tuple[tuple[AugmentOp, ...], ...],
) -> tuple[tuple[AugmentOp, ...], NDArray[np.int64]]:
    """Return the operations of a policy, each once, and int64[lists, longest]: their numbers.

    Lists that are shorter than others end with operations of probability 0.
    """
    longest = max(len(part) for part in policy)
    none = AugmentOp("Invert", p=0.0)
    lists = [(*part, *(none,) * (longest - len(part))) for part in policy]
    ops = tuple(dict.fromkeys(op for part in lists for op in part))
    return ops, np.array([[ops.index(op) for op in part] for part in lists])


@dataclass(frozen=True)
class ThreeAugment(ProgramStep):
    """Solarize the image, take its colour away, or blur it: 3-Augment of DeiT III, as timm's policy `3a`."""

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return PolicyAugment(THREE).draw(randomness, height, width)


THREE = (
    (AugmentOp("Solarize", 1.0, 5.0),),
    (AugmentOp("Desaturate", 1.0, 10.0),),
    (AugmentOp("GaussianBlurRand", 1.0, 10.0),),
)
"""The policy of `ThreeAugment`."""
