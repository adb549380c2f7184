"""Locks between processes; on file systems without `flock` nothing is locked."""

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

    `open_path` makes and opens it; `folder` and `doing` are for messages. Returns the descriptor of what
    is at `path` now; a file system without locks is logged. PackError if another process holds the
    lock, or `path` cannot be made.
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
    """Lock an open file; return False if another process has removed it before that."""
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
    """Lock a file against all other processes until it is closed; return False if it cannot be locked.

    That is so on file systems without locks. NFS only locks files that are open for writing.
    BlockingIOError if another process holds the lock and `blocking` is False.
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
