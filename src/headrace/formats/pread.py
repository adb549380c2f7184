"""Reading files by offset: that they are still what they were, and a stretch whole, of which a system call reads 2 GiB."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from headrace.errors import SourceChangedError


def pread_into(fd: int, memory: memoryview, offset: int) -> int:
    """Fills `memory` from `offset` of a file as far as the file goes; how many bytes there were."""
    done = 0
    while done < len(memory):
        got = os.preadv(fd, [memory[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done


def pread_all(fd: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset` of a file, or as many as there are."""
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    memory = bytearray(size)
    memory[: len(data)] = data
    done = len(data) + pread_into(fd, memoryview(memory)[len(data) :], offset + len(data))
    return bytes(memory[:done])


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading; never wait for the other end of a pipe.

    Args:
        path: A file, or a link to one.

    Returns:
        A descriptor (O_RDONLY, O_CLOEXEC, O_NONBLOCK), to be closed by the caller.

    Raises:
        OSError: The file cannot be opened, or is a folder, pipe, socket or device (EINVAL).
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


def open_unchanged(path: Path, size: int, mtime: int) -> int:
    """A descriptor, to be closed by the caller, of a file that still has this size and time in nanoseconds."""
    try:
        fd = open_regular(path)
    except OSError as error:
        raise SourceChangedError(f"{path}: {error.strerror}") from None
    info = os.fstat(fd)
    if (info.st_size, info.st_mtime_ns) != (size, mtime):
        os.close(fd)
        raise SourceChangedError(f"{path}: changed after it was opened")
    return fd
