"""Writing samples back into the layouts of others, so that nobody is locked in.

  folder      an image folder: a directory per class; videos as 20BN has them, a folder of frames each
  gulp        a GulpIO directory of videos or images, which must be JPEGs
  lmdb        an LMDB file of tensorpack's: [bytes of the image, label], pickled
  webdataset  plain tars

Encoded bytes go out as they are, in the order of the samples. What is written appears under its name
when it is whole; a name that is taken is refused.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from penstock.errors import PackError
from penstock.formats.keys import make_key
from penstock.formats.names import printable, unescape_key
from penstock.formats.webdataset import FRAMES
from penstock.pack.durable import sync_folder, temporary_name
from penstock.pack.lmdb import write_lmdb
from penstock.pack.tar import END, member_header, padding
from penstock.sample import Sample, is_image_field, is_video_field

_SHARD_SIZE = 256 << 20
_VIDEOS_PER_CHUNK = 100  # GulpIO's own default
_LABEL_DIGITS = 5  # so that numbers in the place of class names sort as they count

Classes = Sequence[str] | None


def export_samples(
    samples: Iterable[Sample],
    out: str | os.PathLike[str],
    *,
    to: str,
    classes: Sequence[str] | None = None,
) -> int:
    """Writes samples to the new folder, or file, `out` in the layout `to`; how many there were.

    dataset = open_dataset("shards/train")
    export_samples(dataset, "train.lmdb", to="lmdb", classes=dataset.classes)
    """
    if to not in EXPORTS:
        raise ValueError(f"to is {to!r}; it must be one of {', '.join(EXPORTS)}")
    with _new_place(Path(out)) as place:
        return EXPORTS[to](samples, place, classes)


@contextmanager
def _new_place(out: Path) -> Iterator[Path]:
    """A temporary path that becomes `out` at the end, and is removed if anything goes wrong."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise PackError(f"{out}: exists already; choose another name")
    out.parent.mkdir(parents=True, exist_ok=True)
    place = temporary_name(out)
    if place.exists():
        raise PackError(f"{place}: left by an export that was stopped; remove it")
    try:
        yield place
        if out.exists():
            out.rmdir()
        os.rename(place, out)
        sync_folder(out.parent)
    except BaseException:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        raise


def _data_fields(sample: Sample) -> dict[str, bytes]:
    """The fields that are not made of the label or of the frames' sizes."""
    return {n: d for n, d in sample.items() if n != "cls" and not n.endswith(FRAMES)}


def _class_name(label: int, classes: Classes) -> str:
    if classes is not None and 0 <= label < len(classes):
        return classes[label]
    return f"{label:0{_LABEL_DIGITS}d}"


def _strip_padding(frame: bytes) -> bytes:
    """A frame without the zeros that GulpIO pads it with, where it is indexed in place."""
    bare = frame.rstrip(b"\0")
    return bare if bare.endswith(b"\xff\xd9") and len(frame) - len(bare) < 4 else frame


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
    except FileExistsError:
        raise PackError(f"{path.name}: two samples would have this name") from None


# An image folder


def _safe_path(key: str) -> str:
    """The path that a key was made from; the key itself where that would lead out of the folder."""
    path = unescape_key(key)
    parts = path.split("/")
    return make_key(path) if "\0" in path or any(p in ("", ".", "..") for p in parts) else path


def _safe_name(name: str) -> str:
    """The name of a class as that of a folder."""
    is_safe = name not in ("", ".", "..") and "/" not in name and "\0" not in name
    return name if is_safe else make_key(name).replace("/", "%2F")


