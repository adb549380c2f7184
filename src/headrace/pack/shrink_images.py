"""Shrinks photographs on request: resizes and encodes them again before they are packed."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from PIL import Image

from headrace.arguments import keep_integers
from headrace.errors import SourceError
from headrace.image_header import blame_image
from headrace.sample import Sample, is_image_field

_PHOTOS = frozenset({"L", "LA", "RGB", "RGBA", "CMYK"})


@dataclass(frozen=True)
class Shrink:
    """Resize to at most `short` pixels on the shorter side and `longest` on the longer side.

    JPEGs and lossy WebPs become JPEGs of this `quality`; lossless images become PNG.
    """

    short: int | None = None
    longest: int | None = None
    quality: int = 90

    def __post_init__(self) -> None:
        keep_integers(self, "short", "longest", "quality")
        for name in ("short", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1 pixel")
        if self.short is None and self.longest is None:
            raise ValueError("shrink: neither short nor longest is given; give one of them")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")


def shrink_sample(sample: Sample, shrink: Shrink) -> Sample:
    """Return the sample with a smaller image; an image that is small enough keeps its bytes.

    SourceError if that would change what the image means (see `_check_photo`), or if the sample has
    other images, such as a mask, that would no longer match.
    """
    names = [name for name in sample if is_image_field(name)]
    smaller = {name: _shrink_image(sample[name], shrink) for name in names}
    if not any(smaller.values()):
        return sample
    if len(names) > 1:
        raise SourceError(
            f"has several images ({', '.join(names)}), which would no longer match; pack it without shrinking"
        )
    ((name, found),) = smaller.items()
    assert found is not None
    fields, suffixes = dict(sample.fields), dict(sample.suffixes)
    del fields[name]
    suffixes.pop(name, None)
    head, dot, _ = name.rpartition(".")
    fields[f"{head}{dot}{found.suffix}"] = found.data
    recoded = {other: kind for other, kind in sample.recoded.items() if other != name}
    return replace(sample, fields=fields, suffixes=suffixes, recoded=recoded)


class _Smaller(NamedTuple):
    suffix: str
    data: bytes


def _shrink_image(data: bytes, shrink: Shrink) -> _Smaller | None:
    with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
        size = _smaller_size(image.size, shrink)
        if size is None:
            return None
        _check_photo(image)
        is_lossy = _is_lossy(image, data)
        pixels = image.convert(_pixel_mode(image))
    pixels, out = pixels.resize(size, Image.Resampling.BICUBIC), io.BytesIO()
    if is_lossy and pixels.mode in ("L", "RGB"):
        pixels.save(out, "JPEG", quality=shrink.quality)
        return _Smaller("jpg", out.getvalue())
    pixels.save(out, "PNG")
    return _Smaller("png", out.getvalue())


def _check_photo(image: Image.Image) -> None:
    """Raise SourceError if pixels cannot be averaged (class or palette numbers), or would lose bits or frames."""
    reason = None
    if image.mode not in _PHOTOS:
        reason = f"its pixels are of mode {image.mode}"
    elif any(_is_deep(tile) for tile in getattr(image, "tile", ())):
        reason = "it has more than 8 bits a channel"
    elif getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
        reason = "it has several frames"
    if reason is not None:
        raise SourceError(
            f"cannot be shrunk without changing what it means, since {reason}; "
            "pack it without shrinking, or convert it first"
        )


def _is_lossy(image: Image.Image, data: bytes) -> bool:
    """Return whether an image is a JPEG, also with a second picture (MPO), or a lossy WebP."""
    return image.format in ("JPEG", "MPO") or (image.format == "WEBP" and b"VP8L" not in data)


def _is_deep(tile: Any) -> bool:
    """Return whether Pillow would cut these pixels to 8 bits, by the raw mode or the maximum of a PPM."""
    codec, _, _, args = tile
    return ";16" in str(args) or (codec.startswith("ppm") and args[1] > 255)


def _pixel_mode(image: Image.Image) -> str:
    """Return the mode in which pixels are averaged: RGB for CMYK, and an alpha channel for a transparent colour."""
    mode = "RGB" if image.mode == "CMYK" else image.mode
    return {"L": "LA", "RGB": "RGBA"}.get(mode, mode) if "transparency" in image.info else mode


def _smaller_size(size: tuple[int, int], shrink: Shrink) -> tuple[int, int] | None:
    scale = min(
        1.0, (shrink.short or min(size)) / min(size), (shrink.longest or max(size)) / max(size)
    )
    if scale == 1.0:
        return None
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
