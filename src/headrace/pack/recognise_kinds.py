"""Recognises the kinds of a sample's fields and columns, by their names and by what is in them.

A kind says how values follow the geometry of their image (see `headrace.kinds`). Samples are looked at one by one, so
that the result does not depend on the order in which they are packed; `store.field_kinds` joins what they say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.image_header import ImageHeader
from headrace.kinds import Boxes, Image, Kind, Map, Mask, Points, Text
from headrace.sample import Sample, find_mask_word, is_image_field
from headrace.store.index_schema import ArrayNote, ImageNote, Note

_TEXT = frozenset({"caption", "text", "txt"})
_BOXES = frozenset({"bbox", "bboxes", "box", "boxes"})
_POINTS = frozenset({"keypoint", "keypoints", "point", "points"})
_MAPS = frozenset({"depth", "disp", "disparity", "flow", "map"})
_SURE_MAPS = _MAPS - {"map"}
_SURE_MASKS = frozenset({"mask", "masks", "panoptic", "seg", "segmentation", "semantic"})
"""Words that say what an array is although its size is not that of an image, so that it is an error."""


def recognise_kinds(sample: Sample, notes: Mapping[str, Note]) -> dict[str, Kind | None]:
    """Return the kind of each field and column, None for those of no kind.

    Damaged fields are not among them, nor are columns whose lists are empty: they say nothing.
    """
    images = _find_images(notes)
    is_damaged = any(is_image_field(name) and name not in notes for name in sample)
    kinds: dict[str, Kind | None] = {}
    for name in sample:
        note, last = notes.get(name), name.rpartition(".")[2]
        if last in _TEXT:
            kinds[name] = Text()
        elif isinstance(note, ImageNote):
            kinds[name] = _recognise_image(name, note.header, _find_owner(name, images))
        elif isinstance(note, ArrayNote) and not is_damaged:
            kinds[name] = _recognise_array(name, note, images)
    return kinds | _recognise_columns(sample.columns)


def split_words(name: str) -> list[str]:
    """Return the words of a name, in lower case: `gt_boxes.npy` has gt, boxes and npy."""
    return re.split(r"[._ -]", name.lower())


def _find_images(notes: Mapping[str, Note]) -> dict[str, ImageHeader]:
    """Return the headers of the fields that hold pictures, not masks or maps."""
    return {
        name: note.header
        for name, note in notes.items()
        if (isinstance(note, ImageNote) and _recognise_image(name, note.header, None) == Image())
        or (isinstance(note, ArrayNote) and _is_picture(note))
    }


def _find_owner(name: str, images: Mapping[str, ImageHeader]) -> str | None:
    """Return the stem of the image that a field belongs to by its name: `d1` of `d1.label.npy`; None if none."""
    stems = {image.rpartition(".")[0] for image in images}
    parts = name.split(".")[:-1]
    prefixes = (".".join(parts[:k]) for k in range(len(parts) - 1, 0, -1))
    return next((prefix for prefix in prefixes if prefix in stems), None)


def _recognise_image(name: str, header: ImageHeader, of: str | None) -> Kind | None:
    """Return the kind of an image file. One that is called a depth or the like has values, not colours."""
    if find_mask_word(name) is not None:
        return Mask(of)
    words = split_words(name)[:-1]
    if _MAPS.intersection(words) and header.kind.endswith("-16"):
        return Map(of, scale="x" if {"disparity", "disp"}.intersection(words) else "none")
    return None if _SURE_MAPS.intersection(words) else Image()


def _is_picture(note: ArrayNote) -> bool:
    return note.dtype == "uint8" and len(note.shape) == 3 and note.shape[2] == 3


def _recognise_array(name: str, note: ArrayNote, images: Mapping[str, ImageHeader]) -> Kind | None:
    if _is_picture(note):
        return Image()
    if not images or len(note.shape) < 2:
        return None
    words, of = split_words(name)[:-1], _find_owner(name, images)
    fits = any(note.shape[:2] == (image.height, image.width) for image in images.values())
    if _BOXES.intersection(words):
        return Boxes(of) if len(note.shape) == 2 and note.shape[1] == 4 else None
    if not note.is_float:
        is_mask = len(note.shape) == 2 and (fits or bool(_SURE_MASKS.intersection(words)))
        return Mask(of) if is_mask and note.is_integer else None
    if len(note.shape) <= 3 and (fits or _SURE_MAPS.intersection(words)):
        return _choose_map(words, note, of)
    return Points(of) if note.shape[-1] == 2 else None


def _choose_map(words: Sequence[str], note: ArrayNote, of: str | None) -> Map:
    if "flow" in words and note.shape[2:] == (2,):
        return Map(of, scale="xy")
    return Map(of, scale="x" if {"disparity", "disp"}.intersection(words) else "none")


def _recognise_columns(columns: Mapping[str, Any]) -> dict[str, Kind | None]:
    kinds: dict[str, Kind | None] = {}
    for name, value in columns.items():
        words = split_words(name)
        if not isinstance(value, (list, tuple)) or not value:
            continue
        if _BOXES.intersection(words):
            beside = _list_beside(columns, name, len(value))
            kinds[name] = Boxes(columns=beside) if _are_rows(value, 4) else None
        elif _POINTS.intersection(words):
            kinds[name] = Points() if _are_rows(value, 2) else None
    return kinds


def _list_beside(columns: Mapping[str, Any], boxes: str, count: int) -> tuple[str, ...]:
    """Return the columns that have a value for each of the boxes."""
    return tuple(
        name
        for name, value in columns.items()
        if name != boxes and isinstance(value, (list, tuple)) and len(value) == count
    )


def _are_rows(value: Sequence[Any], length: int) -> bool:
    """Return whether a list holds lists of `length` numbers, or lists of such lists."""
    if all(isinstance(row, (list, tuple)) for row in value):
        return all(_is_row(row, length) or (row and _are_rows(row, length)) for row in value)
    return False


def _is_row(row: Sequence[Any], length: int) -> bool:
    is_number = (isinstance(v, (int, float)) and not isinstance(v, bool) for v in row)
    return len(row) == length and all(is_number)
