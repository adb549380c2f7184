"""The operations on finished pixels, by number, as the plan draws them. `headrace.render.Op` has the same numbers."""

from __future__ import annotations

from enum import IntEnum

PARAMETERS = 12
"""How many parameters a step has room for; those that an operation does not have are 0."""


class Op(IntEnum):
    """An operation, and in order what its parameters are. Factors are those of Pillow's `ImageEnhance`."""

    BRIGHTNESS = 0
    """factor"""
    CONTRAST = 1
    """factor"""
    COLOR = 2
    """factor"""
    SHARPNESS = 3
    """factor"""
    HUE = 4
    """a turn from -0.5 to 0.5"""
    GRAYSCALE = 5
    INVERT = 6
    POSTERIZE = 7
    """bits"""
    SOLARIZE = 8
    """threshold"""
    SOLARIZE_ADD = 9
    """levels to add, threshold"""
    AUTOCONTRAST = 10
    EQUALIZE = 11
    AFFINE = 12
    """a, b, c, d, e, f, filter (Pillow's number), red, green, blue"""
    PERSPECTIVE = 13
    """eight coefficients, filter, red, green, blue"""
    GAUSSIAN_BLUR = 14
    """radius, as Pillow's"""
    TORCH_BLUR = 15
    """sigma, kernel size"""
    FLIP = 16
    FLIP_ROWS = 17
    LIGHTING = 18
    """levels added to red, green and blue"""
    ERASE = 19
    """left, top, width, height, red, green, blue"""
    ERASE_OUTPUT = 20
    """left, top, width, height and a value for each channel, in units of the output"""
    ERASE_NOISE = 21
    """left, top, width, height, lower and upper 32 bits of a seed"""
