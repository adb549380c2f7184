"""Reading a stretch of a file whole: one system call reads at most 2 GiB."""

from __future__ import annotations

import os


def pread_into(fd: int, memory: memoryview, offset: int) -> int:
    """Fills `memory` from `offset` of a file as far as the file goes; how many bytes there were."""
    done = 0
    while done < len(memory):
        got = os.preadv(fd, [memory[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done


def pread_all(fd: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset` of a file, or as many as there are."""
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    memory = bytearray(size)
    memory[: len(data)] = data
    done = len(data) + pread_into(fd, memoryview(memory)[len(data) :], offset + len(data))
    return bytes(memory[:done])
