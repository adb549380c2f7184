"""What the index says of a sample beyond the place of its bytes: image headers and seek tables."""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.formats.header import ImageHeader, read_header
from penstock.sample import Sample, is_image_field


class Described(NamedTuple):
    """A sample with the headers of its image fields, complete with what goes into the shard."""

    sample: Sample
    headers: dict[str, ImageHeader]


def describe_sample(sample: Sample) -> Described:
    """Reads the headers. SourceError if a field that should be an image is none."""
    headers = {name: read_header(data) for name, data in sample.items() if is_image_field(name)}
    return Described(sample, headers)


def shard_fields(sample: Sample) -> dict[str, bytes]:
    """The sample's fields, with `cls` for its label and `json` for its columns, as WebDataset has it.

    So a shard says all that is known of its samples, and the index can be built again from it.
    """
    fields = dict(sample.fields)
    if sample.label is not None:
        fields.setdefault("cls", b"%d" % sample.label)
    if sample.columns:
        text = json.dumps(dict(sample.columns), ensure_ascii=False, default=str)
        fields.setdefault("json", text.encode())
    return fields
