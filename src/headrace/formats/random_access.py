"""A file opened so that any byte of it can be read: itself, or unpacked to disk if it is gzipped."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import blame_file, check_size, current_limit
from headrace.files.pread import open_regular, open_unchanged, pread_all
from headrace.formats.scratch_file import Spool

_PIECE = 1 << 20
_MAX_RATIO = 200  # gzip reaches 1000 on zeros; images hardly shrink at all


@contextmanager
def name_file(path: str | Path) -> Iterator[None]:
    """Put the name of a file before every SourceError inside, and turn an OSError into one."""
    try:
        yield
    except SourceChangedError:
        raise
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error!s:.200}") from None


class PlainFile:
    """A file that threads read by offset; a gzipped file is unpacked when it is opened.

    It is unpacked to disk (see `Spool`), so that memory stays small. A file that changes
    after it was opened is an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.max_file_size = current_limit()
        self._spool: Spool | None = None
        with (
            blame_file(path),
            open(path, "rb", buffering=0, opener=lambda name, _: open_regular(name)) as file,
        ):
            info = os.fstat(file.fileno())
            if file.read(2) == b"\x1f\x8b":
                file.seek(0)
                self._spool = _gunzip(file, info.st_size)
        self.is_gzipped = self._spool is not None
        self.mtime = info.st_mtime_ns
        self.size = info.st_size if self._spool is None else self._spool.size

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Yield a descriptor of the plain bytes."""
        if self._spool is not None:
            yield self._spool.fd
            return
        fd = open_unchanged(self.path, self.size, self.mtime)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes; fewer are an error, and so are more than the limit."""
        with self.opened() as fd:
            return self.read_from(fd, offset, size)

    def read_from(self, fd: int, offset: int, size: int) -> bytes:
        """Return what `read` does, by a descriptor that `opened` gave."""
        check_size(size, self.max_file_size)
        try:  # not blame_file: this is called for every field of every sample
            data = pread_all(fd, min(size, max(0, self.size - offset)), offset)
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror}") from None
        if len(data) != size:
            raise SourceError(f"{self.path}: ends inside {size} bytes at {offset}")
        return data


def _gunzip(file: IO[bytes], size: int) -> Spool:
    """Unpack a gzip file of any number of members to disk. Bombs and truncated files are errors."""
    spool, limit = Spool(), size * _MAX_RATIO + _PIECE
    stream = zlib.decompressobj(wbits=31)
    waiting = b""
    while piece := waiting or file.read(_PIECE):
        if stream.eof:
            if not piece.strip(b"\0"):
                return spool
            stream = zlib.decompressobj(wbits=31)
        try:
            data = stream.decompress(piece, _PIECE)
        except zlib.error as error:
            raise SourceError(f"{file.name}: a damaged gzip file: {error}") from None
        waiting = stream.unused_data if stream.eof else stream.unconsumed_tail
        spool.append(data)
        if spool.size > limit:
            raise SourceError(
                f"{file.name}: unpacks to more than {_MAX_RATIO} times its size; it is not read"
            )
    if not stream.eof:
        raise SourceError(f"{file.name}: a truncated gzip file, cut after {spool.size} bytes")
    return spool
