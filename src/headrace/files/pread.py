"""Regular files, read by offset. One system call reads at most 2 GiB; these functions read everything."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from headrace.errors import SourceChangedError

T = TypeVar("T")


def pread_into(fd: int, memory: memoryview, offset: int) -> int:
    """Fill `memory` from `offset` of a file; return how many bytes there were before its end."""
    done = 0
    while done < len(memory):
        got = os.preadv(fd, [memory[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done


def pread_all(fd: int, size: int, offset: int) -> bytes:
    """Return `size` bytes at `offset` of a file, or fewer where the file ends."""
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    memory = bytearray(size)
    memory[: len(data)] = data
    done = len(data) + pread_into(fd, memoryview(memory)[len(data) :], offset + len(data))
    return bytes(memory[:done])


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file, or a link to one, for reading; return a descriptor that the caller closes.

    OSError if it cannot be opened, or is a folder, pipe, socket or device (EINVAL). Never waits.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket, or a device without a driver
            raise
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return fd


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[int]:
    """Yield a descriptor of a regular file, closed when the block is left; see `open_regular`."""
    fd = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


def retry_stale(read: Callable[[], T]) -> T:
    """Return what `read` returns; call it once more if NFS says that a file handle is stale.

    That happens when the server replaced a file of the same name; opened again, it is found.
    """
    try:
        return read()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    return read()


def open_unchanged(path: Path, size: int, mtime: int) -> int:
    """Open a file that still has this size and this time in nanoseconds; the caller closes it."""
    try:
        fd = open_regular(path)
    except OSError as error:
        raise SourceChangedError(f"{path}: {error.strerror}") from None
    info = os.fstat(fd)
    if (info.st_size, info.st_mtime_ns) != (size, mtime):
        os.close(fd)
        raise SourceChangedError(f"{path}: changed after it was opened")
    return fd
