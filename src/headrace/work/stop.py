"""Wakes a stage that waits for the outside world when its thread must end."""

from __future__ import annotations

import os
import threading


class Stopped(Exception):
    """Raised in a thread that waits when it is asked to end."""


class Stop:
    """A flag that is set once, with all its children; `fd` becomes readable then."""

    def __init__(self, parent: Stop | None = None) -> None:
        self.fd, self._write_end = os.pipe()
        self._is_set = False
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._children: set[Stop] = set()
        self._parent = parent
        if parent is not None:
            parent._adopt(self)

    def _adopt(self, child: Stop) -> None:
        with self._lock:
            self._children.add(child)
            late = self._is_set
        if late:
            child.set()

    def is_set(self) -> bool:
        """Return whether the thread should end."""
        return self._is_set

    def set(self) -> None:
        """Ask the thread to end. Idempotent and thread-safe."""
        with self._lock:
            if not self._is_set:
                self._is_set = True
                if os.getpid() == self._owner:  # the pipe of a forked process is its parent's too
                    os.write(self._write_end, b"x")
            children = list(self._children)
        for child in children:
            child.set()

    def close(self) -> None:
        """Close the descriptors, when nobody waits on them any more."""
        if self._parent is not None:
            with self._parent._lock:
                self._parent._children.discard(self)
        with self._lock:
            self._is_set = True
            os.close(self.fd)
            os.close(self._write_end)
