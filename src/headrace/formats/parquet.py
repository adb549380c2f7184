"""Parquet files with images in a column, such as the datasets of Hugging Face (see `columnar`).

A row group is decoded once, when the first of its rows is asked for, and its images are set down on
disk (see `Spool`): so rows can be read in any order in small memory.
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
from headrace.formats.beside import add_files, check_beside, find_beside
from headrace.formats.columnar import (
    Layout,
    RowSource,
    find_layout,
    find_path_column,
    list_path_columns,
    list_paths,
    measure_image,
    name_rows,
    number_labels,
)
from headrace.formats.data_files import find_files, find_root, find_stems, has_suffix, name_below
from headrace.formats.folder import walk_files
from headrace.formats.limits import check_size, current_limit
from headrace.formats.parquet_columns import (
    find_nulls,
    open_parquet_file,
    read_columns,
    read_rows,
)
from headrace.formats.spool import Spool
from headrace.sample import Sample

_BATCH = 32
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
        """The images of a row, and what its other columns say."""
        group = int(np.searchsorted(self.starts, i, side="right")) - 1
        path, number, mtime = self.groups[group]
        try:
            if os.stat(path).st_mtime_ns != mtime:
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
    schema, groups, counts, states = None, [], [], []
    tables, paths, stems = [], [], []
    beside: list[tuple[Path, str]] = []
    layout: Layout | None = None
    for file_path, stem in zip(files, find_stems(files), strict=True):
        try:
            with open_parquet_file(file_path) as file:
                layout, schema = _check_schema(file.schema_arrow, schema, layout)
                column = find_path_column(file.schema_arrow, layout)
                columns = list_path_columns(file.schema_arrow, layout)
                wanted = [*layout.small, *(f"{name}.path" for name in columns)]
                table = read_columns(file, wanted, current_limit())
                tables.append(table.select(layout.small))
                if column is not None:
                    paths.append(table[column])
                    if not beside and _has_only_paths(file, column):
                        found = pc.struct_field(paths[-1].slice(0, _LOOKED_AT), "path").to_pylist()
                        beside = [(file_path.parent, name) for name in found if name]
                metadata, mtime = file.metadata, file_path.stat().st_mtime_ns
                states.append(_measure_rows(file, file_path.parent, mtime, table, layout))
        except (pa.ArrowException, OSError, UnicodeDecodeError, SourceError) as error:
            raise SourceError(f"{file_path}: {error!s:.200}") from None
        groups += [(file_path, number, mtime) for number in range(metadata.num_row_groups)]
        counts += [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
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
        sizes=np.concatenate([sizes for sizes, _ in states]),
        mtimes=np.concatenate([mtimes for _, mtimes in states]),
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
    schema: pa.Schema, first: pa.Schema | None, layout: Layout | None
) -> tuple[Layout, pa.Schema]:
    """Return the layout of the first file, which the others must have as well."""
    if first is None or layout is None:
        return find_layout(schema), schema
    if not schema.equals(first):
        raise SourceError("its columns are not those of the first file")
    return layout, first


def _has_only_paths(file: pq.ParquetFile, column: str) -> bool:
    """Whether all bytes of an image column are null in the first row group, as far as it can be read."""
    if not file.metadata.num_row_groups:
        return False
    batches = read_rows(file, 0, [f"{column}.bytes"], current_limit())
    try:
        return all(pc.struct_field(b.column(column), "bytes").null_count == len(b) for b in batches)
    except (pa.ArrowException, OSError):
        return False  # an error of its samples, not of all


def _measure_rows(
    file: pq.ParquetFile, folder: Path, mtime: int, table: pa.Table, layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of a file's rows: the average of their group, or those of their files in `folder`."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    counts = np.array([group.num_rows for group in groups], np.int64)
    if (counts < 0).any() or counts.sum() != file.metadata.num_rows:
        raise SourceError(
            f"its row groups do not have the {file.metadata.num_rows} rows that it claims"
        )
    found = [
        find_beside(folder, list_paths(table[n]), partial(find_nulls, file, n, current_limit()))
        for n in list_path_columns(file.schema_arrow, layout)
    ]
    sizes = np.repeat(np.array([_row_size(group) for group in groups], np.int64), counts)
    return add_files(sizes, np.full(len(sizes), mtime, np.int64), found, len(layout.images))


def _row_size(group: Any) -> int:
    """What a row of a group takes on average."""
    return -(-int(group.total_byte_size) // max(1, int(group.num_rows)))
