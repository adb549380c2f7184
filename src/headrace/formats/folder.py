"""An image folder: a directory per class, any nesting below it, as torchvision's ImageFolder.

Classes are the sorted names of the top directories, label `k` being the `k`-th. A folder without
images in directories is one of unlabelled images. Symbolic links are followed; loops are not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.errors import SourceError
from headrace.formats.files import UNREADABLE, ImageFiles, is_folder, is_hidden, is_image_name
from headrace.sample import IMAGE_FIELDS

MANIFEST = "headrace.json"
"""Of a packed dataset, or an index."""

ANNOTATIONS = {
    "annotation", "annotations", "annots", "ground_truth", "groundtruth", "gt", "gtcoarse", "gtfine", "label", "labels",
    "mask", "masks", "segmentation", "segmentationclass", "segmentationobject", "segmentations", "trimaps",
}  # fmt: skip
"""What folders of annotations are called, in lower case."""


def open_folder(root: str | os.PathLike[str]) -> ImageFiles:
    """Lists the folder: samples in the order of ImageFolder, other files in `ignored` (hidden ones are not said)."""
    root = Path(root)
    if not root.is_dir():
        raise SourceError(f"{root}: not a directory")
    found, ignored = _list_images(root)
    if not found:
        raise SourceError(f"{root}: no image files ({', '.join(sorted(IMAGE_FIELDS))}) below it")
    names = [name for name, _, _ in found]
    classes = _list_classes(root, names)
    label_of = {name: label for label, name in enumerate(classes)}
    return ImageFiles(
        root=root,
        names=names,
        sizes=np.array([size for _, size, _ in found], np.int64),
        mtimes=np.array([mtime for _, _, mtime in found], np.int64),
        labels=[label_of[name.partition("/")[0]] if classes else None for name in names],
        classes=classes or None,
        ignored=ignored,
    )


def _list_classes(root: Path, names: list[str]) -> list[str]:
    """Return the top folders, if images are in some of them.

    A folder without images is an empty class, unless it is an index or holds annotations.
    """
    full = {folder for folder, slash, _ in (name.partition("/") for name in names) if slash}
    if not full:
        return []
    folders = {e.name for e in os.scandir(root) if is_folder(e) and not is_hidden(e.name)}
    empty = {name for name in folders - full if not _holds_other_data(root / name)}
    return sorted(full | empty)


def _holds_other_data(folder: Path) -> bool:
    """Whether a folder without images is an index, or has files and the name of annotations."""
    if (folder / MANIFEST).exists():
        return True
    return folder.name.lower() in ANNOTATIONS and any(walk_files(folder, strict=False))


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Whether there are images in a folder or below it."""
    return any(is_image_name(name) for name, _ in walk_files(path, strict=False))


def _list_images(root: Path) -> tuple[list[tuple[str, int, int]], list[str]]:
    """(name, size, mtime) of the images, and what else there is: images too, where they lie beside folders of them."""
    found: list[tuple[str, int, int]] = []
    ignored: list[str] = []
    for name, entry in walk_files(root):
        state = _stat(entry) if is_image_name(name) else None
        if state is not None:
            found.append((name, *state))
        else:
            ignored.append(name)
    if in_folders := [image for image in found if "/" in image[0]]:
        ignored += [name for name, _, _ in found if "/" not in name]
        found = in_folders
    found.sort(key=lambda entry: _sort_key(entry[0]))
    return found, sorted(ignored)


def _sort_key(name: str) -> str:
    """For the order of ImageFolder: by class, then by the whole path of the directory, then by file name."""
    folder, _, file = name.rpartition("/")
    return f"{name.partition('/')[0]}\0{folder}\0{file}"


def walk_files(
    path: str | os.PathLike[str],
    prefix: str = "",
    above: frozenset[tuple[int, int]] = frozenset(),
    *,
    strict: bool = True,
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """All but directories below `path` by their relative names; `above` are the directories on the way.

    Unless it is `strict`, directories that may not be read are passed over.
    """
    info = os.stat(path)
    here = (info.st_dev, info.st_ino)
    if here in above:
        return
    try:
        entries = os.scandir(path)
    except PermissionError:
        if strict:
            raise
        return
    with entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if is_folder(entry):
                below = f"{prefix}{entry.name}/"
                yield from walk_files(entry.path, below, above | {here}, strict=strict)
            else:
                yield prefix + entry.name, entry


def _stat(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """(size, mtime); None if it is no file: a pipe, say, would keep its reader waiting for ever."""
    try:
        info = entry.stat()
    except OSError:
        return 0, UNREADABLE  # a dangling link: listed, and rejected with its reason when read
    return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None
