"""Items saved as a packed dataset and loaded again; datasets and LMDBs as sources of flows."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace
from flow.functions import get_key, name_item, square
from headrace import Flow, Sample
from headrace.errors import CorruptError, PackError, SourceError
from headrace.flow.shard_items import make_item, make_sample
from headrace.store.verify import verify_dataset
from headrace.testing.flow_contract import read
from headrace.transforms import CenterCrop
from images import encode
from trees import make_folder

JPEGS = [encode(40 + n, 60, seed=n) for n in range(12)]


def same(left: Any, right: Any) -> bool:
    """Equal in value, type, dtype, shape and nesting."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        kind = (left.dtype, left.shape, left.tobytes())  # the bytes: NaN equals nothing
        return kind == (right.dtype, right.shape, right.tobytes())
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if type(left) is float and math.isnan(left):
        return math.isnan(right)  # Python's NaN is kept, the bits that nobody looks at are not
    return bool(left == right) or np.array(left).tobytes() == np.array(right).tobytes()


class Tagged(tuple):
    """A tuple that is more than one."""


ITEMS: list[Any] = [
    (JPEGS[0], 3),
    [np.frombuffer(JPEGS[1], np.uint8), np.int64(-7)],
    {"image": JPEGS[2], "mask": encode(4, 4, format="PNG"), "label": 2, "caption": "ein Bär"},
    {"a": {"b": [np.float32(0.1), None, True, (1, 2.5)]}, 7: np.zeros((0, 3)), (1, "x"): b""},
    {"A": b"1", "a": b"2", "Ä": b"3", "Ö": b"4", "item.json": b"5", "cls": b"6", "x.npy": b"7"},
    [np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)), np.array("text"), np.array(5)],
    [np.array(["2001-01-01"], "M8[D]"), bytearray(b"xyz"), math.nan, -math.inf, 2**70],
    ("x", np.str_(""), np.bytes_(b"")),
    [b"\xff\xd8\xff not a picture at all", 1],
    JPEGS[3],
    np.arange(5),
    17,
    [],
]


def test_items_come_back_as_they_were(tmp_path: Path) -> None:
    assert Flow.of(ITEMS).save(tmp_path / "out", shard_size=20_000) == len(ITEMS)
    flow = Flow.load(tmp_path / "out")
    assert len(flow) == len(ITEMS)
    for got, put in zip(flow, ITEMS, strict=True):
        assert same(got, put), (got, put)
    assert len(headrace.open_dataset(tmp_path / "out").manifest.shards) > 1
    assert list(verify_dataset(tmp_path / "out")) == []


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
arrays = hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0, max_side=3))
values = st.recursive(
    scalars | arrays | hnp.scalar_dtypes().flatmap(lambda t: hnp.from_dtype(t)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(values.filter(lambda value: not _has_times(value)))
def test_a_sample_keeps_every_plain_item(value: Any) -> None:
    assert same(make_item(make_sample(0, value)), value)


def _has_times(value: Any) -> bool:
    """Scalars of dates and durations, which are refused; arrays of them are kept."""
    if isinstance(value, dict):
        return any(map(_has_times, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_times, value))
    return isinstance(value, (np.datetime64, np.timedelta64))


def test_loaded_arrays_may_be_written_to(tmp_path: Path) -> None:
    Flow.of([(np.zeros(3), np.frombuffer(JPEGS[0], np.uint8))]).save(tmp_path / "out")
    (item,) = Flow.load(tmp_path / "out")
    assert all(array.flags.writeable for array in item)


def test_images_with_labels_are_a_data_set_for_the_loader_and_the_tools(tmp_path: Path) -> None:
    pairs = [(data, n % 3) for n, data in enumerate(JPEGS)]
    Flow.of(pairs).save(tmp_path / "out", classes=["ant", "bee", "cat"])
    loader = headrace.Loader(tmp_path / "out", 4, transform=[CenterCrop(32)])
    labels = [label for _, labels in loader for label in labels.tolist()]
    assert labels == [label for _, label in pairs]
    for command in (["info"], ["show", "--out", str(tmp_path / "sheet.png")]):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", command[0], str(tmp_path / "out"), *command[1:]],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    dataset = headrace.open_dataset(tmp_path / "out")
    assert dataset[4]["jpg"] == JPEGS[4] and dataset[4].label == 1
    assert dataset.classes == ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    ("item", "label"),
    [((b"x", 3, 7), 3), ((b"x", "ant", 7), 7), ((b"x", "ant"), None), ((b"x", True), None)],
)
def test_the_label_is_the_second_value_or_else_the_last(item: Any, label: int | None) -> None:
    assert make_sample(0, item).label == label


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"a": [1, object()]}, "item 1 cannot be saved: its field 'a.1' is of type object"),
        ((1, Tagged((2,))), "item 1 cannot be saved: its field '1' is of type Tagged"),
        ([np.array([None])], "item 1 cannot be saved: its field '0' has the dtype object"),
        (np.zeros(2, "i4,f4"), "item 1 cannot be saved: its field '' has the dtype"),
        ({1, 2}, "item 1 cannot be saved: it is of type set"),
    ],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_left(
    tmp_path: Path, item: Any, message: str
) -> None:
    with pytest.raises(PackError) as caught:
        Flow.of([1, item]).save(tmp_path / "out")
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_item_that_holds_itself_is_refused(tmp_path: Path) -> None:
    item: list[Any] = []
    item.append(item)
    with pytest.raises(PackError, match="item 0 cannot be saved: .*holds itself"):
        Flow.of([item]).save(tmp_path / "out")


