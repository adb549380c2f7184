"""Smaller photographs on request: resized and encoded again before they are packed. Off by default."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from PIL import Image

from headrace.errors import SourceError
from headrace.formats.pillow import blame_image
from headrace.pack.checks import keep_integers
from headrace.sample import Sample, is_image_field

_PHOTOS = frozenset({"L", "LA", "RGB", "RGBA", "CMYK"})


@dataclass(frozen=True)
class Shrink:
    """Down to `short` pixels on the shorter side and `longest` on the longer; never enlarges.

    JPEGs and lossy WebPs become JPEGs of this `quality`; what was stored without loss becomes PNG.
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
            raise ValueError("give short or longest: without them nothing would be resized")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")


def shrink_sample(sample: Sample, shrink: Shrink) -> Sample:
    """The sample with its image made smaller; one that is small enough keeps its bytes.

    SourceError if that would change what the image means (see `_check_photo`), or if there are other
    images, such as a mask, that it would no longer fit.
    """
    names = [name for name in sample if is_image_field(name)]
    smaller = {name: _shrink_image(sample[name], shrink) for name in names}
    if not any(smaller.values()):
        return sample
    if len(names) > 1:
        raise SourceError(
            f"has several images ({', '.join(names)}), which would not fit each other when they are shrunk; "
            "pack it without shrinking"
        )
    ((name, found),) = smaller.items()
    assert found is not None
    fields, suffixes = dict(sample.fields), dict(sample.suffixes)
    del fields[name]
    suffixes.pop(name, None)
    head, dot, _ = name.rpartition(".")
    fields[f"{head}{dot}{found.suffix}"] = found.data
    return replace(sample, fields=fields, suffixes=suffixes)


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
    """SourceError if pixels cannot be mixed (numbers of classes or colours), or would lose bits or frames."""
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
    """JPEGs, also those with a second picture (MPO), and WebPs without a chunk of the lossless kind."""
    return image.format in ("JPEG", "MPO") or (image.format == "WEBP" and b"VP8L" not in data)


def _is_deep(tile: Any) -> bool:
    """Whether Pillow would cut these pixels to 8 bits: 16 are in the name of their raw mode, PPM has a maximum."""
    codec, _, _, args = tile
    return ";16" in str(args) or (codec.startswith("ppm") and args[1] > 255)


def _pixel_mode(image: Image.Image) -> str:
    """The mode in which pixels are mixed: as they are, but for CMYK, and a colour that means transparent."""
    mode = "RGB" if image.mode == "CMYK" else image.mode
    return {"L": "LA", "RGB": "RGBA"}.get(mode, mode) if "transparency" in image.info else mode


def _smaller_size(size: tuple[int, int], shrink: Shrink) -> tuple[int, int] | None:
    scale = min(
        1.0,
        (shrink.short or min(size)) / min(size),
        (shrink.longest or max(size)) / max(size),
    )
    if scale == 1.0:
        return None
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
