"""Atomic writes of files and folders: under a temporary name, synced, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import PackError

_ELSEWHERE = "choose another destination, or remove the file that is in the way"
_ADVICE = {
    errno.ENAMETOOLONG: "choose a shorter path",
    errno.ENOTDIR: _ELSEWHERE,
    errno.EISDIR: _ELSEWHERE,
    errno.EACCES: "choose a destination that you may write to",
    errno.EPERM: "choose a destination that you may write to",
    errno.EROFS: "choose a destination that can be written to",
}
"""Advice for errors that the same command would meet again."""
_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def sync_folder(folder: Path) -> None:
    """Sync the names in `folder` to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        with named_if_full(folder):
            os.fsync(fd)
    finally:
        os.close(fd)


def temporary_name(path: Path) -> Path:
    """Return the name under which `path` is written until it is complete."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def named_if_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path that was being written to the error of a full or failing disk, which lacks it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FAILED and error.filename is None:
            error.filename = os.fspath(path)
        raise


@contextmanager
def as_pack_error(doing: str, advice: str, below: Path | None = None) -> Iterator[None]:
    """Turn an error of the operating system into a PackError: `packing stopped: ...; advice`.

    With `below`, only errors of files in that folder: others come from the caller's own code.
    """
    try:
        yield
    except OSError as error:
        if below is not None and not str(error.filename).startswith(str(below)):
            raise
        if error.errno in _ADVICE:
            advice = _ADVICE[error.errno]
        raise PackError(f"{doing} stopped: {error}; {advice}") from error


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_durable(path: Path, data: bytes) -> None:
    """Replace `path` by `data` atomically, also while other processes write it."""
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
    """Yield a temporary path that becomes `out` at the end, and is removed if anything goes wrong.

    PackError if `out` exists and is not an empty folder, or another process is writing it.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise PackError(f"{out}: exists already; choose another name")
    try:
        out = out.resolve()  # a link to an empty folder, which is replaced
    except (OSError, RuntimeError) as error:  # a link to itself
        raise PackError(f"{out}: {error}") from None
    if out.is_mount():
        raise PackError(f"{out}: a mount point cannot be replaced; choose a folder in it")
    out.parent.mkdir(parents=True, exist_ok=True)
    place = temporary_name(out)
    if os.path.lexists(place):  # also a dangling link, which must not be followed
        raise PackError(f"{place}: left by an export that was stopped; remove it")
    try:
        with named_if_full(out):
            yield place
        if out.exists():
            out.rmdir()
        os.rename(place, out)
        sync_folder(out.parent)
    except BaseException as error:
        if isinstance(error, FileExistsError) and error.filename == os.fspath(place):
            raise PackError(f"{place}: another process is writing it") from None
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        raise
