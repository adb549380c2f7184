"""A file opened so that any byte of it can be read: itself, or unpacked to disk if it is gzipped."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO

from headrace.errors import SourceError
from headrace.formats.limits import blame_file, check_size, current_limit
from headrace.formats.pread import open_regular, open_unchanged, pread_all
from headrace.formats.spool import Spool

_PIECE = 1 << 20
_MAX_RATIO = 200  # gzip reaches 1000 on zeros; images hardly shrink at all


class PlainFile:
    """A file that is read by offset, from threads; one that is gzipped is unpacked when it is opened.

    What is unpacked lies on disk (see `Spool`), so that memory stays small. A file that changes
    after it was opened is an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.max_file_size = current_limit()
        self._spool: Spool | None = None
        with blame_file(path), open(path, "rb", buffering=0, opener=_open) as file:
            info = os.fstat(file.fileno())
            if file.read(2) == b"\x1f\x8b":
                file.seek(0)
                self._spool = _gunzip(file, info.st_size)
        self.is_gzipped = self._spool is not None
        self.mtime = info.st_mtime_ns
        self.size = info.st_size if self._spool is None else self._spool.size

    def open(self) -> int:
        """A descriptor of the plain bytes, to be closed by the caller."""
        if self._spool is not None:
            return os.dup(self._spool.fd)
        return open_unchanged(self.path, self.size, self.mtime)

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes; fewer are an error, and so are more than the limit."""
        check_size(size, self.max_file_size)
        fd = self.open()
        try:
            with blame_file(self.path):
                data = pread_all(fd, min(size, max(0, self.size - offset)), offset)
        finally:
            os.close(fd)
        if len(data) != size:
            raise SourceError(f"{self.path}: ends inside {size} bytes at {offset}")
        return data


def _open(path: str, flags: int) -> int:
    return open_regular(path)


def _gunzip(file: IO[bytes], size: int) -> Spool:
    """The content of a gzip file of any number of members, on disk. Bombs and cuts are errors."""
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
