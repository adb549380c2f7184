"""Checks a dataset on disk: every byte against its checksum, every shard against the manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from headrace.errors import CorruptError
from headrace.files.pread import open_file
from headrace.store.index_reader import read_index
from headrace.store.index_schema import sum_frames
from headrace.store.manifest import FileRecord, Manifest, ShardRecord, read_manifest, record_file
from headrace.store.rows import StoredField, read_field, read_rows
from headrace.work.cancellable import run_cancellable, until_cancelled
from headrace.work.progress import ProgressCallback, ProgressCounter


@dataclass(frozen=True)
class Problem:
    """Something that is not as it was written. `key` and `offset` are set if it concerns one sample."""

    shard: str
    reason: str
    key: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = "" if self.key is None else f", {self.key!r} at byte {self.offset}"
        return f"{self.shard}{place}: {self.reason}"


def verify_dataset(
    path: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: ProgressCallback | None = None,
) -> list[Problem]:
    """Check every byte of a dataset against its checksums.

    Args:
        path: The folder of a packed or indexed dataset.
        workers: Number of threads. Default: one per core.
        progress: Called as work gets done, from worker threads, one at a time.

    Returns:
        All problems; empty if the dataset is intact.

    Raises:
        CorruptError: There is no readable manifest to compare with.
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such dataset")
    manifest = read_manifest(folder)
    counter = ProgressCounter(manifest.samples, manifest.bytes, progress)

    def check(shard: ShardRecord) -> list[Problem]:
        problems = list(_check_shard(folder, folder / manifest.root, shard))
        counter.add(shard.samples, shard.data.bytes if shard.data else 0)
        return problems

    found = run_cancellable(check, manifest.shards, workers)
    return [problem for problems in found for problem in problems]


def find_damaged(folder: Path, manifest: Manifest) -> Problem | None:
    """Return the first file of a dataset that is missing or has another size, if there is one."""
    for shard in manifest.shards:
        for place, record in _list_files(folder, folder / manifest.root, shard):
            for problem in check_file(place, record, content=False):
                return problem
    return None


def _list_files(folder: Path, root: Path, shard: ShardRecord) -> list[tuple[Path, FileRecord]]:
    """Return the files of a shard with the folders they lie in, the index last."""
    records = [(root, shard.data), (folder, shard.seek), (folder, shard.index)]
    return [(place, record) for place, record in records if record is not None]


def _check_shard(folder: Path, root: Path, shard: ShardRecord) -> Iterator[Problem]:
    name = shard.data.file if shard.data else shard.index.file
    problems: list[Problem] = []
    for place, record in _list_files(folder, root, shard):
        problems = list(check_file(place, record))
        yield from problems
    if problems:  # the index is damaged, so that samples cannot be compared with it
        return
    try:
        table = read_index(folder, shard)
    except (CorruptError, OSError) as error:
        yield Problem(name, str(error))
        return
    yield from _check_rows(root, name, table)


def check_file(folder: Path, record: FileRecord, *, content: bool = True) -> Iterator[Problem]:
    """Yield the problem of a file that is missing, or has another size or, if asked, SHA-256."""
    path = folder / record.file
    if not path.is_file():
        reason = "is not a regular file" if path.exists() else "the file is missing"
        yield Problem(record.file, reason)
        return
    size = path.stat().st_size
    if size != record.bytes:
        yield Problem(record.file, f"{size} bytes, the manifest says {record.bytes}")
        return
    if not content or record.sha256 is None:
        return
    try:
        if record_file(path, record.file) != record:
            yield Problem(record.file, "its SHA-256 is not the one in the manifest")
    except OSError as error:
        yield Problem(record.file, f"cannot be read: {error.strerror}")


def _check_rows(root: Path, shard: str, table: pa.Table) -> Iterator[Problem]:
    for file, group in groupby(read_rows(table), key=attrgetter("file")):
        with ExitStack() as stack:
            fd, trouble = -1, None
            try:
                fd = stack.enter_context(open_file(root / file))
            except OSError as error:
                trouble = _describe(error)
            for row in group:
                for name, field in until_cancelled(row.fields.items()):
                    if reason := trouble or _find_fault(fd, field):
                        yield Problem(shard, f"{name}: {reason}", row.key, field.offset)


def _find_fault(fd: int, field: StoredField) -> str | None:
    """Return why the bytes of a field are not as they were written, if they are not."""
    try:
        data = read_field(fd, field)
    except OSError as error:
        return _describe(error)
    except CorruptError as error:
        return str(error)
    is_whole = field.frames is None or sum_frames(data, field.frames) == field.frame_crc32c
    return None if is_whole else "its frames do not have their CRC-32C"


def _describe(error: OSError) -> str:
    missing = isinstance(error, FileNotFoundError)
    return "the file is missing" if missing else f"cannot be read: {error.strerror}"
