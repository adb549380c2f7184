"""The checksum of the native core."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._core import crc32c, set_simd


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_crc32c_has_the_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@given(st.binary(max_size=300), st.integers(0, 300))
def test_crc32c_is_the_same_in_plain_code_and_in_pieces(data: bytes, cut: int) -> None:
    checksum = crc32c(data)
    assert crc32c(data[cut:], crc32c(data[:cut])) == checksum
    set_simd("portable")
    try:
        assert crc32c(data) == checksum
    finally:
        set_simd("auto")
