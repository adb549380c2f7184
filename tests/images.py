"""Small generated images for the tests: smooth structure plus noise, seeded."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def make_pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    """uint8[height, width, 3]: colour gradients with noise, so that JPEG has something to do."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        128 + 90 * np.sin(x / rng.uniform(3, 30) + y / rng.uniform(3, 30) + rng.uniform(0, 6))
        for _ in range(3)
    ]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 8, (height, width, 3)), 0, 255).astype(
        np.uint8
    )


def encode(
    height: int, width: int, seed: int = 0, format: str = "JPEG", **options: object
) -> bytes:
    """The bytes of a generated image; `options` go to Pillow's `save`."""
    out = io.BytesIO()
    image = Image.fromarray(make_pixels(height, width, seed))
    mode = options.pop("mode", None)
    if mode is not None:
        image = image.convert(str(mode))
    image.save(out, format, **options)
    return out.getvalue()


def encode_deep(levels: np.ndarray, format: str = "PNG") -> bytes:
    """The bytes of a grey image with 16 bits per pixel."""
    out = io.BytesIO()
    Image.fromarray(levels.astype(np.uint16)).save(out, format)
    return out.getvalue()


def damaged_tiff(height: int, width: int) -> bytes:
    """One bit makes fractions of its StripOffsets: its header is read, its pixels are a TypeError of Pillow."""
    data = bytearray(encode(height, width, format="TIFF"))
    data[data.index(b"\x11\x01\x04\x00\x01\x00") + 2] ^= 1
    return bytes(data)


def damaged_dds(height: int, width: int) -> bytes:
    """Its pixels are of no kind: opening it is a NotImplementedError of Pillow."""
    data = bytearray(encode(height, width, format="DDS"))
    data[80:84] = bytes(4)
    return bytes(data)
