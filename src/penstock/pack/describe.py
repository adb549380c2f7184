"""What the index says of a sample beyond the place of its bytes: image headers and seek tables."""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.errors import SourceError
from penstock.formats.header import ImageHeader, read_header
from penstock.formats.webdataset import FRAMES
from penstock.sample import Sample, is_image_field, is_video_field


class Described(NamedTuple):
    """A sample with the headers of its images and of its videos' first frames."""

    sample: Sample
    headers: dict[str, ImageHeader]


def describe_sample(sample: Sample) -> Described:
    """Reads the headers. SourceError if a field that should be an image is none."""
    headers = {name: read_header(data) for name, data in sample.items() if is_image_field(name)}
    for name in filter(is_video_field, sample):
        headers[name] = _read_video_header(sample, name)
    return Described(sample, headers)


def _read_video_header(sample: Sample, name: str) -> ImageHeader:
    """The header of the first frame, which stands for all of them."""
    sizes = sample.frames.get(name, ())
    if not sizes or min(sizes) <= 0 or sum(sizes) != len(sample[name]):
        raise SourceError(f"{name}: the sizes of its {len(sizes)} frames do not add up")
    return read_header(sample[name][: sizes[0]])


def shard_fields(sample: Sample) -> dict[str, bytes]:
    """The sample's fields, with `cls` for its label and `json` for its columns, as WebDataset has it,
    and `<field>.frames.json` for the sizes of a video's frames.

    So a shard says all that is known of its samples, and the index can be built again from it.
    """
    fields = dict(sample.fields)
    if sample.label is not None:
        fields.setdefault("cls", b"%d" % sample.label)
    if sample.columns:
        text = json.dumps(dict(sample.columns), ensure_ascii=False, default=str)
        fields.setdefault("json", text.encode())
    for name, sizes in sample.frames.items():
        fields.setdefault(name + FRAMES, json.dumps(list(sizes)).encode())
    return fields
