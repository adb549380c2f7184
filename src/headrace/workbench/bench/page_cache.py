"""Drops files from the page cache, without root, and checks that they are gone."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

KEPT_AT_MOST = 0.05
"""Reading is not cold if more than this share of the pages stayed in memory."""


class Residency(NamedTuple):
    """Number of pages in memory, and of all pages."""

    resident: int
    pages: int

    @property
    def share(self) -> float:
        return self.resident / max(self.pages, 1)


def drop_pages(paths: Iterable[Path]) -> Residency:
    """Ask the system to drop the pages of the files; return how many it kept.

    Dirty pages are written to disk first, since the system drops only clean ones.
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
    """Return how many pages of an open file mincore reports in memory; all of them if it fails."""
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
        del view  # a mapping with a view cannot be closed
    return Residency(int((flags & 1).sum()), pages)


def explain_warmth(kept: Residency) -> str | None:
    """Return a note if too many pages stayed in memory; None if reading was cold."""
    if kept.share <= KEPT_AT_MOST:
        return None
    return (
        f"the system kept {kept.share:.0%} of the pages in memory (a memory file system, or files that "
        "others have open or mapped): the cold figures are not cold"
    )
