"""The checksum of the native core."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace._core import crc32c, crc32c_each, set_simd


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_crc32c_has_the_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


# Long enough for the stretches that are summed side by side: 3 x 256 and 3 x 4,096 bytes.
PATTERN = np.random.default_rng(0).bytes(40_000)


@given(st.integers(0, 100), st.integers(0, 39_000), st.integers(0, 39_000))
def test_crc32c_is_the_same_in_plain_code_and_in_pieces(start: int, size: int, cut: int) -> None:
    data = PATTERN[start : start + size]
    checksum = crc32c(data)
    assert crc32c(data[cut:], crc32c(data[:cut])) == checksum
    set_simd("portable")
    try:
        assert crc32c(data) == checksum
    finally:
        set_simd("auto")


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)), max_size=5))
def test_crc32c_each_is_that_of_each_stretch(stretches: list[tuple[int, int]]) -> None:
    offsets, sizes = np.array(stretches, np.int64).reshape(-1, 2).T.copy()
    sums = np.zeros(len(stretches), np.uint32)
    crc32c_each(PATTERN, offsets, sizes, sums)
    assert sums.tolist() == [crc32c(PATTERN[offset:][:size]) for offset, size in stretches]


@pytest.mark.parametrize(("offset", "size"), [(0, 40_001), (40_001, 0), (-1, 5), (5, -1)])
def test_crc32c_each_refuses_a_stretch_outside_the_data(offset: int, size: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        crc32c_each(PATTERN, np.array([offset]), np.array([size]), np.zeros(1, np.uint32))
