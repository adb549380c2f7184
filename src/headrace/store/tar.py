"""Tar archives: a strict scanner of members and the offsets of their bytes, and headers for writing.

Python's tarfile, and so WebDataset, ends silently at a bad checksum or a garbage size: a short epoch
without an error. Here, anything but a well-formed archive is a SourceError with the offset, and
every length is compared with the size of the file.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from headrace.errors import SourceError
from headrace.store.safe_paths import check_member

BLOCK = 512
_MAX_EXTENSION = 1 << 20  # of a pax header or a long name: far above any real one
_REGULAR = b"\0" + b"07"
_PASSED = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe"}
_SPARSE = "sparse members are not supported; make the tar again without --sparse"
_ZEROS = bytes(BLOCK)
_PIECE = 1 << 20


class Member(NamedTuple):
    """A regular file in an archive: its bytes lie at `offset` for `size` bytes."""

    name: str
    offset: int
    size: int


def padded(size: int) -> int:
    """Return the room that `size` bytes take in an archive."""
    return -(-size // BLOCK) * BLOCK


def scan_tar(fd: int, passed: list[str] | None = None) -> Iterator[Member]:
    """Yield the regular members of the open archive `fd`, and of archives appended to it by `cat`.

    Links, devices and bytes after the end are added to `passed`.
    """
    end = os.fstat(fd).st_size
    if end == 0:
        raise SourceError("not a tar archive: the file is empty")
    position = 0
    name: str | None = None  # from an extension header, for the member that follows it
    size: int | None = None
    while position < end:
        header = os.pread(fd, BLOCK, position)
        if header == _ZEROS:
            _check_end(fd, position, end)
            position = _find_data(fd, position, end)
            if not _is_header(fd, position):
                if position < end and passed is not None:
                    passed.append(f"{end - position} bytes behind the end")
                return
            continue
        kind, own_size = _check_header(header, position)
        data = position + BLOCK
        if kind in b"xgLK":
            extension = _read_extension(fd, data, own_size, end)
            if kind == b"x":
                name, size = _apply_pax(extension, data, name, size)
            elif kind == b"L":
                name = _decode(extension.rstrip(b"\0"))
            position = data + padded(own_size)
            continue
        actual = own_size if size is None else size
        if data + actual > end:
            raise SourceError(
                f"offset {position}: a member claims {actual} bytes, the archive ends after {end - data}"
            )
        path = name if name is not None else _own_name(header)
        if kind in _REGULAR:
            if not path.endswith("/"):  # how the oldest archives mark a folder
                yield Member(path, data, actual)
        elif kind == b"S":
            raise SourceError(f"offset {position}: {_SPARSE}")
        elif kind in _PASSED and passed is not None:
            passed.append(f"{path} ({_PASSED[kind]})")
        position = data + padded(actual)
        name = size = None


def _check_end(fd: int, position: int, end: int) -> None:
    """Raise SourceError unless two zero blocks end the archive, or one that is the last block."""
    following = os.pread(fd, BLOCK, position + BLOCK)
    if following and following != _ZEROS[: len(following)]:
        raise SourceError(
            f"offset {position}: a single zero block inside the archive, which goes on for "
            f"{end - position - BLOCK} bytes; other readers stop here without a word"
        )


def _find_data(fd: int, position: int, end: int) -> int:
    """Return the first block from `position` on that is not zero, or the end."""
    for start in range(position, end, _PIECE):
        piece = os.pread(fd, _PIECE, start)
        if rest := piece.lstrip(b"\0"):
            return start + (len(piece) - len(rest)) // BLOCK * BLOCK
    return end


def _is_header(fd: int, position: int) -> bool:
    try:
        _check_header(os.pread(fd, BLOCK, position), position)
    except SourceError:
        return False
    return True


def _check_header(header: bytes, position: int) -> tuple[bytes, int]:
    """Return type and size of a header block. SourceError if its checksum is wrong."""
    if len(header) < BLOCK:
        raise SourceError(f"offset {position}: the archive ends inside a header")
    expected = _parse_number(header[148:156], position, "checksum")
    if expected != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        what = "not a tar archive" if position == 0 else "a header with a wrong checksum"
        raise SourceError(f"offset {position}: {what}")
    return header[156:157], _parse_number(header[124:136], position, "size")


def _parse_number(raw: bytes, position: int, what: str) -> int:
    """Return a number from octal text, or base 256 if the first bit is set. Never negative."""
    if raw[0] & 0x80:
        value = int.from_bytes(raw, "big", signed=True) if raw[0] == 0xFF else -1
        if raw[0] == 0x80:
            value = int.from_bytes(raw[1:], "big")
    else:
        text = raw.split(b"\0")[0].strip()
        if text.strip(b"01234567"):
            raise SourceError(f"offset {position}: the {what} of a member is {raw!r}")
        value = int(text or b"0", 8)
    if value < 0:
        raise SourceError(f"offset {position}: the {what} of a member is negative")
    return value


def _read_extension(fd: int, data: int, size: int, end: int) -> bytes:
    if size > _MAX_EXTENSION or data + size > end:
        raise SourceError(f"offset {data}: an extension header claims {size} bytes")
    return os.pread(fd, size, data)


def _apply_pax(
    records: bytes, position: int, name: str | None, size: int | None
) -> tuple[str | None, int | None]:
    """Return the path and size that a pax header gives to the next member."""
    while records.strip(b"\0"):
        digits, space, _ = records.partition(b" ")
        length = int(digits) if space and digits.isdigit() and len(digits) < 8 else 0
        if not len(digits) + 1 < length <= len(records) or records[length - 1 : length] != b"\n":
            raise SourceError(f"offset {position}: a pax record with a wrong length")
        key, _, value = records[len(digits) + 1 : length - 1].partition(b"=")
        if key.startswith(b"GNU.sparse."):
            raise SourceError(f"offset {position}: {_SPARSE}")
        if key == b"path":
            name = _decode(value)
        elif key == b"size":
            if not value.isdigit() or len(value) > 18:
                raise SourceError(f"offset {position}: a pax header gives the size {value[:40]!r}")
            size = int(value)
        records = records[length:]
    return name, size


def _own_name(header: bytes) -> str:
    name = header[:100].split(b"\0")[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0")[0]
        name = prefix + b"/" + name if prefix else name
    return _decode(name)


def _decode(name: bytes) -> str:
    if b"\0" in name:
        raise SourceError(f"a member name with a NUL byte: {name[:80]!r}")
    return name.decode("utf-8", "surrogateescape")


END = bytes(2 * BLOCK)

# Mode 0644; owner, group and time zero; checksum blank, as it counts while it is computed.
_BEFORE_SIZE = b"0000644\0" + b"0000000\0" * 2
_AFTER_SIZE = b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
_FIXED_SUM = sum(_BEFORE_SIZE) + sum(_AFTER_SIZE)


def member_header(name: str, size: int) -> bytes:
    """Return the header that tarfile writes for a regular file, ten times faster for ASCII names.

    PackError if unpacking the name would write outside of its folder.
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
    """Return the zeros after `size` bytes of a member."""
    return bytes(padded(size) - size)
