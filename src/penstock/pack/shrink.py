"""Smaller images on request: resized and encoded again before they are packed. Off by default."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

from PIL import Image

from penstock.errors import SourceError
from penstock.pack.describe import say_why
from penstock.sample import Sample, is_image_field


@dataclass(frozen=True)
class Shrink:
    """Down to `short` pixels on the shorter side and `longest` on the longer; never enlarges."""

    short: int | None = None
    longest: int | None = None
    quality: int = 90

    def __post_init__(self) -> None:
        for name in ("short", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1 pixel")
        if self.short is None and self.longest is None:
            raise ValueError("give short or longest: without them nothing would be resized")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")


def shrink_sample(sample: Sample, shrink: Shrink) -> Sample:
    """The sample with its larger images encoded again as JPEG; smaller ones keep their bytes."""
    fields, suffixes = dict(sample.fields), dict(sample.suffixes)
    for name in [name for name in fields if is_image_field(name)]:
        smaller = _shrink_image(fields[name], shrink)
        if smaller is not None:
            head, dot, _ = name.rpartition(".")
            del fields[name]
            suffixes.pop(name, None)
            fields[f"{head}{dot}jpg"] = smaller
    return replace(sample, fields=fields, suffixes=suffixes)


def _shrink_image(data: bytes, shrink: Shrink) -> bytes | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            size = _smaller_size(image.size, shrink)
            if size is None:
                return None
            pixels = image.convert("L" if image.mode == "L" else "RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SourceError(f"does not decode: {say_why(error)}") from None
    out = io.BytesIO()
    pixels.resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=shrink.quality)
    return out.getvalue()


def _smaller_size(size: tuple[int, int], shrink: Shrink) -> tuple[int, int] | None:
    scale = min(
        1.0,
        (shrink.short or min(size)) / min(size),
        (shrink.longest or max(size)) / max(size),
    )
    if scale == 1.0:
        return None
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
