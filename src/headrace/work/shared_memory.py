"""Memory that two processes share and that has no name: it is freed when both have ended.

One side writes, the other reads. The writer takes blocks from a `Blocks` and grows the segment as
needed; the reader maps it again when it meets an offset past what it has mapped. Views keep the
mapping that they look at alive, so memory that a consumer holds is never pulled from under it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
FIRST_SIZE = 1 << 20


class Segment:
    """Shared bytes behind a file descriptor. Crosses to child processes by any start method."""

    def __init__(self) -> None:
        self._fd = _open_nameless()
        self._bytes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def grow(self, size: int) -> None:
        """Make the segment at least `size` bytes long, at least doubling it. Writer only."""
        now = os.fstat(self._fd).st_size
        if size > now:
            os.ftruncate(self._fd, max(size, 2 * now, FIRST_SIZE))

    def view(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """Return the bytes from `offset` on, shared and writable."""
        if offset + size > self._bytes.size:
            self._bytes = np.frombuffer(mmap.mmap(self._fd, 0), np.uint8)
        assert offset + size <= self._bytes.size, "a block past the end of its segment"
        return self._bytes[offset : offset + size]

    def close(self) -> None:
        """Give up the descriptor; views stay valid for as long as someone holds them."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._bytes = np.empty(0, np.uint8)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._fd)

    def __setstate__(self, handle: Any) -> None:
        self._fd = handle.detach()
        self._bytes = np.empty(0, np.uint8)


class Blocks:
    """The free blocks of a segment: blocks of 2^k bytes, reused by size, never split."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        """Return the offset of an unused block of at least `size` bytes."""
        rounded = max(PAGE, 1 << (size - 1).bit_length())
        free = self._free.get(rounded)
        if free:
            return free.pop()
        offset, self._end = self._end, self._end + rounded
        self._segment.grow(self._end)
        self._sizes[offset] = rounded
        return offset

    def give_back(self, offset: int) -> None:
        """Mark the block at `offset` as unused."""
        self._free.setdefault(self._sizes[offset], []).append(offset)


def _open_nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("headrace")
    with tempfile.TemporaryFile(prefix="headrace-") as file:  # unlinked from the beginning
        return os.dup(file.fileno())
