"""tensorpack's LMDB files are written and read by its names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
lmdb = pytest.importorskip("lmdb")

from headrace.compat import tensorpack as tp
from headrace.errors import WorkerError


def numbers(count: int) -> tp.DataFromList:
    return tp.DataFromList([[n] for n in range(count)], shuffle=False)


def values(ds: Any) -> list[Any]:
    return [int(dp[0]) for dp in ds]


def test_lmdb_data_is_raw_and_complete(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    tp.LMDBSerializer.save(numbers(5), path)
    assert [key for key, _ in tp.LMDBData(path, shuffle=False)] == [b"%08d" % n for n in range(5)]
    assert sorted(values(tp.LMDBSerializer.load(path))) == list(range(5))
    (one,) = tp.LMDBData(path, keys=[b"00000003"])
    assert one[0] == b"00000003" and isinstance(one[1], bytes)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("{:0>8d}", [*range(5)]), (["00000003", b"00000001"], [3, 1])],
)
def test_lmdb_keys_may_be_text_or_a_format(tmp_path: Path, keys: Any, expected: list[int]) -> None:
    path = str(tmp_path / "x.lmdb")
    tp.LMDBSerializer.save(numbers(5), path)
    ds = tp.LMDBData(path, shuffle=False, keys=keys)
    assert len(ds) == len(expected) and [int(key) for key, _ in ds] == expected
    assert sorted(int(key) for key, _ in tp.LMDBData(path, keys=keys)) == sorted(expected)


def test_a_decoder_gets_key_and_value_and_drops_with_none(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    tp.LMDBSerializer.save(numbers(5), path)

    def decode(key: bytes, value: bytes) -> Any:
        return [int(key)] if value and int(key) % 2 else None

    assert values(tp.LMDBDataDecoder(tp.LMDBData(path, shuffle=False), decode)) == [1, 3]


def test_datapoints_are_decoded_from_a_file_or_from_what_was_read_of_it(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    tp.LMDBSerializer.save(tp.DataFromList([[np.arange(3), n] for n in range(4)]), path)
    read = tp.LocallyShuffleData(tp.LMDBData(path, shuffle=False), 2)
    assert sorted(n for _, n in tp.LMDBDataPoint(read)) == [0, 1, 2, 3]
    for array, _ in tp.LMDBDataPoint(path, shuffle=False):
        array += 1
        assert array.tolist() == [1, 2, 3]


def test_decoding_datapoints_runs_no_code_of_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    with lmdb.open(path, subdir=False) as environment, environment.begin(write=True) as entries:
        entries.put(b"00000000", pickle.dumps(pytest.fail))
    with pytest.raises(WorkerError, match="value of .*00000000.* is not data"):
        list(tp.LMDBDataPoint(path))


@pytest.mark.parametrize("name", ["db.mdb", "db", "folder"])
def test_whatever_its_path_what_is_saved_is_an_lmdb(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    tp.LMDBSerializer.save(numbers(3), path)
    assert len(tp.LMDBData(path)) == 3
    assert values(tp.LMDBSerializer.load(path, shuffle=False)) == [0, 1, 2]
