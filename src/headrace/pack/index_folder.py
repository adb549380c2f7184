"""The folder that one process at a time writes an index into."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import PackError
from headrace.pack.durable import as_pack_error
from headrace.pack.locking import take_lock
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.target import Target, open_target


@contextmanager
def open_index_folder(folder: Path) -> Iterator[Target]:
    """Open `folder`, made if need be, for an index and a manifest; an error removes what was written.

    Raises:
        PackError: It has a manifest, another process indexes into it, or the disk is full or fails.
    """
    with as_pack_error("indexing", "run the same command again"):
        check_no_manifest(folder)
        with _locked(folder), open_target(folder) as target:
            check_no_manifest(folder)  # of a process that has ended since
            yield target


def check_no_manifest(folder: Path) -> None:
    """Raise PackError if `folder` holds a dataset already."""
    if (folder / MANIFEST).exists():
        raise PackError(f"{folder / MANIFEST}: exists already; remove it to index again")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder itself, so that no file of ours is left beside the user's data.

    Folders that were made for it are removed on an error, while the lock is held.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    fd = take_lock(folder, lambda: _open_folder(folder), folder, "indexing")
    try:
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):  # not empty, or gone already
                place.rmdir()
        raise
    finally:
        os.close(fd)


def _open_folder(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
