"""The rows of an index, one by one, and the bytes of their fields, checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headrace._core import crc32c
from headrace.errors import CorruptError
from headrace.files.pread import open_file, pread_all, retry_stale
from headrace.sample import Sample
from headrace.store.index_schema import FILE, KEY, LABEL, field_names, list_attributes, user_columns

CHANGED = "its bytes are not those that were indexed (CRC-32C)"
_ROWS = 1024  # that are converted at once


class StoredField(NamedTuple):
    """Where the bytes of a field lie in the file of its row, and their checksum.

    `recoded` is for images. The rest is for videos: the size, checksum and time of each frame, and the rate; see
    `index_schema`.
    """

    offset: int
    size: int
    crc32c: int
    frames: list[int] | None
    frame_crc32c: list[int] | None
    fps: float | None
    times: list[float] | None
    recoded: str | None = None


class IndexRow(NamedTuple):
    """What an index says about one sample. `fields` has the fields that the sample has."""

    key: str
    label: int | None
    file: str
    fields: Mapping[str, StoredField]
    columns: Mapping[str, Any]

    def make_sample(self, data: Mapping[str, bytes]) -> Sample:
        """Return the sample of this row, whose fields are `data`."""
        frames = {n: f.frames for n, f in self.fields.items() if f.frames is not None}
        fps = {n: f.fps for n, f in self.fields.items() if f.fps is not None}
        times = {n: f.times for n, f in self.fields.items() if f.times is not None}
        recoded = {n: f.recoded for n, f in self.fields.items() if f.recoded is not None}
        return Sample(self.key, data, self.label, self.columns, {}, frames, fps, times, recoded)


def read_rows(table: pa.Table) -> Iterator[IndexRow]:
    """Yield the rows of a table that `read_index` returned, or of a part of it."""
    fields, user = field_names(table.schema), user_columns(table.schema)
    names = {field: _name_columns(field) for field in fields}
    for start in range(0, len(table), _ROWS):
        for row in table.slice(start, _ROWS).to_pylist():
            stored = {field: StoredField(*map(row.get, names[field])) for field in fields}
            present = {name: field for name, field in stored.items() if field.offset is not None}
            columns = {name: row[name] for name in user}
            yield IndexRow(row[KEY], row[LABEL], row[FILE], present, columns)


def _name_columns(field: str) -> list[str | None]:
    """Return the column of each entry of a StoredField. None: fields of this kind have none."""
    has = list_attributes(field)
    return [f"{field}.{name}" if name in has else None for name in StoredField._fields]


def read_row(table: pa.Table, number: int) -> IndexRow:
    """Return one row of a table that `read_index` returned."""
    (row,) = read_rows(table.slice(number, 1))
    return row


def read_fields(root: Path, row: IndexRow, names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of some fields of a sample, from the file of its row below `root`.

    CorruptError, with the file, field and key, if they cannot be read or have changed.
    """
    path = root / row.file
    try:
        return retry_stale(lambda: _read_fields(path, row, names))
    except OSError as error:
        raise CorruptError(f"{path}: {error.strerror}, for sample {row.key!r}") from None


def _read_fields(path: Path, row: IndexRow, names: Iterable[str]) -> dict[str, bytes]:
    data = {}
    with open_file(path) as fd:
        for name in names:
            try:
                data[name] = read_field(fd, row.fields[name])
            except CorruptError as error:
                raise CorruptError(f"{path}: {name} of {row.key!r}: {error}") from None
    return data


def read_field(fd: int, field: StoredField) -> bytes:
    """Return the bytes of a field from its open file. CorruptError if they are not as indexed."""
    available = max(0, os.fstat(fd).st_size - field.offset)
    if available < field.size:  # before memory is taken: the size may be wrong on purpose
        raise CorruptError(describe_short(field.size, field.offset, available))
    data = pread_all(fd, field.size, field.offset)
    if len(data) < field.size:  # the file was truncated since
        raise CorruptError(describe_short(field.size, field.offset, len(data)))
    if crc32c(data) != field.crc32c:
        raise CorruptError(CHANGED)
    return data


def describe_short(size: int, offset: int, available: int) -> str:
    """Say that a file ends before its field does."""
    return f"{size} bytes at {offset} are indexed, {available} are there"
