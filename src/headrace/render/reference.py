"""Every step of rendering in Pillow and NumPy: slow and obvious.

The fallback for what the core does not decode, and the oracle of the tests: `render` is what
`render_batch` has to give for one sample, to the last bit.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from headrace.formats.header import is_deep
from headrace.render.options import BYTES, Depth16, Output, round_to_bfloat16, scale_levels

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
_ENHANCERS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def decode(data: Buffer, depth16: Depth16 = "clip") -> NDArray[np.uint8]:
    """Return uint8[H, W, 3] of any image that Pillow reads. Raises what Pillow raises."""
    with Image.open(io.BytesIO(data)) as image:
        if depth16 == "scale" and is_deep(image):
            return _scale_levels16(np.asarray(image))
        return np.asarray(image.convert("RGB"))


def _scale_levels16(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Map grey levels from 0 to 65,535 to the nearest of 256, in three equal channels."""
    deep = levels.astype(np.int64).clip(0, 65535)
    grey = ((deep * 255 + 32767) // 65535).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def resize(
    pixels: NDArray[np.uint8], size: tuple[int, int], resample: str = "bilinear"
) -> NDArray[np.uint8]:
    """`Image.resize` of Pillow 13 to `size` (height, width), whichever Pillow is installed.

    Two resizes of one axis each are what a resize does; Pillow 13 chose a new order for them.
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
    """Brightness, contrast and saturation, applied in `order`."""
    image = Image.fromarray(pixels)
    for step in order:
        image = _ENHANCERS[step](image).enhance(float(factors[step]))
    return np.asarray(image)


def add_lighting(pixels: NDArray[np.uint8], offset: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Levels added to the channels, rounded to the nearest (ties to even) and clipped."""
    moved = pixels.astype(np.float32) + np.asarray(offset, np.float32)
    return np.rint(moved).clip(0, 255).astype(np.uint8)


def convert(pixels: NDArray[np.uint8], output: Output) -> NDArray[Any]:
    """Bytes to the elements and the layout of `output`."""
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
    """One decoded sample on its whole way into a batch; `box` is (left, top, width, height)."""
    left, top, width, height = box
    result = resize(pixels[top : top + height, left : left + width], size, resample)
    if flip:
        result = result[:, ::-1]
    if jitter is not None:
        result = jitter_color(np.ascontiguousarray(result), jitter, order)
    if lighting is not None:
        result = add_lighting(result, lighting)
    return convert(result, output)