def test_shards_are_filled_up_to_their_size(tmp_path: Path) -> None:
    """Four of these samples and the end of a tar are 15,360 bytes."""
    Flow.of([(b"x" * 1000, n) for n in range(12)]).save(tmp_path / "out", shard_size=15_360)
    sizes = [path.stat().st_size for path in (tmp_path / "out").glob("*.tar")]
    assert sizes == [15_360] * 3


def test_the_size_of_shards_may_be_numpys_integer(tmp_path: Path) -> None:
    assert Flow.of(range(3)).save(tmp_path / "out", shard_size=np.int64(4000)) == 3
    assert list(Flow.load(tmp_path / "out")) == [0, 1, 2]


def test_no_items_are_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="there were no samples"):
        Flow.of([]).save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_data_set_or_folder_is_not_overwritten(tmp_path: Path) -> None:
    Flow.of([1, 2]).save(tmp_path / "out")
    with pytest.raises(PackError, match="already holds a dataset"):
        Flow.of([3]).save(tmp_path / "out")
    assert list(Flow.load(tmp_path / "out")) == [1, 2]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(PackError, match="not empty"):
        Flow.of([3]).save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_flow_that_fails_or_is_interrupted_leaves_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def give() -> Iterator[Any]:
        yield from ITEMS
        raise error

    with pytest.raises(error):
        Flow.of(give).save(tmp_path / "out", shard_size=10_000)
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
import sys
from headrace import Flow
def give():
    for n in range(10**9):
        if n == 3000:
            print("go", flush=True)
        yield (b"x" * 1000, n)
