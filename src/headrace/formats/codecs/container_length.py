"""Tells how long a video file was when it was complete, by the lengths in its own headers.

FFmpeg takes the end of a truncated file for the end of its video, without a word. ISO media files (mp4, m4v, mov),
Matroska and WebM, and AVI say how long they are; MPEG streams do not.
"""

from __future__ import annotations

import os

_BOXES = 4096
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def find_missing(fd: int) -> int:
    """Return how many bytes are missing at the end of an open file; 0 if none are, or nobody can tell."""
    size, head = os.fstat(fd).st_size, os.pread(fd, 64, 0)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        whole = _end_of_boxes(fd, size)
    elif head[:4] == _EBML:
        whole = _end_of_segment(head)
    elif head[:4] == b"RIFF":
        whole = 8 + int.from_bytes(head[4:8], "little")
    else:
        return 0
    return max(0, whole - size)


def _end_of_boxes(fd: int, size: int) -> int:
    """Return where the last of the boxes that follow one another ends."""
    offset = 0
    for _ in range(_BOXES):
        head = os.pread(fd, 16, offset)
        if len(head) < 8:
            break
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:  # 0: to the end of the file; less: garbage behind the video
            break
        offset += length
        if offset >= size:
            return offset
    return 0


def _end_of_segment(head: bytes) -> int:
    """Return where the segment of a Matroska file ends, 0 if it does not say so or begins far behind."""
    size, width = _read_length(head[4:])
    start = 4 + width + (size or 0)
    if size is None or head[start : start + 4] != _SEGMENT:
        return 0
    length, width = _read_length(head[start + 4 :])
    return 0 if length is None else start + 4 + width + length


def _read_length(data: bytes) -> tuple[int | None, int]:
    """Return an EBML length, None if it is unknown, and how many bytes it has."""
    width = 9 - data[0].bit_length() if data else 9
    if not 0 < width <= min(8, len(data)):
        return None, 0
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return (None if value == (1 << 7 * width) - 1 else value), width
