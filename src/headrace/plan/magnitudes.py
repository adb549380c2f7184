"""Operations of torchvision's policies: what a magnitude means in RandAugment, AutoAugment and TrivialAugmentWide.

Magnitudes are bins between two values in float32, as torch computes them. Version 2 of torchvision's transforms
rounds those of Solarize and Posterize differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headrace.plan.affine import Floats
from headrace.plan.operations import Op
from headrace.plan.steps import Steps
from headrace.plan.warps import Canvas, rotate, shear_from_corner, translate_pixels

NAMES = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
    "Invert",
)
"""torchvision's operations. RandAugment and TrivialAugmentWide draw from all but the last."""
DRAWN = len(NAMES) - 1
_SIGNED = np.array([1 <= number <= 9 for number in range(len(NAMES))])
_ENHANCING = {
    "Brightness": Op.BRIGHTNESS,
    "Color": Op.COLOR,
    "Contrast": Op.CONTRAST,
    "Sharpness": Op.SHARPNESS,
}
_PLAIN = {"AutoContrast": Op.AUTOCONTRAST, "Equalize": Op.EQUALIZE, "Invert": Op.INVERT}
Maker = Callable[[Floats, Canvas], Steps]
_WARPS: dict[str, Maker] = {
    "ShearX": partial(shear_from_corner, axis=0),
    "ShearY": partial(shear_from_corner, axis=1),
    "TranslateX": partial(translate_pixels, axis=0),
    "TranslateY": partial(translate_pixels, axis=1),
    "Rotate": rotate,
}


@dataclass(frozen=True)
class Space:
    """The greatest magnitudes of a policy, and how many bins there are.

    Args:
        bins: number of magnitudes, from none to the greatest.
        shear: tangent of the greatest shear.
        translate: greatest translation, in pixels, or as a share of the side with `relative`.
        rotate: degrees.
        enhance: greatest change of a factor.
        posterize: greatest number of bits that are lost.
        version: of torchvision's transforms, 1 or 2.
    """

    bins: int
    shear: float = 0.3
    translate: float = 150.0 / 331.0
    rotate: float = 30.0
    enhance: float = 0.9
    posterize: int = 4
    relative: bool = True
    version: int = 1

    @classmethod
    def wide(cls, bins: int, version: int = 1) -> Space:
        """Return the space of TrivialAugmentWide."""
        return cls(bins, 0.99, 32.0, 135.0, 0.99, 6, relative=False, version=version)

    def find_magnitudes(self, name: str, bins: NDArray[np.int64], canvas: Canvas) -> Floats:
        """Return float64[B], without signs."""
        if name in _PLAIN or name == "Identity":
            return np.zeros(len(bins))
        if name == "Posterize":
            return self._find_bits(bins)
        if name == "Solarize":
            start = 255.0 if self.version == 1 else 1.0
            return 255.0 / start * _space(start, np.zeros(len(bins)), self.bins, bins)
        return _space(0.0, self._find_greatest(name, canvas), self.bins, bins)

    def _find_greatest(self, name: str, canvas: Canvas) -> Floats:
        if name in ("TranslateX", "TranslateY") and self.relative:
            sides = canvas.widths if name == "TranslateX" else canvas.heights
            return self.translate * sides.astype(np.float64)
        greatest = {"Shear": self.shear, "Trans": self.translate, "Rotat": self.rotate}
        return np.full(len(canvas), greatest.get(name[:5], self.enhance))

    def _find_bits(self, bins: NDArray[np.int64]) -> Floats:
        lost = bins.astype(np.float32) / np.float32((self.bins - 1) / self.posterize)
        bits = 8 - np.rint(lost) if self.version == 1 else np.rint(8 - lost)
        return np.asarray(bits, np.float64)


def make_steps(
    space: Space,
    choices: NDArray[np.int64],
    bins: NDArray[np.int64],
    negative: NDArray[np.bool_],
    canvas: Canvas,
) -> Steps:
    """Return a slot with operation `NAMES[choices[i]]` for image i.

    Args:
        space: what a bin means.
        choices: int64[B], numbers of `NAMES`.
        bins: int64[B], the magnitudes.
        negative: bool[B], which magnitudes that may have a sign are negative.
        canvas: the images.
    """
    steps = Steps.empty(len(choices), 1)
    for number in np.unique(choices).tolist():
        rows, name = np.flatnonzero(choices == number), NAMES[number]
        part = canvas.take(rows)
        values = space.find_magnitudes(name, bins[rows], part)
        values = np.where(negative[rows] & _SIGNED[number], -values, values)
        if name != "Identity":
            steps.put(rows, _make(name, values, part))
    return steps


def _make(name: str, values: Floats, canvas: Canvas) -> Steps:
    if name in _WARPS:
        return _WARPS[name](values, canvas)
    if name in _ENHANCING:
        return Steps.one(_ENHANCING[name], len(values), 1.0 + values)
    if name in _PLAIN:
        return Steps.one(_PLAIN[name], len(values))
    return Steps.one(Op.POSTERIZE if name == "Posterize" else Op.SOLARIZE, len(values), values)


def _space(start: float, stops: Floats, count: int, index: NDArray[np.int64]) -> Floats:
    """Return elements of `torch.linspace(start, stop, count)`, which rounds to float32 and counts from both ends."""
    first, last = np.float32(start).astype(np.float64), stops.astype(np.float32)
    step = ((last - np.float32(start)) / np.float32(count - 1)).astype(np.float64)
    from_start = first + step * index
    from_end = last.astype(np.float64) - step * (count - 1 - index)
    return np.where(index < count // 2, from_start, from_end).astype(np.float32).astype(np.float64)
