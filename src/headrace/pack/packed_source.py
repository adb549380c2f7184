"""A packed dataset as a source, so that it can be packed again with everything in its index and manifest.

Guaranteed: keys, labels, class names, columns and frames come from the index, whose checksum is
verified; a field whose bytes have changed is a SourceError.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import CorruptError, SourceChangedError, SourceError
from headrace.files.limits import blame_file
from headrace.kinds import Kind
from headrace.sample import Sample
from headrace.store.index_reader import read_indexes
from headrace.store.index_schema import FILE, KEY, field_names, user_columns
from headrace.store.keys import keep_key
from headrace.store.manifest import digest_manifest, find_dataset, read_manifest
from headrace.store.rows import read_fields, read_row


@dataclass(frozen=True)
class PackedSource:
    """A `Source` over the samples of a dataset. Keeps its index in memory, about 100 bytes per sample.

    `digest` changes with anything in the dataset, whatever the times of its files.
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
    field_kinds: Mapping[str, Kind] = field(default_factory=dict)

    def read(self, i: int) -> Sample:
        """Return sample `i` as the index describes it, each field checked against its checksum."""
        row = read_row(self.index, i)
        with blame_file(row.file):
            if os.stat(self.root / row.file).st_mtime_ns != self.mtimes[i]:
                raise SourceChangedError(f"{row.file} changed after the dataset was opened")
        try:
            sample = row.make_sample(read_fields(self.root, row, row.fields))
        except CorruptError as error:
            raise SourceError(f"{error}; `headrace verify` lists what is wrong") from None
        return replace(sample, key=keep_key(row.key))


def open_packed(path: Path) -> PackedSource | None:
    """Return the dataset at `path` as a source if it was packed, or is an index of data elsewhere.

    Data that were indexed in place are sources themselves and may have grown since: None.
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
        raise SourceError(f"{path}: the dataset has no samples")
    sizes = [index[f"{name}.size"].fill_null(0) for name in field_names(index.schema)]
    return PackedSource(
        root=root,
        index=index,
        digest=digest_manifest(manifest),
        names=names,
        sizes=sum((size.to_numpy() for size in sizes), start=np.zeros(len(names), np.int64)),
        mtimes=_find_mtimes(root, index[FILE]),
        classes=manifest.classes,
        columns=pa.schema([index.schema.field(name) for name in user_columns(index.schema)]),
        field_kinds=manifest.field_kinds,
    )


def _find_mtimes(root: Path, files: pa.ChunkedArray) -> np.ndarray:
    """Return when the file of each sample last changed, 0 if it is missing."""
    known: dict[str, int] = {}
    for name in files.unique().to_pylist():
        try:
            known[name] = os.stat(root / name).st_mtime_ns
        except OSError:
            known[name] = 0
    return np.array([known[name] for name in files.to_pylist()], np.int64)
