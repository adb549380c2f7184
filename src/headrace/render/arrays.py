"""Arrays in NumPy's file format, .npy: images, masks and maps that were never encoded.

The header is matched against patterns, not evaluated, and the size that it claims is compared with the data
before an array is made. So hostile bytes cost nothing, and are errors.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.render.options import Channels

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: slice(8, 10), 2: slice(8, 12), 3: slice(8, 12)}  # of the header, by the version
_LONGEST = 10_000  # bytes of a header, as in NumPy
_TYPE = re.compile(rb"""['"]descr['"]\s*:\s*['"]([<>|=]?[biuf?][1-9]?[0-9]?)['"]""")
_ORDER = re.compile(rb"""['"]fortran_order['"]\s*:\s*(True|False)\b""")
_SHAPE = re.compile(rb"""['"]shape['"]\s*:\s*\(([0-9L, ]*)\)""")


def is_array(data: Buffer) -> bool:
    """Return whether these bytes are a .npy file, sound or not."""
    return bytes(memoryview(data).cast("B")[: len(_MAGIC)]) == _MAGIC


def read_array(data: Buffer) -> NDArray[Any]:
    """Return the array of a .npy file, without copying. It is read-only if the bytes are.

    Args:
        data: The file. Its elements are integers, floats or booleans; nothing is unpickled.

    Raises:
        DecodeError: It is not a .npy file, has other elements, or is shorter than its header says.
    """
    view = memoryview(data).cast("B")
    header, start = _find_header(view)
    dtype, fortran, shape = _read_header(header)
    count, room = math.prod(shape), len(view) - start
    if count * dtype.itemsize > room:
        raise DecodeError(
            f"the array {dtype}{list(shape)} takes {count * dtype.itemsize} bytes, but {room} follow its header"
        )
    flat = np.frombuffer(view, dtype, count, start) if count else np.empty(0, dtype)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError:  # an empty one with a side that no array has
        raise DecodeError(f"the array's shape is {shape}") from None


def read_pixels(data: Buffer) -> NDArray[np.uint8]:
    """Return uint8[H, W, 1, 3 or 4] of a .npy file, without copying.

    Raises:
        DecodeError: `read_array` raises it, or the array is not an image.
    """
    array = read_array(data)
    pixels = array[..., None] if array.ndim == 2 else array
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or array.dtype != np.uint8:
        raise DecodeError(
            f"the array is {array.dtype}{list(array.shape)}; "
            "an image is uint8[H, W], [H, W, 1], [H, W, 3] or [H, W, 4]"
        )
    if not pixels.size:
        raise DecodeError(f"the array {array.dtype}{list(array.shape)} has no pixels")
    return pixels


def convert_to_rgb(pixels: NDArray[np.uint8], channels: Channels) -> NDArray[np.uint8]:
    """Return a new uint8[H, W, 3] of pixels with 1, 3 or 4 channels. Alpha is dropped."""
    rgb = np.empty((*pixels.shape[:2], 3), np.uint8)
    for channel in range(3):  # three copies with strides take half the time of one backwards
        grey, blue_first = pixels.shape[2] == 1, channels == "bgr"
        rgb[..., channel] = pixels[..., 0 if grey else 2 - channel if blue_first else channel]
    return rgb


def _find_header(view: memoryview) -> tuple[bytes, int]:
    """Return the text of the header, and where the elements begin."""
    length = _LENGTHS.get(view[6]) if len(view) > 12 and is_array(view) else None
    if length is None:
        raise DecodeError(f"the data is not a .npy file ({len(view)} bytes)")
    size = int.from_bytes(view[length], "little")
    start = length.stop + size
    if size > _LONGEST or start > len(view):
        raise DecodeError(f"the array's header claims {size} bytes ({len(view)} bytes in all)")
    return bytes(view[length.stop : start]), start


def _read_header(header: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    found = [pattern.search(header) for pattern in (_TYPE, _ORDER, _SHAPE)]
    if None in found:
        raise DecodeError(
            f"the array's header is {header[:100]!r}; "
            "it must give a shape, an order, and a type of integers, floats or booleans"
        )
    name, order, sides = (match[1].decode() for match in found if match)
    try:
        dtype = np.dtype(name)
        shape = tuple(int(side.strip().rstrip("L")) for side in sides.split(",") if side.strip())
        if len(shape) > 32 or max(shape, default=0) >= 2**62:
            raise ValueError
    except (TypeError, ValueError):
        raise DecodeError(f"the array's type is {name!r}, its shape ({sides})") from None
    return dtype, order == "True", shape
