"""Operations of timm's policies: what a level from 0 to 10 means, by the names of `timm.data.auto_augment`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headrace.plan.affine import Floats
from headrace.plan.operations import Op
from headrace.plan.steps import Steps
from headrace.plan.warps import Canvas, rotate, set_coefficient

LEVEL_UNIFORMS = 6
"""Uniforms of an operation: whether, two for the level, its sign, the filter, and one of its own."""
_DENOMINATOR = 10.0
_PLAIN = {"AutoContrast": Op.AUTOCONTRAST, "Equalize": Op.EQUALIZE, "Invert": Op.INVERT}
_ENHANCING = {
    "Brightness": Op.BRIGHTNESS,
    "Color": Op.COLOR,
    "Contrast": Op.CONTRAST,
    "Sharpness": Op.SHARPNESS,
}
_INCREASING = {f"{name}Increasing": op for name, op in _ENHANCING.items()}


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of one operation, and what else its argument depends on.

    Args:
        levels: float64[B], from 0 to 10, or above with a maximum of the user's.
        negative: bool[B], which arguments that may have a sign are negative.
        uniforms: float64[B], for operations that draw their argument.
        canvas: the images.
        translate_const: greatest translation in pixels.
        translate_pct: greatest translation as a share of the side.
    """

    levels: Floats
    negative: NDArray[np.bool_]
    uniforms: Floats
    canvas: Canvas
    translate_const: float = 250.0
    translate_pct: float = 0.45

    @property
    def shares(self) -> Floats:
        """float64[B], levels divided by 10."""
        return self.levels / _DENOMINATOR

    def scale(self, greatest: float) -> Floats:
        """Return the share of `greatest`, with its sign."""
        values = self.shares * greatest
        return np.where(self.negative, -values, values)

    def truncate(self, greatest: float) -> Floats:
        """Return the share of `greatest` as an integer."""
        return np.trunc(self.shares * greatest)


def draw_levels(
    uniforms: NDArray[np.float64], magnitude: float, std: float, greatest: float
) -> Floats:
    """Return float64[B] levels from 0 to `greatest`, from uniforms float64[B, 2].

    They are `magnitude` itself without `std`, normal around it with one, and uniform up to it if that is infinite.
    """
    if std <= 0:
        levels = np.full(len(uniforms), float(magnitude))
    elif np.isinf(std):
        levels = magnitude * uniforms[:, 0]
    else:
        radii = np.sqrt(-2 * np.log1p(-uniforms[:, 0]))
        normals = radii * np.cos(2 * np.pi * uniforms[:, 1])
        # float32 hides the last bit of `log` and `cos`, in which machines may differ.
        levels = (magnitude + std * normals).astype(np.float32).astype(np.float64)
    return np.asarray(np.minimum(np.maximum(levels, 0.0), greatest), np.float64)


def make_timm_steps(name: str, levels: Levels) -> Steps:
    """Return one step for each image."""
    count = len(levels.levels)
    if name in _PLAIN:
        return Steps.one(_PLAIN[name], count)
    if name in _ENHANCING:
        return Steps.one(_ENHANCING[name], count, levels.shares * 1.8 + 0.1)
    if name in _INCREASING:
        return Steps.one(_INCREASING[name], count, np.maximum(0.1, 1.0 + levels.scale(0.9)))
    return _MAKERS[name](levels)


def _limit(levels: Levels, low: float, high: float) -> Floats:
    return np.clip(low + (high - low) * levels.shares, low, high)


def _posterize(levels: Levels, sign: int, offset: int) -> Steps:
    bits = offset + sign * levels.truncate(4)
    return Steps.one(Op.POSTERIZE, len(bits), np.clip(bits, 0, 8))


def _solarize(levels: Levels, *, increasing: bool = False) -> Steps:
    thresholds = np.minimum(256, levels.truncate(256))
    return Steps.one(Op.SOLARIZE, len(thresholds), 256 - thresholds if increasing else thresholds)


def _solarize_add(levels: Levels) -> Steps:
    added = np.minimum(128, levels.truncate(110))
    return Steps.one(Op.SOLARIZE_ADD, len(added), added, 128)


def _desaturate(levels: Levels) -> Steps:
    factors = np.clip(1.0 - _limit(levels, 0.5, 1.0), 0.0, 1.0)
    return Steps.one(Op.COLOR, len(factors), factors)


def _blur(levels: Levels) -> Steps:
    return Steps.one(Op.GAUSSIAN_BLUR, len(levels.levels), _limit(levels, 0.1, 2.0))


def _blur_randomly(levels: Levels) -> Steps:
    greatest = 2.0 * _limit(levels, 0.0, 1.0)
    return Steps.one(Op.GAUSSIAN_BLUR, len(greatest), 0.1 + (greatest - 0.1) * levels.uniforms)


def _shift(levels: Levels, axis: int, *, relative: bool) -> Steps:
    sides = (levels.canvas.widths, levels.canvas.heights)[axis]
    pixels = levels.scale(levels.translate_pct if relative else float(levels.translate_const))
    return set_coefficient(pixels * sides if relative else pixels, levels.canvas, (2, 5)[axis])


_MAKERS: dict[str, Callable[[Levels], Steps]] = {
    "Rotate": lambda levels: rotate(levels.scale(30.0), levels.canvas),
    "Posterize": partial(_posterize, sign=1, offset=0),
    "PosterizeIncreasing": partial(_posterize, sign=-1, offset=4),
    "PosterizeOriginal": partial(_posterize, sign=1, offset=4),
    "Solarize": _solarize,
    "SolarizeIncreasing": partial(_solarize, increasing=True),
    "SolarizeAdd": _solarize_add,
    "ShearX": lambda levels: set_coefficient(levels.scale(0.3), levels.canvas, 1),
    "ShearY": lambda levels: set_coefficient(levels.scale(0.3), levels.canvas, 3),
    "TranslateX": partial(_shift, axis=0, relative=False),
    "TranslateY": partial(_shift, axis=1, relative=False),
    "TranslateXRel": partial(_shift, axis=0, relative=True),
    "TranslateYRel": partial(_shift, axis=1, relative=True),
    "Desaturate": _desaturate,
    "GaussianBlur": _blur,
    "GaussianBlurRand": _blur_randomly,
}
TIMM_NAMES = frozenset({*_PLAIN, *_ENHANCING, *_INCREASING, *_MAKERS})
"""The names of timm's operations."""
