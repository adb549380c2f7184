"""Checks that the folders of an image folder are its classes, and not splits (`train`, `test`) or containers (`images`,
`masks`), which would silently become wrong labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.check_splits import find_split
from headrace.formats.folder_contents import FolderContents, holds_images
from headrace.store.keys import some_names

ANNOTATIONS = {
    "annotation", "annotations", "annots", "ground_truth", "groundtruth", "gt", "gtcoarse", "gtfine", "label", "labels",
    "mask", "masks", "segmentation", "segmentationclass", "segmentationobject", "segmentations", "trimaps",
}  # fmt: skip
"""Names of folders of annotations, in lower case."""

_CONTAINERS = {
    "clip",
    "clips",
    "video",
    "videos",
    "image",
    "images",
    "img",
    "imgs",
    "jpeg",
    "jpegs",
    "jpegimages",
    "jpg",
    "leftimg8bit",
}


def has_classes(folder: FolderContents, holds: Callable[[Path], bool] = holds_images) -> bool:
    """Return whether a folder in it holds images and is not named like a split or a container."""
    return any(_may_be_class(name) and holds(folder.path / name) for name in folder.folders)


def check_classes(
    folder: FolderContents, holds: Callable[[Path], bool] = holds_images, format: str = "folder"
) -> None:
    """Raise SourceError if the folders that hold images, or videos, are splits or containers.

    A class may be named like one of them: several splits are an error only if they are at least half of the
    folders, and containers or a single split only if no other folder holds images.
    """
    if len({find_split(name) for name in folder.folders} - {""}) < 2 and has_classes(folder, holds):
        return
    full = [name for name in folder.folders if holds(folder.path / name)]
    splits = [name for name in full if find_split(name)]
    others = [name for name in full if not find_split(name)]
    if len(set(map(find_split, splits))) > 1 and len(splits) >= len(others):
        full = splits
    elif any(map(_may_be_class, full)) or (len(full) != 1 and not others):
        return
    if full:
        raise SourceError(
            f"{folder.path}: {some_names(full)} look like splits or containers, not like classes; take the folder of "
            f"the classes, such as {folder.path / min(full, key=_rank)}, or a listing of path and label, or take them "
            f"for classes with --format {format}; images and masks are pairs: --field image=FOLDER/ --field mask=FOLDER/"
        )


def check_no_images(folder: FolderContents, data: Sequence[str], way: str) -> None:
    """Raise SourceError if there are folders of images beside `data`; `way` says how to ask for the data."""
    if folder.has_images:
        other = " or --format folder" if has_classes(folder) else ""
        raise SourceError(
            f"{folder.path}: both {some_names(data)} and folders of images ({some_names(folder.folders)}); say which to "
            f"take with {way}{other}"
        )


def _may_be_class(name: str) -> bool:
    return not find_split(name) and name.lower() not in _CONTAINERS | ANNOTATIONS


def _rank(name: str) -> tuple[bool, bool, bool]:
    """Sort the folder that most likely holds the classes first."""
    lower = name.lower()
    return lower not in _CONTAINERS, lower in ANNOTATIONS, find_split(name) != "train"
