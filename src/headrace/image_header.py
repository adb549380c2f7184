"""What an encoded image says about itself in its header: kind, height, width and orientation."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from headrace.errors import SourceError

_DEEP = "-16"
RECODABLE = frozenset({"arithmetic", "non-interleaved", "progressive"})
"""Kinds of JPEGs that can be rewritten as baseline without loss."""


def is_deep(image: Image.Image) -> bool:
    """Return whether an image is grey with 16 bits per pixel, which `convert("RGB")` clips at 255.

    Mode `I` has 32 bits, but only 16 are used of PNG and PGM files.
    """
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


class ImageHeader(NamedTuple):
    """`kind` is what decides who decodes it: `baseline`, `grey`, `non-interleaved` (baseline, with several scans) and
    `progressive` are JPEGs for the native core; `arithmetic`, `lossless`, `12-bit` and `cmyk` are JPEGs for Pillow; every other kind is the name of its
    format (`png`, `webp`, ...), followed by `-16` if it is grey with 16 bits per pixel. The core decodes `png` and
    `png-16`, and Pillow the other formats."""

    kind: str
    height: int
    width: int


def describe_deep(kinds: Mapping[str, int]) -> str | None:
    """Say what becomes of the images with 16 bits per pixel, by how many images there are of each kind.

    Returns:
        A sentence for users; None if there are no such images.
    """
    count = sum(number for kind, number in kinds.items() if kind.endswith(_DEEP))
    if not count:
        return None
    images = "1 image has" if count == 1 else f"{count} images have"
    return (
        f"{images} 16 bits per pixel, of which all levels above 255 become white, as in torchvision; "
        "load with depth16='scale' to map them to 8 bits"
    )


def describe_turned(count: int) -> str | None:
    """Say that so many images are stored turned or mirrored, in a sentence for users; None if there are none."""
    if not count:
        return None
    images = "1 image is" if count == 1 else f"{count} images are"
    return (
        f"{images} stored turned or mirrored (EXIF) and loaded so, as in torchvision; load with orient=True to turn them "
        "upright"
    )


def read_header(data: bytes) -> ImageHeader:
    """Return the header of an encoded image. Raise SourceError if the bytes are not an image."""
    if not data:
        raise SourceError("the file is empty")
    if data[:3] == b"\xff\xd8\xff":
        return _read_jpeg_header(data)
    with blame_image("not an image"):
        try:
            with Image.open(io.BytesIO(data)) as image:
                kind = (image.format or "unknown").lower()
                deep = _DEEP if is_deep(image) else ""
                return ImageHeader(kind + deep, image.height, image.width)
        except UnidentifiedImageError:
            raise SourceError(f"not an image: no known format begins with {data[:8]!r}") from None


_SPEAKS_OF_ORIENTATION = (b"Exif", b"eXIf", b"EXIF", b"exif", b"tiff:Orientation")


def read_orientation(data: bytes) -> int:
    """Return the EXIF orientation of an encoded image, 1 to 8, as Pillow's `exif_transpose` finds it.

    It is 1, upright, if the image says nothing or nothing that makes sense. Pillow is asked only if there is a reason to.
    """
    is_tiff = data[:4] in (b"II*\0", b"MM\0*")
    if not is_tiff and not any(word in data for word in _SPEAKS_OF_ORIENTATION):
        return 1
    try:
        with Image.open(io.BytesIO(data)) as image:
            orientation = image.getexif().get(0x0112, 1)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - see `blame_image`; whether the image is damaged is for others to find
        return 1
    return int(orientation) if orientation in range(1, 9) else 1


_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_NOT_FRAMES = frozenset({0xC4, 0xC8, 0xCC})  # DHT, JPG and DAC among the SOF codes


def _read_jpeg_header(data: bytes) -> ImageHeader:
    """Walks the marker segments up to the frame header."""
    position, end = 2, len(data)
    while position + 4 <= end:
        if data[position] != 0xFF:
            position += 1  # intentional: libjpeg skips stray bytes before a marker too
            continue
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
        elif marker in _STANDALONE or marker == 0x00:
            position += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAMES:
            header = _read_frame(marker, data[position + 4 : position + 10])
            return _look_at_scans(header, data, position)
        elif marker in (0xD9, 0xDA):
            raise SourceError("not a readable JPEG: its data begins before its frame header")
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    raise SourceError(f"truncated JPEG: {end} bytes end before the frame header")


def _read_frame(marker: int, frame: bytes) -> ImageHeader:
    if len(frame) < 6:
        raise SourceError("truncated JPEG: it ends inside the frame header")
    precision, components = frame[0], frame[5]
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    if not height or not width or not components:
        raise SourceError(f"not a readable JPEG: {width}×{height} with {components} components")
    return ImageHeader(_jpeg_kind(marker, precision, components), height, width)


def _look_at_scans(header: ImageHeader, data: bytes, frame: int) -> ImageHeader:
    """Return the header with the kind `non-interleaved` if the first scan lacks a component of a baseline frame."""
    if header.kind != "baseline":
        return header
    position = frame
    while position + 5 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xDA:
            fewer = data[position + 4] < 3
            return header._replace(kind="non-interleaved") if fewer else header
        size = 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        position += 1 if marker == 0xFF else size
    return header


def _jpeg_kind(marker: int, precision: int, components: int) -> str:
    if marker in (0xC3, 0xC7, 0xCB, 0xCF):
        return "lossless"
    if marker >= 0xC9:
        return "arithmetic"
    if precision != 8:
        return f"{precision}-bit"
    if components == 4:
        return "cmyk"
    if marker not in (0xC0, 0xC1):
        return "progressive"
    return "grey" if components == 1 else "baseline"


@contextmanager
def blame_image(fault: str) -> Iterator[None]:
    """Turns what Pillow raises inside into a SourceError: the `fault`, and what Pillow says.

        with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
            image.load()

    A lack of memory passes: that is the machine's fault.
    """
    try:
        yield
    except (MemoryError, SourceError):
        raise
    except Exception as error:  # noqa: BLE001
        # Intentional: for bad data Pillow's readers raise nearly everything (OSError, SyntaxError,
        # TypeError, RuntimeError, NotImplementedError, struct.error, ...).
        raise SourceError(f"{fault}: {_say_why(error)}") from None


def _say_why(error: Exception) -> str:
    """The first line of what Pillow says, without the address of the buffer that it read."""
    text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
    return text.partition("\n")[0] or type(error).__name__
