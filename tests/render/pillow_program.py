"""A program in Pillow: what each operation does to a PIL image, the twin of the core's operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from headrace.plan.operations import Op

Params = Sequence[float]


def apply_steps(image: Image.Image, codes: Sequence[int], params: Sequence[Params]) -> Image.Image:
    """Apply operations one after the other. Those that write into the finished output leave the image as it is."""
    for code, numbers in zip(codes, params, strict=True):
        image = APPLY[Op(code)](image, numbers) if Op(code) in APPLY else image
    return image


def run(pixels: NDArray[np.uint8], steps: Sequence[Sequence[float]]) -> NDArray[Any]:
    """Return the pixels after steps, each an `Op` and its parameters."""
    codes, params = [int(step[0]) for step in steps], [step[1:] for step in steps]
    return np.asarray(apply_steps(Image.fromarray(pixels), codes, params))


def apply_program(
    images: Sequence[Image.Image], starts: Any, codes: Any, params: Any
) -> list[Image.Image]:
    """Apply a program, given by its three arrays, to an image for each job."""
    ends = zip(images, starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return [apply_steps(image, codes[a:b].tolist(), params[a:b].tolist()) for image, a, b in ends]


def shift_hue(image: Image.Image, params: Params) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = np.array(hue) + np.int32(params[0] * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def posterize(image: Image.Image, params: Params) -> Image.Image:
    """Keep some bits. Pillow 13 refuses to keep none, which earlier versions take for black, and so does the core."""
    bits = int(params[0])
    return ImageOps.posterize(image, bits) if bits else Image.new("RGB", image.size)


def add_below(image: Image.Image, params: Params) -> Image.Image:
    add, threshold = int(params[0]), params[1]
    table = [min(255, level + add) if level < threshold else level for level in range(256)]
    return image.point(table * 3)


def transform(
    image: Image.Image, params: Params, method: Image.Transform, count: int
) -> Image.Image:
    fill = tuple(int(level) for level in params[count + 1 : count + 4])
    resample = Image.Resampling(int(params[count]))
    return image.transform(image.size, method, params[:count], resample, fillcolor=fill)


def blur_as_torchvision(image: Image.Image, params: Params) -> Image.Image:
    from torchvision.transforms import functional

    size = int(params[1])
    return functional.gaussian_blur(image, [size, size], [params[0], params[0]])


def add_light(image: Image.Image, params: Params) -> Image.Image:
    pixels = np.asarray(image, np.float64) + np.asarray(params[:3])
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def erase(image: Image.Image, params: Params) -> Image.Image:
    left, top, width, height, *color = (int(value) for value in params[:7])
    pixels = np.array(image)
    bounds = slice(max(0, top), max(0, top + height)), slice(max(0, left), max(0, left + width))
    pixels[bounds] = color
    return Image.fromarray(pixels)


APPLY: dict[Op, Callable[[Image.Image, Params], Image.Image]] = {
    Op.BRIGHTNESS: lambda image, params: ImageEnhance.Brightness(image).enhance(params[0]),
    Op.CONTRAST: lambda image, params: ImageEnhance.Contrast(image).enhance(params[0]),
    Op.COLOR: lambda image, params: ImageEnhance.Color(image).enhance(params[0]),
    Op.SHARPNESS: lambda image, params: ImageEnhance.Sharpness(image).enhance(params[0]),
    Op.HUE: shift_hue,
    Op.GRAYSCALE: lambda image, params: image.convert("L").convert("RGB"),
    Op.INVERT: lambda image, params: ImageOps.invert(image),
    Op.POSTERIZE: posterize,
    Op.SOLARIZE: lambda image, params: ImageOps.solarize(image, params[0]),  # type: ignore[arg-type]
    Op.SOLARIZE_ADD: add_below,
    Op.AUTOCONTRAST: lambda image, params: ImageOps.autocontrast(image),
    Op.EQUALIZE: lambda image, params: ImageOps.equalize(image),
    Op.AFFINE: lambda image, params: transform(image, params, Image.Transform.AFFINE, 6),
    Op.PERSPECTIVE: lambda image, params: transform(image, params, Image.Transform.PERSPECTIVE, 8),
    Op.GAUSSIAN_BLUR: lambda image, params: image.filter(ImageFilter.GaussianBlur(params[0])),
    Op.TORCH_BLUR: blur_as_torchvision,
    Op.FLIP: lambda image, params: ImageOps.mirror(image),
    Op.FLIP_ROWS: lambda image, params: ImageOps.flip(image),
    Op.LIGHTING: add_light,
    Op.ERASE: erase,
}
"""What each operation on bytes does; ERASE_OUTPUT and ERASE_NOISE write elsewhere."""
