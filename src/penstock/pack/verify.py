"""Checks a data set on disk: every byte against its checksum, every shard against the manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock._core import crc32c
from penstock.errors import CorruptError
from penstock.formats.pread import pread_all
from penstock.pack.index import FILE, KEY, field_names, read_index
from penstock.pack.manifest import FileRecord, ShardRecord, read_manifest, record_file
from penstock.pack.parts import run_parts, while_wanted
from penstock.pack.progress import ProgressCounter, Watcher


@dataclass(frozen=True)
class Problem:
    """Something that is not as it was written. `key` and `offset` where one sample is concerned."""

    shard: str
    reason: str
    key: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = "" if self.key is None else f", {self.key!r} at byte {self.offset}"
        return f"{self.shard}{place}: {self.reason}"


def verify_dataset(
    path: str | os.PathLike[str], *, workers: int | None = None, watcher: Watcher | None = None
) -> list[Problem]:
    """Everything that is wrong with the data set, nothing if it is whole.

    CorruptError if there is no readable manifest to compare with.
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such data set")
    manifest = read_manifest(folder)
    progress = ProgressCounter(manifest.samples, manifest.bytes, watcher)

    def check(shard: ShardRecord) -> list[Problem]:
        problems = list(_check_shard(folder, folder / manifest.root, shard))
        progress.add(shard.samples, shard.data.bytes if shard.data else 0)
        return problems

    return [problem for part in run_parts(check, manifest.shards, workers) for problem in part]


def _check_shard(folder: Path, root: Path, shard: ShardRecord) -> Iterator[Problem]:
    name = shard.data.file if shard.data else shard.index.file
    yield from check_file(folder, shard.index)
    if shard.data is not None:
        yield from check_file(root, shard.data)
    try:
        table = read_index(folder / shard.index.file, rows=shard.samples, data=shard.data)
    except (CorruptError, OSError) as error:
        yield Problem(name, str(error))
        return
    for field in field_names(table.schema):
        yield from _check_field(root, name, table, field)


def check_file(folder: Path, record: FileRecord) -> Iterator[Problem]:
    """What is wrong with a file as a whole: it is missing, or has another size or SHA-256."""
    path = folder / record.file
    if not path.is_file():
        yield Problem(record.file, "the file is missing")
        return
    size = path.stat().st_size
    if size != record.bytes:
        yield Problem(record.file, f"{size} bytes, the manifest says {record.bytes}")
        return
    try:
        same = record.sha256 is None or record_file(path, record.file) == record
    except OSError as error:
        yield Problem(record.file, f"cannot be read: {error.strerror}")
        return
    if not same:
        yield Problem(record.file, "its SHA-256 is not the one in the manifest")


def _check_field(root: Path, shard: str, table: pa.Table, field: str) -> Iterator[Problem]:
    columns = (KEY, FILE, f"{field}.offset", f"{field}.size", f"{field}.crc32c")
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    last, fd = None, -1
    try:
        for key, file, offset, size, expected in while_wanted(rows):
            if offset is None:
                continue
            if file != last:
                fd, last = _reopen(fd, root / file), file
            reason = _check_bytes(fd, offset, size, expected)
            if reason:
                yield Problem(shard, f"{field}: {reason}", key, offset)
    finally:
        if fd >= 0:
            os.close(fd)


def _reopen(fd: int, path: Path) -> int:
    if fd >= 0:
        os.close(fd)
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _check_bytes(fd: int, offset: int, size: int, expected: int) -> str | None:
    if fd < 0:
        return "the file is missing"
    # A size that lies is bounded by the file: nothing is allocated beyond it.
    available = max(0, os.fstat(fd).st_size - offset)
    try:
        data = pread_all(fd, min(size, available), offset)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if len(data) < size:
        return f"{size} bytes, of which {len(data)} are there"
    if crc32c(data) != expected:
        return "its bytes are not those that were packed (CRC-32C)"
    return None
