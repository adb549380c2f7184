"""Seek tables are small, and never trusted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _core
from images import encode
from jpegs import CORRUPT, OK, TRUNCATED, decode_with_pillow

PICTURE = encode(160, 240, quality=95, subsampling="4:4:4", seed=3)
PIXELS = decode_with_pillow(PICTURE)
SEEK = _core.build_seek(PICTURE)[1]
BOX = (101, 83, 90, 60)


def decode_box(data: bytes, seek: bytes) -> np.ndarray:
    status, pixels = _core.decode_jpeg(data, BOX, seek)
    assert status == OK and pixels is not None
    return pixels


def expected_box(pixels: np.ndarray) -> np.ndarray:
    left, top, width, height = BOX
    return pixels[top : top + height, left : left + width]


def sign(table: bytes, data: bytes) -> bytes:
    """Return the table with a valid checksum, as an attacker would write it."""
    scan = data.index(b"\xff\xda")
    header = data[: scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")]
    return table + _core.crc32c(table, _core.crc32c(header)).to_bytes(4, "little")


def test_a_table_costs_at_most_1_5_percent() -> None:
    assert 0 < len(SEEK) <= 0.015 * len(PICTURE)


def test_a_tiny_picture_has_an_empty_table() -> None:
    assert _core.build_seek(encode(32, 32)) == (OK, b"")


def test_a_picture_with_restart_markers_has_an_empty_table() -> None:
    assert _core.build_seek(encode(160, 240, restart_marker_rows=1)) == (OK, b"")


def test_the_bytes_are_the_same_each_time() -> None:
    assert _core.build_seek(PICTURE) == (OK, SEEK)


def test_a_table_is_used() -> None:
    """With damage above the box, only an entry point after it can give the right pixels."""
    data = bytearray(PICTURE)
    scan = data.index(b"\xff\xda")
    data[scan + 20 : scan + 22] = b"\xff\xe5"
    assert _core.decode_jpeg(bytes(data), BOX)[0] == CORRUPT
    np.testing.assert_array_equal(decode_box(bytes(data), SEEK), expected_box(PIXELS))


def test_damaged_pictures_have_no_table() -> None:
    assert _core.build_seek(PICTURE[:-2]) == (TRUNCATED, b"")
    data = bytearray(PICTURE)
    data[len(data) // 2 : len(data) // 2 + 2] = b"\xff\xe5"
    assert _core.build_seek(bytes(data)) == (CORRUPT, b"")


def test_a_table_of_another_picture_is_ignored() -> None:
    other = encode(160, 240, quality=95, subsampling="4:4:4", seed=4)
    pixels = decode_with_pillow(other)
    np.testing.assert_array_equal(decode_box(other, SEEK), expected_box(pixels))


def test_a_signed_table_of_another_picture_is_detected() -> None:
    """Size and headers are the same, but the entries do not agree with the decoded data."""
    other = encode(160, 240, quality=95, subsampling="4:4:4", seed=4)
    padded = other[:-2] + bytes(max(0, len(PICTURE) - len(other))) + b"\xff\xd9"
    stolen = sign(SEEK[:-4], padded)
    np.testing.assert_array_equal(
        decode_box(padded, stolen), expected_box(decode_with_pillow(other))
    )


@given(st.integers(0, len(SEEK) - 1), st.integers(1, 255))
def test_a_damaged_table_is_ignored(at: int, change: int) -> None:
    seek = bytearray(SEEK)
    seek[at] ^= change
    np.testing.assert_array_equal(decode_box(PICTURE, bytes(seek)), expected_box(PIXELS))


@given(st.integers(0, len(SEEK) - 5), st.integers(1, 255))
def test_a_forged_table_never_crashes(at: int, change: int) -> None:
    table = bytearray(SEEK[:-4])
    table[at] ^= change
    assert _core.decode_jpeg(PICTURE, BOX, sign(bytes(table), PICTURE))[0] == OK


@pytest.mark.parametrize("size", [0, 1, 4, 5, 20, len(SEEK) - 1])
def test_a_cut_table_is_ignored(size: int) -> None:
    np.testing.assert_array_equal(decode_box(PICTURE, SEEK[:size]), expected_box(PIXELS))


def read_as_documented(
    seek: bytes, columns: int, components: int
) -> tuple[list[int], list[list[int]]]:
    """Return the columns that have entries, and the distance and predictors of each entry but the first (docs/reference/format.md)."""
    step, widths = int.from_bytes(seek[4:6], "little"), seek[6 : 7 + components]
    half = -(-columns // 2)
    chosen = [*range(0, half, step)]
    chosen += [column for column in range(half, columns) if column % (4 * step) == 0]
    packed, numbers = int.from_bytes(seek[7 + components : -4], "little"), []
    for _ in range(8 * (len(seek) - 11 - components) // sum(widths)):
        numbers.append([])
        for width in widths:
            numbers[-1].append(packed & ((1 << width) - 1))
            packed >>= width
    assert packed == 0
    return chosen, numbers


def test_a_table_has_the_documented_format() -> None:
    """At quality 100 a grey block's DC is its sum over 8, and so is the predictor of the block behind it."""
    data = encode(160, 488, quality=100, mode="L")
    seek = _core.build_seek(data)[1]
    assert int.from_bytes(seek[:4], "little") == len(data)
    columns, numbers = read_as_documented(seek, 61, 1)
    assert columns[-1] >= 31 and len(columns) * 20 == len(numbers) + 1
    blocks = decode_with_pillow(data)[..., 0].reshape(20, 8, 61, 8).astype(int) - 128
    levels = np.concatenate([[0], blocks.sum((1, 3)).ravel() / 8])
    before = [levels[row * 61 + column] for row in range(20) for column in columns][1:]
    read = np.array([number for _, number in numbers], np.uint32)
    width = seek[7]
    signed = (read << (32 - width)).view(np.int32) >> (32 - width)
    np.testing.assert_allclose(signed, before, atol=2)
    assert np.ptp(signed) > 100
    assert sum(distance for distance, _ in numbers) < 8 * len(data)


@pytest.mark.parametrize("left", [*range(0, 240, 9)])
def test_every_column_is_reached_through_its_entry(left: int) -> None:
    """With damage in the first row, boxes below it are right only if they begin at an entry."""
    data = bytearray(PICTURE)
    scan = data.index(b"\xff\xda")
    data[scan + 20 : scan + 22] = b"\xff\xe5"
    status, pixels = _core.decode_jpeg(bytes(data), (left, 83, 240 - left, 60), SEEK)
    assert status == OK
    np.testing.assert_array_equal(pixels, PIXELS[83:143, left:])
