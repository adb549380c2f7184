"""LMDB files, read page by page: every key of the main database with the place of its value.

liblmdb maps a file and follows its pointers; on a damaged one it dies by SIGBUS or SIGABRT and takes
the process along. Here pages are read with bounds checks, and whatever is not a well-formed B+ tree
is a SourceError. Only reading, only the main database, no lock: a file that is being written to
is not a source.

On disk (64-bit, little endian), by page of `page_size` bytes:
  header    u64 page number, u16 -, u16 flags, u16 lower, u16 upper (overflow: u32 pages instead)
  meta      pages 0 and 1: u32 magic, u32 version, u64, u64 map size, two databases, u64 last page,
            u64 transaction; a database is u32 -, u16 flags, u16 depth, u64 × 3 page counts,
            u64 entries, u64 root page; the first `-` of a meta page is the page size
  branch    u16 node offsets; node: u16, u16, u16 child page (48 bits), u16 key size, key
  leaf      u16 node offsets; node: u16, u16 data size (32 bits), u16 flags, u16 key size, key, data
  overflow  a value too large for a leaf: contiguous pages with one header; the leaf has its page
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.errors import SourceError
from headrace.files.pread import pread_all

MAGIC = 0xBEEFC0DE
HEADER = 16
_PAGE = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_DATABASE = struct.Struct("<IHHQQQQQ")
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_KINDS = _BRANCH | _LEAF | _OVERFLOW | _META_PAGE | 0x20 | 0x40
_BIG, _NODE_FLAGS = 0x01, 0x07
_NO_PAGE = (1 << 64) - 1
_MAX_DEPTH = 32


class Entry(NamedTuple):
    """A key and where its value lies; a `large` one has pages of its own with a header before it."""

    key: bytes
    offset: int
    size: int
    large: bool


@dataclass(frozen=True)
class _Meta:
    page_size: int
    flags: int
    depth: int
    entries: int
    root: int
    last_page: int
    transaction: int


def scan_lmdb(fd: int) -> Iterator[Entry]:
    """Yield the entries of the main database in key order. Large values are not read."""
    size = os.fstat(fd).st_size
    meta = _read_newest_meta(fd, size)
    if meta.flags:
        raise SourceError(f"a database with the flags 0x{meta.flags:x}; plain ones are read")
    if meta.last_page >= size // meta.page_size:
        raise SourceError(
            f"truncated: its last page is {meta.last_page}, the file has room for "
            f"{size // meta.page_size} of {meta.page_size} bytes"
        )
    if meta.root == _NO_PAGE:
        if meta.entries:
            raise SourceError(f"no root page, but {meta.entries} entries")
        return
    if not 1 <= meta.depth <= _MAX_DEPTH:
        raise SourceError(f"a tree of depth {meta.depth}")
    tree = _Tree(fd, meta)
    count = 0
    for entry in tree.walk(meta.root, meta.depth):
        count += 1
        yield entry
    if count != meta.entries:
        raise SourceError(f"{count} entries in the tree, {meta.entries} in the meta page")


def read_value(fd: int, entry: Entry, page_size: int) -> bytes:
    """Return the bytes of a value. Its pages' header is checked; its place was checked by the scan."""
    if not entry.large:
        data = pread_all(fd, entry.size, entry.offset)
    else:
        start = entry.offset - HEADER
        raw = pread_all(fd, HEADER + entry.size, start)
        if len(raw) < HEADER:
            raise SourceError(f"byte {start}: the file ends before the value")
        number, _, flags, low, high = _PAGE.unpack_from(raw)
        pages = low | high << 16
        needed = -(-(HEADER + entry.size) // page_size)
        if number * page_size != start or flags & _KINDS != _OVERFLOW or pages != needed:
            raise SourceError(f"byte {start}: not the overflow pages of a {entry.size}-byte value")
        data = raw[HEADER:]
    if len(data) < entry.size:
        raise SourceError(f"byte {entry.offset}: the file ends inside the value")
    return data


def read_page_size(fd: int) -> int:
    """Return the page size in the first meta page. Raise SourceError if this is not an LMDB file."""
    return _read_meta(fd, 0, 0).page_size


def _read_newest_meta(fd: int, size: int) -> _Meta:
    first = _read_meta(fd, 0, 0)
    if size < 2 * first.page_size:
        raise SourceError(f"truncated: {size} bytes do not hold its two meta pages")
    second = _read_meta(fd, 1, first.page_size)
    if second.page_size != first.page_size:
        raise SourceError("its two meta pages disagree about the page size")
    return max(first, second, key=lambda meta: meta.transaction)


def _read_meta(fd: int, number: int, offset: int) -> _Meta:
    raw = os.pread(fd, 152, offset)
    if len(raw) < 152:
        raise SourceError(f"not an LMDB file: it ends inside meta page {number}")
    page, _, flags, _, _ = _PAGE.unpack_from(raw)
    magic, version, _, _ = _META.unpack_from(raw, 16)
    if magic != MAGIC or version != 1 or page != number or not flags & _META_PAGE:
        raise SourceError(f"not an LMDB file, or meta page {number} is damaged")
    page_size = _DATABASE.unpack_from(raw, 40)[0]
    _, db_flags, depth, _, _, _, entries, root = _DATABASE.unpack_from(raw, 88)
    last_page, transaction = struct.unpack_from("<QQ", raw, 136)
    if page_size not in (1 << n for n in range(9, 17)):
        raise SourceError(f"a page size of {page_size}")
    return _Meta(page_size, db_flags, depth, entries, root, last_page, transaction)


@dataclass
class _Tree:
    fd: int
    meta: _Meta
    seen: set[int] = field(default_factory=set)
    last_key: bytes | None = None
    large_pages: int = 0

    def walk(self, number: int, levels: int) -> Iterator[Entry]:
        """Yield the entries below page `number`; every leaf lies `levels` deep."""
        page = self._read_page(number, _LEAF if levels == 1 else _BRANCH)
        nodes = self._read_nodes(number, page)
        if levels == 1:
            for node in nodes:
                yield self._read_entry(number, page, node)
        else:
            for low, high, top, _ in (struct.unpack_from("<HHHH", page, node) for node in nodes):
                yield from self.walk(low | high << 16 | top << 32, levels - 1)

    def _read_page(self, number: int, kind: int) -> bytes:
        if not 2 <= number <= self.meta.last_page or number in self.seen:
            raise SourceError(f"page {number} is outside the file, or in the tree twice")
        self.seen.add(number)
        page = os.pread(self.fd, self.meta.page_size, number * self.meta.page_size)
        if len(page) < self.meta.page_size:
            raise SourceError(f"page {number}: the file ends inside it")
        own, _, flags, _, _ = _PAGE.unpack_from(page)
        if own != number or flags & _KINDS != kind:
            what = "leaf" if kind == _LEAF else "branch"
            raise SourceError(f"page {number}: not a {what} page (number {own}, flags {flags:#x})")
        return page

    def _read_nodes(self, number: int, page: bytes) -> tuple[int, ...]:
        """Return the offsets of the nodes, each with its header and key inside the page."""
        lower = _PAGE.unpack_from(page)[3]
        if not HEADER <= lower <= len(page) or lower % 2:
            raise SourceError(f"page {number}: its node offsets end at {lower}")
        nodes: tuple[int, ...] = struct.unpack_from(f"<{(lower - HEADER) // 2}H", page, HEADER)
        for node in nodes:
            if not lower <= node <= len(page) - 8 or (
                node + 8 + int.from_bytes(page[node + 6 : node + 8], "little") > len(page)
            ):
                raise SourceError(f"page {number}: a node at {node} is outside the page")
        return nodes

    def _read_entry(self, number: int, page: bytes, node: int) -> Entry:
        low, high, flags, key_size = struct.unpack_from("<HHHH", page, node)
        size, data = low | high << 16, node + 8 + key_size
        key = page[node + 8 : data]
        if self.last_key is not None and key <= self.last_key:
            raise SourceError(f"page {number}: the key {key!r:.80} is out of order")
        self.last_key = key
        if flags & _NODE_FLAGS == _BIG:
            return self._find_large(number, key, page[data : data + 8], size)
        if flags & _NODE_FLAGS or data + size > len(page):
            raise SourceError(
                f"page {number}: the value of {key!r:.80} is not plain, or leaves the page "
                f"({size} bytes, flags {flags:#x})"
            )
        return Entry(key, number * self.meta.page_size + data, size, False)

    def _find_large(self, number: int, key: bytes, place: bytes, size: int) -> Entry:
        first = int.from_bytes(place, "little")
        pages = -(-(HEADER + size) // self.meta.page_size)
        if len(place) < 8 or first < 2 or first + pages - 1 > self.meta.last_page:
            raise SourceError(
                f"page {number}: the value of {key!r:.80}, {size} bytes from page {first}, "
                "lies outside the file"
            )
        self.large_pages += pages
        if self.large_pages > self.meta.last_page:
            raise SourceError(
                f"page {number}: values overlap; they claim more pages than there are"
            )
        return Entry(key, first * self.meta.page_size + HEADER, size, True)
