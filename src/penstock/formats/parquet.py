"""Parquet files with images in a column, such as the data sets of Hugging Face (see `columnar`).

A row group is decoded once, when the first of its rows is asked for, and its images are set down on
disk (see `Spool`): so rows can be read in any order in small memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import SourceChangedError, SourceError
from penstock.formats.beside import check_beside
from penstock.formats.columnar import (
    Layout,
    RowSource,
    find_layout,
    find_path_column,
    measure_image,
    name_rows,
    number_labels,
)
from penstock.formats.data_files import find_files, find_root, find_stems, has_suffix, name_below
from penstock.formats.folder import walk_files
from penstock.formats.limits import check_size, current_limit
from penstock.formats.pread import open_regular
from penstock.formats.spool import Spool
from penstock.sample import Sample

_BATCH = 32
_BATCH_SIZE = 64 << 20
_LOOKED_AT = 8
_NULL, _BYTES, _PATH, _TOO_LARGE = range(4)


class _Images:
    """Images of the row groups that were decoded so far: (kind, offset, size) per row and column."""

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
            size = _row_size(file.metadata.row_group(group))
            check_size(size, self._limit)
            batch_rows = max(1, min(_BATCH, _BATCH_SIZE // max(1, size)))
            for batch in file.iter_batches(batch_rows, row_groups=[group], columns=list(images)):
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


def open_parquet_file(path: Path) -> pq.ParquetFile:
    """Open a Parquet file that is a regular file, to be read by pieces."""
    os.close(open_regular(path))  # Arrow would wait for a pipe
    return pq.ParquetFile(path, buffer_size=1 << 20)


@dataclass(frozen=True)
class ParquetSource(RowSource):
    """A `Source`: sample `i` is row `i` of all files together."""

    groups: Sequence[tuple[Path, int]]
    starts: np.ndarray
    decoded: _Images = field(default_factory=_Images)

    def read(self, i: int) -> Sample:
        """The images of a row, and what its other columns say."""
        group = int(np.searchsorted(self.starts, i, side="right")) - 1
        path, number = self.groups[group]
        try:
            if os.stat(path).st_mtime_ns != self.mtimes[i]:
                raise SourceChangedError(f"{path}: changed after it was opened")
            row = i - int(self.starts[group])
            images = self.decoded.read(path, number, row, self.layout.images)
        except (pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
            raise SourceError(f"{path.name}, row group {number}: {error!s:.200}") from None
        return self.make_sample(i, images, path.parent)


def open_parquet(path: str | os.PathLike[str]) -> ParquetSource:
    """The rows of a Parquet file, of those that a pattern names, or of all in a folder and its folders."""
    path = Path(path)
    files = find_files(path, _list_parquet_files, ".parquet files")
    schema, groups, counts, sizes, mtimes = None, [], [], [], []
    tables, paths, stems = [], [], []
    beside: list[tuple[Path, str]] = []
    layout: Layout | None = None
    for file_path, stem in zip(files, find_stems(files), strict=True):
        try:
            with open_parquet_file(file_path) as file:
                layout, schema = _check_schema(file_path, file.schema_arrow, schema, layout)
                tables.append(file.read(columns=layout.small))
                tables[-1].validate(full=True)  # Arrow does not look at text before
                if (column := find_path_column(file.schema_arrow, layout)) is not None:
                    paths.append(file.read(columns=[f"{column}.path"])[column])
                    paths[-1].validate(full=True)
                    if not beside and _has_only_paths(file.metadata, column):
                        found = pc.struct_field(paths[-1].slice(0, _LOOKED_AT), "path").to_pylist()
                        beside = [(file_path.parent, name) for name in found if name]
                metadata = file.metadata
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{file_path}: {error!s:.200}") from None
        groups += [(file_path, number) for number in range(metadata.num_row_groups)]
        counts += [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        sizes += [_row_size(metadata.row_group(n)) for n in range(metadata.num_row_groups)]
        mtimes += [file_path.stat().st_mtime_ns] * metadata.num_row_groups
        stems += [f"{stem}/{row:06d}" for row in range(metadata.num_rows)]
    assert layout is not None
    if not stems:
        raise SourceError(f"{path}: no rows in it")
    check_beside(path, beside)
    layout = replace(layout, ignored=[*layout.ignored, *_find_partitions(files)])
    small = pa.concat_tables(tables)
    labels, classes = number_labels(path, layout, small)
    chunks = [chunk for part in paths for chunk in part.chunks]
    names, keys = name_rows(pa.chunked_array(chunks) if chunks else None, stems)
    return ParquetSource(
        layout=layout,
        groups=groups,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        sizes=np.repeat(np.array(sizes, np.int64), counts),
        mtimes=np.repeat(np.array(mtimes, np.int64), counts),
        names=names,
        keys=keys,
        table=small,
        labels=labels,
        classes=classes,
    )


def _list_parquet_files(folder: Path) -> Iterator[Path]:
    return (folder / name for name, _ in walk_files(folder) if has_suffix(name, ".parquet"))


def _find_partitions(files: Sequence[Path]) -> list[str]:
    """The columns that only the names of folders have, as in `label=0/part-0.parquet`: they are not read."""
    root = find_root(files)
    folders = {part for file in files for part in name_below(root, file).split("/")[:-1]}
    names = sorted({name for name, sign, _ in (f.partition("=") for f in folders) if sign})
    return [f"column {name} (of the names of folders)" for name in names]


def _check_schema(
    path: Path, schema: pa.Schema, first: pa.Schema | None, layout: Layout | None
) -> tuple[Layout, pa.Schema]:
    """The layout of the first file, which the others must have as well."""
    if first is None or layout is None:
        try:
            return find_layout(schema), schema
        except SourceError as error:
            raise SourceError(f"{path}: {error}") from None
    if not schema.equals(first):
        raise SourceError(f"{path}: its columns are not those of the first file")
    return layout, first


def _has_only_paths(metadata: Any, column: str) -> bool:
    """Whether the statistics of the first row group say that all bytes of an image column are null."""
    if not metadata.num_row_groups:
        return False
    group = metadata.row_group(0)
    for k in range(group.num_columns):
        chunk = group.column(k)
        if chunk.path_in_schema == f"{column}.bytes":
            statistics = chunk.statistics
            return statistics is not None and statistics.null_count == group.num_rows
    return False


def _row_size(group: Any) -> int:
    """What a row of a group takes on average."""
    return -(-int(group.total_byte_size) // max(1, int(group.num_rows)))
