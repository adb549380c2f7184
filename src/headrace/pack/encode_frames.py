"""Encodes the frames of a video as JPEG on request, where they are PNG or WebP files. JPEG frames keep their bytes."""

from __future__ import annotations

import io
from dataclasses import replace

from PIL import Image

from headrace.errors import SourceError
from headrace.formats.codecs.image_signature import sniff_image
from headrace.formats.codecs.jpeg_frames import encode_picture
from headrace.image_header import blame_image
from headrace.pack.encode_arrays import Encode
from headrace.sample import Sample, is_video_field


def encode_frames(sample: Sample, encode: Encode | None) -> Sample:
    """Return the sample with JPEG frames. SourceError if they are something else and `encode` is not `jpg`."""
    for name in filter(is_video_field, list(sample)):
        frames = sample.split_frames(name) if name in sample.frames else []
        kind = sniff_image(frames[0]) if frames else "jpg"
        if kind in ("jpg", None):
            continue
        if encode is None or encode.kind != "jpg":
            raise SourceError(
                f"its frames are {kind.upper()}; give --encode jpg (encode=Encode('jpg')), with --quality, to "
                "encode them as JPEG"
            )
        encoded = [_encode(frame, encode.quality) for frame in frames]
        sample = replace(
            sample,
            fields={**sample.fields, name: b"".join(encoded)},
            frames={**sample.frames, name: [len(frame) for frame in encoded]},
        )
    return sample


def _encode(frame: bytes, quality: int) -> bytes:
    with blame_image("does not decode"), Image.open(io.BytesIO(frame)) as image:
        return encode_picture(image.convert("L" if image.mode in ("1", "L") else "RGB"), quality)
