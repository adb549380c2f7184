"""The Arrow index of a shard: one row per sample, with the file, offset and size of each field.

Columns, in this order:
  key, label, file              text, int64, dictionary of paths relative to the manifest's root
  <field>.offset .size .crc32c  int64, int64, uint32: where a field's bytes lie, and their checksum
  <field>.height .width .kind   int32, int32, dictionary: of images, of a video's first frame, and of arrays (.npy)
  <field>.seek                  int32: bytes of an image's table in the seek file, 0 for none
  <field>.orientation           uint8: of an image, 1 to 8, as EXIF has it; 1 is upright
  <field>.recoded               dictionary: kind of an image before it was recoded; null if it was not
  <field>.frames                list of int32: sizes of a video's frames, which follow one another
  <field>.frame_crc32c          list of uint32: the checksum of each of them
  <field>.frame_seek            list of int32: as .seek, of each of them; null if no frame has a table
  <field>.fps .times            float64, list of float64: frames per second, null if unknown; seconds from the
                                first frame to each frame, null if the rate is constant
  the user's own columns
Fields are in alphabetical order. A field that a sample lacks is null.

The seek file beside it holds the seek tables of all rows, field by field within a row and frame by frame
within a field, and nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace._core import crc32c, crc32c_each
from headrace.errors import SourceError
from headrace.files.pread import open_regular
from headrace.image_header import ImageHeader
from headrace.kinds import Kind
from headrace.sample import Sample, is_array_field, is_image_field, is_video_field
from headrace.store.field_kinds import FoundKinds, join_kinds
from headrace.store.keys import printable

KEY, LABEL, FILE = "key", "label", "file"
DAMAGED = "damaged"
_PLACE = {"offset": pa.int64(), "size": pa.int64(), "crc32c": pa.uint32()}
_KIND = pa.dictionary(pa.int32(), pa.string())
_SIZE = {"height": pa.int32(), "width": pa.int32(), "kind": _KIND}
_IMAGE = {**_PLACE, **_SIZE, "seek": pa.int32(), "orientation": pa.uint8(), "recoded": _KIND}
_FRAMES = {
    "frames": pa.list_(pa.int32()),
    "frame_crc32c": pa.list_(pa.uint32()),
    "frame_seek": pa.list_(pa.int32()),
    "fps": pa.float64(),
    "times": pa.list_(pa.float64()),
}
_VIDEO = {**_PLACE, **_SIZE, **_FRAMES}
_ARRAY = {**_PLACE, **_SIZE}
_OWN = frozenset({*_IMAGE, *_VIDEO})


def list_attributes(field: str) -> dict[str, pa.DataType]:
    """Return the columns of a field and their types."""
    if is_video_field(field):
        return _VIDEO
    if is_array_field(field):
        return _ARRAY
    return _IMAGE if is_image_field(field) else _PLACE


def check_column_names(names: Iterable[str]) -> None:
    """Raise SourceError if one of the user's columns has a name of ours."""
    taken = [
        n for n in names if n in (KEY, LABEL, FILE) or n.rpartition(".")[2] in _OWN and "." in n
    ]
    if taken:
        raise SourceError(f"columns {taken}: these names belong to the index; rename them")


def check_file_names(names: Iterable[str]) -> None:
    """Raise SourceError if the name of a file is not text, which an index needs."""
    for name in names:
        if not name.isprintable() and any("\udc80" <= c <= "\udcff" for c in name):
            raise SourceError(f"{printable(name)}: the name is not UTF-8; rename it, or pack it")


class ImageNote(NamedTuple):
    """What the index says about an image; `seek` is empty if the native decoder does not use it.

    `recoded` is the kind that it had before it was recoded.
    """

    header: ImageHeader
    seek: bytes
    orientation: int = 1
    recoded: str | None = None


class VideoNote(NamedTuple):
    """What the index says about a video: the header of its first frame, and a size and seek table per frame."""

    header: ImageHeader
    frames: Sequence[int]
    seeks: Sequence[bytes]
    fps: float | None = None
    times: Sequence[float] | None = None


