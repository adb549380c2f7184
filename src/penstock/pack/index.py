"""The Arrow index of a shard: a row a sample, saying which file, offset and size hold each field.

Columns, in this order:
  key, label, file              text, int64, dictionary of paths relative to the manifest's root
  <field>.offset .size .crc32c  int64, int64, uint32: where a field's bytes lie, and their checksum
  <field>.height .width .kind   int32, int32, dictionary: of images, and of a video's first frame
  <field>.frames                list of int32: sizes of a video's frames, which follow one another
  the user's own columns
  <field>.seek                  binary: entry points into a baseline JPEG, empty where there are none
Fields are in alphabetical order. A field that a sample lacks is null.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock._core import crc32c
from penstock.errors import CorruptError, SourceError
from penstock.formats.names import printable
from penstock.pack.describe import ImageNote
from penstock.pack.manifest import FileRecord, ShardRecord
from penstock.sample import is_image_field, is_video_field

KEY, LABEL, FILE = "key", "label", "file"
DAMAGED = "damaged"
_PLACE = {"offset": pa.int64(), "size": pa.int64(), "crc32c": pa.uint32()}
_IMAGE = {"height": pa.int32(), "width": pa.int32(), "kind": pa.dictionary(pa.int32(), pa.string())}
_VIDEO = {**_IMAGE, "frames": pa.list_(pa.int32())}
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_READERS = 4
_MOST_MAPS = 16384  # a process may have about 65,000
_OWN = frozenset({*_PLACE, *_VIDEO, "seek"})


def _attributes(field: str) -> dict[str, pa.DataType]:
    """The columns of a field, but for its seek tables, which are kept apart."""
    if is_video_field(field):
        return {**_PLACE, **_VIDEO}
    return {**_PLACE, **_IMAGE} if is_image_field(field) else _PLACE


def check_column_names(names: Iterable[str]) -> None:
    """The user's columns may not have the names of ours."""
    taken = [
        n for n in names if n in (KEY, LABEL, FILE) or n.rpartition(".")[2] in _OWN and "." in n
    ]
    if taken:
        raise SourceError(f"columns {taken}: these names belong to the index; rename them")


def check_file_names(names: Iterable[str]) -> None:
    """An index holds the names of files as text."""
    for name in names:
        if not name.isprintable() and any("\udc80" <= c <= "\udcff" for c in name):
            raise SourceError(f"{printable(name)}: the name is not UTF-8; rename it, or pack it")


class IndexBuilder:
    """Collects the rows of one shard. The user's columns are as given, or what the rows have if None."""

    def __init__(self, columns: pa.Schema | None) -> None:
        self._columns = columns
        self._rows: list[tuple[str, int | None, str, Mapping[str, Any]]] = []
        self._fields: dict[str, dict[str, list[Any]]] = {}
        self.kinds: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add_sample(
        self, key: str, label: int | None, file: str, columns: Mapping[str, Any]
    ) -> None:
        """Starts a row; its fields follow."""
        self._rows.append((key, label, file, columns))

    def add_field(self, name: str, offset: int, data: bytes, image: ImageNote | None) -> None:
        """A field of the current sample. An image field without a note is one that is damaged."""
        values: dict[str, Any] = {"offset": offset, "size": len(data), "crc32c": crc32c(data)}
        if is_image_field(name) or is_video_field(name):
            (kind, height, width), seek, frames = image or ((DAMAGED, None, None), b"", None)
            values |= {"height": height, "width": width, "kind": kind}
            values |= {"frames": frames} if is_video_field(name) else {"seek": seek}
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        columns = self._fields.setdefault(name, {attribute: [] for attribute in values})
        row = len(self._rows) - 1
        for attribute, value in values.items():
            column = columns[attribute]
            column.extend([None] * (row - len(column)))
            column.append(value)

    def finish(self) -> pa.Table:
        """The table of all rows."""
        arrays: dict[str, pa.Array] = {
            KEY: pa.array([row[0] for row in self._rows], pa.string()),
            LABEL: pa.array([row[1] for row in self._rows], pa.int64()),
            FILE: pa.array([row[2] for row in self._rows], pa.string()).dictionary_encode(),
        }
        last: dict[str, pa.Array] = {}
        for field in sorted(self._fields):
            for attribute, values in self._fields[field].items():
                values.extend([None] * (len(self._rows) - len(values)))
                if attribute == "seek":
                    last[f"{field}.seek"] = pa.array(values, pa.binary())
                else:
                    kind = _attributes(field)[attribute]
                    arrays[f"{field}.{attribute}"] = pa.array(values, kind)
        for name, kind in self._user_columns().items():
            arrays[name] = pa.array([row[3].get(name) for row in self._rows], kind)
        return pa.table({**arrays, **last})

    def _user_columns(self) -> dict[str, pa.DataType | None]:
        if self._columns is None:
            return dict.fromkeys(name for row in self._rows for name in row[3])
        return {column.name: column.type for column in self._columns}


