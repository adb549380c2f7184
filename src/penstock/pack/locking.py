"""Locks between processes that also work, as no lock at all, on file systems without `flock`."""

from __future__ import annotations

import errno
import fcntl

# EIO: some NFS servers answer with it while their lock daemon is not running.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO})


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
