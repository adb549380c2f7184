"""What the index says of a sample beyond the place of its bytes: image headers and seek tables."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from headrace import _core
from headrace.errors import SourceError
from headrace.formats.header import ImageHeader, read_header
from headrace.formats.pillow import blame_image
from headrace.formats.webdataset import FRAMES
from headrace.sample import Sample, is_image_field, is_video_field

_NATIVE = frozenset({"baseline", "grey"})


class ImageNote(NamedTuple):
    """What the index says of an image; `seek` is empty where the native decoder has no use for it.

    Of a video: the header of its first frame, and the size of every frame.
    """

    header: ImageHeader
    seek: bytes
    frames: Sequence[int] = ()


class Described(NamedTuple):
    """A sample with what the index says of its image fields."""

    sample: Sample
    images: dict[str, ImageNote]


def describe_sample(sample: Sample) -> Described:
    """SourceError if a field that should be an image is none, or a JPEG that does not decode."""
    images = {name: describe_image(data) for name, data in sample.items() if is_image_field(name)}
    for name in filter(is_video_field, sample):
        images[name] = describe_video(sample[name], sample.frames.get(name, ()))
    return Described(sample, images)


def describe_image(data: bytes) -> ImageNote:
    """Header and seek table. For that, baseline JPEGs are read to their end."""
    header = read_header(data)
    if header.kind not in _NATIVE:
        return ImageNote(header, b"")
    status, seek = _core.build_seek(data)
    if status == 0 and not seek:  # it was not read: too small for a table, or cut so short
        status = _core.decode_jpeg(data)[0]
    if status != 0:
        _check_with_pillow(data)
    return ImageNote(header, seek)


def check_pixels(described: Described) -> Described:
    """The same. SourceError if an image of which only the header was read does not decode."""
    for name, note in described.images.items():
        if is_image_field(name) and note.header.kind not in _NATIVE:
            _check_with_pillow(described.sample[name])
    return described


def describe_video(data: bytes, frames: Sequence[int]) -> ImageNote:
    """The header of the first frame. SourceError if the frames do not fill the data exactly."""
    if not frames or min(frames) <= 0 or sum(frames) != len(data):
        raise SourceError(f"a video of {len(data)} bytes whose {len(frames)} frames do not add up")
    return ImageNote(read_header(data[: frames[0]]), b"", frames)


def _check_with_pillow(data: bytes) -> None:
    """What the native decoder finds fault with is damaged if Pillow, which forgives more, fails too."""
    with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
        image.load()


def _make_plain(value: Any) -> Any:
    """NumPy's numbers as Python's; infinities and NaN as null, since JSON has none: the index keeps them."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, dict):
        return {name: _make_plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shard_fields(sample: Sample) -> dict[str, bytes]:
    """The sample's fields, with `cls` for its label and `json` for its columns, as WebDataset has it,
    and `<field>.frames.json` for the sizes of a video's frames.

    So a shard says all that is known of its samples, and the index can be built again from it.
    """
    fields = dict(sample.fields)
    if sample.label is not None:
        fields.setdefault("cls", b"%d" % sample.label)
    if sample.columns:
        columns = _make_plain(dict(sample.columns))
        text = json.dumps(columns, ensure_ascii=False, default=str, allow_nan=False)
        fields.setdefault("json", text.encode())
    for name, sizes in sample.frames.items():
        fields.setdefault(name + FRAMES, json.dumps(list(sizes)).encode())
    return fields
