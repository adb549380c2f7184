"""A packed dataset as a source, so that it can be packed again with all that its index and manifest know.

Guaranteed: keys, labels, class names, columns and frames are those of the index, which must have its checksum;
a field whose bytes are not those that were packed is a SourceError.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import CorruptError, SourceChangedError, SourceError
from headrace.formats.keys import keep_key
from headrace.formats.pread import open_regular
from headrace.pack.index import FILE, KEY, LABEL, field_names, user_columns
from headrace.pack.index_reading import read_indexes
from headrace.pack.manifest import digest_manifest, find_dataset, read_manifest
from headrace.pack.stored import read_stored
from headrace.sample import Sample


@dataclass(frozen=True)
class PackedSource:
    """A `Source` over the samples of a dataset. Keeps its index in memory, about 100 bytes a sample.

    `digest` changes with anything in the dataset, whatever time its files claim.
    """

    root: Path
    index: pa.Table
    digest: str
    names: Sequence[str]
    sizes: np.ndarray
    mtimes: np.ndarray
    classes: Sequence[str] | None
    columns: pa.Schema
    ignored: Sequence[str] = ()

    def read(self, i: int) -> Sample:
        """The sample that the index describes, each field checked against its checksum."""
        (row,) = self.index.slice(i, 1).to_pylist()
        fields = self._read_fields(i, row)
        columns = {name: row[name] for name in self.columns.names}
        frames = {f: row[f"{f}.frames"] for f in fields if row.get(f"{f}.frames") is not None}
        return Sample(keep_key(row[KEY]), fields, row[LABEL], columns, frames=frames)

    def _read_fields(self, i: int, row: dict[str, Any]) -> dict[str, bytes]:
        try:
            fd = open_regular(self.root / row[FILE])
        except OSError as error:
            raise SourceError(f"{row[FILE]} cannot be read: {error.strerror}") from None
        try:
            if os.fstat(fd).st_mtime_ns != self.mtimes[i]:
                raise SourceChangedError(f"{row[FILE]} changed after the dataset was opened")
            names = [f for f in field_names(self.index.schema) if row[f"{f}.offset"] is not None]
            return {name: _read_field(fd, name, row) for name in names}
        finally:
            os.close(fd)


def open_packed(path: Path) -> PackedSource | None:
    """The dataset at `path` as a source, if it was packed, or is an index of data that lie elsewhere.

    None otherwise: also for data that were indexed where they lie, which may have grown since and
    are sources themselves.
    """
    folder = find_dataset(path)
    if folder is None:
        return None
    manifest = read_manifest(folder)
    root = folder / manifest.root
    is_beside = path == folder and root.resolve() == folder.resolve()
    if is_beside and "shard_size" not in manifest.recipe:
        return None
    index = read_indexes(folder, manifest.shards).combine_chunks()
    names = index[KEY].to_pylist()
    if not names:
        raise SourceError(f"{path}: no samples in it")
    sizes = [index[f"{field}.size"].fill_null(0) for field in field_names(index.schema)]
    return PackedSource(
        root=root,
        index=index,
        digest=digest_manifest(manifest),
        names=names,
        sizes=sum((size.to_numpy() for size in sizes), start=np.zeros(len(names), np.int64)),
        mtimes=_find_mtimes(root, index[FILE]),
        classes=manifest.classes,
        columns=pa.schema([index.schema.field(name) for name in user_columns(index.schema)]),
    )


def _find_mtimes(root: Path, files: pa.ChunkedArray) -> np.ndarray:
    """When the file of each sample last changed, 0 if it is missing."""
    known: dict[str, int] = {}
    for name in files.unique().to_pylist():
        try:
            known[name] = os.stat(root / name).st_mtime_ns
        except OSError:
            known[name] = 0
    return np.array([known[name] for name in files.to_pylist()], np.int64)


def _read_field(fd: int, name: str, row: dict[str, Any]) -> bytes:
    offset, size, checksum = (row[f"{name}.{part}"] for part in ("offset", "size", "crc32c"))
    try:
        return read_stored(fd, offset, size, checksum)
    except OSError as error:
        raise SourceError(f"{row[FILE]} cannot be read: {error.strerror}") from None
    except CorruptError as error:
        raise SourceError(
            f"{name} in {row[FILE]}: {error}; `headrace verify` lists what is wrong"
        ) from None
