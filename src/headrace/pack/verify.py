"""Checks a dataset on disk: every byte against its checksum, every shard against the manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.errors import CorruptError
from headrace.formats.pread import open_regular
from headrace.pack.index import FILE, KEY, field_names, sum_frames
from headrace.pack.index_reading import read_index
from headrace.pack.manifest import FileRecord, ShardRecord, read_manifest, record_file
from headrace.pack.parts import run_parts, while_wanted
from headrace.pack.progress import ProgressCounter, Watcher
from headrace.pack.stored import read_stored
from headrace.sample import is_video_field

if TYPE_CHECKING:
    from typing_extensions import Self


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
    """Everything that is wrong with the dataset, nothing if it is whole.

    CorruptError if there is no readable manifest to compare with.
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such dataset")
    manifest = read_manifest(folder)
    progress = ProgressCounter(manifest.samples, manifest.bytes, watcher)

    def check(shard: ShardRecord) -> list[Problem]:
        problems = list(_check_shard(folder, folder / manifest.root, shard))
        progress.add(shard.samples, shard.data.bytes if shard.data else 0)
        return problems

    return [problem for part in run_parts(check, manifest.shards, workers) for problem in part]


def _check_shard(folder: Path, root: Path, shard: ShardRecord) -> Iterator[Problem]:
    name = shard.data.file if shard.data else shard.index.file
    if shard.data is not None:
        yield from check_file(root, shard.data)
    if shard.seek is not None:
        yield from check_file(folder, shard.seek)
    problems = list(check_file(folder, shard.index))
    if problems:  # then it is no measure for the samples
        yield from problems
        return
    try:
        table = read_index(folder, shard)
    except (CorruptError, OSError) as error:
        yield Problem(name, str(error))
        return
    for field in field_names(table.schema):
        yield from _check_field(root, name, table, field)


def check_file(folder: Path, record: FileRecord) -> Iterator[Problem]:
    """What is wrong with a file as a whole: it is missing, or has another size or SHA-256."""
    path = folder / record.file
    if not path.is_file():
        reason = "is not a regular file" if path.exists() else "the file is missing"
        yield Problem(record.file, reason)
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
    names = ["offset", "size", "crc32c"]
    names += ["frames", "frame_crc32c"] if is_video_field(field) else []
    columns = (KEY, FILE, *(f"{field}.{name}" for name in names))
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    with _OpenFile(root) as opened:
        for key, file, offset, size, expected, *frames in while_wanted(rows):
            if offset is None:
                continue
            try:
                data = read_stored(opened.get(file), offset, size, expected)
                if frames and frames[0] is not None and sum_frames(data, frames[0]) != frames[1]:
                    raise CorruptError("its frames do not have their CRC-32C")
            except FileNotFoundError:
                yield Problem(shard, f"{field}: the file is missing", key, offset)
            except OSError as error:
                yield Problem(shard, f"{field}: cannot be read: {error.strerror}", key, offset)
            except CorruptError as error:
                yield Problem(shard, f"{field}: {error}", key, offset)


class _OpenFile:
    """The file that was asked for last, open; a context manager that closes it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name: str | None = None
        self._fd = -1

    def get(self, name: str) -> int:
        """Return a descriptor of the file, opened unless it is open already."""
        if name != self._name:
            self.close()
            self._fd = open_regular(self._root / name)
            self._name = name
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._name = -1, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
