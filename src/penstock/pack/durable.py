"""Files and folders that exist whole or not at all: written under a temporary name, synced, renamed."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import PackError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temporary_name(path: Path) -> Path:
    """Where the bytes of `path` lie until they are all there."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def named_if_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lets the error of a full disk say what was being written, which the system does not."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL and error.filename is None:
            error.filename = os.fspath(path)
        raise


def write_synced(path: Path, data: bytes) -> None:
    """Writes a file that is not there yet, and waits until it is on the disk."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_durable(path: Path, data: bytes) -> None:
    """Replaces `path` by `data` at one stroke, whoever else may be writing it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with named_if_full(path):
            write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def new_place(out: Path) -> Iterator[Path]:
    """A temporary path that becomes `out` at the end, and is removed if anything goes wrong.

    PackError if the name is taken, but for an empty folder.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise PackError(f"{out}: exists already; choose another name")
    try:
        out = out.resolve()  # behind a link lies the empty folder whose place is taken
    except (OSError, RuntimeError) as error:  # a link to itself
        raise PackError(f"{out}: {error}") from None
    if out.is_mount():
        raise PackError(f"{out}: a mount point cannot be replaced; choose a folder in it")
    out.parent.mkdir(parents=True, exist_ok=True)
    place = temporary_name(out)
    if place.exists():
        raise PackError(f"{place}: left by a run that was stopped; remove it")
    try:
        with named_if_full(out):
            yield place
        if out.exists():
            out.rmdir()
        os.rename(place, out)
        sync_folder(out.parent)
    except BaseException:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        raise
