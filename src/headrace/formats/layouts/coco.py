"""A folder of images with COCO's JSON of annotations: boxes, keypoints or captions become columns.

A sample has its annotations, as they are in the file, in the field `json`: polygons and all that has no column.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import blame_file, read_file
from headrace.formats.codecs.coco_json import parse_coco
from headrace.formats.folder_contents import is_image_name
from headrace.formats.image_files import MISSING, ImageFiles, place_images, stat_files
from headrace.formats.listed_files import IMAGES, check_some_exist
from headrace.formats.source import PlacedSource
from headrace.kinds import Boxes, Kind
from headrace.sample import Sample


@dataclass(frozen=True)
class CocoFiles:
    """A `Source` of image files with their annotations. `digest` is that of the file of annotations."""

    images: ImageFiles
    annotations: Sequence[bytes]
    digest: str
    field_kinds: Mapping[str, Kind] = field(default_factory=dict)

    @property
    def names(self) -> Sequence[str]:
        return self.images.names

    @property
    def sizes(self) -> np.ndarray:
        return self.images.sizes

    @property
    def mtimes(self) -> np.ndarray:
        return self.images.mtimes

    @property
    def classes(self) -> Sequence[str] | None:
        return self.images.classes

    @property
    def columns(self) -> pa.Schema:
        return self.images.columns

    @property
    def ignored(self) -> Sequence[str]:
        return self.images.ignored

    def read(self, i: int) -> Sample:
        """Return the image with its annotations."""
        sample = self.images.read(i)
        return replace(sample, fields={**sample.fields, "json": self.annotations[i]})


def open_coco(root: str | os.PathLike[str], annotations: str | os.PathLike[str]) -> CocoFiles:
    """Return the images below `root` that the annotations list, in their order.

    Raises:
        SourceError: The annotations cannot be read, or none of their images exists.
    """
    root, path = Path(root), Path(annotations)
    if not root.is_dir():
        raise SourceError(f"{root}: not a directory; give the folder of the images")
    with blame_file(path):
        data = read_file(path)
    try:
        found = parse_coco(data)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    if other := next((name for name in found.names if not is_image_name(name)), None):
        raise SourceError(f"{path}: {other!r:.100} does not have the suffix of an image")
    sizes, mtimes = stat_files(root, found.names)
    check_some_exist(path, root, found.names, bool((mtimes != MISSING).any()), IMAGES)
    labels = [None] * len(found.names)
    return CocoFiles(
        ImageFiles(
            root, found.names, sizes, mtimes, labels, found.classes, found.columns, found.rows
        ),
        found.annotations,
        hashlib.sha256(data).hexdigest(),
        _state_kinds(found.columns),
    )


def _state_kinds(columns: pa.Schema) -> dict[str, Kind]:
    """Return the kind of the boxes, all other columns having a value per box."""
    if "boxes" not in columns.names:
        return {}
    beside = tuple(name for name in columns.names if name != "boxes")
    return {"boxes": Boxes(columns=beside)}


def place_coco(source: CocoFiles) -> PlacedSource:
    """Return how to index the images in place, with the columns and without the field `json`."""
    return replace(place_images(source.images), field_kinds=source.field_kinds)
