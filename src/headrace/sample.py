"""One sample: a key, its encoded fields, its label and its columns.

The same class carries samples out of a source into the packer and out of a dataset to the user.
Fields are named by their file suffix in lower case, `jpeg` being `jpg`: `sample["jpg"]`.
A video is a field `mjpg`: its JPEG frames one after the other, with their sizes in `frames`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

IMAGE_FIELDS = frozenset({"bmp", "gif", "jpg", "pgm", "png", "ppm", "tif", "webp"})
_MASK_WORDS = frozenset(
    ["annotation", "annotations", "gt", "instance", "instanceids", "label", "labelids", "labels"]
    + ["labeltrainids", "mask", "masks", "panoptic", "seg", "segmentation", "semantic"]
)
VIDEO_FIELDS = frozenset({"mjpg"})
_ARRAYS = frozenset({"npy"})
_SAME = {"jpeg": "jpg", "tiff": "tif"}


def field_name(suffix: str) -> str:
    """Return the field of a file suffix: `JPEG` is `jpg`, `mask.PNG` is `mask.png`."""
    head, dot, last = suffix.lower().rpartition(".")
    return head + dot + _SAME.get(last, last)


def is_image_field(name: str) -> bool:
    """Return whether a field holds an encoded image, by the last part of its name."""
    return name.rpartition(".")[2] in IMAGE_FIELDS


def find_mask_word(name: str) -> str | None:
    """Return the word in the name of a field that says it holds masks: `mask` of `mask.png`; None if there is none.

    JPEGs are not taken for masks: their values are not kept.
    """
    if name.endswith("jpg"):
        return None
    words = re.split(r"[._ -]", name.lower())[:-1]
    return next((word for word in words if word in _MASK_WORDS), None)


def picture_fields(names: Iterable[str]) -> list[str]:
    """Return the image fields that samples may have as their picture; the others are masks and the like.

    Fields named by their suffix alone (`jpg`) come before `image.jpg`, then all others, and masks last. If two are
    left, the sample does not say which one is its picture.
    """
    images = [name for name in names if is_image_field(name)]
    plain = [name for name in images if "." not in name]
    named = [name for name in images if name.partition(".")[0] == "image"]
    return plain or named or [name for name in images if find_mask_word(name) is None] or images


def is_video_field(name: str) -> bool:
    """Return whether a field holds the frames of a video, by the last part of its name."""
    return name.rpartition(".")[2] in VIDEO_FIELDS


def is_array_field(name: str) -> bool:
    """Return whether a field holds a NumPy array, by the last part of its name."""
    return name.rpartition(".")[2] in _ARRAYS


@dataclass(frozen=True, slots=True)
class Sample(Mapping[str, bytes]):
    """A key, the encoded bytes of each field, an integer label and the user's columns.

    `suffixes` keeps the spelling of a field's suffix in its source where that differs
    (`{"jpg": "JPEG"}`), so that unpacking gives the file its own name back. `frames` has the size
    in bytes of every frame of each video field, `fps` its frames per second if that is known, and
    `times` the seconds from the first frame to each frame, if the rate varies. `recoded` has the
    kind that an image had before it was recoded (see `headrace.pack.recode_images`).
    """

    key: str
    fields: Mapping[str, bytes]
    label: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    suffixes: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fps: Mapping[str, float] = field(default_factory=dict)
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    recoded: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> bytes:
        try:
            return self.fields[field_name(name)]
        except KeyError:
            raise KeyError(f"{name!r}: sample {self.key!r} has {sorted(self.fields)}") from None

    def split_frames(self, name: str = "mjpg") -> list[bytes]:
        """Return the encoded frames of a video field. A frame may end in zeros, which pad it in its file."""
        data, start, parts = self[name], 0, []
        for size in self.frames[name]:
            parts.append(data[start : start + size])
            start += size
        return parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(data)} bytes" for name, data in self.fields.items())
        return f"Sample({self.key!r}, label={self.label}, {{{sizes}}})"
