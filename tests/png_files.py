"""Writes PNG files of every kind, slow and obvious: all colour types, depths, filters, passes and chunks."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
KINDS = [
    *((GREY, depth) for depth in (1, 2, 4, 8, 16)),
    *((PALETTE, depth) for depth in (1, 2, 4, 8)),
    *((color, depth) for color in (RGB, GREY_ALPHA, RGBA) for depth in (8, 16)),
]
SIGNATURE = b"\x89PNG\r\n\x1a\n"
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))  # fmt: skip

Chunk = tuple[bytes, bytes]


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def read_chunks(data: bytes) -> list[Chunk]:
    """Return the names and bodies of all chunks."""
    chunks, at = [], len(SIGNATURE)
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return chunks


def join_chunks(chunks: Sequence[Chunk]) -> bytes:
    return SIGNATURE + b"".join(chunk(*each) for each in chunks)


@dataclass
class PngFile:
    """A file to write. `samples` are [height, width, channels], with levels that fit into `depth` bits."""

    samples: NDArray[np.integer]
    color: int
    depth: int
    interlaced: bool = False
    filters: Callable[[int], int] = lambda row: row % 5
    level: int = 6
    pieces: int = 1
    before: list[Chunk] = field(default_factory=list)
    after: list[Chunk] = field(default_factory=list)

    def header(self) -> bytes:
        height, width = self.samples.shape[:2]
        return struct.pack(">IIBBBBB", width, height, self.depth, self.color, 0, 0, self.interlaced)

    def raw(self) -> bytes:
        """Return the filtered rows of all passes."""
        if not self.interlaced:
            return self._filter(self.samples)
        parts = [self.samples[top::down, left::right] for left, top, right, down in ADAM7]
        return b"".join(self._filter(part) for part in parts if part.size)

    def encode(self, raw: bytes | None = None) -> bytes:
        data = zlib.compress(self.raw() if raw is None else raw, self.level)
        step = max(1, -(-len(data) // self.pieces))
        pieces = [(b"IDAT", data[at : at + step]) for at in range(0, len(data), step)]
        chunks = [(b"IHDR", self.header()), *self.before, *pieces, *self.after, (b"IEND", b"")]
        return join_chunks(chunks)

    def _filter(self, samples: NDArray[np.integer]) -> bytes:
        pixel = max(1, CHANNELS[self.color] * self.depth // 8)
        rows = self._pack(samples)
        above = np.zeros_like(rows[0])
        out = bytearray()
        for number, row in enumerate(rows):
            kind = self.filters(number)
            out.append(kind)
            out += apply_filter(kind, row, above, pixel).tobytes()
            above = row
        return bytes(out)

    def _pack(self, samples: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return uint8[height, bytes of a row]."""
        flat = samples.reshape(len(samples), -1)
        if self.depth == 16:
            return flat.astype(">u2").view(np.uint8)
        if self.depth == 8:
            return flat.astype(np.uint8)
        bits = flat[..., None] >> np.arange(self.depth - 1, -1, -1) & 1
        return np.packbits(bits.reshape(len(flat), -1).astype(np.uint8), axis=1)


def apply_filter(kind: int, row: NDArray[np.uint8], above: NDArray[np.uint8], pixel: int) -> NDArray[np.uint8]:  # fmt: skip
    """Return a row as it is stored. A kind above 4 does not exist and changes nothing."""
    x, b = row.astype(int), above.astype(int)
    a, c = (np.concatenate([np.zeros(pixel, int), line[:-pixel]])[: len(x)] for line in (x, b))
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    paeth = np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
    guess = {1: a, 2: b, 3: (a + b) // 2, 4: paeth}.get(kind, np.zeros_like(x))
    return (x - guess).astype(np.uint8)


def draw_samples(
    rng: np.random.Generator, size: tuple[int, int], color: int, depth: int
) -> NDArray[np.int64]:
    """Draw noise, gradients, areas as in a mask, or few levels, with all extremes."""
    most = (1 << depth) - 1
    shape = (*size, CHANNELS[color])
    how = rng.integers(4)
    if how == 0:
        return rng.integers(0, most + 1, shape)
    if how == 1:
        return rng.choice([0, 1, most // 2, most - 1, most], shape).clip(0, most)
    if how == 2:
        height, width = rng.integers(1, 60, 2)
        areas = rng.integers(0, most + 1, (-(-size[0] // height), -(-size[1] // width), shape[2]))
        return areas.repeat(height, 0).repeat(width, 1)[: size[0], : size[1]]
    y, x, c = np.indices(shape)
    return (x * rng.integers(1, 90) + y * rng.integers(1, 90) + c * 31) % (most + 1)


def draw_file(
    rng: np.random.Generator,
    size: tuple[int, int],
    color: int,
    depth: int,
    interlaced: bool = False,
) -> PngFile:
    """Draw a file with random filters, chunks and compression."""
    filters = rng.integers(0, 5, max(size))
    if rng.random() < 0.3:
        filters[:] = rng.integers(5)
    before: list[Chunk] = []
    after: list[Chunk] = []
    for each in ANCILLARY:
        if rng.random() < 0.15:
            (after if each[0] in ANYWHERE and rng.random() < 0.5 else before).append(each)
    entries = 1 << depth
    if color == PALETTE:
        before.append((b"PLTE", rng.bytes(3 * entries)))
    if rng.random() < 0.4:
        before += draw_transparency(rng, color, entries)
    return PngFile(
        draw_samples(rng, size, color, depth),
        color,
        depth,
        interlaced,
        lambda row: int(filters[row]),
        int(rng.choice([0, 1, 6, 9])),
        int(rng.choice([1, 1, 2, 5, 40])),
        before,
        after,
    )


def draw_transparency(rng: np.random.Generator, color: int, entries: int) -> list[Chunk]:
    if color == PALETTE:
        alpha = [rng.bytes(int(rng.integers(1, entries + 1))), b"\xff\x00\xff"[:entries]]
        return [(b"tRNS", alpha[int(rng.integers(2))])]
    size = {GREY: 2, RGB: 6}.get(color, 0)
    return [(b"tRNS", rng.bytes(size))] if size else []


_PROFILE = zlib.compress(bytes(range(256)) * 9, 0)
ANYWHERE = {b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf"}
ANCILLARY: list[Chunk] = [
    (b"gAMA", struct.pack(">I", 45455)),
    (b"sRGB", b"\0"),
    (b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)),
    (b"pHYs", struct.pack(">IIB", 2835, 2835, 1)),
    (b"iCCP", b"profile\0\0" + _PROFILE),
    (b"tEXt", b"Comment\0made by a test"),
    (b"zTXt", b"Comment\0\0" + zlib.compress(b"made by a test")),
    (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>"),
    (b"iTXt", b"Comment\0\1\0en\0\0" + zlib.compress("süß".encode())),
    (b"tIME", struct.pack(">HBBBBB", 2024, 1, 2, 3, 4, 5)),
    (b"bKGD", b"\0\0"),
    (b"prVt", b"anything"),
]
