"""Whether the folders of an image folder are its classes: `train` and `test` are splits of it, `images` and `masks`
hold what something else sorts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import SourceError
from penstock.formats.folder import holds_images
from penstock.formats.names import some_names
from penstock.formats.splits import find_split

_IMAGES = {"image", "images", "img", "imgs", "jpeg", "jpegs", "jpegimages", "jpg", "leftimg8bit"}
_ANNOTATIONS = {
    *("annotation", "annotations", "gtcoarse", "gtfine", "labels", "masks"),
    *("segmentationclass", "segmentationobject", "trimaps"),
}


def has_classes(path: Path, folders: Sequence[str]) -> bool:
    """Whether one of the folders holds images and is not called like a split or a container of images."""
    return any(
        holds_images(path / name)
        for name in folders
        if not find_split(name) and not _is_container(name)
    )


def check_classes(path: Path, folders: Sequence[str]) -> None:
    """SourceError if all folders that hold images are splits, which nobody wants for classes, or containers."""
    if has_classes(path, folders):
        return
    folders = [name for name in folders if holds_images(path / name)]
    if any(map(_is_container, folders)):
        first = min(folders, key=lambda name: name.lower() not in _IMAGES)
        raise SourceError(
            f"{path}: {some_names(folders)} look like containers of images or annotations, and not like classes: take "
            f"the folder that has the classes, such as {path / first}, or a listing of path and label, or "
            "take them for classes with --format folder"
        )
    if len(set(map(find_split, folders))) > 1:  # not kinds of trains
        first = min(folders, key=lambda name: find_split(name) != "train")
        raise SourceError(
            f"{path}: several splits ({some_names(folders)}): take one of them, such as {path / first}, "
            "or take them for classes with --format folder"
        )


def _is_container(name: str) -> bool:
    return name.lower() in _IMAGES | _ANNOTATIONS
