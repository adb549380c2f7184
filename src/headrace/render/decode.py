"""Decode single images, and build the seek tables that let a crop be decoded without the rest."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace import _core
from headrace.errors import DecodeError
from headrace.image_header import is_deep
from headrace.render.options import Depth16
from headrace.render.status import FOR_PILLOW, Status, status_message

if TYPE_CHECKING:
    from typing_extensions import Buffer


def decode_jpeg(data: Buffer, depth16: Depth16 = "clip") -> NDArray[np.uint8]:
    """Return uint8[H, W, 3], as `Image.open(data).convert("RGB")` gives it; EXIF orientation is not applied.

    Baseline and progressive JPEGs are decoded by the core, every other format that Pillow reads by Pillow.

    Args:
        data: The encoded image.
        depth16: How grey images with 16 bits per pixel become bytes; see `render_batch`.

    Raises:
        DecodeError: Pillow refuses the data: it is damaged or not an image.
    """
    code, pixels = _core.decode_jpeg(data)
    if code in FOR_PILLOW:
        code, pixels = decode_with_pillow(data, Status(code), depth16)
    if pixels is None:
        raise DecodeError(f"{status_message(code)} ({memoryview(data).nbytes} bytes)")
    return pixels


def turn_upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Return pixels [H, W, 3] of an image with this EXIF orientation as it is shown; see `cpp/orient.h`."""
    if orientation in (2, 3, 7, 8):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 6, 7):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels.swapaxes(0, 1) if orientation >= 5 else pixels)


def build_seek(data: Buffer) -> bytes:
    """Return the seek table of a JPEG for `render_batch`.

    Args:
        data: An encoded image; any but a baseline JPEG has an empty table.
    """
    return _core.build_seek(data)[1]


def decode_with_pillow(
    data: Buffer, verdict: Status, depth16: Depth16 = "clip"
) -> tuple[Status, NDArray[np.uint8] | None]:
    """Return OK and the pixels; or the reason why Pillow refuses it, and no pixels.

    The reason is the core's `verdict`, unless this is only that the core does not support the format.
    """
    try:
        return Status.OK, decode_by_pillow(data, depth16)
    except MemoryError:
        raise  # the machine is at fault, not the image
    except Image.DecompressionBombError:
        return Status.TOO_LARGE, None
    except Exception as error:  # noqa: BLE001
        # Intentional: for bad data Pillow's readers raise nearly everything (OSError, SyntaxError,
        # ValueError, struct.error, zlib.error, ...), and a bad sample is a status here.
        if verdict != Status.UNSUPPORTED:
            return verdict, None
        return (Status.TRUNCATED if "truncated" in str(error) else Status.CORRUPT), None


def decode_by_pillow(data: Buffer, depth16: Depth16 = "clip") -> NDArray[np.uint8]:
    """Return uint8[H, W, 3] of any image that Pillow reads. Raise what Pillow raises."""
    with Image.open(io.BytesIO(data)) as image:
        if depth16 == "scale" and is_deep(image):
            return _scale_levels16(np.asarray(image))
        return np.asarray(image.convert("RGB"))


def _scale_levels16(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Map grey levels from 0 to 65,535 to the nearest of 256, in three equal channels."""
    deep = levels.astype(np.int64).clip(0, 65535)
    grey = ((deep * 255 + 32767) // 65535).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
