"""JPEGs that Pillow does not write itself, put together from what it does, and its verdict on them."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image

from images import make_pixels

OK, UNSUPPORTED, TRUNCATED, CORRUPT, BAD_BOX, TOO_LARGE = range(6)


def decode_with_pillow(data: bytes) -> np.ndarray:
    """The oracle: uint8[height, width, 3], or what Pillow raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))


def split_segments(data: bytes) -> list[tuple[int, bytes]]:
    """(marker, payload) up to the first scan, whose payload is header and data together."""
    segments, at = [], 2
    while True:
        marker = data[at + 1]
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xDA:
            return [*segments, (marker, data[at + 4 : -2])]
        segments.append((marker, data[at + 4 : at + 2 + length]))
        at += 2 + length


def join_segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload


def make_multiscan(
    height: int, width: int, sampling: list[tuple[int, int]], quality: int = 80, restart: int = 0
) -> bytes:
    """A baseline JPEG with one scan for each component, sampled by the factors (h, v).

    The scan of a single component is coded as a grey picture is: so each is made by Pillow."""
    max_h, max_v = max(h for h, _ in sampling), max(v for _, v in sampling)
    frame = bytes([8]) + height.to_bytes(2, "big") + width.to_bytes(2, "big") + bytes([3])
    scans = b""
    tables: dict[int, bytes] = {}
    for component, (h, v) in enumerate(sampling):
        pixels = make_pixels(-(-height * v // max_v), -(-width * h // max_h), seed=component)
        out = io.BytesIO()
        options = {"restart_marker_blocks": restart} if restart else {}
        Image.fromarray(pixels[..., 0]).save(out, "JPEG", quality=quality, **options)
        frame += bytes([component + 1, h << 4 | v, 0])
        for marker, payload in split_segments(out.getvalue()):
            if marker == 0xDA:
                header = bytes([1, component + 1, 0, 0, 63, 0])
                scans += join_segment(0xDA, header) + payload[len(header) :]
            elif marker in (0xDB, 0xC4, 0xDD):
                tables[marker << 8 | payload[0]] = join_segment(marker, payload)
    return b"\xff\xd8" + b"".join(tables.values()) + join_segment(0xC0, frame) + scans + b"\xff\xd9"
