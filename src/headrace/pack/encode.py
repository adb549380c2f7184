"""Decoded arrays as images, on request: `.npy` fields that hold pixels are encoded before packing."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from headrace.errors import SourceError
from headrace.formats.arrays import decode_npy
from headrace.pack.checks import keep_integers
from headrace.sample import Sample


@dataclass(frozen=True)
class Encode:
    """As `png`, without loss, or as `jpg`; `channels` is the order of the colours in the arrays."""

    kind: str = "png"
    channels: str = "bgr"
    quality: int = 95

    def __post_init__(self) -> None:
        keep_integers(self, "quality")
        if self.kind not in ("png", "jpg"):
            raise ValueError(f"kind is {self.kind!r}; it must be 'png' or 'jpg'")
        if self.channels not in ("bgr", "rgb"):
            raise ValueError(f"channels is {self.channels!r}; it must be 'bgr' or 'rgb'")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")


def encode_sample(sample: Sample, encode: Encode) -> Sample:
    """The sample with its arrays of pixels as images; other arrays stay what they are.

    SourceError if a field has the name of the image already.
    """
    fields: dict[str, bytes] = {}
    for name, data in sample.items():
        head, _, last = name.rpartition(".")
        pixels = _read_pixels(data) if last == "npy" else None
        image = f"{head}.{encode.kind}" if head else encode.kind
        if pixels is None:
            fields[name] = data
        elif image in sample.fields:
            raise SourceError(
                f"has a field {image} already, which its {name} would become; encode it as another kind, or not"
            )
        else:
            fields[image] = _encode(pixels, encode)
    return replace(sample, fields=fields)


def _read_pixels(data: bytes) -> np.ndarray | None:
    """uint8 of shape (H, W) or (H, W, 3), not empty; None if the array is something else."""
    array = decode_npy(data)
    is_image = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
    return array if array.dtype == np.uint8 and is_image and array.size else None


def _encode(pixels: np.ndarray, encode: Encode) -> bytes:
    if pixels.ndim == 3 and encode.channels == "bgr":
        pixels = pixels[:, :, ::-1]
    out = io.BytesIO()
    options = {"quality": encode.quality} if encode.kind == "jpg" else {}
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.save(out, "JPEG" if encode.kind == "jpg" else "PNG", **options)
    return out.getvalue()
