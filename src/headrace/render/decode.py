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
from headrace.render.arrays import convert_to_rgb, is_array, read_array, read_pixels
from headrace.render.options import Channels, Depth16
from headrace.render.png import borrow_reader
from headrace.render.status import FOR_PILLOW, Status, status_message

if TYPE_CHECKING:
    from typing_extensions import Buffer


def decode_jpeg(
    data: Buffer, depth16: Depth16 = "clip", channels: Channels = "bgr"
) -> NDArray[np.uint8]:
    """Return uint8[H, W, 3], as `Image.open(data).convert("RGB")` gives it; EXIF orientation is not applied.

    Baseline and progressive JPEG and PNG are decoded by the core, every other format that Pillow reads by Pillow. A
    .npy file with uint8[H, W], or with 1, 3 or 4 channels, is an image too.

    Args:
        data: The encoded image.
        depth16: How grey images with 16 bits per pixel become bytes; see `render_batch`.
        channels: Order of the channels of a .npy file, `bgr` or `rgb`.

    Raises:
        DecodeError: Pillow refuses the data: it is damaged or not an image.
    """
    if is_array(data):
        return convert_to_rgb(read_pixels(data), channels)
    code, pixels = _core.decode_jpeg(data)
    if code in FOR_PILLOW:
        png = _decode_png(data, depth16)
        code, pixels = (
            decode_with_pillow(data, Status(code), depth16) if png is None else (Status.OK, png)
        )
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


def decode_labels(
    data: Buffer, box: tuple[int, int, int, int] | None = None, rgb_ids: bool = False
) -> NDArray[Any]:
    """Return the labels [H, W] of a mask with one channel: its levels of grey, or the indices of its palette.

    They are those of `np.asarray(Image.open(data))`: bytes, or uint16[H, W] of images with 16 bits per
    pixel. An image with one bit per pixel has labels 0 and 1. A .npy file has the integers of its array.

    Args:
        data: The encoded mask.
        box: (left, top, width, height), inside the mask. Default: all of it. PNG data below it is not inflated.
        rgb_ids: Whether an RGB image is a mask too, with the labels R + 256 G + 65536 B as int32.

    Raises:
        DecodeError: Pillow refuses the data, or the image has more channels, or the array other elements.
        ValueError: The box does not lie inside the image.
    """
    labels = None if is_array(data) else _labels_of_png(data, box, rgb_ids)
    if labels is None:
        labels = _crop(
            _labels_of_array(data) if is_array(data) else _labels_by_pillow(data, rgb_ids), box
        )
    return _make_ids(labels) if labels.ndim == 3 else labels


def decode_levels(data: Buffer, box: tuple[int, int, int, int] | None = None) -> NDArray[Any]:
    """Return uint8[H, W] or uint16[H, W], the levels of a grey image with 8 or 16 bits per pixel.

    Args:
        data: The encoded image.
        box: (left, top, width, height), inside the image. Default: all of it.

    Raises:
        DecodeError: Pillow refuses the data, or the image is not grey.
        ValueError: The box does not lie inside the image.
    """
    with borrow_reader() as reader:
        png = reader.open(data)
        if png is not None and png.color == 0 and png.depth >= 8:
            where = check_box(box, png.width, png.height)
            levels = reader.read(png, where, "labels", keep=True)
            if levels is not None:
                return levels
    return _crop(_open_one_channel(data, "map", ("L",), "levels need one channel of grey"), box)


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


def _decode_png(data: Buffer, depth16: Depth16) -> NDArray[np.uint8] | None:
    """Return uint8[H, W, 3]; None if it is not a PNG, or Pillow must decide on it."""
    with borrow_reader() as reader:
        png = reader.open(data)
        if png is None:
            return None
        return reader.read(png, (0, 0, png.width, png.height), depth16, keep=True)


def _labels_of_png(
    data: Buffer, box: tuple[int, int, int, int] | None, rgb_ids: bool
) -> NDArray[Any] | None:
    """Return labels [H, W], or uint8[H, W, 3] for ids; None if it is not such a PNG, or Pillow must decide on it."""
    with borrow_reader() as reader:
        png = reader.open(data)
        if png is None or not (png.has_labels or (rgb_ids and png.is_rgb)):
            return None
        if png.is_rgb and png.depth != 8:
            raise DecodeError(f"the mask has {png.depth} bits per channel; ids need 8")
        where = check_box(box, png.width, png.height)
        return reader.read(png, where, "labels" if png.has_labels else "clip", keep=True)


def _labels_of_array(data: Buffer) -> NDArray[Any]:
    """Return integers [H, W] of a .npy file, in the byte order of this machine."""
    array = read_array(data)
    labels = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if labels.ndim != 2 or not labels.size or labels.dtype.kind not in "biu":
        raise DecodeError(
            f"the mask is an array {array.dtype}{list(array.shape)}; labels are integers [H, W]"
        )
    native = np.uint8 if labels.dtype.kind == "b" else labels.dtype.newbyteorder("=")
    return labels.astype(native, copy=False)


def _make_ids(pixels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return R + 256 G + 65536 B of RGB pixels."""
    padded = np.zeros((*pixels.shape[:2], 4), np.uint8)
    padded[..., :3] = pixels
    return padded.view("<i4")[..., 0].astype(np.int32, copy=False)


def _labels_by_pillow(data: Buffer, rgb_ids: bool) -> NDArray[Any]:
    """Return labels [H, W], or uint8[H, W, 3] for ids."""
    if rgb_ids:
        return _open_one_channel(
            data, "mask", ("1", "L", "P", "RGB"), "ids need one channel or RGB"
        )
    return _open_one_channel(data, "mask", ("1", "L", "P"), "labels need one channel")


def _open_one_channel(data: Buffer, what: str, modes: tuple[str, ...], needs: str) -> NDArray[Any]:
    """Return [H, W] of an image in one of these modes, or with 16 bits per pixel; [H, W, 3] of RGB."""
    size = memoryview(data).nbytes
    try:
        with Image.open(io.BytesIO(data)) as image:
            levels, mode, deep = np.asarray(image), image.mode, is_deep(image)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        # Intentional: see decode_with_pillow.
        raise DecodeError(f"the {what} does not decode: {error} ({size} bytes)") from None
    if mode not in modes and not deep:
        raise DecodeError(f"the {what} has mode {mode}; {needs} ({size} bytes)")
    return levels.astype(np.uint16 if deep else np.uint8)


def _crop(levels: NDArray[Any], box: tuple[int, int, int, int] | None) -> NDArray[Any]:
    left, top, width, height = check_box(box, levels.shape[1], levels.shape[0])
    return np.require(levels[top : top + height, left : left + width], None, ["C", "A"])


def check_box(
    box: tuple[int, int, int, int] | None, width: int, height: int
) -> tuple[int, int, int, int]:
    """Return a box, by default all of an image. Raise ValueError if it does not lie inside the image."""
    if box is None:
        return 0, 0, width, height
    inside = min(box[:2]) >= 0 and min(box[2:]) > 0
    if not inside or box[0] + box[2] > width or box[1] + box[3] > height:
        raise ValueError(f"box: {box}; give one inside the image of {width}x{height} pixels")
    return box


def _scale_levels16(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Map grey levels from 0 to 65,535 to the nearest of 256, in three equal channels."""
    deep = levels.astype(np.int64).clip(0, 65535)
    grey = ((deep * 255 + 32767) // 65535).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
