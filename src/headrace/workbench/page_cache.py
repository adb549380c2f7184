"""The page cache of given files: dropping it without being root, and checking that it is gone."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

KEPT_AT_MOST = 0.05
"""Above this part still in memory, reading is not called cold."""


class Residency(NamedTuple):
    """Pages of files that are in memory, of how many."""

    resident: int
    pages: int

    @property
    def share(self) -> float:
        return self.resident / max(self.pages, 1)


def drop_pages(paths: Iterable[Path]) -> Residency:
    """Asks the system to forget the pages of the files; what it kept nevertheless.

    Written pages go to disk first: the system only forgets what it can read again.
    """
    resident = pages = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            found = count_resident(fd)
        finally:
            os.close(fd)
        resident, pages = resident + found.resident, pages + found.pages
    return Residency(resident, pages)


def count_resident(fd: int) -> Residency:
    """The pages of an open file that are in memory, as mincore says; all of them where it does not say."""
    size = os.fstat(fd).st_size
    pages = -(-size // mmap.PAGESIZE)
    if not pages:
        return Residency(0, 0)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        flags = np.ones(pages, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mincore(
            ctypes.c_void_p(view.ctypes.data),
            ctypes.c_size_t(size),
            ctypes.c_void_p(flags.ctypes.data),
        )
        del view  # a mapping that is still seen cannot be closed
    return Residency(int((flags & 1).sum()), pages)


def explain_warmth(kept: Residency) -> str | None:
    """What to tell the user if the system would not forget; None if it did."""
    if kept.share <= KEPT_AT_MOST:
        return None
    return (
        f"the system kept {kept.share:.0%} of the pages in memory (a memory file system, or files that "
        "others have open or mapped): the cold figures are not cold"
    )
