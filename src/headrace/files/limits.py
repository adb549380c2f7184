"""Limits what a source reads into memory at once: files, records and videos of `max_file_size` bytes.

The size in a file system or a table is compared with the limit before memory is allocated, so that a
sparse file of terabytes is a rejected sample. A source keeps the limit under which it was opened:

    with limit_file_size(64 << 20):
        source = open_folder("photos")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.errors import SourceError
from headrace.files.pread import open_file, pread_all

DEFAULT_MAX_FILE_SIZE = 1 << 30
_limit = ContextVar("max_file_size", default=DEFAULT_MAX_FILE_SIZE)


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Give sources that are opened inside, by this thread, the limit `size` in bytes."""
    if size < 1:
        raise ValueError(f"max_file_size is {size}; it must be at least one byte")
    token = _limit.set(size)
    try:
        yield
    finally:
        _limit.reset(token)


def current_limit() -> int:
    """Return the limit of sources that are opened now."""
    return _limit.get()


def check_size(size: int, limit: int | None = None) -> None:
    """Raise SourceError if `size` bytes are more than the limit, by default the current one."""
    limit = current_limit() if limit is None else limit
    if size > limit:
        raise SourceError(
            f"{size} bytes are more than {limit}; raise max_file_size (--max-file-size) to read them"
        )


@contextmanager
def blame_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError inside into a SourceError that names the file, by default `path`."""
    try:
        yield
    except OSError as error:
        name = os.fsdecode(error.filename or os.fspath(path))
        raise SourceError(f"{name:.1000}: {error.strerror or error}") from None


def read_file(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """Return the bytes of a regular file. SourceError if it is larger than the limit, by default the current one."""
    with open_file(path) as fd:
        size = os.fstat(fd).st_size
        try:
            check_size(size, limit)
        except SourceError as error:
            raise SourceError(f"{os.fsdecode(path)}: {error}") from None
        return pread_all(fd, size, 0)
