"""Every error that Headrace raises on purpose.

HeadraceError
├── SourceError        a source cannot be read, or holds something that is not what its layout says
│   └── SourceChangedError  it is no longer what it was when it was opened
├── PackError          packing or indexing was refused, or could not be finished
├── CorruptError       packed data differs from what its manifest or index says
├── DecodeError        the bytes of a sample do not decode
├── WorkerError        a worker process or thread failed; carries its traceback
│   └── ReceiverLostError  a receiver of a remote flow disconnected, or serves another sender instead
└── MissingExtraError  an optional dependency is not installed; names the extra (also an ImportError)

Mistakes in a call (a wrong type, a negative size) are ValueError and TypeError, as everywhere.
A message says what was wrong, the value, where, and what to do.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Base class of all Headrace errors."""


class SourceError(HeadraceError):
    """A source cannot be read, or holds something that is not what its layout says."""


class SourceChangedError(SourceError):
    """Something in the source vanished or changed while it was being read."""


class PackError(HeadraceError):
    """Packing or indexing was refused, or could not be finished."""


class CorruptError(HeadraceError):
    """Packed data differs from what its manifest or index says."""


class DecodeError(HeadraceError):
    """The bytes of a sample do not decode."""


class WorkerError(HeadraceError):
    """A worker process or thread failed; the message ends with its traceback."""

    position: int | None = None  # of the item in its flow, where the error belongs to one


class ReceiverLostError(WorkerError):
    """The receiver disconnected unexpectedly; items in flight may be lost."""


class MissingExtraError(HeadraceError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed; install Headrace with the extra {extra!r}: pip install '.[{extra}]'"
        )
