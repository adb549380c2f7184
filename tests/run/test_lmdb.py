"""LMDB files of tensorpack's layout: ours, theirs, and neither."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

lmdb = pytest.importorskip("lmdb")

from penstock import Flow
from penstock.errors import SourceError


def make_points(count: int) -> list[list[object]]:
    return [[np.full(n % 7, n, np.uint8), n] for n in range(count)]


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    assert Flow.of(make_points(120)).save(path) == 120
    flow = Flow.load(path)
    assert len(flow) == 120
    assert [(image.tolist(), n) for image, n in flow] == [([n] * (n % 7), n) for n in range(120)]
    assert sorted(n for _, n in Flow.load(path, shuffle=True, seed=1)) == list(range(120))


def test_the_layout_is_the_original_one(tmp_path: Path) -> None:
    path = tmp_path / "x.lmdb"
    Flow.of(make_points(3)).save(str(path))
    assert path.is_file() and sorted(p.name for p in tmp_path.iterdir()) == ["x.lmdb"]
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        entries = dict(transaction.cursor())
    keys = [b"00000000", b"00000001", b"00000002"]
    assert list(entries) == [*keys, b"__keys__"]
    assert pickle.loads(entries[b"__keys__"]) == keys
    assert pickle.loads(entries[keys[2]])[1] == 2


@pytest.mark.parametrize(
    "name", ["tensorpack-pickle", "tensorpack-pickle-p5np1", "tensorpack-raw-dir"]
)
def test_files_of_the_original_are_read(shared: Path, name: str) -> None:
    folder = shared / "fixtures" / name
    expected = json.loads((folder / "expected.json").read_text())["samples"]
    points = list(Flow.load(str(folder / "data.lmdb")))
    got = [(hashlib.sha256(data.tobytes()).hexdigest(), label) for data, label in points]
    assert got == [(sample["sha256"], sample["label"]) for sample in expected]


@pytest.mark.parametrize("name", ["list", "dict", "odd"])
def test_arrays_of_the_original_are_read(shared: Path, name: str) -> None:
    flow = Flow.load(str(shared / "fixtures" / "tensorpack-arrays" / f"{name}.lmdb"))
    assert len(list(flow)) == len(flow) == (20 if name == "odd" else 16)


def test_the_original_reads_our_files(tmp_path: Path) -> None:
    dataflow = pytest.importorskip("tensorpack.dataflow", exc_type=ImportError)
    path = str(tmp_path / "x.lmdb")
    Flow.of(make_points(20)).save(path)
    theirs = dataflow.LMDBSerializer.load(path, shuffle=False)
    theirs.reset_state()
    assert [(image.tolist(), n) for image, n in theirs] == [([n] * (n % 7), n) for n in range(20)]


def test_two_flows_and_many_processes_may_read_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of(make_points(30)).save(path)
    first, second = Flow.load(path), Flow.load(path).in_process(2, start="fork")
    assert [n for _, n in first] == [n for _, n in second] == list(range(30))


def test_a_resumed_flow_reads_only_what_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of(make_points(30)).save(path)
    flow = Flow.load(path).select(1)
    flow.load_state_dict({**flow.state_dict(), "position": 28})
    assert list(flow) == [(28,), (29,)]


def test_an_interrupted_save_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Flow.of(lambda: (1 // n for n in (1, 0))).save(str(tmp_path / "x.lmdb"))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.lmdb").write_bytes(b"precious")
    with pytest.raises(SourceError, match="exists"):
        Flow.of([1]).save(str(tmp_path / "x.lmdb"))
    assert (tmp_path / "x.lmdb").read_bytes() == b"precious"


def test_what_is_not_an_lmdb_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no LMDB at"):
        Flow.load(str(tmp_path / "missing.lmdb"))
    (tmp_path / "text.lmdb").write_text("hello" * 1000)
    with pytest.raises(SourceError, match="cannot be opened as an LMDB"):
        Flow.load(str(tmp_path / "text.lmdb"))


def test_a_value_that_is_more_than_data_is_refused_with_its_key(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of([1, Path("x")]).save(path)
    with pytest.raises(SourceError, match=r"x\.lmdb: the value of b'00000001': .*pathlib"):
        list(Flow.load(path))
