"""Writes a GulpIO directory of videos, or of images as videos of one frame. All must be JPEGs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from headrace.errors import PackError
from headrace.formats.layouts.gulp import KNOWN, LABEL_LIMIT, name_gap
from headrace.pack.export.fields import (
    Classes,
    check_classes,
    class_name,
    data_fields,
    strip_padding,
    write_new,
)
from headrace.sample import Sample, is_image_field, is_video_field
from headrace.store.keys import printable, unescape_key

_VIDEOS_PER_CHUNK = 100  # GulpIO's own default


def write_gulp(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    check_classes(classes)
    place.mkdir()
    numbers = {name: k for k, name in enumerate(classes or ()) if name != name_gap(k)}
    seen: set[str] = set()
    total, rest = 0, iter(samples)
    for chunk in count():
        written = _write_chunk(rest, place, chunk, classes, numbers, seen)
        total += written
        if not written:
            break
    if numbers:
        write_new(place, "label2idx.json", json.dumps(numbers).encode())
    return total


def _write_chunk(
    samples: Iterator[Sample],
    place: Path,
    number: int,
    classes: Classes,
    numbers: dict[str, int],
    seen: set[str],
) -> int:
    """Write the next samples as one chunk, data before metadata; return their number. Adds new labels and ids."""
    # Zero-padded, as GulpIO reads chunks in the order of their names.
    data, meta = place / f"data_{number:06d}.gulp", f"meta_{number:06d}.gmeta"
    videos: dict[str, object] = {}
    with open(data, "xb") as file:
        for sample in islice(samples, _VIDEOS_PER_CHUNK):
            places = []
            for frame in _gulp_frames(sample):
                pad = -len(frame) % 4
                places.append([file.tell(), pad, len(frame) + pad])
                file.write(frame + bytes(pad))
            name = unescape_key(sample.key)
            if name in seen:
                raise PackError(f"{printable(name)}: two samples would have this id")
            seen.add(name)
            entry = {**_other_metadata(sample), "id": name}
            if sample.label is not None:
                _check_label(sample.key, sample.label)
                label = class_name(sample.label, classes)
                numbers.setdefault(label, sample.label)
                entry |= {"label": label, "idx": sample.label}
            videos[name] = {"frame_info": places, "meta_data": [entry]}
    if videos:
        write_new(place, meta, json.dumps(videos).encode())
    else:
        data.unlink()
    return len(videos)


def _check_label(key: str, label: int) -> None:
    if not 0 <= label < LABEL_LIMIT:
        raise PackError(
            f"{printable(key)}: its label is {label}; a gulp has labels from 0 to {LABEL_LIMIT - 1}. "
            "Give it another, or none, or export to webdataset"
        )


def _other_metadata(sample: Sample) -> dict[str, object]:
    """Return the columns of the sample, or its json, and the metadata that a gulp had, from the column `meta`."""
    columns = _parse_object(data_fields(sample).get("json", b"{}"))
    if columns is None:
        raise PackError(f"{printable(sample.key)}: its json is not an object; metadata must be one")
    before = _parse_object(columns.get("meta"))
    if before is not None or columns.get("meta") is None:
        columns.pop("meta", None)  # null: this id of a gulp had no other metadata
        columns |= before or {}
    if taken := sorted(columns.keys() & KNOWN):
        raise PackError(f"{printable(sample.key)}: {taken} mean something else in a gulp")
    return columns


def _parse_object(text: Any) -> dict[str, object] | None:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _gulp_frames(sample: Sample) -> list[bytes]:
    key, fields = printable(sample.key), [name for name in data_fields(sample) if name != "json"]
    others = [n for n in fields if not is_image_field(n) and not is_video_field(n)]
    if others:
        raise PackError(f"{key}: a gulp has no place for {others}")
    if fields == ["jpg"]:
        return [sample["jpg"]]
    if len(fields) == 1 and is_video_field(fields[0]):
        return [strip_padding(frame) for frame in sample.split_frames(fields[0])]
    raise PackError(f"{key}: a gulp holds one JPEG or video, not {fields}")
