"""LMDB files of tensorpack's layout: ours, theirs, and neither."""

from __future__ import annotations

import hashlib
import json
import pickle
import resource
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

lmdb = pytest.importorskip("lmdb")

from headrace import Flow
from headrace.errors import PackError, SourceError


def make_points(count: int) -> list[list[object]]:
    return [[np.full(n % 7, n, np.uint8), n] for n in range(count)]


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    assert Flow.of(make_points(120)).save(path) == 120
    flow = Flow.load(path)
    assert len(flow) == 120
    assert [(image.tolist(), n) for image, n in flow] == [([n] * (n % 7), n) for n in range(120)]
    assert sorted(n for _, n in Flow.load(path, shuffle=True, seed=1)) == list(range(120))


def test_all_items_are_saved_by_several_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pack.export.to_lmdb._COMMIT_EVERY", 3)
    assert Flow.of(range(10)).save(tmp_path / "x.lmdb") == 10
    assert list(Flow.load(tmp_path / "x.lmdb")) == list(range(10))


def test_loaded_arrays_may_be_written_to(tmp_path: Path) -> None:
    Flow.of([[np.zeros(3), {"a": (np.ones(2),)}]]).save(tmp_path / "x.lmdb")
    ((zeros, record),) = Flow.load(tmp_path / "x.lmdb")
    assert zeros.flags.writeable and record["a"][0].flags.writeable


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
    "name",
    [
        "tensorpack-pickle",
        "tensorpack-pickle-p5np1",
        "tensorpack-raw-dir",
        "tensorpack-msgpack",
        "tensorpack-pyarrow",
    ],
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


def test_an_older_numpy_knows_all_names_in_our_files(tmp_path: Path) -> None:
    path = tmp_path / "x.lmdb"
    text = b"cnumpy._core.multiarray\n"  # as data it stays as it is
    item = [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.float32(1), text]
    Flow.of([item]).save(path)
    assert path.read_bytes().count(b"numpy._core") == 1
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        loaded = pickle.loads(transaction.get(b"00000000"))
    assert repr(loaded) == repr(item) == repr(next(iter(Flow.load(path))))


def test_two_flows_and_many_processes_may_read_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of(make_points(30)).save(path)
    first, second = Flow.load(path), Flow.load(path).in_process(2, start="fork")
    assert [n for _, n in first] == [n for _, n in second] == list(range(30))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_an_lmdb_is_read_in_worker_processes(tmp_path: Path, start: str) -> None:
    path = tmp_path / "x.lmdb"
    Flow.of(range(30)).save(path)
    assert list(Flow.load(path).in_process(2, start=start)) == list(range(30))
    assert list(Flow.load(path).shard(1, 4)) == list(range(1, 30, 4))


def test_no_items_are_an_empty_lmdb(tmp_path: Path) -> None:
    assert Flow.of([]).save(tmp_path / "x.lmdb") == 0
    assert list(Flow.load(tmp_path / "x.lmdb")) == []


def read_integer_or_refuse(path: Path) -> bool:
    """Whether all items can be read; what cannot be is a SourceError that names the file."""
    try:
        list(Flow.load(path))
    except SourceError as error:
        assert str(path) in str(error)
        return False
    return True


def test_damaged_files_are_errors_and_never_crash_the_process(shared: Path) -> None:
    files = sorted((shared / "fixtures/hostile/lmdb").glob("struct-*.lmdb"))
    results = {path.stem: read_integer_or_refuse(path) for path in files}
    assert results["struct-good"] and not results["struct-half"] and len(files) > 40


def test_a_file_cut_or_overwritten_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.lmdb"
    Flow.of([[np.full(9000, n, np.uint8), n] for n in range(40)]).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for n, place in enumerate(rng.integers(0, len(whole), 60).tolist()):
        noise = rng.bytes(100) if n % 2 else b""
        path.write_bytes(whole[:place] + noise + (whole[place + 100 :] if noise else b""))
        assert not (read_integer_or_refuse(path) and not noise), "a truncated file was read"


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.lmdb"
    Flow.of([np.zeros(9000, np.uint8)] * 40).save(path)
    items = iter(Flow.load(path))
    next(items)
    with open(path, "r+b") as file:
        file.truncate(8192)
    with pytest.raises(SourceError, match=r"x\.lmdb: changed after it was opened"):
        next(items)


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


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize("item", [np.zeros(3, "M8[s]"), {1, 2}, Point(1, 2), lambda: None])
def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path, item: object) -> None:
    with pytest.raises(PackError, match="item 1 cannot be saved in an LMDB"):
        Flow.of([0, item]).save(tmp_path / "x.lmdb")
    assert list(tmp_path.iterdir()) == []


def test_the_folders_above_are_made_as_for_a_data_set(tmp_path: Path) -> None:
    for name in ("x.lmdb", "x"):
        Flow.of([1]).save(tmp_path / name[:1] / "above" / name)
        assert list(Flow.load(tmp_path / name[:1] / "above" / name)) == [1]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.lmdb").write_bytes(b"precious")
    with pytest.raises(PackError, match=r"x\.lmdb: exists already"):
        Flow.of([1]).save(str(tmp_path / "x.lmdb"))
    assert (tmp_path / "x.lmdb").read_bytes() == b"precious"


def test_a_disk_that_is_full_is_an_error_that_says_so(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(PackError, match="LMDB database cannot be written"):
            Flow.of([bytes(200_000)]).save(tmp_path / "x.lmdb")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_an_lmdb_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"missing\.lmdb: No such file"):
        Flow.load(str(tmp_path / "missing.lmdb"))
    (tmp_path / "text.lmdb").write_text("hello" * 1000)
    with pytest.raises(SourceError, match=r"text\.lmdb: not an LMDB file"):
        Flow.load(str(tmp_path / "text.lmdb"))


def test_a_value_that_is_more_than_data_is_refused_with_its_key(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of([1, 2]).save(path)
    environment = lmdb.open(path, subdir=False, lock=False)
    with environment, environment.begin(write=True) as transaction:
        transaction.put(b"00000001", pickle.dumps(Path("x")))
    with pytest.raises(SourceError, match=r"x\.lmdb: the value of b'00000001': .*pathlib"):
        list(Flow.load(path))


def test_a_key_that_is_listed_and_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lmdb")
    Flow.of([1, 2, 3]).save(path)
    environment = lmdb.open(path, subdir=False, lock=False)
    with environment, environment.begin(write=True) as transaction:
        transaction.delete(b"00000001")
    with pytest.raises(SourceError, match=r"x\.lmdb: has no key b'00000001', which is listed"):
        list(Flow.load(path))
