"""Plain data comes back as it was, by every protocol; everything else is refused, cheaply."""

from __future__ import annotations

import copyreg
import os
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.safe_pickle import load_pickle

ARRAYS = [
    np.arange(12, dtype=np.uint8),
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(12).reshape(3, 4)),
    np.arange(24)[::3],
    np.arange(4, dtype=">i4"),
    np.zeros((0, 3)),
    np.array(7),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array([1 + 2j]),
    np.float16([1.5]),
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back_by_every_protocol(array: np.ndarray, protocol: int) -> None:
    image, again, label = load_pickle(pickle.dumps([array, array, 7], protocol))
    assert label == 7 and type(image) is np.ndarray and image.flags.writeable
    assert image.dtype == array.dtype and image.shape == array.shape
    assert image.tobytes() == array.tobytes() == again.tobytes()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_scalars_and_containers_come_back(protocol: int) -> None:
    item = {"a": (1, -2.5, None, True, "ä", b"\xff"), 3: [np.float32(1.5), np.bool_(True), 2**70]}
    item |= {"s": {1, 2}, "f": frozenset([3]), "b": bytearray(b"xy"), "c": 1j}
    assert load_pickle(pickle.dumps(item, protocol)) == item


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(0, 5),
)
def test_any_plain_value_comes_back(value: Any, protocol: int) -> None:
    assert load_pickle(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        load_pickle(data)
    except ValueError:
        pass


@given(st.data())
def test_a_damaged_pickle_is_read_or_refused(data: st.DataObject) -> None:
    good = bytearray(pickle.dumps([np.arange(5, dtype=np.uint8), 3], data.draw(st.integers(2, 5))))
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        load_pickle(good)
    except ValueError:
        pass


class Call:
    def __init__(self, fn: Any, *args: Any) -> None:
        self.call = (fn, args)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Call(os.system, "true"), "posix.system"),
        (Call(eval, "1"), r"builtin\w*\.eval"),
        (Call(np.frombuffer, b"1"), "frombuffer"),
        (np.array([object()], object), "dtype|object|opcode 0x81"),
        (np.zeros(2, "i4,f4"), "dtype"),
        (np.zeros(2, "M8[s]"), "dtype"),
        (Path("x"), "pathlib"),
        (np.dtype("u1"), "_Dtype"),
        (int, r"builtin\w*\.(int|long)"),
    ],
    ids=str,
)
def test_anything_else_is_refused_by_name(value: Any, named: str) -> None:
    for protocol in (2, 4, 5):
        with pytest.raises(ValueError, match=named):
            load_pickle(pickle.dumps([1, value], protocol))


def test_an_extension_code_is_refused_even_when_it_was_used_before() -> None:
    copyreg.add_extension("posix", "system", 241)
    try:
        data = pickle.dumps(os.system, 2)
        assert pickle.loads(data) is os.system
        with pytest.raises(ValueError, match="opcode 0x82"):
            load_pickle(data)
    finally:
        copyreg.remove_extension("posix", "system", 241)


def test_dotted_names_are_not_followed() -> None:
    data = b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dtype\x93."
    with pytest.raises(ValueError, match=r"asks for numpy\.ndarray\.dtype"):
        load_pickle(data)


def test_a_pickle_cannot_change_the_functions_that_it_calls() -> None:
    data = b"\x80\x02cnumpy\ndtype\n}X\x01\x00\x00\x00aK\x01sb."
    with pytest.raises(ValueError, match="changes a function"):
        load_pickle(data)


def test_no_hostile_file_runs_or_asks_for_memory(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lmdb")
    from penstock.errors import SourceError
    from penstock.run.lmdb import LmdbRecords

    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = refused = 0
    for pattern in ("exec-*", "mem-*", "dtype-*", "laughs*", "deep-*", "self-*", "setstate-*"):
        for path in sorted((shared / "fixtures" / "hostile" / "lmdb").glob(pattern)):
            try:
                records = list(LmdbRecords(str(path)))
            except SourceError:
                refused += 1
                continue
            for _, value in records:
                try:
                    load_pickle(value)
                    read += 1
                except ValueError:
                    refused += 1
    assert read > 100 and refused > 25
    assert not (tmp_path / "PWNED").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB
