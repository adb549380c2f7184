"""Checks that targets can follow their images: masks and maps have the size of theirs, and nothing shrinks alone."""

from __future__ import annotations

from headrace.errors import SourceError
from headrace.image_header import ImageHeader
from headrace.kinds import NAMES, Boxes, Image, Map, Mask, Points
from headrace.sample import find_mask_word, picture_fields
from headrace.store.index_schema import Described, ImageNote
from headrace.store.keys import printable


def check_sizes(described: Described) -> Described:
    """Return its argument. SourceError if a mask or map does not have the size of its image."""
    for name, kind in described.field_kinds.items():
        if isinstance(kind, (Mask, Map)) and _must_match(described, name):
            images = _find_images(described, kind.of)
            own = described.notes[name].header[1:]
            if images and all(own != described.notes[image].header[1:] for image in images):
                raise SourceError(_describe(described, name, images[0]))
    return described


def _must_match(described: Described, name: str) -> bool:
    """Return whether a target must have the size of its image. A `gt.png` in colour may be a picture: the sharp one."""
    is_colour = described.sample[name][24:26] in (b"\x08\x02", b"\x08\x06")  # of a PNG
    return name in described.notes and not (is_colour and find_mask_word(name) == "gt")


def check_unshrunk(described: Described) -> Described:
    """Return a sample whose image was shrunk. SourceError if it has targets, which would not match the image."""
    for name, kind in described.field_kinds.items():
        if isinstance(kind, (Mask, Map, Points, Boxes)):
            raise SourceError(
                f"has {NAMES[type(kind)]} ({name}), which would no longer match; pack it without shrinking"
            )
    return described


def _find_images(described: Described, of: str | None) -> list[str]:
    """Return the images that a target may belong to: the one that it names, or the picture of the sample."""
    images = [
        name
        for name, kind in described.field_kinds.items()
        if isinstance(kind, Image) and name in described.notes
    ]
    if of is not None:
        return [name for name in images if of in (name, name.rpartition(".")[0])]
    return picture_fields(images) or images


def _describe(described: Described, name: str, image: str) -> str:
    own, note = described.notes[name], described.notes[image]
    turned = isinstance(note, ImageNote) and note.orientation >= 5
    return (
        f"{name} of {printable(described.sample.key)!r}: {_format(own.header)} pixels, its image has "
        f"{_format(note.header)}" + (", since it is stored on its side (EXIF)" if turned else "")
    )


def _format(header: ImageHeader) -> str:
    return f"{header.width} x {header.height}"
