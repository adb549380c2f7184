"""Locks between processes that also work, as no lock at all, on file systems without `flock`."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path

from headrace.errors import PackError

# EIO: some NFS servers answer with it while their lock daemon is not running.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO})

_TRIES = 1000  # each one that fails is another process that ended
_log = logging.getLogger("headrace")


def take_lock(path: Path, open_path: Callable[[], int], folder: Path, doing: str) -> int:
    """Lock a file or folder that other processes may make, lock and remove at the same time.

    Args:
        path: What is locked.
        open_path: Opens it, and makes it first if it is not there.
        folder: Where the work is done, and `doing` what the work is, as the messages name them.

    Returns:
        The locked descriptor, of what is at `path` now. On a file system without locks it is not
        locked, which is logged.

    Raises:
        PackError: Another process holds the lock, or `path` cannot be made.
    """
    failure: OSError | None = None
    for _ in range(_TRIES):
        try:
            fd = open_path()
        # Another process has removed it: before it was opened, or while mkdir(exist_ok=True) looked.
        except (FileNotFoundError, FileExistsError) as error:
            failure = error
            continue
        try:
            if _try_lock(fd, path, folder, doing):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise PackError(f"{folder}: cannot be made ({failure}); choose another folder")


def _try_lock(fd: int, path: Path, folder: Path, doing: str) -> bool:
    """Lock what was opened; False if another process has removed it before that."""
    try:
        has_locks = lock_exclusive(fd, blocking=False)
        is_there = os.path.samestat(os.fstat(fd), os.stat(path))
    except BlockingIOError:
        raise PackError(f"{folder}: another process is {doing} into it") from None
    except FileNotFoundError:
        return False
    if is_there and not has_locks:
        _log.warning(
            "%s: this file system has no locks (flock), so that other processes %s into the same "
            "folder are not detected",
            folder,
            doing,
        )
    return is_there


def lock_exclusive(fd: int, *, blocking: bool = True) -> bool:
    """Lock an open file against every other process until it is closed.

    Args:
        fd: Descriptor of a file that is open for writing (NFS locks no other).
        blocking: Whether to wait for a process that holds the lock.

    Returns:
        Whether the lock is held; False where the file system has no locks, so that the caller can
        warn and go on.

    Raises:
        BlockingIOError: Another process holds the lock, and `blocking` is False.
    """
    return _lock(fd, fcntl.LOCK_EX, blocking)


def lock_shared(fd: int, *, blocking: bool = True) -> bool:
    """Lock an open file against processes that ask for an exclusive lock; see `lock_exclusive`."""
    return _lock(fd, fcntl.LOCK_SH, blocking)


def _lock(fd: int, kind: int, blocking: bool) -> bool:
    try:
        fcntl.flock(fd, kind if blocking else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True
