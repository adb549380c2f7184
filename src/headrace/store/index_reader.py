"""Reads the index of a shard, and checks everything in it.

In: a folder and the records of shards in its manifest. Out: tables, mapped from their files.
Guaranteed: the bytes have the SHA-256 in the manifest; keys, fields and files are names that stay
below the folder they are joined to; offsets and sizes lie inside the file that the manifest names.
So a flipped bit is an error, and so is a malicious index.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.errors import CorruptError
from headrace.files.pread import open_regular
from headrace.sample import is_image_field, is_video_field
from headrace.store.index_schema import FILE, KEY, LABEL, field_names, list_attributes
from headrace.store.keys import is_below
from headrace.store.manifest import FileRecord, ShardRecord
from headrace.work.cancellable import run_cancellable

_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_READERS = 4
_MOST_MAPS = 16384  # a process may have about 65,000
_MAX_SIZE = 1 << 40  # of a field whose file is not known yet; sums stay far from overflowing
_MAX_TOTAL = 1 << 53
_UNSAFE_KEY = r"(^|/)\.{0,2}(/|$)|\x00"  # with a part that is empty, `.` or `..`


def read_index(folder: Path, shard: ShardRecord) -> pa.Table:
    """Return the index of a shard of the dataset in `folder`.

    The table is the mapped file: while it is in use, the file may be replaced but not truncated.
    CorruptError if the file is missing or is not the index that the manifest describes; OSError if it
    cannot be read now.
    """
    path = folder / shard.index.file
    try:
        table = _map(folder, shard.index)
        table.validate(full=True)
    except FileNotFoundError:
        raise CorruptError(f"{path}: the index is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _explain(path, error) from None
    _check(path, table, shard)
    _check_keys(path, table)
    return table


def read_indexes(folder: Path, shards: Sequence[ShardRecord]) -> pa.Table:
    """Return the rows of several shards as one table, checked as `read_index` does."""
    if len(shards) > _MOST_MAPS:
        groups = [shards[i : i + _MOST_MAPS] for i in range(0, len(shards), _MOST_MAPS)]
        copies = [read_indexes(folder, group).combine_chunks() for group in groups]
        return pa.concat_tables(copies, promote_options="default").unify_dictionaries()
    paths = [folder / shard.index.file for shard in shards]
    try:
        tables = run_cancellable(lambda shard: _map(folder, shard.index), shards, _READERS)
        pa.concat_tables(tables, promote_options="default").validate(full=True)
    except (CorruptError, pa.ArrowException, OSError, ValueError):
        # One by one, to say which and why.
        tables = [read_index(folder, shard) for shard in shards]
    for path, table, shard in zip(paths, tables, shards, strict=True):
        _check(path, table, shard)
    whole = pa.concat_tables(tables, promote_options="default").unify_dictionaries()
    if _look_unsafe(whole[KEY]):  # one by one, to say which
        for path, table in zip(paths, tables, strict=True):
            _check_keys(path, table)
    return whole


def _map(folder: Path, record: FileRecord) -> pa.Table:
    """Map an index whose bytes have the size and the SHA-256 of its record."""
    path = folder / record.file
    os.close(open_regular(path))  # Arrow would wait for the other end of a pipe
    with pa.memory_map(os.fspath(path)) as file:
        content = file.read_buffer(file.size())
    if content.size != record.bytes:
        raise CorruptError(f"{path}: {content.size} bytes, the manifest says {record.bytes}")
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise CorruptError(
            f"{path}: its SHA-256 is not the one in the manifest; restore it, or pack or index again"
        )
    return pa.ipc.open_file(content, options=_ONE_THREAD).read_all()


def _explain(path: Path, error: Exception) -> Exception:
    """Return the error to raise: damage, unless the machine is at fault and the file may be intact."""
    number = getattr(error, "errno", None)
    if number is not None:
        reason = getattr(error, "strerror", None) or os.strerror(number)
        return OSError(number, reason, os.fspath(path))
    if type(error) is pa.ArrowException:  # not one that it raises for files: a thread cannot start
        return OSError(f"{path}: the index cannot be read now: {error}")
    return CorruptError(f"{path}: not a readable index: {error}")


def _check(path: Path, table: pa.Table, shard: ShardRecord) -> None:
    """Raise CorruptError unless a table is the index that its shard should have. Keys are not checked here."""
    if table.num_rows != shard.samples:
        raise CorruptError(f"{path}: {table.num_rows} rows, the manifest says {shard.samples}")
    wrong = _find_wrong_column(table.schema)
    if wrong is not None:
        raise CorruptError(f"{path}: {wrong}")
    _check_files(path, table, shard.data)
    for field in field_names(table.schema):
        _check_places(path, table, field, None if shard.data is None else shard.data.bytes)
        if is_video_field(field):
            _check_frames(path, table, field)
        elif is_image_field(field):
            _check_orientations(path, table, field)
    _check_seeks(path, table, 0 if shard.seek is None else shard.seek.bytes)


@lru_cache(maxsize=64)  # the shards of a dataset mostly have the same schema
def _find_wrong_column(schema: pa.Schema) -> str | None:
    """Return what is wrong with the columns, None if nothing is."""
    expected = {KEY: pa.string(), LABEL: pa.int64(), FILE: pa.dictionary(pa.int32(), pa.string())}
    for field in field_names(schema):
        if not field or "/" in field or "\0" in field:
            return f"the field {field[:80]!r} is not named like a file suffix"
        expected |= {f"{field}.{name}": kind for name, kind in list_attributes(field).items()}
    for name, kind in expected.items():
        if schema.names.count(name) != 1 or schema.field(name).type != kind:
            return f"no column {name} of type {kind}"
    return None


def _check_keys(path: Path, table: pa.Table) -> None:
    column = table[KEY]
    if column.null_count:
        raise CorruptError(f"{path}: a row has no key")
    unsafe = column.filter(pc.match_substring_regex(column, _UNSAFE_KEY))
    if len(unsafe):
        key = unsafe[0].as_py()[:80]
        raise CorruptError(f"{path}: the key {key!r} is not the path of a file below the dataset")


def _look_unsafe(keys: pa.ChunkedArray) -> bool:
    """Return whether some key may be unsafe, in a fraction of the time that a regular expression takes."""
    if keys.null_count:
        return True
    whole = keys.combine_chunks()
    return any(map(_find_unsafe, whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]))


def _find_unsafe(keys: pa.StringArray) -> bool:
    if not len(keys):
        return False
    _, bounds, content = keys.buffers()
    ends = np.frombuffer(bounds, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if content is None or (ends[1:] == ends[:-1]).any():
        return True
    letters = np.frombuffer(content, np.uint8)
    parts = np.flatnonzero(letters[ends[0] : ends[-1] - 1] == ord("/")) + ends[0] + 1
    starts = np.concatenate([letters[parts], letters[ends[:-1]]])  # of parts and of keys
    odd = (starts == ord(".")) | (starts == ord("/"))
    return bool(odd.any() or (letters[ends[1:] - 1] == ord("/")).any() or (letters == 0).any())


def _check_files(path: Path, table: pa.Table, data: FileRecord | None) -> None:
    if table[FILE].null_count:
        raise CorruptError(f"{path}: a row names no file")
    for name in {name for chunk in table[FILE].chunks for name in chunk.dictionary.to_pylist()}:
        if name is None or not is_below(name):
            raise CorruptError(f"{path}: names the file {name!r}, which is not below the dataset")
        if data is not None and name != data.file:
            raise CorruptError(f"{path}: names the file {name!r}, its shard is {data.file!r}")


def _check_places(path: Path, table: pa.Table, field: str, limit: int | None) -> None:
    """Raise CorruptError unless offsets and sizes lie inside their file, as far as its size is known."""
    columns = [table[f"{field}.{name}"] for name in ("offset", "size", "crc32c")]
    if any(column.null_count for column in columns):
        first, *others = (column.is_null().to_numpy() for column in columns)
        if any((first != other).any() for other in others):
            raise CorruptError(f"{path}: the field {field} has only some of offset, size and CRC")
    offset, size = _read_numbers(columns[0]), _read_numbers(columns[1])
    if not len(offset):
        return
    lowest = min(int(offset.min()), int(size.min()))
    room = _MAX_TOTAL if limit is None else limit
    if lowest < 0 or (offset > room - size).any():
        raise CorruptError(
            f"{path}: the field {field} points outside its file: bytes {lowest} to "
            f"{int(offset.max()) + int(size.max())} of {room}"
        )
    if limit is None and (int(size.max()) > _MAX_SIZE or float(size.sum(dtype=float)) > _MAX_TOTAL):
        raise CorruptError(
            f"{path}: the field {field} has {int(size.max())} bytes, more than any file has"
        )


def _read_numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a column as an array, 0 for null; NumPy takes a tenth of Arrow's time for so few rows."""
    numbers: NDArray[np.int64] = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _check_orientations(path: Path, table: pa.Table, field: str) -> None:
    """Raise CorruptError unless each orientation is one that EXIF has; a damaged image has none."""
    numbers = table[f"{field}.orientation"].drop_null().to_numpy()
    if len(numbers) and not 1 <= int(numbers.min()) <= int(numbers.max()) <= 8:
        raise CorruptError(f"{path}: {field} has an orientation that is not from 1 to 8")