def _write_folder(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    place.mkdir()
    count, lines = 0, []
    for sample in samples:
        path = _safe_path(sample.key)
        videos = [name for name in sample if is_video_field(name)]
        if videos:
            lines.append(_write_frames(sample, videos[0], place / "frames" / path, classes))
        else:
            if sample.label is not None:
                folder = _safe_name(_class_name(sample.label, classes))
                path = path if path.startswith(f"{folder}/") else f"{folder}/{path}"
            for field, data in _data_fields(sample).items():
                _write_new(place / f"{path}.{field}", data)
        count += 1
    if lines:
        _write_new(place / "list.csv", "".join(lines).encode())
    return count


def _write_frames(sample: Sample, field: str, folder: Path, classes: Classes) -> str:
    """The frames of a video as files; its line in the listing."""
    for number, frame in enumerate(sample.split_frames(field), 1):
        _write_new(folder / f"{number:05d}.jpg", _strip_padding(frame))
    name = _safe_path(sample.key)
    if ";" in name or "\n" in name:
        raise PackError(f"{printable(name)}: an id with a semicolon does not fit into the listing")
    return (
        f"{name};{_class_name(sample.label, classes)}\n"
        if sample.label is not None
        else f"{name}\n"
    )


# WebDataset tars


def _write_webdataset(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    place.mkdir()
    count, number = 0, 0
    file: IO[bytes] | None = None
    try:
        for sample in samples:
            if file is None or file.tell() >= _SHARD_SIZE:
                if file is not None:
                    _end_tar(file)
                file = open(place / f"shard-{number:06d}.tar", "xb")  # noqa: SIM115
                number += 1
            fields = dict(sample.fields)
            if sample.label is not None:
                fields.setdefault("cls", b"%d" % sample.label)
            for name, sizes in sample.frames.items():
                fields.setdefault(name + FRAMES, json.dumps(list(sizes)).encode())
            for name, data in fields.items():
                header = member_header(f"{sample.key}.{name}", len(data))
                file.write(header + data + padding(len(data)))
            count += 1
        if file is not None:
            _end_tar(file)
    finally:
        if file is not None:
            file.close()
    return count


def _end_tar(file: IO[bytes]) -> None:
    file.write(END)
    file.flush()
    os.fsync(file.fileno())
    file.close()


# A GulpIO directory


def _write_gulp(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    place.mkdir()
    numbers = {name: k for k, name in enumerate(classes or ())}
    count = 0
    rest = iter(samples)
    while chunk := _write_chunk(rest, place, count // _VIDEOS_PER_CHUNK, classes, numbers):
        count += chunk
    if numbers:
        _write_new(place / "label2idx.json", json.dumps(numbers).encode())
    return count


def _write_chunk(
    samples: Iterator[Sample], place: Path, number: int, classes: Classes, numbers: dict[str, int]
) -> int:
    """The next samples as one chunk, data before metadata; how many there were. Notes new labels."""
    # Zero-padded, as GulpIO reads chunks in the order of their names.
    data, meta = place / f"data_{number:06d}.gulp", place / f"meta_{number:06d}.gmeta"
    videos: dict[str, object] = {}
    with open(data, "xb") as file:
        for sample in islice(samples, _VIDEOS_PER_CHUNK):
            places = []
            for frame in _gulp_frames(sample):
                pad = -len(frame) % 4
                places.append([file.tell(), pad, len(frame) + pad])
                file.write(frame + bytes(pad))
            name = unescape_key(sample.key)
            entry: dict[str, object] = {"id": name}
            if sample.label is not None:
                label = _class_name(sample.label, classes)
                numbers.setdefault(label, sample.label)
                entry |= {"label": label, "idx": sample.label}
            videos[name] = {"frame_info": places, "meta_data": [entry]}
    if videos:
        _write_new(meta, json.dumps(videos).encode())
    else:
        data.unlink()
    return len(videos)


def _gulp_frames(sample: Sample) -> list[bytes]:
    for name in sample:
        if is_video_field(name):
            return [_strip_padding(frame) for frame in sample.split_frames(name)]
    images = [name for name in sample if is_image_field(name)]
    if images != ["jpg"]:
        raise PackError(f"{printable(sample.key)}: a gulp holds one JPEG or video, not {images}")
    return [sample["jpg"]]


EXPORTS: dict[str, Callable[[Iterable[Sample], Path, Classes], int]] = {
    "folder": _write_folder,
    "gulp": _write_gulp,
    "lmdb": write_lmdb,
    "webdataset": _write_webdataset,
}
"""How each layout is written, by the name that `--to` takes."""
