"""Decode PNG files without Pillow: the core reads chunks and makes pixels, a library inflates.

What is odd in any way is left to Pillow, so that every verdict and every pixel is Pillow's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from headrace import _core

try:
    from isal.isal_zlib import decompressobj
except ImportError:  # no wheel for this platform; zlib takes 2.5 times as long
    from zlib import decompressobj  # type: ignore[assignment]

if TYPE_CHECKING:
    from typing_extensions import Buffer

Pixels = Literal["clip", "scale", "labels"]
"""RGB with levels of 16-bit grey clipped or scaled (`depth16`); or the one channel as it is."""

_INPUT = 1 << 16  # bytes that are given to the library at a time
_OUTPUT = 1 << 18  # bytes that it gives back at most, so that giants take little memory
_KEPT = 64 << 20  # bytes that an idle reader keeps at most


class Png(NamedTuple):
    """An open file."""

    data: memoryview
    width: int
    height: int
    depth: int
    color: int
    spans: list[tuple[int, int]]

    @property
    def has_labels(self) -> bool:
        """Whether it has one channel."""
        return self.color in (0, 3)

    @property
    def is_rgb(self) -> bool:
        """Whether it has red, green and blue, without a palette and without alpha."""
        return self.color == 2


class PngReader:
    """Decodes one file after another, and keeps its memory. Not thread-safe."""

    def __init__(self) -> None:
        self._decoder = _core.PngDecoder()
        self._memory = np.empty(0, np.uint8)

    def open(self, data: Buffer) -> Png | None:
        """Return what a file says of itself; None if it is not a PNG, or Pillow must decide on it."""
        view = memoryview(data).cast("B")
        opened = self._decoder.open(view)
        if opened is None:
            return None
        width, height, depth, color, spans, (start, size) = opened
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and width * height > limit:
            return None
        if size and not _profile_is_small(view[start : start + size]):
            return None
        return Png(view, width, height, depth, color, spans)

    def read(
        self, png: Png, box: tuple[int, int, int, int], pixels: Pixels, *, keep: bool = False
    ) -> NDArray[Any] | None:
        """Return the pixels of a box, or None if Pillow must decide. The file must be the last that was opened.

        Args:
            png: The file.
            box: (left, top, width, height), inside the image. Rows below it are not inflated.
            pixels: What to make of the pixels.
            keep: Return an array of its own. Default: one that lasts until the next call.
        """
        size, missing, ends = self._decoder.begin(box, pixels)
        out = np.empty(size, np.uint8) if keep else self._reserve(size)
        try:
            if not self._inflate(png, missing, ends, out):
                return None
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001
            # Intentional: zlib.error and IsalError have no base class in common. Pillow decides.
            return None
        if pixels == "labels":
            return out.view(np.uint16 if png.depth == 16 else np.uint8).reshape(box[3], box[2])
        return out.reshape(box[3], box[2], 3)

    def trim(self) -> None:
        """Free the memory of a giant."""
        self._decoder.trim(_KEPT)
        if self._memory.size > _KEPT:
            self._memory = np.empty(0, np.uint8)

    def _reserve(self, size: int) -> NDArray[np.uint8]:
        if self._memory.size < size:
            self._memory = np.empty(size + size // 2, np.uint8)
        return self._memory[:size]

    def _inflate(self, png: Png, missing: int, ends: bool, out: NDArray[np.uint8]) -> bool:
        """Return whether all rows are there; and, if the last one is, whether the data ends well behind it."""
        inflater = decompressobj()
        for piece in _split(png):
            while True:
                limit = min(missing, _OUTPUT) or 1
                inflated = inflater.decompress(piece, limit)
                if inflated:
                    missing = self._decoder.feed(inflated, out) if missing else -1
                if missing < 0:
                    return False
                if inflater.eof or (not missing and not ends):
                    return not missing
                if len(inflated) < limit:
                    break
                piece = inflater.unconsumed_tail
        return False


def _split(png: Png) -> Iterator[Buffer]:
    for offset, size in png.spans:
        for start in range(offset, offset + size, _INPUT):
            yield png.data[start : min(start + _INPUT, offset + size)]


def _profile_is_small(deflated: memoryview) -> bool:
    """Return whether Pillow accepts a colour profile, which it reads but does not use."""
    inflater = zlib.decompressobj()
    try:
        inflater.decompress(deflated, PngImagePlugin.MAX_TEXT_CHUNK)
    except zlib.error:
        return True  # Pillow ignores it
    return not inflater.unconsumed_tail


_idle: list[PngReader] = []


@contextmanager
def borrow_reader() -> Iterator[PngReader]:
    """Lend a reader that is warm if there is one. Thread-safe."""
    try:
        reader = _idle.pop()
    except IndexError:
        reader = PngReader()
    yield reader
    reader.trim()
    _idle.append(reader)
