"""Decode what the core does not: PNG, arrays, and every other format that Pillow reads.

Of a PNG or an array, only the part that the views need is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.render.arrays import convert_to_rgb, is_array, read_pixels
from headrace.render.decode import decode_with_pillow
from headrace.render.options import Channels, Depth16
from headrace.render.png import PngReader, borrow_reader
from headrace.render.status import Status

Box = tuple[int, ...]  # left, top, width, height


class Decoded(NamedTuple):
    """The pixels of an image from (left, top) on, or a status that says why there are none."""

    status: Status
    pixels: NDArray[np.uint8] | None = None
    left: int = 0
    top: int = 0


@dataclass(frozen=True, eq=False)
class Foreign:
    """An image that the core does not decode.

    Args:
        data: Its bytes.
        boxes: What its views need of it, turned upright.
        size: The (height, width) that it must have, if this is known.
        turned: Whether it is stored turned or mirrored; then all of it is decoded.
        verdict: What the core says of it.
        depth16: How grey images with 16 bits per pixel become bytes.
        channels: Order of the channels of an array.
    """

    data: Any
    boxes: Sequence[Box]
    size: tuple[int, ...] | None
    turned: bool
    verdict: Status
    depth16: Depth16
    channels: Channels

    @contextmanager
    def decode(self) -> Iterator[Decoded]:
        """Lend the pixels; their memory is used again."""
        with borrow_reader() as reader:
            if is_array(self.data):
                yield self._decode_array()
            else:
                yield self._decode_png(reader) or self._decode_with_pillow()

    def _decode_array(self) -> Decoded:
        try:
            pixels = read_pixels(self.data)
        except DecodeError:
            return Decoded(Status.CORRUPT)
        if not self._has_size(pixels.shape):
            return Decoded(Status.OTHER_SIZE)
        if self.channels == "rgb" and pixels.shape[2] == 3 and pixels.flags.c_contiguous:
            return Decoded(Status.OK, pixels)  # as they lie there
        height, width = pixels.shape[:2]
        part = self._find_part(height, width) or (0, 0, width, height)
        left, top, width, height = part
        cropped = pixels[top : top + height, left : left + width]
        return Decoded(Status.OK, convert_to_rgb(cropped, self.channels), left, top)

    def _decode_png(self, reader: PngReader) -> Decoded | None:
        """Return None if it is not a PNG, or Pillow must decide on it."""
        png = reader.open(self.data)
        part = None if png is None else self._find_part(png.height, png.width)
        if png is None or part is None or not self._has_size((png.height, png.width)):
            return None  # an error, unless Pillow has a better reason
        pixels = reader.read(png, part, self.depth16)
        return None if pixels is None else Decoded(Status.OK, pixels, *part[:2])

    def _decode_with_pillow(self) -> Decoded:
        status, pixels = decode_with_pillow(self.data, self.verdict, self.depth16)
        if pixels is None:
            return Decoded(status)
        if not self._has_size(pixels.shape):
            return Decoded(Status.OTHER_SIZE)
        return Decoded(Status.OK, np.ascontiguousarray(pixels))

    def _has_size(self, shape: tuple[int, ...]) -> bool:
        return self.size is None or shape[:2] == self.size

    def _find_part(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Return the smallest box around all boxes; None if one does not lie inside the image."""
        if self.turned:
            return 0, 0, width, height
        lefts, tops, widths, heights = zip(*self.boxes, strict=True)
        left, top = min(lefts), min(tops)
        right = max(box[0] + box[2] for box in self.boxes)
        bottom = max(box[1] + box[3] for box in self.boxes)
        inside = min(left, top) >= 0 and min(*widths, *heights) > 0
        if not inside or right > width or bottom > height:
            return None
        return left, top, right - left, bottom - top
