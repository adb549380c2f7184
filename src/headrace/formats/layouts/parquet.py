"""Parquet files with images in a column, such as the datasets of Hugging Face (see `image_tables`).

A row group is decoded once, when the first of its rows is read, and its images are kept on disk (see `Spool`),
so that rows can be read in any order with little memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import check_size, current_limit
from headrace.formats.check_class_folders import check_no_images
from headrace.formats.codecs.parquet_columns import (
    find_nulls,
    open_parquet_file,
    read_columns,
    read_rows,
)
from headrace.formats.file_patterns import find_files, find_root, find_stems, name_below
from headrace.formats.folder_contents import FolderContents, has_suffix, walk_files
from headrace.formats.image_paths import check_beside
from headrace.formats.image_tables import (
    FileRows,
    RowSource,
    TableColumns,
    find_path_column,
    join_rows,
    list_path_columns,
    measure_image,
    measure_rows,
    sort_columns,
)
from headrace.formats.scratch_file import Spool
from headrace.sample import Sample

_BATCH = 32
_LOOKED_AT = 8
_NULL, _BYTES, _PATH, _TOO_LARGE = range(4)


class _Images:
    """The images of all row groups decoded so far: (kind, offset, size) per row and column."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._lock = threading.Lock()
        self._places: dict[tuple[Path, int], np.ndarray] = {}
        self._limit = current_limit()

    def read(self, path: Path, group: int, row: int, images: Sequence[str]) -> dict[str, Any]:
        with self._lock:
            places = self._places.get((path, group))
            if places is None:
                places = self._places[path, group] = self._decode(path, group, images)
        values: dict[str, Any] = {}
        for name, (kind, offset, size) in zip(images, places[row].tolist(), strict=True):
            if kind == _TOO_LARGE:
                check_size(size, self._limit)
            data = self._spool.read(offset, size) if kind in (_BYTES, _PATH) else None
            values[name] = {"path": data.decode()} if kind == _PATH and data else data
        return values

    def _decode(self, path: Path, group: int, images: Sequence[str]) -> np.ndarray:
        rows = []
        with open_parquet_file(path) as file:
            check_size(_row_size(file.metadata.row_group(group)), self._limit)
            for batch in read_rows(file, group, images, self._limit, _BATCH):
                columns = [batch.column(name) for name in images]
                for row in range(batch.num_rows):
                    rows.append([self._append(column[row]) for column in columns])
        return np.array(rows, np.int64).reshape(len(rows), len(images), 3)

    def _append(self, value: pa.Scalar) -> tuple[int, int, int]:
        size = measure_image(value)
        if size > self._limit:
            return _TOO_LARGE, 0, size
        content = value.as_py()
        data = content.get("bytes") if isinstance(content, dict) else content
        if isinstance(data, bytes):
            return _BYTES, self._spool.append(data), size
        path = content.get("path") if isinstance(content, dict) else None
        if not isinstance(path, str):
            return _NULL, 0, 0
        raw = path.encode()
        return _PATH, self._spool.append(raw), len(raw)


@dataclass(frozen=True)
class ParquetSource(RowSource):
    """A `Source`: sample `i` is row `i` of all files together."""

    groups: Sequence[tuple[Path, int, int]]
    """(file, number in it, mtime of the file) of each row group."""
    starts: np.ndarray
    decoded: _Images = field(default_factory=_Images)

    def read(self, i: int) -> Sample:
        """Return the images of a row, with its label and columns."""
        group = int(np.searchsorted(self.starts, i, side="right")) - 1
        path, number, mtime = self.groups[group]
        try:
            if os.stat(path).st_mtime_ns != mtime:
                raise SourceChangedError(f"{path}: changed after it was opened")
            row = i - int(self.starts[group])
            images = self.decoded.read(path, number, row, self.meaning.images)
        except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
            raise SourceError(f"{path.name}, row group {number}: {error!s:.200}") from None
        return self.make_sample(i, images, path.parent)


def is_parquet(path: Path, head: bytes) -> bool:
    """Return whether a file begins as Parquet does."""
    return head[:4] == b"PAR1"


