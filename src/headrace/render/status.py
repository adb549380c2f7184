"""The status of a job: the codes of the native core (`cpp/status.h`) and their messages."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Why a job has no pixels; 0 means that it has."""

    OK = 0
    UNSUPPORTED = 1
    TRUNCATED = 2
    CORRUPT = 3
    BAD_BOX = 4
    TOO_LARGE = 5
    CHANGED = 6
    OTHER_SIZE = 7


# Pillow decides on these: it decodes formats that the core does not know, and some files that the core calls damaged.
FOR_PILLOW = (Status.UNSUPPORTED, Status.TRUNCATED, Status.CORRUPT)

_MESSAGES = {
    Status.OK: "fine",
    Status.UNSUPPORTED: "the native decoder does not support this kind of image",
    Status.TRUNCATED: "the data ends before the picture does",
    Status.CORRUPT: "the data is not an image, or contradicts itself",
    Status.BAD_BOX: "the box does not lie inside the picture",
    Status.TOO_LARGE: "the picture claims more pixels than the limit allows",
    Status.CHANGED: "the data does not have its CRC-32C",
    Status.OTHER_SIZE: "the picture does not have the size that was expected",
}


def status_message(code: int) -> str:
    """Return the meaning of a status.

    Args:
        code: An entry of the array that `render_batch` returns.
    """
    return _MESSAGES[Status(code)]
