"""What became of a sample: the codes of the native core (`cpp/status.h`) and their messages."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """0 is fine; every other code is a reason why a sample has no pixels."""

    OK = 0
    UNSUPPORTED = 1
    TRUNCATED = 2
    CORRUPT = 3
    BAD_BOX = 4
    TOO_LARGE = 5
    CHANGED = 6


# Pillow is the judge: it decodes what the core does not know, and some of what the core calls damaged.
LEFT_TO_PILLOW = (Status.UNSUPPORTED, Status.TRUNCATED, Status.CORRUPT)

_MESSAGES = {
    Status.OK: "fine",
    Status.UNSUPPORTED: "a kind of image that the native decoder leaves to Pillow",
    Status.TRUNCATED: "the data ends before the picture does",
    Status.CORRUPT: "the data is no image, or contradicts itself",
    Status.BAD_BOX: "the box does not lie inside the picture",
    Status.TOO_LARGE: "the picture claims more pixels than the limit allows",
    Status.CHANGED: "the data does not have its CRC-32C",
}


def status_message(code: int) -> str:
    """What a code in the status array of `render_batch` means."""
    return _MESSAGES[Status(code)]
