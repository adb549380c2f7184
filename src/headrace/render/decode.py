"""Single images: whole pictures, and the seek tables that let a crop be decoded without the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import reference
from headrace.render.options import Depth16
from headrace.render.status import LEFT_TO_PILLOW, Status, status_message

if TYPE_CHECKING:
    from typing_extensions import Buffer


def decode_jpeg(data: Buffer, depth16: Depth16 = "clip") -> NDArray[np.uint8]:
    """Return uint8[H, W, 3], as `Image.open(data).convert("RGB")` gives it; EXIF orientation is not applied.

    Baseline JPEG is decoded by the core, every other format that Pillow reads by Pillow.

    Args:
        data: The encoded image.
        depth16: What becomes of grey images with 16 bits per pixel; see `render_batch`.

    Raises:
        DecodeError: Pillow refuses the data: it is damaged or no image.
    """
    code, pixels = _core.decode_jpeg(data)
    if code in LEFT_TO_PILLOW:
        code, pixels = decode_with_pillow(data, Status(code), depth16)
    if pixels is None:
        raise DecodeError(f"{status_message(code)} ({memoryview(data).nbytes} bytes)")
    return pixels


def build_seek(data: Buffer) -> bytes:
    """The seek table of a baseline JPEG, to be handed to `render_batch`; empty where there is none."""
    return _core.build_seek(data)[1]


def decode_with_pillow(
    data: Buffer, verdict: Status, depth16: Depth16 = "clip"
) -> tuple[Status, NDArray[np.uint8] | None]:
    """Return OK and the pixels; or why there are none, which is the core's `verdict` if it had one."""
    try:
        return Status.OK, reference.decode(data, depth16)
    except MemoryError:
        raise  # the machine's fault, not the picture's
    except Image.DecompressionBombError:
        return Status.TOO_LARGE, None
    except Exception as error:  # noqa: BLE001
        # Intentional: for bad data Pillow's readers raise nearly everything (OSError, SyntaxError,
        # ValueError, struct.error, zlib.error, ...), and a bad sample is a status here.
        if verdict != Status.UNSUPPORTED:
            return verdict, None
        return (Status.TRUNCATED if "truncated" in str(error) else Status.CORRUPT), None
