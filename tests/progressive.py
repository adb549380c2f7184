"""An encoder of progressive JPEGs with any scan script (ITU-T T.81, annex G), slow and obvious."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jpegs import join_segment

MAX_RUN = 32767  # blocks of one end of band


class ProgressiveScan(NamedTuple):
    """One scan: its components, the band of zigzag indices, and the bits below the one that it gives,
    before (0: none is known) and after."""

    components: tuple[int, ...]
    first: int
    last: int
    before: int
    low: int


@dataclass(frozen=True)
class Coefficients:
    """Quantised coefficients by component: int[rows, columns, 64] in zigzag order, padded to whole MCUs."""

    height: int
    width: int
    sampling: list[tuple[int, int]]
    blocks: list[NDArray[np.int64]] = field(repr=False)

    def count_mcus(self) -> tuple[int, int]:
        max_h, max_v = (max(factors) for factors in zip(*self.sampling, strict=True))
        return -(-self.height // (8 * max_v)), -(-self.width // (8 * max_h))

    def count_blocks(self, component: int) -> tuple[int, int]:
        """Rows and columns of blocks that hold samples of the image."""
        max_h, max_v = (max(factors) for factors in zip(*self.sampling, strict=True))
        h, v = self.sampling[component]
        height, width = -(-self.height * v // max_v), -(-self.width * h // max_h)
        return -(-height // 8), -(-width // 8)


def draw_coefficients(
    height: int, width: int, sampling: list[tuple[int, int]], seed: int = 0, density: float = 0.2
) -> Coefficients:
    """Noise: most coefficients are zero, some are large."""
    rng = np.random.default_rng(seed)
    empty = Coefficients(height, width, sampling, [])
    rows, columns = empty.count_mcus()
    for h, v in sampling:
        shape = (rows * v, columns * h, 64)
        values = np.rint(rng.laplace(0, 4, shape)).astype(np.int64)
        values[rng.random(shape) > density * rng.random((*shape[:2], 1)) * 2] = 0
        values[..., 0] = rng.integers(-300, 300, shape[:2])
        empty.blocks.append(values)
    return empty


Code = tuple[int | None, int, int]  # a symbol or None, then a value of so many bits


def encode_progressive(
    coefficients: Coefficients,
    script: Iterable[ProgressiveScan],
    *,
    restart: int = 0,
    max_run: int = MAX_RUN,
    steep: bool = False,
    between: bytes = b"",
) -> bytes:
    """Return a JPEG.

    Args:
        coefficients: What it decodes to.
        script: Its scans; they need not be legal.
        restart: MCUs between two restart markers; 0 for none.
        max_run: The most blocks that one end of band covers.
        steep: Whether codes have 1 to 6 and 16 bits instead of 8.
        between: Segments before each scan.
    """
    out = b"\xff\xd8" + join_segment(0xDB, bytes([0, *range(1, 65)]))
    size = coefficients.height.to_bytes(2, "big") + coefficients.width.to_bytes(2, "big")
    frame = bytes([8]) + size + bytes([len(coefficients.sampling)])
    for component, (h, v) in enumerate(coefficients.sampling):
        frame += bytes([component + 1, h << 4 | v, 0])
    out += join_segment(0xC2, frame)
    if restart:
        out += join_segment(0xDD, restart.to_bytes(2, "big"))
    for scan in script:
        out += between + _encode_scan(coefficients, scan, restart, max_run, steep)
    return out + b"\xff\xd9"


def draw_script(random: random.Random, components: int, interleaved: bool) -> list[ProgressiveScan]:
    """Draw a legal script in which every coefficient becomes complete."""
    every = tuple(range(components))
    groups = [every] if interleaved else [(c,) for c in every]
    script, tracks = [], []
    for group in groups:
        low = random.randint(0, 3)
        script.append(ProgressiveScan(group, 0, 0, 0, low))
        tracks.append([ProgressiveScan(group, 0, 0, bit + 1, bit) for bit in range(low)[::-1]])
    for c in every:
        tracks += [_draw_band(random, c, *band) for band in _divide(random, 1, 63)]
    while tracks := [track for track in tracks if track]:
        script.append(random.choice(tracks).pop(0))
    return script


def _draw_band(random: random.Random, c: int, first: int, last: int) -> list[ProgressiveScan]:
    low = random.randint(0, 3)
    scans = [ProgressiveScan((c,), first, last, 0, low)]
    for bit in range(low)[::-1]:
        scans += [
            ProgressiveScan((c,), *band, bit + 1, bit) for band in _divide(random, first, last)
        ]
    return scans


def _divide(random: random.Random, first: int, last: int) -> list[tuple[int, int]]:
    cuts = sorted(random.sample(range(first, last + 1), min(random.randint(0, 2), last - first)))
    starts = sorted({first, *cuts})
    return [(start, stop - 1) for start, stop in zip(starts, [*starts[1:], last + 1], strict=True)]


def _encode_scan(
    coefficients: Coefficients, scan: ProgressiveScan, restart: int, max_run: int, steep: bool
) -> bytes:
    mcus = list(_list_mcus(coefficients, scan))
    size = restart or max(len(mcus), 1)
    intervals = [mcus[i : i + size] for i in range(0, len(mcus), size)]
    codes = [list(_encode_interval(interval, scan, max_run)) for interval in intervals]
    symbols = Counter(symbol for interval in codes for symbol, _, _ in interval)
    del symbols[None]
    lengths = _choose_lengths([symbol for symbol, _ in symbols.most_common() if symbol is not None], steep)  # fmt: skip
    table = _number_codes(lengths)
    kind = 0x10 if scan.first else 0
    out = b""
    if table:
        counts = [sum(length == n for length in lengths.values()) for n in range(1, 17)]
        out = join_segment(0xC4, bytes([kind, *counts, *table]))
    header = bytes([len(scan.components), *(b for c in scan.components for b in (c + 1, 0))])
    out += join_segment(0xDA, header + bytes([scan.first, scan.last, scan.before << 4 | scan.low]))
    for number, interval in enumerate(codes):
        if number:
            out += bytes([0xFF, 0xD0 + (number - 1) % 8])
        out += _join_codes(interval, table)
    return out


def _list_mcus(
    coefficients: Coefficients, scan: ProgressiveScan
) -> Iterator[list[tuple[int, NDArray[np.int64]]]]:
    """The blocks of every MCU with their components."""
    if len(scan.components) == 1:
        c = scan.components[0]
        rows, columns = coefficients.count_blocks(c)
        for y in range(rows):
            for x in range(columns):
                yield [(c, coefficients.blocks[c][y, x])]
        return
    rows, columns = coefficients.count_mcus()
    for y in range(rows):
        for x in range(columns):
            mcu = []
            for c in scan.components:
                h, v = coefficients.sampling[c]
                for dy in range(v):
                    for dx in range(h):
                        mcu.append((c, coefficients.blocks[c][y * v + dy, x * h + dx]))
            yield mcu


def _encode_interval(
    mcus: list[list[tuple[int, NDArray[np.int64]]]], scan: ProgressiveScan, max_run: int
) -> Iterator[Code]:
    if scan.first > 0:
        band = [mcu[0][1][scan.first : scan.last + 1].tolist() for mcu in mcus]
        encode = _refine_band if scan.before else _encode_band
        yield from encode(band, scan.low, max_run)
        return
    predictors: Counter[int] = Counter()
    for c, block in (entry for mcu in mcus for entry in mcu):
        value = int(block[0]) >> scan.low
        if scan.before:
            yield None, value & 1, 1
        else:
            yield _sized(0, value - predictors[c])
            predictors[c] = value


def _sized(run: int, value: int) -> Code:
    """RRRRSSSS and the value (T.81, F.1.2.1)."""
    size = abs(value).bit_length()
    return run << 4 | size, value if value >= 0 else value + (1 << size) - 1, size


def _end_of_bands(run: int) -> Code:
    """EOBn: the band has ended in `run` blocks."""
    bits = run.bit_length() - 1
    return bits << 4, run - (1 << bits), bits


def _scale(value: int, low: int) -> int:
    return value >> low if value >= 0 else -(-value >> low)


def _encode_band(blocks: list[list[int]], low: int, max_run: int) -> Iterator[Code]:
    """A first scan (T.81, G.1.2.2)."""
    ended = 0
    for block in blocks:
        zeros = 0
        for value in (_scale(value, low) for value in block):
            if value == 0:
                zeros += 1
                continue
            if ended:
                yield _end_of_bands(ended)
                ended = 0
            for _ in range(zeros // 16):
                yield 0xF0, 0, 0
            yield _sized(zeros % 16, value)
            zeros = 0
        ended += zeros > 0
        if ended == max_run:
            yield _end_of_bands(ended)
            ended = 0
    if ended:
        yield _end_of_bands(ended)


def _refine_band(blocks: list[list[int]], low: int, max_run: int) -> Iterator[Code]:
    """A refining scan (T.81, G.1.2.3)."""
    ended, behind = 0, list[Code]()  # blocks whose band has ended, and their correction bits
    for block in blocks:
        magnitudes = [abs(value) >> low for value in block]
        last_new = max((k for k, m in enumerate(magnitudes) if m == 1), default=-1)
        zeros, corrections = 0, list[Code]()
        for k, magnitude in enumerate(magnitudes):
            if magnitude == 0:
                zeros += 1
                continue
            while zeros > 15 and k <= last_new:
                yield from ([_end_of_bands(ended), *behind] if ended else [])
                yield 0xF0, 0, 0
                yield from corrections
                ended, behind, corrections = 0, [], []
                zeros -= 16
            if magnitude > 1:
                corrections.append((None, magnitude & 1, 1))
                continue
            yield from ([_end_of_bands(ended), *behind] if ended else [])
            yield zeros << 4 | 1, int(block[k] > 0), 1
            yield from corrections
            ended, behind, corrections, zeros = 0, [], [], 0
        if zeros or corrections:
            ended += 1
            behind += corrections
        if ended == max_run:
            yield from [_end_of_bands(ended), *behind]
            ended, behind = 0, []
    yield from ([_end_of_bands(ended), *behind] if ended else [])


def _choose_lengths(symbols: list[int], steep: bool) -> dict[int, int]:
    """The length of each symbol's code, shortest first."""
    if steep:
        return {symbol: i + 1 if i < 6 else 16 for i, symbol in enumerate(symbols)}
    return dict.fromkeys(symbols, 8)


def _number_codes(lengths: dict[int, int]) -> dict[int, tuple[int, int]]:
    """The code of each symbol and its length (T.81, annex C)."""
    table: dict[int, tuple[int, int]] = {}
    code, previous = 0, 0
    for symbol, length in lengths.items():
        code <<= length - previous
        table[symbol] = code, length
        code, previous = code + 1, length
    return table


def _join_codes(codes: list[Code], table: dict[int, tuple[int, int]]) -> bytes:
    """The bits, padded with ones, and a zero behind every 0xFF."""
    bits = ""
    parts = []
    for symbol, value, size in codes:
        if symbol is not None:
            code, length = table[symbol]
            parts.append(f"{code:0{length}b}")
        if size:
            parts.append(f"{value:0{size}b}")
    bits = "".join(parts)
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""
    return data.replace(b"\xff", b"\xff\x00")