def find_parquet(folder: FolderContents) -> Path | None:
    """Return the folder itself if there are Parquet files in it or below it."""
    tables = [name for name in folder.files if has_suffix(name, ".parquet")]
    tables += folder.tables_below
    if not tables:
        return None
    check_no_images(folder, tables, "--format parquet")
    return folder.path


def open_parquet(path: str | os.PathLike[str]) -> ParquetSource:
    """Open the rows of a Parquet file, of the files that a pattern names, or of all in a folder and below it."""
    path = Path(path)
    files = find_files(path, _list_parquet_files, ".parquet files")
    schema, meaning = None, None
    groups, counts, parts = [], [], []
    beside: list[tuple[Path, str]] = []
    for file_path, stem in zip(files, find_stems(files), strict=True):
        try:
            with open_parquet_file(file_path) as file:
                if schema is None or meaning is None:
                    schema, meaning = file.schema_arrow, sort_columns(file.schema_arrow)
                if not file.schema_arrow.equals(schema):
                    raise SourceError("its columns are not those of the first file")
                paths = [f"{name}.path" for name in list_path_columns(schema, meaning)]
                table = read_columns(file, [*meaning.small, *paths], current_limit())
                beside = beside or _find_lone_paths(file, file_path.parent, table, meaning)
                metadata, mtime = file.metadata, file_path.stat().st_mtime_ns
                sizes, find_nulls_of = _size_rows(metadata), partial(find_nulls, file)
                measured = measure_rows(
                    file_path.parent, table, meaning, sizes, mtime, find_nulls_of
                )
        except (pa.ArrowException, OSError, UnicodeDecodeError, SourceError) as error:
            raise SourceError(f"{file_path}: {error!s:.200}") from None
        parts.append(FileRows(stem, table, *measured))
        groups += [(file_path, number, mtime) for number in range(metadata.num_row_groups)]
        counts += [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert meaning is not None
    check_beside(path, beside)
    meaning = replace(meaning, ignored=[*meaning.ignored, *_find_partitions(files)])
    starts = np.concatenate([[0], np.cumsum(counts)])
    joined = join_rows(path, meaning, parts, meaning.small)
    return ParquetSource(**joined, groups=groups, starts=starts)


def _list_parquet_files(folder: Path) -> Iterator[Path]:
    return (folder / name for name, _ in walk_files(folder) if has_suffix(name, ".parquet"))


def _find_partitions(files: Sequence[Path]) -> list[str]:
    """Return the columns that only the names of folders have, as in `label=0/part-0.parquet`; they are not read."""
    root = find_root(files)
    folders = {part for file in files for part in name_below(root, file).split("/")[:-1]}
    names = sorted({name for name, sign, _ in (f.partition("=") for f in folders) if sign})
    return [f"column {name} (of the names of folders)" for name in names]


def _find_lone_paths(
    file: pq.ParquetFile, folder: Path, table: pa.Table, meaning: TableColumns
) -> list[tuple[Path, str]]:
    """Return the first paths, with their folder, if all bytes of the image column are null in the first row group."""
    column = find_path_column(table.schema, meaning)
    if column is None or not file.metadata.num_row_groups:
        return []
    batches = read_rows(file, 0, [f"{column}.bytes"], current_limit())
    try:
        if any(pc.struct_field(b.column(column), "bytes").null_count < len(b) for b in batches):
            return []
    except (pa.ArrowException, OSError):
        return []  # an error of its samples, not of all
    found = pc.struct_field(table[column].slice(0, _LOOKED_AT), "path").to_pylist()
    return [(folder, name) for name in found if name]


def _size_rows(metadata: pq.FileMetaData) -> np.ndarray:
    """Return the size of each row: the average of its row group."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    counts = np.array([group.num_rows for group in groups], np.int64)
    if (counts < 0).any() or counts.sum() != metadata.num_rows:
        raise SourceError(f"its row groups do not have the {metadata.num_rows} rows that it claims")
    return np.repeat(np.array([_row_size(group) for group in groups], np.int64), counts)


def _row_size(group: Any) -> int:
    """Return the average size of a row in a group, in bytes."""
    return -(-int(group.total_byte_size) // max(1, int(group.num_rows)))
