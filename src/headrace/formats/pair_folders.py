"""Finds, by their names and stems, the folders of a dataset that hold photos and what belongs to them.

`images/` and `masks/`, `JPEGImages/` and `SegmentationClass/`, `train/` and `trainannot/`: one folder of photos, and at
least one of masks or annotations that has files of the same stems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.check_class_folders import ANNOTATIONS
from headrace.formats.check_splits import find_split
from headrace.formats.field_files import IMAGE, FieldOption
from headrace.formats.folder_contents import FolderContents, holds_images, is_image_name, walk_files
from headrace.sample import find_mask_word
from headrace.store.keys import printable, some_names

_PHOTOS = frozenset(
    ["color", "colour", "image", "images", "img", "imgs", "input", "inputs", "jpeg", "jpegimages", "jpegs", "jpg"]
    + ["leftimg8bit", "photo", "photos", "rgb"]
)  # fmt: skip
_MAPS = frozenset({"depth", "disparity", "disp", "flow"})
_VOC = {"segmentationclass": "mask", "segmentationobject": "instance"}
_FIRST = 10_000  # files of a folder, enough to find a stem in common
_MASKS = re.compile(r"(annot|annots|mask|masks)$")


def find_pair_folders(folder: FolderContents) -> list[FieldOption] | None:
    """Return the fields that the folders of a dataset hold, the image first; None if they are not pairs.

    Raises:
        SourceError: They are pairs, but it is doubtful which.
    """
    targets = [name for name in folder.folders if _is_target(name)]
    photos = [name for name in folder.folders if _is_photos(name) and name not in targets]
    if not targets or not photos:
        return None
    photos = [name for name in photos if holds_images(folder.path / name)]
    found = {name: _match_targets(folder.path, name, targets) for name in photos}
    found = {name: matched for name, matched in found.items() if matched}
    if not found:
        return None
    if len(photos) > 1:
        raise SourceError(
            f"{folder.path}: several folders of photos ({some_names(photos)}) beside {some_names(targets)}; say which "
            f"belong together: {_advise(found)}"
        )
    ((photo, matched),) = found.items()
    _check_others(folder, [photo, *targets], found)
    return [FieldOption(IMAGE, photo), *_name_targets(folder.path, matched)]


def find_photos(folder: FolderContents, taken: Iterable[str]) -> str:
    """Return the only folder of photos besides those that are `taken` for other fields.

    Raises:
        SourceError: There are several, or none.
    """
    free = [name for name in folder.folders if name not in taken and not _is_target(name)]
    full = [name for name in free if holds_images(folder.path / name)]
    photos = [name for name in full if _is_photos(name)] or full
    if len(photos) != 1:
        found = f"several ({some_names(photos)})" if photos else "none"
        raise SourceError(
            f"{folder.path}: which folder holds the images? There are {found}; name it with --field image=FOLDER/ "
            "(fields=)"
        )
    return photos[0]


def _name_targets(root: Path, folders: Sequence[str]) -> list[FieldOption]:
    """Return the fields of folders of masks, maps and annotations: `mask` if there is one of masks, and `xml`."""
    annotations = [name for name in folders if _holds_xml(root / name)]
    maps = {name: word for name in folders if (word := _find_map_word(name))}
    masks = [name for name in folders if name not in maps and name not in annotations]
    return [
        *(FieldOption("xml", name, "", ".xml") for name in annotations),
        *(FieldOption("mask" if len(masks) == 1 else _name_mask(name), name) for name in masks),
        *(FieldOption(word, name) for name, word in maps.items() if name not in annotations),
    ]


def _holds_xml(folder: Path) -> bool:
    """Return whether a folder holds annotations and no masks, by its first files."""
    names = [name.lower() for name, _ in islice(walk_files(folder, strict=False), _FIRST)]
    return any(name.endswith(".xml") for name in names) and not any(map(is_image_name, names))


def _find_map_word(folder: str) -> str | None:
    """Return the word in the name of a folder that says it holds maps."""
    words = re.split(r"[._ -]", folder.lower())
    return next((word for word in words if word in _MAPS), None)


def _name_mask(folder: str) -> str:
    """Return the name of one of several fields of masks, in which a word says that it holds masks."""
    name = _VOC.get(folder.lower()) or re.sub(r"[^a-z0-9_-]", "_", folder.lower())
    return name if find_mask_word(f"{name}.png") else f"{name}_mask"


def _is_photos(name: str) -> bool:
    return name.lower() in _PHOTOS or bool(find_split(name))


def _is_target(name: str) -> bool:
    lower = name.lower()
    words = re.split(r"[._ -]", lower)
    says_mask = find_mask_word(f"{lower}.png") is not None or _MASKS.search(lower) is not None
    return lower in ANNOTATIONS or says_mask or not _MAPS.isdisjoint(words)


def _match_targets(root: Path, photos: str, targets: Sequence[str]) -> list[str]:
    """Return the targets that have a stem in common with the photos; none if all of them are maps."""
    stems = _list_stems(root, FieldOption(IMAGE, photos))
    matched = [name for name in targets if stems & _list_stems(root, FieldOption("mask", name))]
    return matched if any(_find_map_word(name) is None for name in matched) else []


def _list_stems(root: Path, option: FieldOption) -> set[str]:
    """Return the stems of the first files of a folder. JPEGs, and text, do not make it one of targets."""
    names = (name for name, _ in islice(walk_files(root / option.folder, strict=False), _FIRST))
    if option.name != IMAGE:
        names = (name for name in names if name.lower().endswith((".png", ".npy", ".xml", ".tif", ".bmp", ".gif")))  # fmt: skip
    return {stem for stem in map(option.find_stem, names) if stem is not None}


def _check_others(
    folder: FolderContents, taken: Sequence[str], found: dict[str, list[str]]
) -> None:
    """Raise SourceError if other folders hold images too, which may be classes or another field."""
    others = [n for n in folder.folders if n not in taken and holds_images(folder.path / n)]
    if others:
        raise SourceError(
            f"{folder.path}: images in {some_names(others)} beside pairs; say which folders belong together, such as "
            f"{_advise(found)}, or take all folders for classes with --format folder"
        )


def _advise(found: dict[str, list[str]]) -> str:
    photo, matched = next(iter(found.items()))
    best = min(matched, key=lambda name: not name.startswith(photo))
    return f"--field image={printable(photo)}/ --field mask={printable(best)}/ (fields=)"
