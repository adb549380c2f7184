"""Whether the folders of an image folder are its classes: `train` and `test` are splits of it, `images` and `masks`
hold what something else sorts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.files import is_hidden, is_image_name
from headrace.formats.folder import ANNOTATIONS, holds_images
from headrace.formats.names import printable, some_names
from headrace.formats.splits import find_split

_IMAGES = {"image", "images", "img", "imgs", "jpeg", "jpegs", "jpegimages", "jpg", "leftimg8bit"}
_CONTAINERS = _IMAGES | ANNOTATIONS


def has_classes(path: Path, folders: Sequence[str]) -> bool:
    """Whether one of the folders holds images and is not called like a split or a container of images."""
    return any(
        holds_images(path / name)
        for name in folders
        if not find_split(name) and not _is_container(name)
    )


def check_classes(path: Path, folders: Sequence[str]) -> None:
    """SourceError if folders that hold images are splits, which nobody wants for classes, or all are containers."""
    _check_splits(path, folders)
    if has_classes(path, folders):
        return
    folders = [name for name in folders if holds_images(path / name)]
    if any(map(_is_container, folders)):
        raise SourceError(
            f"{path}: {some_names(folders)} look like containers of images or annotations, and not like classes: take "
            f"the folder that has the classes, such as {path / min(folders, key=_rank)}, or a listing of path and label, or "
            "take them for classes with --format folder"
        )
    if len(folders) == 1 and find_split(folders[0]):
        raise _refuse_split(path, folders[0])


def _refuse_split(path: Path, name: str) -> SourceError:
    """Return the error of a lone split, which says what labels its images would have."""
    entries = list((path / name).iterdir())
    folders = [entry.name for entry in entries if entry.is_dir() and not is_hidden(entry.name)]
    labelled = has_classes(path / name, folders)
    stray = any(is_image_name(entry.name) and entry.is_file() for entry in entries)
    holds = labelled and not stray
    what = "a split that holds the classes" if holds else "a split, and not like a class"
    without = (
        "" if labelled else ", whose images have no labels unless a listing (--listing) gives them"
    )
    return SourceError(
        f"{path}: {printable(name)} looks like {what}: take {path / name}{without}, or take it for a class "
        "with --format folder"
    )


def _check_splits(path: Path, folders: Sequence[str]) -> None:
    """Two splits are an error, unless more folders are none: a class may be a train, another a test tube."""
    splits = [name for name in folders if find_split(name)]
    if len(set(map(find_split, splits))) < 2:  # kinds of trains
        return
    splits = [name for name in splits if holds_images(path / name)]
    others = [n for n in folders if not find_split(n) and holds_images(path / n)]
    if len(set(map(find_split, splits))) > 1 and len(splits) >= len(others):
        raise SourceError(
            f"{path}: several splits ({some_names(splits)}): take one of them, such as {path / min(splits, key=_rank)}, "
            "or take all folders for classes with --format folder"
        )


def _rank(name: str) -> tuple[bool, bool, bool]:
    """The first is the likeliest to hold the classes."""
    lower = name.lower()
    return lower not in _IMAGES, lower in ANNOTATIONS, find_split(name) != "train"


def _is_container(name: str) -> bool:
    return name.lower() in _CONTAINERS
