"""Our msgpack decoder against the msgpack package, and against damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SourceError
from headrace.formats.codecs.safe_msgpack import load_msgpack

msgpack = pytest.importorskip("msgpack")

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
).filter(lambda value: not (isinstance(value, dict) and "nd" in value))


@given(value=PLAIN)
def test_what_msgpack_packs_is_read(value: object) -> None:
    try:
        assert load_msgpack(msgpack.packb(value)) == value
    except SourceError:
        assert "nd" in repr(value)


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65535, 65536])
def test_every_width_of_a_length_is_read(size: int) -> None:
    for value in ("a" * size, b"a" * size, [1] * size, {str(i): i for i in range(size)}):
        assert load_msgpack(msgpack.packb(value)) == value


@given(data=st.binary(min_size=1, max_size=60))
def test_damage_is_an_error_and_nothing_else(data: bytes) -> None:
    try:
        load_msgpack(data)
    except SourceError:
        pass


def test_a_key_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(SourceError, match="the key 'a', or with it twice"):
        load_msgpack(b"\x82\xa1a\x01\xa1a\x02")


def test_half_an_array_is_not_one() -> None:
    for fields in (
        {b"nd": True, b"type": "|u1", b"kind": b"", b"data": b"ab"},
        {b"nd": True, b"type": "|u1", b"kind": b"V", b"shape": [2], b"data": b"ab"},
        {b"nd": 1, b"type": "|u1", b"kind": b"", b"shape": [2], b"data": b"ab"},
        {b"nd": True, b"type": "|u1", b"kind": b"", b"shape": [2], b"data": "ab"},
    ):
        with pytest.raises(SourceError, match="array"):
            load_msgpack(msgpack.packb(fields))
