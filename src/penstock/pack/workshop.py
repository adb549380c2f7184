"""The hidden folder `.packing` inside a destination, where shards wait until all of them are done.

What is in it belongs to a pack that is under way or was killed. Each finished shard leaves a record
of the samples that it was made from; the next run takes over the shards whose record still fits.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PackError
from penstock.pack.durable import sync_folder, write_durable
from penstock.pack.manifest import FileRecord, ShardRecord
from penstock.pack.shard import ShardResult, shard_name

FOLDER = ".packing"
_SHARD_FILE = re.compile(r"shard-(\d{6})\.(?:tar|seek|arrow|json)")


@dataclass(frozen=True)
class Finished:
    """A shard that is done (None if all its samples were rejected), and what was rejected."""

    plan: str
    result: ShardResult | None
    rejected: list[tuple[int, str]]


@contextmanager
def open_workshop(destination: Path) -> Iterator[Path]:
    """The workshop of `destination`, made if need be, and held against a second packer."""
    if destination.is_symlink() and not destination.exists():
        raise PackError(f"{destination}: is a link to nowhere; remove it or choose another folder")
    if destination.exists() and not destination.is_dir():
        raise PackError(f"{destination}: exists and is not a folder")
    workshop = destination / FOLDER
    if destination.is_dir() and not workshop.exists() and any(destination.iterdir()):
        raise PackError(
            f"{destination}: is not empty and was not made by packing; choose another folder"
        )
    workshop.mkdir(parents=True, exist_ok=True)
    lock = os.open(workshop / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PackError(f"{destination}: another process is packing into it") from None
        yield workshop
    finally:
        os.close(lock)


def load_finished(workshop: Path, number: int, plan: str) -> Finished | None:
    """The record of a shard, if it was made by the same `plan` and its files are there."""
    try:
        content = json.loads((workshop / _record_name(number)).read_bytes())
        if content["plan"] != plan:
            return None
        finished = _parse_finished(content)
    except (OSError, ValueError, KeyError, TypeError):
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
    """Removes what an earlier, different pack left and this one of `shards` shards will not replace."""
    for entry in [*workshop.iterdir(), *workshop.parent.iterdir()]:
        number = _SHARD_FILE.fullmatch(entry.name)
        if entry.name.endswith(".tmp") or (number and int(number[1]) >= shards):
            entry.unlink()


def publish(workshop: Path, results: list[ShardResult]) -> None:
    """Moves the finished shards out of the workshop. The manifest is still to come."""
    destination = workshop.parent
    for result in results:
        for file in (result.record.data, result.record.seek, result.record.index):
            if file is not None and (workshop / file.file).exists():
                os.replace(workshop / file.file, destination / file.file)
    sync_folder(destination)


def remove_workshop(workshop: Path) -> None:
    """Ends a pack that went well."""
    shutil.rmtree(workshop)


def abandon_workshop(workshop: Path) -> None:
    """Ends a pack that came to nothing: what it had made is removed, and so is an empty destination."""
    clear_stale(workshop, 0)
    shutil.rmtree(workshop)
    if not any(workshop.parent.iterdir()):
        workshop.parent.rmdir()


def _record_name(number: int) -> str:
    return f"shard-{number:06d}.json"


def _is_there(workshop: Path, file: FileRecord) -> bool:
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
