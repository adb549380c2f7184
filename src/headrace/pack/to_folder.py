"""Writing an image folder: a directory per class, empty ones too, and beside each image its other fields.

The first character of a name that would hide a file or a folder, so that it is not read back, is escaped: `%2Ea`. Images without labels
lie in one folder, the slashes of their keys written as `%2F`, since a directory would be read back as a class.

Videos are written as 20BN has them: `frames/<id>/00001.jpg` and so on, with `list.csv` of `id;label`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import PackError
from headrace.formats.files import is_hidden
from headrace.formats.keys import make_key
from headrace.formats.names import printable, unescape_key
from headrace.pack.inside import path_inside
from headrace.pack.outgoing import (
    Classes,
    check_classes,
    class_name,
    data_fields,
    strip_padding,
    write_new,
)
from headrace.sample import Sample, is_video_field


def _safe_path(key: str) -> str:
    """The path that a key was made from; the key itself where that would lead out of the folder."""
    path = unescape_key(key)
    parts = path.split("/")
    return make_key(path) if "\0" in path or any(p in ("", ".", "..") for p in parts) else path


def _show_all(path: str) -> str:
    """The path with no part of it hidden."""
    parts = path.split("/")
    return "/".join(f"%{ord(p[0]):02X}{p[1:]}" if is_hidden(p) else p for p in parts)


def _safe_name(name: str) -> str:
    """The name of a class as that of a folder."""
    is_safe = name not in ("", ".", "..") and "/" not in name and "\0" not in name
    return _show_all(name if is_safe else make_key(name).replace("/", "%2F"))


def write_folder(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    check_classes(classes)
    place.mkdir()
    count, lines = 0, []
    labelled = True if classes else None  # None until there is an image to tell by
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
                    f"{printable(sample.key)}: some samples have a label and some have none, which an image "
                    "folder cannot say; webdataset can"
                )
            _write_image(sample, place, _show_all(path), classes)
        count += 1
    if lines:
        write_new(place, "list.csv", "".join(lines).encode())
    else:
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
