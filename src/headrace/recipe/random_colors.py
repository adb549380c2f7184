"""Random changes of colour and sharpness that become operations of the core. Names and defaults are torchvision's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headrace.plan import jitter_factors, jitter_order, jitter_range
from headrace.plan.operations import Op
from headrace.plan.steps import Steps
from headrace.recipe.program_step import (
    ProgramStep,
    Size,
    check_integer,
    check_probability,
    make_tuples,
    read_range,
    round_floats,
    scale_uniforms,
)
from headrace.recipe.randomness import Randomness

Strength = float | tuple[float, float]


@dataclass(frozen=True)
class ColorJitter(ProgramStep):
    """Change brightness, contrast, saturation and hue by random amounts, in random order, as on PIL images."""

    brightness: Strength = 0.0
    contrast: Strength = 0.0
    saturation: Strength = 0.0
    hue: Strength = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        make_tuples(self)
        for strength in (self.brightness, self.contrast, self.saturation):
            jitter_range(strength)
        _ = self.hue_range

    @property
    def turns_hue(self) -> bool:
        """Whether the hue changes."""
        return self.hue_range != (0.0, 0.0)

    @property
    def hue_range(self) -> tuple[float, float]:
        """The least and the greatest turn of hue, of -0.5 to 0.5."""
        hue = self.hue
        bounds = hue if isinstance(hue, tuple) else (-float(hue), float(hue))
        if len(bounds) != 2 or not -0.5 <= bounds[0] <= bounds[1] <= 0.5:
            raise ValueError(
                f"hue is {hue}; give a number from 0 to 0.5, or a range in -0.5 to 0.5"
            )
        return float(bounds[0]), float(bounds[1])

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the changes of a batch, but for those that are always none."""
        strengths = (self.brightness, self.contrast, self.saturation)
        ranges = (*(jitter_range(strength) for strength in strengths), self.hue_range)
        uniforms, count = randomness.step_uniforms(8), len(randomness.ids)
        factors = round_floats(jitter_factors(uniforms[:, :4], ranges))
        ops = (Op.BRIGHTNESS, Op.CONTRAST, Op.COLOR, Op.HUE)
        parts = [
            Steps.one(op, count, factors[:, place]) if bounds != still else Steps.empty(count)
            for place, (op, bounds, still) in enumerate(zip(ops, ranges, _STILL, strict=True))
        ]
        return Steps.order(parts, jitter_order(uniforms[:, 4:]))


_STILL = ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0))
"""The ranges that change nothing."""


def _draw_one(randomness: Randomness, p: float, op: Op, *params: float) -> Steps:
    """Return one operation with fixed parameters, for each image with probability `p`."""
    kept = randomness.step_uniforms(1)[:, 0] < p
    return Steps.one(op, len(kept), *params).where(kept)


@dataclass(frozen=True)
class RandomGrayscale(ProgramStep):
    """Take the colour away with probability `p`."""

    p: float = 0.1

    def __post_init__(self) -> None:
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.GRAYSCALE)


@dataclass(frozen=True)
class RandomInvert(ProgramStep):
    """Invert the colours with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.INVERT)


@dataclass(frozen=True)
class RandomAutocontrast(ProgramStep):
    """Stretch the levels of each channel to the full range with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.AUTOCONTRAST)


@dataclass(frozen=True)
class RandomEqualize(ProgramStep):
    """Equalize the histogram of each channel with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.EQUALIZE)


@dataclass(frozen=True)
class RandomPosterize(ProgramStep):
    """Keep only the `bits` highest bits of each level, with probability `p`."""

    bits: int
    p: float = 0.5

    def __post_init__(self) -> None:
        check_integer("bits", self.bits, 1)
        if self.bits > 8:
            raise ValueError(f"bits is {self.bits}; give a number of bits from 1 to 8")
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.POSTERIZE, self.bits)


@dataclass(frozen=True)
class RandomSolarize(ProgramStep):
    """Invert the levels from `threshold` on, with probability `p`."""

    threshold: float
    p: float = 0.5

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise ValueError(f"threshold is {self.threshold}; give a level from 0 to 256")
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.SOLARIZE, min(256, max(0, self.threshold)))


@dataclass(frozen=True)
class RandomAdjustSharpness(ProgramStep):
    """Sharpen the image by `sharpness_factor` with probability `p`: 0 blurs it, 1 changes nothing."""

    sharpness_factor: float
    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.sharpness_factor < np.inf:
            raise ValueError(f"sharpness_factor is {self.sharpness_factor}; give 0 or more")
        check_probability(self.p)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        return _draw_one(randomness, self.p, Op.SHARPNESS, self.sharpness_factor)


@dataclass(frozen=True)
class GaussianBlur(ProgramStep):
    """Blur the image as torchvision does, with a standard deviation between two values of `sigma`, or of one."""

    kernel_size: int
    sigma: float | tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        make_tuples(self)
        check_integer("kernel_size", self.kernel_size, 1)
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {self.kernel_size}; give an odd number of pixels")
        if read_range("sigma", self.sigma)[0] <= 0:
            raise ValueError(f"sigma is {self.sigma}; give positive numbers")

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        bounds = read_range("sigma", self.sigma)
        sigmas = scale_uniforms(randomness.step_uniforms(1)[:, 0], bounds)
        return Steps.one(Op.TORCH_BLUR, len(sigmas), sigmas, self.kernel_size)


@dataclass(frozen=True)
class PillowBlur(ProgramStep):
    """Blur the image with Pillow's `ImageFilter.GaussianBlur`, of a radius between two values, or of one.

    MoCo v3, BYOL and DeiT III blur so: `RandomApply([PillowBlur((0.1, 2.0))], p=0.5)`.
    """

    radius: float | tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        make_tuples(self)
        read_range("radius", self.radius, 0.0)

    def draw(self, randomness: Randomness, height: Size, width: Size) -> Steps:
        """Return the operations of a batch."""
        bounds = read_range("radius", self.radius)
        radii = scale_uniforms(randomness.step_uniforms(1)[:, 0], bounds)
        return Steps.one(Op.GAUSSIAN_BLUR, len(radii), radii)