def encode_index(table: pa.Table) -> bytes:
    """The table as an Arrow IPC file of one record batch, the same bytes for the same rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_index(path: Path, *, rows: int, data: FileRecord | None) -> pa.Table:
    """The index without its seek tables, checked: well-formed, `rows` long, and inside its file.

    `data` is the one file that the rows lie in; None where every row names a loose file, whose path
    is then only checked to stay below the root. The table is the file itself, mapped: the file may be
    replaced while the table is in use, as ours are, but not be cut short.
    """
    try:
        table = _map(path)
        table.validate(full=True)
    except FileNotFoundError:
        raise CorruptError(f"{path}: the index is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _explain(path, error) from None
    _check(path, table, rows, data)
    return table


def read_indexes(folder: Path, shards: Sequence[ShardRecord]) -> pa.Table:
    """The rows of the indexes of shards in `folder` as one table, checked like each alone."""
    if len(shards) > _MOST_MAPS:
        groups = [shards[i : i + _MOST_MAPS] for i in range(0, len(shards), _MOST_MAPS)]
        copies = [read_indexes(folder, group).combine_chunks() for group in groups]
        return pa.concat_tables(copies, promote_options="default").unify_dictionaries()
    paths = [folder / shard.index.file for shard in shards]
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            tables = list(pool.map(_map, paths))
        pa.concat_tables(tables, promote_options="default").validate(full=True)
    except (pa.ArrowException, OSError, ValueError):  # one by one, to say which and why
        tables = [
            read_index(path, rows=shard.samples, data=shard.data)
            for path, shard in zip(paths, shards, strict=True)
        ]
    for path, table, shard in zip(paths, tables, shards, strict=True):
        _check(path, table, shard.samples, shard.data)
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries()


def _map(path: Path) -> pa.Table:
    """The columns of an index but for its seek tables, as they are."""
    with pa.memory_map(os.fspath(path)) as file:
        table = pa.ipc.open_file(file, options=_ONE_THREAD).read_all()
    return table.select([i for i, name in enumerate(table.column_names) if name[-5:] != ".seek"])


def _explain(path: Path, error: Exception) -> Exception:
    """Damage, unless it is the machine that is at fault: then the file may be sound."""
    number = getattr(error, "errno", None)
    if number is not None:
        return OSError(number, os.strerror(number), os.fspath(path))
    if type(error) is pa.ArrowException:  # of no kind that it has for files: a thread cannot start
        return OSError(f"{path}: the index cannot be read now: {error}")
    return CorruptError(f"{path}: not a readable index: {error}")


def _check(path: Path, table: pa.Table, rows: int, data: FileRecord | None) -> None:
    """That a well-formed table is the index that it should be."""
    if table.num_rows != rows:
        raise CorruptError(f"{path}: {table.num_rows} rows, the manifest says {rows}")
    _check_types(path, table.schema)
    _check_files(path, table, data)
    for field in field_names(table.schema):
        _check_places(path, table, field, None if data is None else data.bytes)
        if is_video_field(field):
            _check_frames(path, table, field)


def _check_types(path: Path, schema: pa.Schema) -> None:
    missing = _find_missing(schema)
    if missing is not None:
        raise CorruptError(f"{path}: no column {missing}")


@lru_cache(maxsize=64)  # the shards of a data set mostly have the same schema
def _find_missing(schema: pa.Schema) -> str | None:
    """A column that an index must have and this one has not, with its type."""
    expected = {KEY: pa.string(), LABEL: pa.int64(), FILE: pa.dictionary(pa.int32(), pa.string())}
    for field in field_names(schema):
        expected |= {f"{field}.{attribute}": kind for attribute, kind in _attributes(field).items()}
    for name, kind in expected.items():
        if schema.names.count(name) != 1 or schema.field(name).type != kind:
            return f"{name} of type {kind}"
    return None


def _check_files(path: Path, table: pa.Table, data: FileRecord | None) -> None:
    for name in {name for chunk in table[FILE].chunks for name in chunk.dictionary.to_pylist()}:
        parts = PurePosixPath(name or "/")
        if parts.is_absolute() or ".." in parts.parts or "\0" in name:
            raise CorruptError(f"{path}: names the file {name!r}, which is not below the data set")
        if data is not None and name != data.file:
            raise CorruptError(f"{path}: names the file {name!r}, its shard is {data.file!r}")


def _check_places(path: Path, table: pa.Table, field: str, limit: int | None) -> None:
    """Offsets and sizes that lie inside their file, as far as its size is known."""
    offset, size = (_read_numbers(table[f"{field}.{name}"]) for name in ("offset", "size"))
    if not len(offset):
        return
    lowest = min(int(offset.min()), int(size.min()))
    room = np.iinfo(np.int64).max if limit is None else limit
    if lowest < 0 or (offset > room - size).any():
        raise CorruptError(
            f"{path}: the field {field} points outside its file: bytes {lowest} to "
            f"{int(offset.max()) + int(size.max())} of {limit}"
        )


def _read_numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column as an array, 0 for null; NumPy needs a tenth of Arrow's time for so few rows."""
    numbers: NDArray[np.int64] = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _check_frames(path: Path, table: pa.Table, field: str) -> None:
    """Frames that fill their field exactly; none are said of a damaged one."""
    sizes = table[f"{field}.size"].fill_null(0).to_numpy()
    frames = table[f"{field}.frames"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(frames), 0).to_numpy()
    flat = frames.flatten().fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum(counts)
    before = np.concatenate([[0], np.cumsum(flat)])
    sums = before[ends] - before[ends - counts]
    if (flat <= 0).any() or (sums != sizes)[counts > 0].any():
        raise CorruptError(f"{path}: the frames of {field} do not add up to its size")


def is_index(path: Path) -> bool:
    """Whether a file is an index, by its first columns."""
    try:
        with pa.OSFile(os.fspath(path)) as file:
            return bool(pa.ipc.open_file(file).schema.names[:3] == [KEY, LABEL, FILE])
    except (pa.ArrowException, OSError, ValueError):
        return False


def field_names(schema: pa.Schema) -> list[str]:
    """The fields that an index describes, in its order."""
    return [name[: -len(".offset")] for name in schema.names if name.endswith(".offset")]


def user_columns(schema: pa.Schema) -> list[str]:
    """The columns that came from the user."""
    own = {KEY, LABEL, FILE}
    for field in field_names(schema):
        own |= {f"{field}.{attribute}" for attribute in _OWN}
    return [name for name in schema.names if name not in own]
