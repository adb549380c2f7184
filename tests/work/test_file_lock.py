"""Locks between processes, and file systems that have none."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.work.file_lock import lock_exclusive, lock_shared


@pytest.fixture
def two(tmp_path: Path) -> tuple[int, int]:
    """Two descriptors of one file, which exclude one another as two processes do."""
    path = tmp_path / "lock"
    return tuple(os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))  # type: ignore[return-value]


def test_an_exclusive_lock_excludes_every_other_one(two: tuple[int, int]) -> None:
    assert lock_exclusive(two[0], blocking=False)
    for lock in (lock_exclusive, lock_shared):
        with pytest.raises(BlockingIOError):
            lock(two[1], blocking=False)
    os.close(two[0])
    assert lock_exclusive(two[1])


def test_shared_locks_exclude_only_exclusive_ones(two: tuple[int, int]) -> None:
    assert lock_shared(two[0]) and lock_shared(two[1])
    with pytest.raises(BlockingIOError):
        lock_exclusive(two[1], blocking=False)


@pytest.mark.parametrize("lock", [lock_exclusive, lock_shared])
@pytest.mark.parametrize("reason", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_a_file_system_without_locks_is_reported_and_not_an_error(
    two: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    lock: Callable[..., bool],
    reason: int,
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert not lock(two[0], blocking=False)


def test_other_errors_of_a_lock_are_raised(two: tuple[int, int]) -> None:
    os.close(two[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        lock_exclusive(two[0])
