"""Folders of files that share their stems: photos, and their masks, depths or annotations.

    images/a.jpg  masks/a.png            a sample `a` with the fields `jpg` and `mask.png`

Annotations of PASCAL VOC (`Annotations/a.xml`) are kept as the field `xml`, and become the columns `boxes`, `labels`,
`difficult` and `truncated`. Other files, such as the lists in `ImageSets/`, are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import current_limit
from headrace.formats.check_splits import find_split
from headrace.formats.codecs.voc_xml import MAX_BYTES, VocObjects, parse_voc
from headrace.formats.field_files import (
    IMAGE,
    FieldFile,
    FieldOption,
    list_field,
    read_field_options,
)
from headrace.formats.folder_contents import FolderContents, has_suffix, list_folder, walk_files
from headrace.formats.image_files import read_unchanged
from headrace.formats.pair_files import PairFiles
from headrace.formats.pair_folders import find_pair_folders, find_photos
from headrace.kinds import Boxes
from headrace.store.keys import some_names

_MOST_OTHERS = 10_000
_FLAGS = pa.list_(pa.int8())
_COLUMNS = pa.schema(
    {
        "boxes": pa.list_(pa.list_(pa.float32())),
        "labels": pa.list_(pa.int64()),
        "difficult": _FLAGS,
        "truncated": _FLAGS,
    }
)
_BOXES = Boxes(columns=("labels", "difficult", "truncated"))


def find_pairs(folder: FolderContents) -> Path | None:
    """Return the folder itself if it has folders of photos and of their masks or annotations."""
    return folder.path if find_pair_folders(folder) is not None else None


def open_pairs(root: str | os.PathLike[str], fields: Mapping[str, str] | None = None) -> PairFiles:
    """List the files of the fields, and read the annotations among them.

    Args:
        root: The folder that has the folders of the fields.
        fields: The folder, or a pattern of the files in it, of each field by its name. Default: found by their names.

    Raises:
        SourceError: A folder cannot be read, or it is doubtful which files belong together.
    """
    root = Path(root)
    if not root.is_dir():
        raise SourceError(f"{root}: not a directory")
    options = _choose_fields(list_folder(root), fields)
    ignored: list[str] = []
    files = {option.name: list_field(root, option, ignored) for option in options}
    stems = sorted({stem for found in files.values() for stem in found})
    _check_common(root, files)
    if fields is None:
        _check_one_split(root, stems, options)
    annotations = _read_annotations(root, files, stems)
    return PairFiles(
        root=root,
        files=files,
        stems=stems,
        optional=frozenset(option.name for option in options if option.is_optional),
        ignored=sorted({*ignored, *_list_others(root, options)}),
        **(annotations._asdict() if annotations else {}),
    )


def _choose_fields(folder: FolderContents, fields: Mapping[str, str] | None) -> list[FieldOption]:
    """Return the fields that the user named, the image first; or those that the names of folders say."""
    if not fields:
        found = find_pair_folders(folder)
        if found is None:
            raise SourceError(
                f"{folder.path}: no folder of photos beside one of masks or annotations with the same stems; name them, "
                "such as --field image=photos/ --field mask=labels/ (fields=)"
            )
        return found
    options = read_field_options(fields)
    if all(option.name != IMAGE for option in options):
        photos = find_photos(folder, [option.folder.partition("/")[0] for option in options])
        options.append(FieldOption(IMAGE, photos))
    return sorted(options, key=lambda option: option.name != IMAGE)


def _check_common(root: Path, files: Mapping[str, Mapping[str, FieldFile]]) -> None:
    """Raise SourceError if a field has no stem in common with the images."""
    images = files[IMAGE]
    for name, found in files.items():
        if images.keys().isdisjoint(found):
            first, other = next(iter(images.values())).name, next(iter(found.values())).name
            raise SourceError(
                f"{root}: no {name} has the stem of an image: images are such as {first!r:.100}, the field {name!r} such "
                f"as {other!r:.100}; give patterns in which * is the stem, such as {name}=masks/*_mask.png"
            )


def _check_one_split(root: Path, stems: Sequence[str], options: Sequence[FieldOption]) -> None:
    """Raise SourceError if the folders below are several splits, which nobody wants merged."""
    tops = sorted({stem.partition("/")[0] for stem in stems if "/" in stem})
    splits = [top for top in tops if find_split(top)]
    if len({find_split(top) for top in splits}) > 1:
        way = " ".join(f"--field {o.name}={o.folder}/{splits[0]}/" for o in options)
        raise SourceError(
            f"{root}: several splits ({some_names(splits)}) in {options[0].folder}; say which one: {way} (fields=)"
        )


def _list_others(root: Path, options: Sequence[FieldOption]) -> list[str]:
    """Return the first files that lie in no folder of a field."""
    folders = tuple("" if option.folder == "." else f"{option.folder}/" for option in options)
    names = (name for name, _ in walk_files(root, strict=False))
    return list(islice((name for name in names if not name.startswith(folders)), _MOST_OTHERS))


class _Annotations(NamedTuple):
    classes: list[str]
    columns: pa.Schema
    rows: list[dict[str, Any]]
    faults: dict[str, str]
    field_kinds: dict[str, Boxes]


def _read_annotations(
    root: Path, files: Mapping[str, Mapping[str, FieldFile]], stems: Sequence[str]
) -> _Annotations | None:
    """Read the XML files, and number their classes in sorted order; None if there are none."""
    found: dict[str, VocObjects] = {}
    faults: dict[str, str] = {}
    holders = [name for name, entries in files.items() if _has_xml(entries)]
    if len(holders) > 1:
        raise SourceError(
            f"{root}: the fields {some_names(holders)} have XML files; give one of them"
        )
    for name in holders:
        for stem, file in files[name].items():
            try:
                limit = min(MAX_BYTES, current_limit())
                if file.size > limit:
                    raise SourceError(f"{file.size} bytes are too many for an annotation")
                found[stem] = parse_voc(read_unchanged(root / file.name, file.size, file.mtime))
            except SourceError as error:
                faults[stem] = f"{file.name}: {error}"
    if not holders:
        return None
    classes = sorted({name for objects in found.values() for name in objects.names})
    numbers = {name: number for number, name in enumerate(classes)}
    rows = [_make_row(found.get(stem), numbers) for stem in stems]
    return _Annotations(classes, _COLUMNS, rows, faults, {"boxes": _BOXES})


def _has_xml(files: Mapping[str, FieldFile]) -> bool:
    return any(has_suffix(file.name, ".xml") for file in files.values())


def _make_row(objects: VocObjects | None, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the columns of a sample: null where it has no annotation."""
    if objects is None:
        return dict.fromkeys(_COLUMNS.names)
    labels = [numbers[name] for name in objects.names]
    return {
        "boxes": objects.boxes,
        "labels": labels,
        "difficult": objects.difficult,
        "truncated": objects.truncated,
    }