Flow.of(give).save(sys.argv[1], shard_size=1_000_000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_save_is_no_data_set_and_the_next_one_clears_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "out"
    command = [sys.executable, "-c", ENDLESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert list(path.glob(".packing/shard-*.tar"))
        process.send_signal(number)
    if number == signal.SIGKILL:
        with pytest.raises(CorruptError, match="no manifest"):
            Flow.load(path)
    else:
        assert not path.exists()
    assert Flow.of([1, 2]).save(path) == 2
    assert list(Flow.load(path)) == [1, 2]
    assert sorted(p.name for p in path.iterdir()) == [
        "headrace.json", "shard-000000.arrow", "shard-000000.tar",
    ]  # fmt: skip


def test_a_tree_that_lies_is_an_error_that_names_the_sample() -> None:
    for tree in (b"{", b'["a","b.npy"]', b'["q"]', b"[]", b'["f","1"]', b"[" * 100_000):
        with pytest.raises(CorruptError, match="sample 'x': item.json: "):
            make_item(Sample("x", {"item.json": tree}))
    with pytest.raises(CorruptError, match="readable .npy"):
        make_item(Sample("x", {"npy": b"no array", "item.json": b'["a","npy"]'}))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    make_folder(tmp_path / "photos", classes=3, per_class=5)
    headrace.pack_dataset(tmp_path / "photos", tmp_path / "packed", shard_size=20_000)
    return tmp_path / "packed"


@pytest.fixture(params=["saved", "packed", "lmdb", "source"])
def stored(request: Any, packed: Path, tmp_path: Path) -> Flow:
    """The same fifteen samples or items, by each of the ways in which they can lie on a disk."""
    if request.param == "packed":
        return Flow.load(packed)
    if request.param == "saved":
        Flow.of(ITEMS_OF_15).save(tmp_path / "saved", shard_size=4000)
        return Flow.load(tmp_path / "saved")
    pytest.importorskip("lmdb")
    Flow.of(ITEMS_OF_15).save(tmp_path / "x.lmdb")
    if request.param == "lmdb":
        return Flow.load(tmp_path / "x.lmdb")
    return Flow.of(headrace.open_source(tmp_path / "x.lmdb"))


ITEMS_OF_15 = [[np.frombuffer(JPEGS[n % 12], np.uint8), n] for n in range(15)]


def test_what_is_stored_is_resumed_and_sharded(stored: Flow) -> None:
    names = read(stored.map(name_item))
    assert len(stored) == len(set(names)) == 15
    begun = iter(stored)
    list(islice(begun, 6))
    state = stored.state_dict()
    begun.close()
    stored.load_state_dict(state)
    assert [name_item(item) for item in stored] == names[6:]
    ranks = [read(stored.shard(rank, 4).map(name_item)) for rank in range(4)]
    assert ranks == [names[rank::4] for rank in range(4)]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_what_is_stored_is_read_in_other_processes(stored: Flow, start: str) -> None:
    names = read(stored.map(name_item))
    assert read(stored.map(name_item).in_process(2, start=start)) == names
    assert read(stored.shard(1, 2).map(name_item, 2, start=start)) == names[1::2]


@pytest.mark.parametrize("name", ["out", "x.lmdb"])
def test_a_shuffled_load_is_resumed_in_its_own_order(tmp_path: Path, name: str) -> None:
    if name == "x.lmdb":
        pytest.importorskip("lmdb")
    Flow.of(range(40)).save(tmp_path / name)
    flow = Flow.load(tmp_path / name, shuffle=True, seed=3)
    first = list(flow)
    assert sorted(first) == list(range(40)) and first != sorted(first)
    flow.set_epoch(1)
    second = list(flow)
    assert second != first and sorted(second) == sorted(first)
    flow.load_state_dict({**flow.state_dict(), "epoch": 1, "position": 30})
    assert list(flow) == second[30:]


@pytest.mark.parametrize("name", ["out", "x.lmdb"])
def test_the_epoch_that_was_set_is_saved(tmp_path: Path, name: str) -> None:
    if name == "x.lmdb":
        pytest.importorskip("lmdb")
    flow = Flow.of(range(20)).shuffle(seed=1)
    flow.set_epoch(3)
    flow.save(tmp_path / name)
    assert list(Flow.load(tmp_path / name)) == list(flow)


def test_a_data_set_is_a_source(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    keys = [sample.key for sample in dataset]
    flow = Flow.of(dataset).map(get_key)
    assert len(flow) == len(keys) == 15
    assert list(flow) == keys == [sample.key for sample in Flow.load(packed)]
    assert [list(flow.shard(rank, 4)) for rank in range(4)] == [keys[rank::4] for rank in range(4)]
    assert list(Flow.of(dataset[3:7]).map(get_key)) == keys[3:7]


def test_samples_of_a_data_set_are_saved_as_they_are(packed: Path, tmp_path: Path) -> None:
    dataset = headrace.open_dataset(packed)
    Flow.of(dataset).filter(lambda sample: sample.label == 1).save(tmp_path / "ones")
    ones = headrace.open_dataset(tmp_path / "ones")
    assert list(ones) == [sample for sample in dataset if sample.label == 1]
    with pytest.raises(PackError, match=r"sample 15 .* another one has the same key"):
        Flow.of(dataset).repeat(2).save(tmp_path / "twice")


def test_columns_of_samples_come_into_the_index(tmp_path: Path) -> None:
    samples = [Sample(f"k{n}", {"bin": b"x"}, n, {"score": n / 2, "why": None}) for n in range(5)]
    Flow.of(samples).save(tmp_path / "out", shard_size=2000)
    dataset = headrace.open_dataset(tmp_path / "out")
    assert dataset.index["score"].to_pylist() == [0, 0.5, 1, 1.5, 2]
    assert [sample.columns for sample in dataset] == [sample.columns for sample in samples]
    mixed = [*samples, Sample("k5", {"bin": b"x"}, 5, {"score": "high"})]
    with pytest.raises(PackError, match=r"sample 5 \(k5\) .* 'score' is string.* double"):
        Flow.of(mixed).save(tmp_path / "mixed")


def test_a_column_has_the_type_of_its_first_value_that_is_there(tmp_path: Path) -> None:
    values = [None, 0.5, None]
    samples = [Sample(f"k{n}", {"bin": b"x"}, n, {"x": value}) for n, value in enumerate(values)]
    Flow.of(samples).save(tmp_path / "out")
    assert headrace.open_dataset(tmp_path / "out").index["x"].to_pylist() == values
    mixed = [*samples, Sample("k3", {"bin": b"x"}, 3, {"x": "high"})]
    with pytest.raises(PackError, match=r"sample 3 \(k3\) .* 'x' is string.* double"):
        Flow.of(mixed).save(tmp_path / "mixed")


@pytest.mark.parametrize(
    "columns", [{"x": "\udcff"}, {"\udcff": 1}, {"x": 2**63}, {"x": [1, "a"]}, {"x": 1j}]
)
def test_a_column_that_an_index_cannot_hold_names_its_sample(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    samples = [Sample("a", {"bin": b"x"}, 0), Sample("b", {"bin": b"x"}, 0, columns)]
    with pytest.raises(PackError, match=r"sample 1 \(b\) .* column '.*' does not fit"):
        Flow.of(samples).save(tmp_path / "out")


@pytest.mark.parametrize("label", [1.5, "cat", True, 2**63])
def test_a_label_that_is_no_whole_number_of_64_bits_names_its_sample(
    tmp_path: Path, label: Any
) -> None:
    with pytest.raises(PackError, match=r"sample 0 \(a\) cannot be packed: the label "):
        Flow.of([Sample("a", {"bin": b"x"}, label)]).save(tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("../a", ["bin"], r"sample 0 \(../a\) .* its key back; name it '%2E%2E%2Fa'"),
        ("frame.001", ["bin"], "name it 'frame%2E001'"),
        ("a.b/.hidden", ["bin"], "name it 'a.b/%2Ehidden'"),
        ("a\udcff", ["bin"], r"sample 0 \('a\\udcff'\) .* name it 'a%FF'"),
        ("a\0", ["bin"], "name it 'a%00'"),
        ("a", ["B/C"], "not named like a file suffix"),
        ("a", [], "has no fields"),
    ],
)
def test_a_sample_that_would_leave_the_data_set_or_not_be_in_it_is_refused(
    tmp_path: Path, key: str, fields: list[str], message: str
) -> None:
    with pytest.raises(PackError, match=message):
        Flow.of([Sample(key, dict.fromkeys(fields, b"x"))]).save(tmp_path / "out")


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_what_open_source_opens_is_a_source(shared: Path, start: str) -> None:
    source = headrace.open_source(shared / "fixtures/tensorpack-pickle/data.lmdb")
    flow = Flow.of(source)
    keys = [source.read(i).key for i in range(len(source.names))]
    assert len(flow) == len(keys) and [sample.key for sample in flow] == keys
    assert read(flow.map(get_key, 2, start=start).shard(1, 3)) == keys[1::3]


def test_a_source_that_cannot_be_read_names_the_sample(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", classes=1, per_class=2)
    source = headrace.open_source(tmp_path / "photos")
    os.unlink(tmp_path / "photos" / source.names[1])
    with pytest.raises(SourceError, match="vanished") as caught:
        list(Flow.of(source))
    assert source.names[1] in str(caught.value)


def test_a_saved_flow_is_not_moved_by_saving(tmp_path: Path) -> None:
    flow = Flow.of(range(4)).map(square)
    list(islice(flow, 2))
    state = flow.state_dict()
    flow.save(tmp_path / "out")
    assert flow.state_dict() == state
    assert list(Flow.load(tmp_path / "out")) == [0, 1, 4, 9]
