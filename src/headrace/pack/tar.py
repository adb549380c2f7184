"""Writing tar members: plain POSIX headers, the same bytes for the same name and size always."""

from __future__ import annotations

import tarfile

from headrace.formats.tar import BLOCK, padded
from headrace.pack.inside import check_member

END = bytes(2 * BLOCK)

# Mode 0644; owner, group and time zero; checksum blank, as it counts while it is computed.
_BEFORE_SIZE = b"0000644\0" + b"0000000\0" * 2
_AFTER_SIZE = b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
_FIXED_SUM = sum(_BEFORE_SIZE) + sum(_AFTER_SIZE)


def member_header(name: str, size: int) -> bytes:
    """What tarfile writes for a regular file, ten times faster for plain names.

    PackError if the name would lead out of the folder that the tar is unpacked into.
    """
    raw = check_member(name).encode()
    if len(raw) > 100 or not raw.isascii() or size >= 8**11:
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.PAX_FORMAT)
    digits = b"%011o\0" % size
    checksum = _FIXED_SUM + sum(raw) + sum(digits)
    front = raw.ljust(100, b"\0") + _BEFORE_SIZE + digits
    return front + _AFTER_SIZE[:12] + b"%06o\0 " % checksum + _AFTER_SIZE[20:]


def padding(size: int) -> bytes:
    """The zeros after `size` bytes of a member."""
    return bytes(padded(size) - size)
