"""GulpIO directories: JPEG frames in `data_<k>.gulp`, their places in `meta_<k>.gmeta`.

A video is one sample with the field `mjpg`, its frames in order. Where every id has exactly one frame
it is a directory of images, with the field `jpg`. Chunks are read in the order of their names, as
GulpIO reads them; ids must be unique. Labels are numbered by `label2idx.json`; without it, in sorted
order. A number that no label has is the class `no-class-<k>`; labels that share a number are one class with
both names (`a | b`). Where a label has such a name already, underscores are added. Other entries of an id's metadata become the column `meta`, as JSON.

A frame that points outside its file spoils its video, not the others.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import blame_file, check_size, current_limit, read_file
from headrace.files.pread import open_unchanged, pread_all
from headrace.formats.codecs.image_signature import sniff_image
from headrace.formats.codecs.strict_json import parse_json
from headrace.formats.folder_contents import FolderContents
from headrace.formats.source import Located
from headrace.sample import Sample
from headrace.store.keys import make_keys, printable

LABELS = "label2idx.json"
_NAME = re.compile(r"(data|meta)(.*)\.(gulp|gmeta)")
KNOWN = frozenset({"id", "label", "idx"})
"""Metadata that a sample has outside of the column `meta`."""
LABEL_LIMIT = 1 << 31
"""Labels are integers below it."""

_MAX_CLASSES = 100_000  # names that numbers with gaps may need
_SHARED = " | "
_MAX_OVERLAP = 4  # videos may share frames, but a file must not expand without limit


class Chunk(NamedTuple):
    """A data file, as it was when the directory was opened, and its metadata."""

    data: Path
    meta: Path
    size: int
    mtime: int


class Video(NamedTuple):
    """An id with its frames as int64[n, 2], (offset, size without padding) each; or what is wrong.

    `end` is where its last frame ends with its padding.
    """

    name: str
    chunk: int
    frames: np.ndarray
    end: int
    label: str | None
    meta: str | None
    problem: str | None


@dataclass(frozen=True)
class GulpSource:
    """A `PlacedSource`: sample `i` is the video, or image, with the id `names[i]`."""

    root: Path
    chunks: Sequence[Chunk]
    videos: Sequence[Video]
    numbers: Mapping[str, int]
    classes: Sequence[str] | None
    images: bool
    ignored: Sequence[str] = ()
    max_file_size: int = field(default_factory=current_limit)
    columns: pa.Schema = field(init=False)
    names: Sequence[str] = field(init=False)
    keys: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        names = [video.name for video in self.videos]
        sizes = np.array([int(video.frames[:, 1].sum()) for video in self.videos], np.int64)
        mtimes = np.array([self.chunks[video.chunk].mtime for video in self.videos], np.int64)
        has_meta = any(video.meta is not None for video in self.videos)
        columns = pa.schema([("meta", pa.string())] if has_meta else [])
        for name, value in (
            ("names", names),
            ("keys", make_keys(names)),
            ("sizes", sizes),
            ("mtimes", mtimes),
            ("columns", columns),
        ):
            object.__setattr__(self, name, value)

    @property
    def files(self) -> Mapping[str, Sequence[int]]:
        rows: dict[int, list[int]] = {}
        for i, video in enumerate(self.videos):
            rows.setdefault(video.chunk, []).append(i)
        return {self.chunks[k].data.name: range(r[0], r[-1] + 1) for k, r in rows.items()}

    def read(self, i: int) -> Sample:
        """Return the frames of a video without their padding."""
        video = self.videos[i]
        frames = self._read_frames(video)
        return self._make_sample(i, b"".join(frames), [len(frame) for frame in frames])

    def locate(self, i: int) -> Located:
        """Return the video as it lies in its chunk: every frame with the zeros that pad it."""
        video = self.videos[i]
        self._read_frames(video)
        offsets, sizes = video.frames[:, 0], video.frames[:, 1]
        ends = np.append(offsets[1:], video.end)
        start = int(offsets[0])
        if self.images:
            ends = offsets + sizes
        elif ((ends - offsets - sizes < 0) | (ends - offsets - sizes > 3)).any():
            raise SourceError("its frames do not follow one another; pack it instead")
        chunk = self.chunks[video.chunk]
        data = _read_exactly(chunk, start, int(ends[-1]) - start)
        sample = self._make_sample(i, data, [int(n) for n in ends - offsets])
        return Located(sample, chunk.data.name, {name: start for name in sample})

    def _make_sample(self, i: int, data: bytes, sizes: list[int]) -> Sample:
        video = self.videos[i]
        name = (sniff_image(data) or "jpg") if self.images else "mjpg"
        return Sample(
            key=self.keys[i],
            fields={name: data},
            label=self._find_label(video),
            columns={"meta": video.meta} if self.columns.names else {},
            frames={} if self.images else {name: sizes},
        )

    def _find_label(self, video: Video) -> int | None:
        if video.label is None:
            return None
        if video.label not in self.numbers:
            raise SourceError(f"its label {video.label!r:.60} is not in {LABELS}")
        return self.numbers[video.label]

    def _read_frames(self, video: Video) -> list[bytes]:
        chunk = self.chunks[video.chunk]
        if video.problem is not None:
            raise SourceError(f"{chunk.meta.name}: {video.problem}")
        check_size(int(video.frames[:, 1].sum()), self.max_file_size)
        frames = _read_places(chunk, video.frames)
        for k, frame in enumerate(frames):
            kind = sniff_image(frame)
            if kind is None or (kind != "jpg" and not self.images):
                place = f"{chunk.data.name}, byte {video.frames[k, 0]}"
                raise SourceError(f"{place}: frame {k} begins with {frame[:4]!r}, not as a JPEG")
        return frames


def _read_places(chunk: Chunk, places: np.ndarray) -> list[bytes]:
    """Return the bytes at (offset, size) places, by one read where they lie together, as they usually do."""
    start, end = int(places[:, 0].min()), int(places.sum(axis=1).max())
    if end - start > 2 * int(places[:, 1].sum()):
        return [_read_exactly(chunk, offset, size) for offset, size in places.tolist()]
    data = _read_exactly(chunk, start, end - start)
    return [data[o - start : o - start + size] for o, size in places.tolist()]


def _read_exactly(chunk: Chunk, offset: int, size: int) -> bytes:
    """Return bytes of a chunk. Raise SourceChangedError if it is not as it was when it was opened."""
    fd = open_unchanged(chunk.data, chunk.size, chunk.mtime)
    try:
        with blame_file(chunk.data):
            data = pread_all(fd, size, offset)
    finally:
        os.close(fd)
    if len(data) < size:
        raise SourceError(f"{chunk.data}: ends inside {size} bytes at {offset}")
    return data


def find_gulp(folder: FolderContents) -> Path | None:
    """Return the folder itself if it has gulp files."""
    has_gulp = any(name.endswith((".gulp", ".gmeta")) for name in folder.files)
    return folder.path if has_gulp else None


def open_gulp(path: str | os.PathLike[str]) -> GulpSource:
    """Open the videos of a gulp directory, in GulpIO's order: chunks by name, ids as in their metadata."""
    root = Path(path)
    chunks = find_chunks(root)
    videos = [video for k in range(len(chunks)) for video in _read_chunk(chunks[k], k)]
    if not videos:
        raise SourceError(f"{root}: no videos in it")
    seen: dict[str, int] = {}
    for video in videos:
        if video.name in seen:
            files = [chunks[k].meta.name for k in (seen[video.name], video.chunk)]
            raise SourceError(f"{root}: the id {printable(video.name)} is in {' and '.join(files)}")
        seen[video.name] = video.chunk
    labels = {video.label for video in videos if video.label is not None}
    numbers, classes = read_labels(root, labels)
    images = all(len(video.frames) == 1 for video in videos if video.problem is None)
    known = {LABELS, *(name for c in chunks for name in (c.data.name, c.meta.name))}
    ignored = sorted(e.name for e in os.scandir(root) if e.name not in known and e.is_file())
    if numbers and classes is None:
        ignored.append(f"names of classes in {LABELS} (numbers up to {max(numbers.values())})")
    return GulpSource(root, chunks, videos, numbers, classes, images, ignored)


