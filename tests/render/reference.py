"""Every step of rendering in Pillow and NumPy, slow and obvious: `render_batch` must equal it to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from headrace.render import Output
from headrace.render.decode import decode_by_pillow as decode
from headrace.render.options import BYTES, round_to_bfloat16, scale_levels

__all__ = ["add_lighting", "convert", "decode", "jitter_color", "render", "resize"]
_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
_ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def resize(
    pixels: NDArray[np.uint8], size: tuple[int, int], resample: str = "bilinear"
) -> NDArray[np.uint8]:
    """Resize to `size` (height, width) as Pillow 13 does, whichever Pillow is installed.

    A resize is two resizes of one axis each; Pillow 13 chose a new order for them.
    """
    height, width = size
    image = Image.fromarray(pixels)
    lost_rows, lost_columns = image.height - height, image.width - width
    rows_first = lost_rows > 0 and lost_rows > 2 * lost_columns
    between = (image.width, height) if rows_first else (width, image.height)
    filter = _FILTERS[resample]
    return np.asarray(image.resize(between, filter).resize((width, height), filter))


def jitter_color(
    pixels: NDArray[np.uint8],
    factors: NDArray[np.float32],
    order: NDArray[np.uint8] | tuple[int, ...] = (0, 1, 2),
) -> NDArray[np.uint8]:
    """Change brightness, contrast and saturation, in `order`."""
    image = Image.fromarray(pixels)
    for step in order:
        image = _ENHANCERS[step](image).enhance(float(factors[step]))
    return np.asarray(image)


def add_lighting(pixels: NDArray[np.uint8], offset: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Add levels to the channels, round to the nearest (ties to even) and clip."""
    moved = pixels.astype(np.float32) + np.asarray(offset, np.float32)
    return np.rint(moved).clip(0, 255).astype(np.uint8)


def convert(pixels: NDArray[np.uint8], output: Output) -> NDArray[Any]:
    """Convert bytes to the elements and the layout of `output`."""
    result: NDArray[Any] = pixels
    if output.dtype != "uint8":
        unit = scale_levels(pixels, output.reciprocal)
        mean, std = np.array([output.mean, output.std], np.float32)
        result = (unit - mean) / std
        result = (
            round_to_bfloat16(result)
            if output.dtype == "bfloat16"
            else result.astype(output.element)
        )
    return np.ascontiguousarray(result.transpose(2, 0, 1)) if output.planar else result


def render(
    pixels: NDArray[np.uint8],
    box: tuple[int, int, int, int],
    size: tuple[int, int],
    *,
    flip: bool = False,
    resample: str = "bilinear",
    jitter: NDArray[np.float32] | None = None,
    order: NDArray[np.uint8] | tuple[int, ...] = (0, 1, 2),
    lighting: NDArray[np.float32] | None = None,
    output: Output = BYTES,
) -> NDArray[Any]:
    """Render one decoded sample; `box` is (left, top, width, height)."""
    left, top, width, height = box
    result = resize(pixels[top : top + height, left : left + width], size, resample)
    if flip:
        result = result[:, ::-1]
    if jitter is not None:
        result = jitter_color(np.ascontiguousarray(result), jitter, order)
    if lighting is not None:
        result = add_lighting(result, lighting)
    return convert(result, output)
