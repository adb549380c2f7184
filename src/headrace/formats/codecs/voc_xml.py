"""Annotations of PASCAL VOC: the boxes of an image in an XML file that is not trusted.

Coordinates are those of the file: left, top, right and bottom, which VOC counts from 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from xml.etree import ElementTree

from headrace.errors import SourceError

MAX_BYTES = 16 << 20


class VocObjects(NamedTuple):
    """The objects of an image: a box, a class name and two flags each."""

    boxes: list[list[float]]
    names: list[str]
    difficult: list[int]
    truncated: list[int]


class _Builder(ElementTree.TreeBuilder):
    """Refuses a document type, in which entities are declared that make a small file large, or read others."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise SourceError("its XML declares a document type, which is not read")


def parse_voc(data: bytes) -> VocObjects:
    """Return the objects of an annotation. Raise SourceError if it is not one."""
    if len(data) > MAX_BYTES:
        raise SourceError(f"{len(data)} bytes are too many for an annotation in XML")
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(data)
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # of an unknown encoding
        raise SourceError(f"not readable XML: {error!s:.100}") from None
    if root.tag != "annotation":
        raise SourceError(
            f"its XML is <{root.tag!s:.40}>, not an <annotation> as PASCAL VOC has it"
        )
    found = VocObjects([], [], [], [])
    for entry in root.iterfind("object"):
        found.names.append(_read_text(entry, "name"))
        sides = ("xmin", "ymin", "xmax", "ymax")
        found.boxes.append([_read_number(entry, f"bndbox/{side}") for side in sides])
        found.difficult.append(_read_flag(entry, "difficult"))
        found.truncated.append(_read_flag(entry, "truncated"))
    return found


def _read_text(entry: ElementTree.Element, name: str) -> str:
    text = (entry.findtext(name) or "").strip()
    if not text:
        raise SourceError(f"an object without <{name}>")
    return text


def _read_number(entry: ElementTree.Element, name: str) -> float:
    text = _read_text(entry, name)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SourceError(f"an object whose <{name}> is {text!r:.40}, not a number")
    return number


def _read_flag(entry: ElementTree.Element, name: str) -> int:
    """Return 0 or 1. Without the element, as in some annotations, it is 0."""
    text = (entry.findtext(name) or "0").strip()
    if text not in ("0", "1"):
        raise SourceError(f"an object whose <{name}> is {text!r:.40}, not 0 or 1")
    return int(text)
