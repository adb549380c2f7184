"""Encodes a decoded video frame as a JPEG of 4:2:0: upright, in JFIF's colours, shrunk on request. Lossy in this step only.

Guaranteed: the bytes depend on the frame, the options and Pillow alone. Colours are converted here and not by swscale,
which is up to 3 levels off and depends on the instructions of the CPU.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.formats.codecs.jfif_planes import Encoding, convert_planes
from headrace.formats.video_options import VideoOptions

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_FULL_RANGE = 2
_Turn = Image.Transpose


def encode_frame(frame: VideoFrame, options: VideoOptions) -> bytes:
    """Return a frame as a JPEG."""
    return encode_picture(make_picture(frame, options), options.quality)


def encode_picture(picture: Image.Image, quality: int) -> bytes:
    """Return a picture as a JPEG. Optimal Huffman tables would save 3 % of the bytes and take twice the time."""
    # intentional: a file in memory. Pillow encodes into a BytesIO while it holds the GIL, into a file without it.
    with open(os.memfd_create("frame"), "w+b", buffering=0) as file:
        picture.save(file, "JPEG", quality=quality, subsampling="4:2:0")
        return os.pread(file.fileno(), file.tell(), 0)


def make_picture(frame: VideoFrame, options: VideoOptions) -> Image.Image:
    """Return the picture that is encoded: YCbCr, grey, or RGB if the video itself is RGB."""
    size = options.fit_size(frame.width, frame.height)
    planes = _read_planes(frame)
    if planes is None:
        whole = Image.fromarray(frame.to_ndarray(format="rgb24"))
        picture = whole if whole.size == size else whole.resize(size, Image.Resampling.BICUBIC)
    else:
        luma, *chroma = planes
        picture = _resize(luma, size)
        if chroma:
            colours = [_place_chroma(plane, luma.shape, size) for plane in chroma]
            picture = Image.merge("YCbCr", [picture, *colours])
    turn = find_turn(frame)
    return picture if turn is None else picture.transpose(turn)


def _read_planes(frame: VideoFrame) -> list[NDArray[np.uint8]] | None:
    """Return the planes in JFIF's colours: luma, blue and red, or luma alone; None if the video is RGB."""
    kind = frame.format
    if kind.is_rgb or kind.has_palette:
        return None
    if not _is_planar(frame):
        frame = frame.reformat(format="yuv444p16le" if kind.components[0].bits > 8 else "yuv444p")
        kind = frame.format
    is_grey, bits = len(kind.components) < 3, kind.components[0].bits
    is_full = frame.color_range == _FULL_RANGE or kind.name.startswith("yuvj") or is_grey
    count = 1 if is_grey else 3
    planes = [_read_plane(frame, k, bits) for k in range(count)]
    return convert_planes(planes, Encoding(int(frame.colorspace), is_full, bits))


def _is_planar(frame: VideoFrame) -> bool:
    """Return whether each component is a plane of whole bytes that NumPy reads as it is."""
    kind = frame.format
    is_separate = len(frame.planes) == len(kind.components) and kind.components[0].bits <= 16
    return is_separate and not kind.name.endswith("be") and not kind.name.startswith("xyz")


def _read_plane(frame: VideoFrame, number: int, bits: int) -> NDArray[np.uint8]:
    plane, component = frame.planes[number], frame.format.components[number]
    dtype = np.dtype(np.uint8 if bits == 8 else "<u2")
    rows: NDArray[Any] = np.frombuffer(memoryview(plane), dtype).reshape(
        -1, plane.line_size // dtype.itemsize
    )
    values: NDArray[np.uint8] = rows[: component.height, : component.width]
    return values


def _resize(plane: NDArray[np.uint8], size: tuple[int, int]) -> Image.Image:
    image = Image.fromarray(plane)
    return image if image.size == size else image.resize(size, Image.Resampling.BICUBIC)


def _place_chroma(
    plane: NDArray[np.uint8], luma: tuple[int, ...], size: tuple[int, int]
) -> Image.Image:
    """Return chroma at the size of the picture. The encoder averages repeated values back to themselves."""
    if plane.shape == luma:
        return _resize(plane, size)
    image = Image.fromarray(plane)
    across, down = (-(-whole // part) for whole, part in zip(luma[::-1], image.size, strict=True))
    box = (0.0, 0.0, luma[1] / across, luma[0] / down)  # an odd luma ends within the last chroma
    if size != luma[::-1]:
        half = (-(-size[0] // 2), -(-size[1] // 2))
        image = image.resize(half, Image.Resampling.BICUBIC, box)
        box = (0.0, 0.0, size[0] / 2, size[1] / 2)
    return image.resize(size, Image.Resampling.NEAREST, box)


def find_turn(frame: VideoFrame) -> _Turn | None:
    """Return how to turn or mirror a frame so that it is upright, by its display matrix; None if it is."""
    side: Any = frame.side_data.get("DISPLAYMATRIX")
    if side is None:
        return None
    a, b, _, c, d = struct.unpack("=5i", memoryview(side)[:20])
    if abs(a) + abs(d) >= abs(b) + abs(c):
        turns = {(True, False): _Turn.FLIP_LEFT_RIGHT, (False, True): _Turn.FLIP_TOP_BOTTOM}
        turns[(True, True)] = _Turn.ROTATE_180
        return turns.get((a < 0, d < 0))
    if (b < 0) == (c < 0):
        return _Turn.TRANSPOSE if b > 0 else _Turn.TRANSVERSE
    return _Turn.ROTATE_90 if b < 0 else _Turn.ROTATE_270
