"""The bytes of a field as its index describes them: read whole, from a regular file, and checked."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from headrace._core import crc32c
from headrace.errors import CorruptError
from headrace.formats.pread import pread_all

T = TypeVar("T")
CHANGED = "its bytes are not those that were indexed (CRC-32C)"


def read_stored(fd: int, offset: int, size: int, checksum: int) -> bytes:
    """Return the bytes of a field.

    Raises:
        CorruptError: The file ends before the field does, or its CRC-32C is another one.
        OSError: The file cannot be read.
    """
    available = max(0, os.fstat(fd).st_size - offset)
    if available < size:  # before memory is taken: the size may be wrong on purpose
        raise CorruptError(describe_short(size, offset, available))
    data = pread_all(fd, size, offset)
    if len(data) < size:  # cut short since
        raise CorruptError(describe_short(size, offset, len(data)))
    if crc32c(data) != checksum:
        raise CorruptError(CHANGED)
    return data


def describe_short(size: int, offset: int, available: int) -> str:
    """Say that a file ends before its field does."""
    return f"{size} bytes at {offset} are indexed, {available} are there"


def retry_stale(read: Callable[[], T]) -> T:
    """Return what `read` returns, called once more if NFS says that a file handle is stale.

    That happens when the server replaced a file that had the same name; opened again, it is found.
    """
    try:
        return read()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    return read()