def find_chunks(root: Path) -> list[Chunk]:
    """Return pairs of data and metadata by the rest of their names. One without the other is an error."""
    found: dict[str, dict[str, Path]] = {}
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        match = _NAME.fullmatch(entry.name)
        if match and (match[1], match[3]) in (("data", "gulp"), ("meta", "gmeta")):
            found.setdefault(match[2], {})[match[1]] = Path(entry.path)
    if not found:
        raise SourceError(f"{root}: no data*.gulp with meta*.gmeta in it")
    chunks = []
    for number, pair in sorted(found.items()):
        for part, suffix in (("data", "gulp"), ("meta", "gmeta")):
            if part not in pair:
                raise SourceError(
                    f"{root / part}{number}.{suffix}: missing; its other half is there"
                )
        chunks.append(find_chunk(pair["data"], pair["meta"]))
    return chunks


def find_chunk(data: Path, meta: Path) -> Chunk:
    """Return the chunk of a data file and its metadata, as the data file is now."""
    with blame_file(data):
        info = data.stat()
    return Chunk(data, meta, info.st_size, info.st_mtime_ns)


def _read_chunk(chunk: Chunk, number: int) -> Iterator[Video]:
    claimed = 0
    for name, entry in read_meta(chunk).items():
        label, meta = _parse_meta(entry)
        try:
            frames, end = parse_frames(entry, chunk.size)
            claimed += int(frames[:, 1].sum())
            if claimed > _MAX_OVERLAP * chunk.size:
                raise SourceError(f"the videos up to it claim {claimed} of {chunk.size} bytes")
        except SourceError as error:
            yield Video(name, number, np.empty((0, 2), np.int64), 0, label, meta, str(error))
        else:
            yield Video(name, number, frames, end, label, meta, None)