def _check_frames(path: Path, table: pa.Table, field: str) -> None:
    """Raise CorruptError unless frames fill their field exactly; a damaged one has none."""
    sizes = table[f"{field}.size"].fill_null(0).to_numpy()
    frames = table[f"{field}.frames"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(frames), 0).to_numpy()
    flat = frames.flatten().fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum(counts)
    before = np.concatenate([[0], np.cumsum(flat)])
    lengths = before[ends] - before[ends - counts]
    if (flat <= 0).any() or (lengths != sizes)[counts > 0].any():
        raise CorruptError(f"{path}: the frames of {field} do not add up to its size")
    for name, optional in (("frame_crc32c", False), ("frame_seek", True), ("times", True)):
        lists = table[f"{field}.{name}"].combine_chunks()
        found = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        absent = lists.is_null().to_numpy(zero_copy_only=False) & optional
        if ((found != counts) & ~absent).any() or lists.flatten().null_count:
            raise CorruptError(f"{path}: {field} does not have {name} for each frame")
    _check_rates(path, table, field)


def _check_rates(path: Path, table: pa.Table, field: str) -> None:
    """Raise CorruptError unless rates are positive and the times of a video's frames never decrease from 0."""
    rates = table[f"{field}.fps"].drop_null().to_numpy()
    times = table[f"{field}.times"].combine_chunks()
    flat = times.flatten().to_numpy()
    lengths = pc.list_value_length(times).drop_null().to_numpy()
    starts = np.cumsum(lengths) - lengths
    steps = np.diff(flat, prepend=0.0)
    steps[starts[lengths > 0]] = 0.0
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise CorruptError(f"{path}: {field} has a frame rate that is not positive")
    if not (np.isfinite(flat).all() and (steps >= 0).all() and not flat[starts[lengths > 0]].any()):
        raise CorruptError(f"{path}: {field} has frame times that decrease, or do not begin at 0")


def _check_seeks(path: Path, table: pa.Table, size: int) -> None:
    """Raise CorruptError unless the seek tables of all rows are as long as their file."""
    total = 0
    for field in field_names(table.schema):
        if is_image_field(field):
            lengths, sizes = (_read_numbers(table[f"{field}.{name}"]) for name in ("seek", "size"))
        elif is_video_field(field):
            tables = table[f"{field}.frame_seek"]
            lengths = tables.combine_chunks().flatten().to_numpy()
            sizes = table[f"{field}.frames"].filter(tables.is_valid()).combine_chunks().flatten()
            sizes = sizes.to_numpy()
        else:
            continue
        if (lengths < 0).any() or (lengths > sizes).any():
            raise CorruptError(f"{path}: a seek table of {field} is larger than its image")
        total += int(lengths.sum(dtype=np.int64))
    if total != size:
        raise CorruptError(f"{path}: {total} bytes of seek tables, the manifest says {size}")