class ArrayNote(NamedTuple):
    """What is known of a `.npy` array of numbers: its type and shape, and its `header` for the index.

    The height and width of an array are its first two axes. Its kind is `npy-uint8-3`: type, and number of channels.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def header(self) -> ImageHeader:
        """Return kind, height and width. The array must have two axes at least."""
        channels = math.prod(self.shape[2:])
        return ImageHeader(f"npy-{self.dtype}-{channels}", *self.shape[:2])

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def is_integer(self) -> bool:
        return "int" in self.dtype


Note = ImageNote | VideoNote | ArrayNote


class Described(NamedTuple):
    """A sample with the notes on its image, video and array fields, and the kinds of its fields and columns.

    An image or video without a note is damaged; an array without one is damaged or does not hold numbers.
    """

    sample: Sample
    notes: dict[str, Note]
    field_kinds: FoundKinds


class IndexBuilder:
    """Collects the rows of one shard. `columns` are the user's; None: the columns that the rows have."""

    def __init__(self, columns: pa.Schema | None) -> None:
        self._columns = columns
        self._rows: list[tuple[str, int | None, str, Mapping[str, Any]]] = []
        self._fields: dict[str, dict[str, list[Any]]] = {}
        self._seeks: list[tuple[int, str, bytes]] = []
        self.kinds: dict[str, int] = {}
        self.field_kinds: dict[str, Kind | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add_described(self, described: Described, file: str) -> None:
        """Start the row of a sample, and join the kinds of its fields; the fields follow."""
        sample = described.sample
        self.add_sample(sample.key, sample.label, file, sample.columns)
        join_kinds(self.field_kinds, described.field_kinds)

    def add_sample(
        self, key: str, label: int | None, file: str, columns: Mapping[str, Any]
    ) -> None:
        """Start a row; its fields follow."""
        self._rows.append((key, label, file, columns))

    def add_field(self, name: str, offset: int, data: bytes, note: Note | None) -> None:
        """Add a field of the current sample. An image or video field without a note is damaged."""
        row = len(self._rows) - 1
        values: dict[str, Any] = {"offset": offset, "size": len(data), "crc32c": crc32c(data)}
        if is_array_field(name):
            values |= _measure_array(note)
        elif is_image_field(name) or is_video_field(name):
            kind, height, width = (DAMAGED, None, None) if note is None else note.header
            values |= {"height": height, "width": width, "kind": kind}
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if isinstance(note, VideoNote):
                values |= _list_frames(note, data)
                self._seeks.append((row, name, b"".join(note.seeks)))
            elif is_video_field(name):
                values |= dict.fromkeys(_FRAMES)
            else:
                assert note is None or isinstance(note, ImageNote)
                seek = b"" if note is None else note.seek
                orientation, recoded = (None, None) if note is None else note[2:]
                values |= {"seek": len(seek), "orientation": orientation, "recoded": recoded}
                self._seeks.append((row, name, seek))
        columns = self._fields.setdefault(name, {attribute: [] for attribute in values})
        for attribute, value in values.items():
            column = columns[attribute]
            column.extend([None] * (row - len(column)))
            column.append(value)

    def finish(self) -> pa.Table:
        """Return the table of all rows."""
        arrays: dict[str, pa.Array] = {
            KEY: pa.array([row[0] for row in self._rows], pa.string()),
            LABEL: pa.array([row[1] for row in self._rows], pa.int64()),
            FILE: pa.array([row[2] for row in self._rows], pa.string()).dictionary_encode(),
        }
        for field in sorted(self._fields):
            for attribute, values in self._fields[field].items():
                values.extend([None] * (len(self._rows) - len(values)))
                kind = list_attributes(field)[attribute]
                arrays[f"{field}.{attribute}"] = pa.array(values, kind)
        for name, kind in self._user_columns().items():
            arrays[name] = pa.array([row[3].get(name) for row in self._rows], kind)
        return pa.table(arrays)

    def join_seeks(self) -> bytes:
        """Return the content of the seek file: the tables of all rows, in the order of rows and fields."""
        return b"".join(seek for _, _, seek in sorted(self._seeks, key=lambda entry: entry[:2]))

    def _user_columns(self) -> dict[str, pa.DataType | None]:
        if self._columns is None:
            return dict.fromkeys(name for row in self._rows for name in row[3])
        return {column.name: column.type for column in self._columns}


def _measure_array(note: Note | None) -> dict[str, Any]:
    """Return the size and kind of an array, nulls if it does not have two axes."""
    if not isinstance(note, ArrayNote) or len(note.shape) < 2:
        return dict.fromkeys(_SIZE)
    kind, height, width = note.header
    return {"height": height, "width": width, "kind": kind}


def _list_frames(note: VideoNote, data: bytes) -> dict[str, Any]:
    """Return the columns of a video's frames."""
    return {
        "frames": note.frames,
        "frame_crc32c": sum_frames(data, note.frames),
        "frame_seek": [len(seek) for seek in note.seeks] if any(note.seeks) else None,
        "fps": note.fps,
        "times": note.times,
    }


def sum_frames(data: bytes, frames: Sequence[int]) -> list[int]:
    """Return the CRC-32C of each frame of a video."""
    sizes = np.array(frames, np.int64)
    sums = np.zeros(len(sizes), np.uint32)
    crc32c_each(data, np.cumsum(sizes) - sizes, sizes, sums)
    return sums.tolist()


def encode_index(table: pa.Table) -> bytes:
    """Return the table as an Arrow IPC file of one record batch, the same bytes for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def is_index(path: Path) -> bool:
    """Return whether a file is an index, by its first columns."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return bool(pa.ipc.open_file(file).schema.names[:3] == [KEY, LABEL, FILE])
    except (pa.ArrowException, OSError, ValueError):
        return False


def field_names(schema: pa.Schema) -> list[str]:
    """Return the fields that an index describes, in its order."""
    return [name[: -len(".offset")] for name in schema.names if name.endswith(".offset")]


def user_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that came from the user."""
    own = {KEY, LABEL, FILE}
    for field in field_names(schema):
        own |= {f"{field}.{attribute}" for attribute in list_attributes(field)}
    return [name for name in schema.names if name not in own]