def read_meta(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata of a chunk: an entry per id, not checked yet."""
    content = _read_json(chunk.meta)
    if not isinstance(content, dict):
        raise SourceError(f"{chunk.meta}: a {type(content).__name__}, not an object of videos")
    return content


def _read_json(path: Path) -> Any:
    try:
        return parse_json(read_file(path))
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not readable JSON: {error!s:.200}") from None


def _parse_meta(entry: object) -> tuple[str | None, str | None]:
    """Return (label, everything else as JSON) of an id; as GulpIO does, only its first metadata count."""
    metas = entry.get("meta_data") if isinstance(entry, dict) else None
    meta = metas[0] if isinstance(metas, list) and metas else None
    if not isinstance(meta, dict):
        return None, None
    label = meta.get("label")
    rest = {name: value for name, value in meta.items() if name not in KNOWN}
    text = None if label is None else str(label)
    return text, json.dumps(rest) if rest else None


def parse_frames(entry: object, size: int) -> tuple[np.ndarray, int]:
    """Return (frames, end) of an id, every frame inside a data file of `size` bytes."""
    info = entry.get("frame_info") if isinstance(entry, dict) else None
    if not isinstance(info, list) or not info:
        raise SourceError("it has no frames")
    for k, frame in enumerate(info):
        if not isinstance(frame, list) or len(frame) != 3 or not all(type(n) is int for n in frame):
            raise SourceError(f"frame {k} is {frame!r:.60}, not [offset, padding, length]")
        offset, pad, length = frame
        if not (0 <= offset and 0 <= pad < length and offset + length <= size):
            raise SourceError(f"frame {k}, {frame!r:.80}, lies outside its {size} bytes")
    if sum(length for _, _, length in info) > size:
        raise SourceError(f"its {len(info)} frames claim more than all {size} bytes of its file")
    table = np.array(info, np.int64)
    table[:, 1] = table[:, 2] - table[:, 1]
    return table[:, :2].copy(), int(table[-1, 0] + table[-1, 2])


def read_labels(root: Path, labels: set[str]) -> tuple[dict[str, int], list[str] | None]:
    """Return the number of each label, and the class names; `labels` are those that videos have."""
    path = root / LABELS
    if not path.exists():
        classes = sorted(labels)
        return {name: number for number, name in enumerate(classes)}, classes or None
    numbers = _read_json(path)
    if not isinstance(numbers, dict) or not all(
        type(n) is int and 0 <= n < LABEL_LIMIT for n in numbers.values()
    ):
        raise SourceError(f"{path}: not an object of labels and numbers")
    return numbers, _name_classes(numbers)


def _name_classes(numbers: Mapping[str, int]) -> list[str] | None:
    """Return a distinct name for every number up to the highest; None if there are too many."""
    count = max(numbers.values(), default=-1) + 1
    if not 0 < count <= max(_MAX_CLASSES, len(numbers)):
        return None
    sharing: list[list[str]] = [[] for _ in range(count)]
    for name, number in numbers.items():
        sharing[number].append(name)
    taken = set(numbers)
    return [
        names[0] if len(names) == 1 else _add_name(taken, _SHARED.join(names) or name_gap(k))
        for k, names in enumerate(sharing)
    ]


def _add_name(taken: set[str], name: str) -> str:
    """Return the name, with underscores behind it if it is taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def name_gap(number: int) -> str:
    """Return the class name of a number that no label has."""
    return f"no-class-{number}"
