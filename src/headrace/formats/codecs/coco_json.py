"""COCO's JSON of annotations (instances, keypoints, captions), checked: which columns each image has.

Boxes are left, top, width and height in the file, and left, top, right and bottom here. Labels are numbered in the order
of the ids of categories.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.codecs.strict_json import parse_json
from headrace.store.keys import is_below

_MOST = 2**63
_BOXES = {
    "boxes": pa.list_(pa.list_(pa.float32())),
    "labels": pa.list_(pa.int64()),
    "category_id": pa.list_(pa.int64()),
    "iscrowd": pa.list_(pa.int8()),
    "area": pa.list_(pa.float64()),
}
_KEYPOINTS = {
    "keypoints": pa.list_(pa.list_(pa.list_(pa.float32()))),
    "visibility": pa.list_(pa.list_(pa.int8())),
}
_CAPTIONS = {"captions": pa.list_(pa.string())}


@dataclass(frozen=True)
class CocoImages:
    """The images of a file in its order: their names, columns, and annotations as JSON."""

    names: list[str]
    rows: list[dict[str, Any]]
    annotations: list[bytes]
    columns: pa.Schema
    classes: list[str] | None


def parse_coco(data: bytes) -> CocoImages:
    """Return the images of a file of annotations. Raise SourceError if anything in it is wrong."""
    try:
        content = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not readable JSON: {error!s:.100}") from None
    if not isinstance(content, dict) or "images" not in content:
        raise SourceError("not annotations as COCO has them: an object with images and annotations")
    images = _list_entries(content, "images")
    names = _read_names(images)
    groups = _group(images, _list_entries(content, "annotations"))
    categories = _read_categories(content)
    columns = _choose_columns([entry for group in groups for entry in group])
    if "boxes" not in columns:
        categories = {}
    numbers = {number: label for label, number in enumerate(sorted(categories))}
    return CocoImages(
        names=names,
        rows=[_make_row(group, columns, numbers) for group in groups],
        annotations=[json.dumps(group, separators=(",", ":")).encode() for group in groups],
        columns=pa.schema(columns),
        classes=[categories[number] for number in sorted(categories)] or None,
    )


def _list_entries(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    entries = content.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SourceError(f"its {name} are not a list of objects")
    return entries


def _read_names(images: Sequence[Mapping[str, Any]]) -> list[str]:
    names = []
    for image in images:
        name = image.get("file_name")
        if not isinstance(name, str) or not is_below(name):
            raise SourceError(
                f"the file_name {name!r:.100} is not a path below the folder of the images"
            )
        names.append(name)
    if not names:
        raise SourceError("it lists no images")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise SourceError(f"the image {twice!r:.100} is listed twice")
    return names


def _group(
    images: Sequence[Mapping[str, Any]], annotations: Sequence[dict[str, Any]]
) -> list[list[dict[str, Any]]]:
    """Return the annotations of each image."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for image in images:
        number = _read_id(image, "id", "an image")
        if number in groups:
            raise SourceError(f"the image id {number!r:.40} is there twice")
        groups[number] = []
    for entry in annotations:
        number = _read_id(entry, "image_id", "an annotation")
        if number not in groups:
            raise SourceError(f"an annotation is of the image {number!r:.40}, which is not listed")
        groups[number].append(entry)
    return list(groups.values())


def _read_id(entry: Mapping[str, Any], name: str, what: str) -> int | str:
    number = entry.get(name)
    if isinstance(number, bool) or not isinstance(number, (int, str)):
        raise SourceError(f"the {name} of {what} is {number!r:.40}, not a number or a text")
    return number


def _read_categories(content: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of the categories by their ids."""
    categories: dict[int, str] = {}
    for entry in _list_entries(content, "categories"):
        number, name = _read_integer(entry, "id"), entry.get("name")
        if number in categories or not isinstance(name, str) or not name:
            raise SourceError(f"the category {number} is there twice, or has the name {name!r:.40}")
        categories[number] = name
    return categories


def _choose_columns(annotations: Sequence[Mapping[str, Any]]) -> dict[str, pa.DataType]:
    """Return the columns that the annotations have; keypoints only if every annotation has them."""
    if annotations and all("caption" in entry for entry in annotations):
        return dict(_CAPTIONS)
    with_points = annotations and all("keypoints" in entry for entry in annotations)
    return {**_BOXES, **(_KEYPOINTS if with_points else {})}


def _make_row(
    group: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Any],
    numbers: Mapping[int, int],
) -> dict[str, Any]:
    """Return the columns of an image: a list with an entry for each of its annotations."""
    row: dict[str, list[Any]] = {name: [] for name in columns}
    for entry in group:
        try:
            values = _read_caption(entry) if "captions" in columns else _read_object(entry, numbers)
            if "keypoints" in columns:
                values |= _read_keypoints(entry)
        except SourceError as error:
            raise SourceError(f"the annotation {entry.get('id')!r:.40}: {error}") from None
        for name, value in values.items():
            row[name].append(value)
    return row


def _read_caption(entry: Mapping[str, Any]) -> dict[str, Any]:
    caption = entry["caption"]
    if not isinstance(caption, str):
        raise SourceError(f"its caption is {caption!r:.40}, not a text")
    return {"captions": caption}


def _read_object(entry: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    left, top, width, height = _read_numbers(entry, "bbox", 4)
    category = _read_integer(entry, "category_id")
    if category not in numbers:
        raise SourceError(f"its category {category} is not listed")
    crowd = entry.get("iscrowd", 0)
    if crowd not in (0, 1):
        raise SourceError(f"its iscrowd is {crowd!r:.40}, not 0 or 1")
    area = _read_number(entry.get("area", width * height), "area")
    return {
        "boxes": [left, top, left + width, top + height],
        "labels": numbers[category],
        "category_id": category,
        "iscrowd": int(crowd),
        "area": area,
    }


def _read_keypoints(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points of an object, and for each whether it is 0 not labelled, 1 hidden or 2 visible."""
    values = _read_numbers(entry, "keypoints", None)
    if len(values) % 3 or not all(seen in (0, 1, 2) for seen in values[2::3]):
        raise SourceError("its keypoints are not triples of x, y and visibility")
    points = [list(point) for point in zip(values[::3], values[1::3], strict=True)]
    return {"keypoints": points, "visibility": [int(seen) for seen in values[2::3]]}


def _read_numbers(entry: Mapping[str, Any], name: str, count: int | None) -> list[float]:
    values = entry.get(name)
    if not isinstance(values, list) or (count is not None and len(values) != count):
        raise SourceError(f"its {name} is {values!r:.60}, not a list of {count or 'all'} numbers")
    return [_read_number(value, name) for value in values]


def _read_number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _MOST:
        raise SourceError(f"its {name} has {value!r:.40}, not a number")
    return float(value)


def _read_integer(entry: Mapping[str, Any], name: str) -> int:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not -_MOST <= value < _MOST:
        raise SourceError(f"the {name} {value!r:.40} is not an integer of 64 bits")
    return value
