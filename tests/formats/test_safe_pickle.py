"""The restricted unpickler: all plain data, of every protocol, and nothing else."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SourceError
from headrace.formats.codecs.safe_pickle import PickleError, load_pickle

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=PLAIN, protocol=st.integers(0, 5))
def test_plain_data_of_every_protocol_come_back_as_they_were(value: object, protocol: int) -> None:
    assert load_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
def test_true_and_false_are_not_one_and_zero(protocol: int) -> None:
    found = load_pickle(pickle.dumps([True, False, 1, 0], protocol))
    assert [type(value) for value in found] == [bool, bool, int, int]


ARRAYS = [
    np.arange(12, dtype="<i4").reshape(3, 4),
    np.asfortranarray(np.arange(12, dtype=">f8").reshape(3, 4)),
    np.arange(24, dtype="u1").reshape(2, 3, 4).transpose(2, 0, 1),
    np.arange(20)[::3],
    np.zeros((0, 4), "f4"),
    np.array(1.5),
    np.array([True, False]),
    np.array([b"ab", b"c"]),
    np.array(["ab", "ç"]),
    np.array([1 + 2j]),
]


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{array.shape}")
def test_arrays_come_back_with_their_type_and_shape(array: np.ndarray, protocol: int) -> None:
    found = load_pickle(pickle.dumps([array, array.dtype.type(0), array], protocol))
    for copy in (found[0], found[2]):
        assert copy.dtype == array.dtype
        assert np.array_equal(copy, array)


def test_bytearrays_come_back_as_bytes() -> None:
    for protocol in range(6):
        assert load_pickle(pickle.dumps(bytearray(b"a\xff"), protocol)) == b"a\xff"


@pytest.mark.parametrize(
    "value",
    [print, Path("x"), OrderedDict(), {1, 2}, np.dtype("u1"), np.array([None]), object, range(3)],
    ids=repr,
)
def test_anything_that_is_not_data_is_refused_by_name(value: object) -> None:
    for protocol in range(2, 6):
        with pytest.raises(PickleError, match=r"not data|numbers and text|opcode|bare NumPy|never"):
            load_pickle(pickle.dumps([1, value], protocol))


def test_the_error_is_a_source_error_and_a_value_error() -> None:
    assert issubclass(PickleError, SourceError) and issubclass(PickleError, ValueError)


def test_structured_arrays_are_refused() -> None:
    array = np.zeros(2, [("a", "i4"), ("b", "f8")])
    with pytest.raises(PickleError, match="numbers and text"):
        load_pickle(pickle.dumps(array))


BIG = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x00"
BOMBS = {
    "a string encoded again and again": b"\x80\x02("
    + BIG
    + b"0"
    + b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 3000
    + b"l.",
    "a string in a list again and again": b"\x80\x02(" + BIG + b"h\x00" * 30_000 + b"l.",
    "lists that share lists": b"\x80\x02]q\x00" + b"".join(
        b"(" + b"h" + bytes([k]) * 1 + (b"h" + bytes([k])) * 9 + b"lq" + bytes([k + 1])
        for k in range(20)
    ) + b"\x86" * 20 + b".",
    "a number of many digits": b"I" + b"9" * 5000 + b"\n.",
    "a memo index": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "a long": b"\x80\x02\x8b\xff\xff\xff\x7f.",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_within_a_small_multiple_of_the_stream(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PickleError):
            load_pickle(BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@given(data=st.data())
def test_damaged_streams_are_errors_and_nothing_else(data: st.DataObject) -> None:
    stream = bytearray(pickle.dumps([np.arange(9), {"a": (1, b"xyz", "t")}, -1.5], 4))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    try:
        load_pickle(bytes(stream[: data.draw(st.integers(1, len(stream)))]))
    except PickleError:
        pass
