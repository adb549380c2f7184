"""Encodes raw pixel arrays on request: `.npy` fields become images before they are packed."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from headrace.arguments import check_choice, keep_integers
from headrace.errors import SourceError
from headrace.formats.codecs.arrays import decode_npy
from headrace.sample import Sample


@dataclass(frozen=True)
class Encode:
    """Encode as `png`, lossless, or as `jpg`; `channels` is the order of the colours in the arrays."""

    kind: str = "png"
    channels: str = "bgr"
    quality: int = 95

    def __post_init__(self) -> None:
        keep_integers(self, "quality")
        check_choice("kind", self.kind, ("png", "jpg"))
        check_choice("channels", self.channels, ("bgr", "rgb"))
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")


def encode_sample(sample: Sample, encode: Encode) -> Sample:
    """Return the sample with its pixel arrays as images; other arrays are kept.

    SourceError if the sample has a field of the same name as the image.
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
                f"its {name} would become {image}, which it has already; encode it as another kind"
            )
        else:
            fields[image] = _encode(pixels, encode)
    return replace(sample, fields=fields)


def _read_pixels(data: bytes) -> np.ndarray | None:
    """Return a non-empty array of uint8 of shape (H, W) or (H, W, 3); None if it is something else."""
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
