"""A scratch file on disk, for layouts that cannot be read in any order where they lie."""

from __future__ import annotations

import os
import tempfile
import weakref

from headrace.errors import HeadraceError
from headrace.files.pread import pread_all


class Spool:
    """Bytes that are appended once and read by offset. Lies unnamed in the temporary folder (TMPDIR).

    Reading is thread-safe, appending is for one thread at a time. The file is gone when the object
    is, at the latest with the process. A failure is a HeadraceError, not an OSError,
    so that nobody takes it for a fault of the source.
    """

    def __init__(self) -> None:
        try:
            self.fd, path = tempfile.mkstemp(prefix="headrace-")
            os.unlink(path)
        except OSError as error:
            raise _explain(error) from error
        weakref.finalize(self, os.close, self.fd)
        self.size = 0

    def append(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        rest, start = memoryview(data), self.size
        while rest:
            try:
                written = os.pwrite(self.fd, rest, self.size)
            except OSError as error:
                raise _explain(error) from error
            self.size += written
            rest = rest[written:]
        return start

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes that were appended before."""
        try:
            return pread_all(self.fd, size, offset)
        except OSError as error:
            raise _explain(error) from error


def _explain(error: OSError) -> HeadraceError:
    folder = tempfile.tempdir or "the temporary folder"
    return HeadraceError(
        f"{folder}: {error.strerror or error}; set TMPDIR to a folder with room for the unpacked data"
    )
