"""The hidden folder `.packing` inside a destination, where shards wait until all of them are done.

It belongs to a packer that is running or was killed. Each finished shard leaves a record of the
samples it was made from; the next run reuses the shards whose record still fits.

Any number of processes may pack into one destination: one of them holds the lock, the others fail
with a PackError or find the finished dataset. No step assumes that a file seen before is still there.
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

from headrace.errors import PackError, SourceError
from headrace.formats.limits import read_file
from headrace.formats.unfinished import PACKING
from headrace.pack.durable import sync_folder, write_durable
from headrace.pack.locking import lock_exclusive, take_lock
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import FileRecord, ShardRecord
from headrace.pack.shard import ShardResult, shard_name

FOLDER = PACKING
LOCK = "lock"
_LOCK_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_SHARD_FILE = re.compile(r"shard-(\d{6})\.(?:tar|seek|arrow|json)")


@dataclass(frozen=True)
class Finished:
    """A shard that is done (None if all its samples were rejected), and what was rejected."""

    plan: str
    result: ShardResult | None
    rejected: list[tuple[int, str]]


@contextmanager
def open_workshop(destination: Path) -> Iterator[Path | None]:
    """Make the workshop of `destination` and lock it against other packers.

    Yields the workshop; None if another process has finished the dataset in the meantime.

    Raises:
        PackError: Another process is packing into it, or it holds something else.
    """
    workshop = destination / FOLDER
    lock = take_lock(workshop / LOCK, lambda: _open_lock(destination), destination, "packing")
    try:
        if (destination / MANIFEST).exists():
            remove_workshop(workshop)
            yield None
        else:
            yield workshop
    finally:
        os.close(lock)
        with suppress(OSError):  # still in use; NFS removes an open file only when it is closed
            workshop.rmdir()


def _open_lock(destination: Path) -> int:
    _check_destination(destination)
    workshop = destination / FOLDER
    workshop.mkdir(parents=True, exist_ok=True)
    return os.open(workshop / LOCK, _LOCK_FLAGS | os.O_CREAT, 0o644)


def clear_finished(destination: Path) -> None:
    """Remove the workshop that a kill left beside a manifest, unless its packer is still running."""
    workshop = destination / FOLDER
    try:
        lock = os.open(workshop / LOCK, _LOCK_FLAGS)
    except FileNotFoundError:
        with suppress(OSError):  # not there at all, or of the next packer
            workshop.rmdir()
        return
    try:
        lock_exclusive(lock, blocking=False)
        remove_workshop(workshop)
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
    if (destination / FOLDER).is_symlink():
        raise PackError(f"{destination / FOLDER}: is a link; remove it or choose another folder")
    with suppress(FileNotFoundError):
        found = set(os.listdir(destination))
        if found and not found & {FOLDER, MANIFEST}:
            raise PackError(
                f"{destination}: is not empty and was not made by packing; choose another folder"
            )


def load_finished(workshop: Path, number: int, plan: str) -> Finished | None:
    """The record of a shard, if it was made by the same `plan` and its files are there."""
    try:
        content = json.loads(read_file(workshop / _record_name(number)))
        if content["plan"] != plan:
            return None
        finished = _parse_finished(content)
    except (OSError, SourceError, ValueError, KeyError, TypeError):
        return None
    if finished.result is None:
        return finished
    record = finished.result.record
    files = record.derived + ([record.data] if record.data else [])
    return finished if all(_is_there(workshop, file) for file in files) else None


def forget_shard(workshop: Path, number: int) -> None:
    """Removes a shard of another plan before its files are replaced, its record first.

    Otherwise a kill between the two could leave an old record beside a new file.
    """
    (workshop / _record_name(number)).unlink(missing_ok=True)
    for folder in (workshop, workshop.parent):
        for suffix in (".arrow", ".seek", ".tar"):
            (folder / shard_name(number)).with_suffix(suffix).unlink(missing_ok=True)


def save_finished(workshop: Path, number: int, finished: Finished) -> None:
    """Notes that a shard is done."""
    write_durable(workshop / _record_name(number), json.dumps(asdict(finished)).encode())


def clear_stale(workshop: Path, shards: int) -> None:
    """Remove what an earlier, different pack left and this one of `shards` shards does not replace."""
    for entry in [*workshop.iterdir(), *workshop.parent.iterdir()]:
        number = _SHARD_FILE.fullmatch(entry.name)
        if entry.name.endswith(".tmp") or (number and int(number[1]) >= shards):
            entry.unlink(missing_ok=True)


def publish(workshop: Path, results: list[ShardResult]) -> None:
    """Move the finished shards out of the workshop. The manifest is written after that."""
    destination = workshop.parent
    for result in results:
        for file in (result.record.data, result.record.seek, result.record.index):
            if file is not None and (workshop / file.file).exists():
                os.replace(workshop / file.file, destination / file.file)
    sync_folder(destination)


def remove_workshop(workshop: Path) -> None:
    """Remove a locked workshop, the lock last: whoever makes a new one then keeps it."""
    for entry in workshop.iterdir():
        if entry.name != LOCK:
            entry.unlink(missing_ok=True)
    (workshop / LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # not empty: of the next packer
        workshop.rmdir()


def abandon_workshop(workshop: Path) -> None:
    """Remove everything a failed pack has made, the destination too if nothing else is in it."""
    clear_stale(workshop, 0)
    remove_workshop(workshop)
    with suppress(OSError):  # not empty, or of the next packer
        workshop.parent.rmdir()


def _record_name(number: int) -> str:
    return f"shard-{number:06d}.json"


def _is_there(workshop: Path, file: FileRecord) -> bool:
    if "/" in file.file:  # a record that somebody else wrote
        return False
    places = (workshop / file.file, workshop.parent / file.file)
    return any(place.is_file() and place.stat().st_size == file.bytes for place in places)


def _parse_finished(content: dict[str, Any]) -> Finished:
    result = content["result"]
    if result is not None:
        record = result["record"]
        seek = record["seek"]
        shard = ShardRecord(
            record["samples"],
            FileRecord(**record["index"]),
            None if seek is None else FileRecord(**seek),
            FileRecord(**record["data"]),
        )
        result = ShardResult(shard, result["fields"], result["kinds"])
    rejected = [(int(row), str(reason)) for row, reason in content["rejected"]]
    return Finished(content["plan"], result, rejected)
