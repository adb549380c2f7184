"""Writes an image folder: a directory per class, even if it is empty, and the other fields beside each image.

The first character of a hidden name, which would not be read back, is escaped: `%2Ea`. Images without
labels lie in one folder, with `%2F` for the slashes of their keys, since a directory would be a class.

Videos are written in the layout of 20BN: `frames/<id>/00001.jpg`, ..., with `list.csv` of `id;label`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import PackError
from headrace.formats.folder_contents import is_hidden
from headrace.pack.export.fields import (
    Classes,
    check_classes,
    class_name,
    data_fields,
    strip_padding,
    write_new,
)
from headrace.sample import Sample, is_video_field
from headrace.store.keys import make_key, printable, unescape_key
from headrace.store.safe_paths import is_safe, path_inside


def _safe_path(key: str) -> str:
    """Return the path that a key was made from, or the key if that path leads out of the folder."""
    path = unescape_key(key)
    return path if is_safe(path) else make_key(path)


def _show_all(path: str) -> str:
    """Return the path with the leading dots of its parts escaped."""
    parts = path.split("/")
    return "/".join(f"%{ord(p[0]):02X}{p[1:]}" if is_hidden(p) else p for p in parts)


def _safe_name(name: str) -> str:
    """Return a folder name for a class."""
    fits = is_safe(name) and "/" not in name
    return _show_all(name if fits else make_key(name).replace("/", "%2F"))


def write_folder(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    check_classes(classes)
    place.mkdir()
    count, lines = 0, []
    labelled: bool | None = (
        None  # until there is an image to tell by: classes may be those of boxes
    )
    for sample in samples:
        path = _safe_path(sample.key)
        videos = [name for name in sample if is_video_field(name)]
        if videos:
            lines.append(_write_frames(sample, videos[0], place, classes))
        else:
            has_label = sample.label is not None
            labelled = has_label if labelled is None else labelled
            if labelled != has_label:
                raise PackError(
                    f"{printable(sample.key)}: only some samples have a label, which an image folder cannot "
                    "express; export to webdataset"
                )
            _write_image(sample, place, _show_all(path), classes)
        count += 1
    if lines:
        write_new(place, "list.csv", "".join(lines).encode())
    elif labelled is not False:
        for name in classes or ():
            path_inside(place, _safe_name(name)).mkdir(exist_ok=True)
    return count


def _write_image(sample: Sample, place: Path, path: str, classes: Classes) -> None:
    if sample.label is None:
        path = path.replace("/", "%2F")
    else:
        folder = _safe_name(class_name(sample.label, classes))
        path = path if path.startswith(f"{folder}/") else f"{folder}/{path}"
    for field, data in data_fields(sample).items():
        write_new(place, f"{path}.{field}", data)


def _write_frames(sample: Sample, field: str, place: Path, classes: Classes) -> str:
    """Write the frames of a video as files; return its line in the listing."""
    name = _safe_path(sample.key)
    for number, frame in enumerate(sample.split_frames(field), 1):
        write_new(place, f"frames/{name}/{number:05d}.jpg", strip_padding(frame))
    for other, data in data_fields(sample).items():
        if other != field:
            write_new(place, f"frames/{name}.{other}", data)
    label = "" if sample.label is None else f";{class_name(sample.label, classes)}"
    if ";" in name or "\n" in name + label:
        raise PackError(
            f"{printable(name)}: an id with a semicolon, or a line break in it or its class, does not "
            "fit into the listing"
        )
    return f"{name}{label}\n"
