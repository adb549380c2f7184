"""The hidden folder `.packing` inside a destination, where shards wait until all of them are done.

It belongs to a packer that is running or was killed. Each finished shard leaves a record of the
samples it was made from; the next pack reuses the shards whose record still matches.

Any number of processes may pack into one destination: one of them holds the lock, the others fail
with a PackError or find the finished dataset. No step assumes that a file seen before still exists.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import CorruptError, PackError, SourceError
from headrace.files.limits import read_file
from headrace.store.durable import sync_folder, write_durable
from headrace.store.field_kinds import read_kinds, write_kinds
from headrace.store.manifest import (
    MANIFEST,
    PACKING,
    FileRecord,
    Manifest,
    parse_shard,
    write_manifest,
)
from headrace.store.rejected import Rejected, write_rejected
from headrace.store.write_shard import ShardResult, shard_name
from headrace.work.file_lock import lock_exclusive, take_lock

LOCK = "lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_SHARD_FILE = re.compile(r"shard-(\d{6})\.(?:tar|seek|arrow|json)")


@dataclass(frozen=True)
class Finished:
    """A finished shard (None if all its samples were rejected), and its rejected samples."""

    plan: str
    result: ShardResult | None
    rejected: list[tuple[int, str]]


@contextmanager
def open_staging(destination: Path) -> Iterator[Path | None]:
    """Make the staging folder of `destination` and lock it against other packers.

    Yields the staging folder; None if another process has finished the dataset in the meantime.
    PackError if another process is packing into it, or it holds something else.
    """
    staged = destination / PACKING
    lock = take_lock(staged / LOCK, lambda: _open_lock(destination), destination, "packing")
    try:
        if (destination / MANIFEST).exists():
            remove_staging(staged)
            yield None
        else:
            yield staged
    finally:
        os.close(lock)
        with suppress(OSError):  # still in use; NFS removes an open file only when it is closed
            staged.rmdir()


def _open_lock(destination: Path) -> int:
    _check_destination(destination)
    staged = destination / PACKING
    staged.mkdir(parents=True, exist_ok=True)
    return os.open(staged / LOCK, _LOCK_FLAGS | os.O_CREAT, 0o644)


def clear_finished(destination: Path) -> None:
    """Remove the staging folder that a kill left beside a manifest, unless its packer is still running."""
    staged = destination / PACKING
    try:
        lock = os.open(staged / LOCK, _LOCK_FLAGS)
    except FileNotFoundError:
        with suppress(OSError):  # not there at all, or of the next packer
            staged.rmdir()
        return
    try:
        lock_exclusive(lock, blocking=False)
        remove_staging(staged)
    except (BlockingIOError, FileNotFoundError):  # its packer is removing it
        pass
    finally:
        os.close(lock)


def _check_destination(destination: Path) -> None:
    """Raise PackError unless `destination` is free, belongs to a packer, or holds a dataset."""
    if destination.is_symlink() and not destination.exists():
        raise PackError(f"{destination}: is a link to nowhere; remove it or choose another folder")
    if destination.exists() and not destination.is_dir():
        raise PackError(f"{destination}: exists and is not a folder")
    if (destination / PACKING).is_symlink():
        raise PackError(f"{destination / PACKING}: is a link; remove it or choose another folder")
    with suppress(FileNotFoundError):
        found = set(os.listdir(destination))
        if found and not found & {PACKING, MANIFEST}:
            raise PackError(
                f"{destination}: is not empty and was not made by packing; choose another folder"
            )


def load_finished(staged: Path, number: int, plan: str) -> Finished | None:
    """Return the record of a shard if it was made by the same `plan` and its files exist."""
    try:
        content = json.loads(read_file(staged / _record_name(number)))
        if content["plan"] != plan:
            return None
        finished = _parse_finished(content)
    except (OSError, CorruptError, SourceError, ValueError, KeyError, TypeError):
        return None
    if finished.result is None:
        return finished
    record = finished.result.record
    files = record.derived + ([record.data] if record.data else [])
    return finished if all(_is_there(staged, file) for file in files) else None


def forget_shard(staged: Path, number: int) -> None:
    """Remove a shard of another plan before its files are replaced, its record first.

    Otherwise a kill between the two could leave an old record beside a new file.
    """
    (staged / _record_name(number)).unlink(missing_ok=True)
    for folder in (staged, staged.parent):
        for suffix in (".arrow", ".seek", ".tar"):
            (folder / shard_name(number)).with_suffix(suffix).unlink(missing_ok=True)


def save_finished(staged: Path, number: int, finished: Finished) -> None:
    """Record that a shard is done."""
    content = asdict(finished)
    if finished.result is not None:
        content["result"]["field_kinds"] = write_kinds(finished.result.field_kinds)
    write_durable(staged / _record_name(number), json.dumps(content).encode())


def clear_stale(staged: Path, shards: int) -> None:
    """Remove what a different pack left and a pack of `shards` shards does not replace."""
    for entry in [*staged.iterdir(), *staged.parent.iterdir()]:
        number = _SHARD_FILE.fullmatch(entry.name)
        if entry.name.endswith(".tmp") or (number and int(number[1]) >= shards):
            entry.unlink(missing_ok=True)


def publish(staged: Path, manifest: Manifest, rejected: Rejected = ()) -> None:
    """Move the finished shards out of the staging folder and remove it; with the manifest, the dataset exists."""
    destination = staged.parent
    for shard in manifest.shards:
        for file in (shard.data, shard.seek, shard.index):
            if file is not None and (staged / file.file).exists():
                os.replace(staged / file.file, destination / file.file)
    sync_folder(destination)
    write_rejected(destination, rejected)
    write_manifest(manifest, destination / MANIFEST)
    remove_staging(staged)


def remove_staging(staged: Path) -> None:
    """Remove a locked staging folder, the lock last: whoever makes a new one then keeps it."""
    for entry in staged.iterdir():
        if entry.name != LOCK:
            entry.unlink(missing_ok=True)
    (staged / LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # not empty: of the next packer
        staged.rmdir()


def abandon_staging(staged: Path) -> None:
    """Remove everything a failed pack has made, the destination too if nothing else is in it."""
    clear_stale(staged, 0)
    remove_staging(staged)
    with suppress(OSError):  # not empty, or of the next packer
        staged.parent.rmdir()


def _record_name(number: int) -> str:
    return f"shard-{number:06d}.json"


def _is_there(staged: Path, file: FileRecord) -> bool:
    if "/" in file.file:  # a record that somebody else wrote
        return False
    places = (staged / file.file, staged.parent / file.file)
    return any(place.is_file() and place.stat().st_size == file.bytes for place in places)


def _parse_finished(content: dict[str, Any]) -> Finished:
    result = content["result"]
    if result is not None:
        kinds = read_kinds(result["field_kinds"], optional=True)
        record = parse_shard(result["record"])
        result = ShardResult(record, result["fields"], result["kinds"], kinds)
    rejected = [(int(row), str(reason)) for row, reason in content["rejected"]]
    return Finished(content["plan"], result, rejected)
