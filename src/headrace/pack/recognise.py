"""Whether a finished dataset is still there, and its source still what it was packed from.

Guaranteed: an image file that was written, or moved into its place, after the dataset was finished is compared
by its content, whatever time it claims; one that was merely touched does no harm. Samples in tars, databases and
tables are compared if the time of their file is later: label and columns too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.errors import SourceError
from headrace.formats.files import ImageFiles
from headrace.formats.source import Source
from headrace.pack.cores import count_cores
from headrace.pack.describe import Described, shard_fields
from headrace.pack.index import KEY, field_names
from headrace.pack.index_reading import read_indexes
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import Manifest


def find_changed(
    source: Source,
    read: Callable[[int], Described],
    destination: Path,
    manifest: Manifest,
    rejected: Collection[str],
) -> str | None:
    """The name of a sample that is not what was packed, if there is one.

    `read` gives a row as it is packed; `rejected` are the names that could not be.
    """
    finished = (destination / MANIFEST).stat().st_mtime_ns
    doubtful = np.flatnonzero(_find_changes(source) >= finished).tolist()
    if not doubtful:
        return None
    packed = _read_checksums(destination, manifest)

    def is_same(row: int) -> bool:
        try:
            sample = read(row).sample
        except SourceError:
            return source.names[row] in rejected
        return packed.get(sample.key) == {
            f: crc32c(data) for f, data in shard_fields(sample).items()
        }

    with ThreadPoolExecutor(count_cores()) as pool:
        for row, same in zip(doubtful, pool.map(is_same, doubtful), strict=True):
            if not same:
                pool.shutdown(cancel_futures=True)
                return source.names[row]
    return None


def find_damaged(folder: Path, manifest: Manifest) -> str | None:
    """What is wrong with a file of the dataset that is gone or has another size, if there is one."""
    for shard in manifest.shards:
        places = [(folder, record) for record in shard.derived]
        if shard.data is not None:
            places.append((folder / manifest.root, shard.data))
        for place, record in places:
            path = place / record.file
            if not path.is_file():
                return f"{record.file} is missing"
            if (size := path.stat().st_size) != record.bytes:
                return f"{record.file} has {size} bytes, the manifest says {record.bytes}"
    return None


def _find_changes(source: Source) -> NDArray[np.int64]:
    """When each sample last changed. What is moved into place keeps its mtime, but not its ctime."""
    if not isinstance(source, ImageFiles):
        return source.mtimes
    paths = [source.root / name for name in source.names]
    ctimes = np.array([_find_ctime(path) for path in paths], np.int64)
    changes: NDArray[np.int64] = np.maximum(source.mtimes, ctimes)
    return changes


def _find_ctime(path: Path) -> int:
    """That of a file, or of the link to it."""
    try:
        return max(os.stat(path).st_ctime_ns, os.lstat(path).st_ctime_ns)
    except OSError:
        return 0


def _read_checksums(destination: Path, manifest: Manifest) -> dict[str, dict[str, int]]:
    """The checksums of the fields that each sample has, by its key."""
    table = read_indexes(destination, manifest.shards)
    fields = field_names(table.schema)
    columns = [table[f"{field}.crc32c"].to_pylist() for field in fields]
    sums = (
        {field: crc for field, crc in zip(fields, row, strict=True) if crc is not None}
        for row in zip(*columns, strict=True)
    )
    return dict(zip(table[KEY].to_pylist(), sums, strict=True))
