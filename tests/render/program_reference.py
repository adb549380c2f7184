"""Every operation of a program in Pillow and NumPy: the core must equal it to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from headrace.render import Op
from render.reference import add_lighting

Step = tuple[float, ...]


def turn_hue(image: Image.Image, turn: float) -> Image.Image:
    """Add to the hue as torchvision's `adjust_hue` does."""
    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue, np.uint8) + np.int32(turn * 255).astype(np.uint8)
    bands = (Image.fromarray(turned), saturation, value)
    return Image.merge("HSV", bands).convert("RGB")


def posterize(image: Image.Image, bits: float) -> Image.Image:
    return ImageOps.posterize(image, int(bits)) if bits else Image.new("RGB", image.size)


def solarize_add(image: Image.Image, add: float, threshold: float) -> Image.Image:
    """Add to levels below the threshold as timm's `solarize_add` does."""
    levels = [min(255, level + int(add)) if level < threshold else level for level in range(256)]
    return image.point(levels * 3)


def warp(method: Image.Transform, image: Image.Image, *parameters: float) -> Image.Image:
    *matrix, number, red, green, blue = parameters
    fill = (int(red), int(green), int(blue))
    filter = Image.Resampling(int(number))
    return image.transform(image.size, method, matrix, filter, fillcolor=fill)


def light(image: Image.Image, *offset: float) -> Image.Image:
    return Image.fromarray(add_lighting(np.asarray(image), np.float32(offset)))


def erase(image: Image.Image, *parameters: float) -> Image.Image:
    left, top, width, height, *levels = map(int, parameters)
    erased = image.copy()
    erased.paste(tuple(levels), (left, top, left + width, top + height))
    return erased


OPERATIONS: dict[Op, Callable[..., Image.Image]] = {
    Op.BRIGHTNESS: lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    Op.CONTRAST: lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    Op.COLOR: lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    Op.SHARPNESS: lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
    Op.HUE: turn_hue,
    Op.GRAYSCALE: lambda image: image.convert("L").convert("RGB"),
    Op.INVERT: ImageOps.invert,
    Op.POSTERIZE: posterize,
    Op.SOLARIZE: ImageOps.solarize,
    Op.SOLARIZE_ADD: solarize_add,
    Op.AUTOCONTRAST: ImageOps.autocontrast,
    Op.EQUALIZE: ImageOps.equalize,
    Op.AFFINE: lambda image, *p: warp(Image.Transform.AFFINE, image, *p),
    Op.PERSPECTIVE: lambda image, *p: warp(Image.Transform.PERSPECTIVE, image, *p),
    Op.GAUSSIAN_BLUR: lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
    Op.FLIP: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    Op.FLIP_ROWS: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    Op.LIGHTING: light,
    Op.ERASE: erase,
}


def run(pixels: NDArray[np.uint8], steps: Sequence[Step]) -> NDArray[Any]:
    """Return the pixels after the steps, each an `Op` and its parameters."""
    image = Image.fromarray(pixels)
    for op, *parameters in steps:
        image = OPERATIONS[Op(int(op))](image, *parameters)
    return np.asarray(image)
