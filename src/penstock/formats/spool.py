"""A scratch file on disk, for layouts that cannot be read in any order where they lie."""

from __future__ import annotations

import os
import tempfile
import weakref

from penstock.formats.pread import pread_all


class Spool:
    """Bytes that are appended once and read by offset. Lies unnamed in the temporary folder (TMPDIR).

    Reading is thread-safe, appending is for one thread at a time. The file is gone when the object
    is, at the latest with the process.
    """

    def __init__(self) -> None:
        self.fd, path = tempfile.mkstemp(prefix="penstock-")
        os.unlink(path)
        weakref.finalize(self, os.close, self.fd)
        self.size = 0

    def append(self, data: bytes) -> int:
        """Where the bytes now lie."""
        rest, start = memoryview(data), self.size
        while rest:
            written = os.pwrite(self.fd, rest, self.size)
            self.size += written
            rest = rest[written:]
        return start

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes that were appended before."""
        return pread_all(self.fd, size, offset)
