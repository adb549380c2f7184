from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace
from headrace.store import index_reader
from headrace.store.manifest import FileRecord
from trees import file_bytes, make_folder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    headrace.pack_dataset(
        make_folder(tmp_path / "in"), tmp_path / "out", shard_size=5000, order="source"
    )
    return tmp_path / "out"


def test_samples_by_number_from_both_ends(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    source = file_bytes(packed.parent / "in")
    assert len(dataset) == 15
    assert dataset[0].key == "class0/000"
    assert dataset[0]["jpg"] == dataset[0]["jpeg"] == source["class0/000.jpg"]
    assert dataset[-1]["png"] == source["class2/004.png"]
    assert (dataset[-1].label, dataset.classes) == (2, ["class0", "class1", "class2"])
    for wrong in (15, -16):
        with pytest.raises(IndexError, match="of 15"):
            dataset[wrong]
    with pytest.raises(KeyError, match="has .*cls.*jpg"):
        dataset[0]["mask.png"]


def test_an_index_that_is_not_an_integer_is_a_type_error(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    assert dataset[np.int8(-1)].key == dataset[-1].key
    for place in ([1, 2], np.array([1, 2]), "a"):
        with pytest.raises(TypeError, match="give an integer or a slice"):
            dataset[place]  # type: ignore[call-overload]


def test_slices_are_datasets(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    keys = [sample.key for sample in dataset]
    part = dataset[12:2:-3]
    assert [sample.key for sample in part] == keys[12:2:-3]
    assert part[1:][0].key == keys[9]
    assert part.index["key"].to_pylist() == keys[12:2:-3]


def test_a_slice_can_be_filtered(packed: Path) -> None:
    part = headrace.open_dataset(packed)[12:2:-3].filter(pc.field("label") == 1)
    assert [sample.key for sample in part] == ["class1/004", "class1/001"]


def test_opening_reads_no_tar_and_no_index(packed: Path) -> None:
    for path in [*packed.glob("*.tar"), *packed.glob("*.arrow")]:
        path.unlink()
    assert len(headrace.open_dataset(packed)) == 15
    assert headrace.open_dataset(packed / "headrace.json").fields == ["cls", "jpg", "png"]


def keys_of(dataset: headrace.Dataset) -> list[str]:
    return [sample.key for sample in dataset]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_it_works_in_another_process(packed: Path, method: str) -> None:
    dataset = headrace.open_dataset(packed)
    expected = keys_of(dataset)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(keys_of, (dataset,)) == expected


def test_it_works_from_many_threads(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    expected = [bytes(sample["cls"]) for sample in dataset]
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: [s["cls"] for s in dataset], range(32)):
            assert result == expected


def test_a_pickled_dataset_keeps_its_rows(packed: Path) -> None:
    part = pickle.loads(pickle.dumps(headrace.open_dataset(packed)[3:5]))
    assert keys_of(part) == ["class0/003", "class0/004"]


def test_a_missing_dataset_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such dataset"):
        headrace.open_dataset(tmp_path / "nowhere")


def test_the_index_is_the_same_when_there_are_too_many_shards_to_map(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = headrace.open_dataset(packed).index
    assert mapped["key"].num_chunks > 2
    monkeypatch.setattr(index_reader, "_MOST_MAPS", 2)
    copied = headrace.open_dataset(packed).index
    assert copied["key"].num_chunks == -(-mapped["key"].num_chunks // 2)
    assert copied.to_pylist() == mapped.to_pylist()


@pytest.mark.parametrize("damage", [b"", b"ARROW1\0\0 and nothing more"])
def test_an_index_that_is_bad_among_others_is_named(packed: Path, damage: bytes) -> None:
    path = packed / "shard-000001.arrow"
    path.write_bytes(damage)
    with pytest.raises(headrace.CorruptError, match=f"{path}: .* the manifest says"):
        headrace.open_dataset(packed).read_index()
    path.unlink()
    with pytest.raises(headrace.CorruptError, match=f"{path}: the index is missing"):
        headrace.open_dataset(packed).read_index()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files: '{path}'"),
        (
            pa.ArrowException("Failed to launch worker thread"),
            "{path}: the index cannot be read now",
        ),
    ],
)
def test_an_index_that_the_machine_cannot_read_now_is_not_called_damaged(
    packed: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(path: Path, record: FileRecord) -> pa.Table:
        raise error

    monkeypatch.setattr(index_reader, "_map", fail)
    said = said.format(path=packed / "shard-000000.arrow")
    with pytest.raises(OSError, match=said):
        headrace.open_dataset(packed).read_index()
    assert said in str(headrace.verify_dataset(packed)[0])


def test_an_index_leaves_no_file_open_and_outlives_its_replacement(packed: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    table = headrace.open_dataset(packed).index
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    keys = table["key"].to_pylist()
    for path in packed.glob("*.arrow"):
        path.unlink()
    assert table["key"].to_pylist() == keys


def test_a_field_that_takes_several_system_calls_is_read_completely(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [dict(sample) for sample in headrace.open_dataset(packed)]
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 100), at))
    monkeypatch.setattr(
        os, "preadv", lambda fd, parts, at: preadv(fd, [part[:100] for part in parts], at)
    )
    assert [dict(sample) for sample in headrace.open_dataset(packed)] == expected
    loader = headrace.Loader(packed, 15, fields=("cls", "label"))
    assert next(iter(loader))[0] == [fields["cls"] for fields in expected]


def test_only_an_image_can_be_chosen_as_the_picture(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    assert dataset.choose_image("JPEG")[3:].image == "jpg"
    for field in ("cls", "mask.png"):
        with pytest.raises(ValueError, match=f"'{field}' is not an image field.*'jpg', 'png'"):
            dataset.choose_image(field)


def test_a_relative_path_works_after_changing_the_folder(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(packed.parent)
    dataset, source = headrace.open_dataset("out"), headrace.open_source("in")
    loader = headrace.Loader("out", 15, fields=("cls", "label"))
    monkeypatch.chdir("/")
    assert dataset[0]["jpg"] == source.read(0)["jpg"]
    assert len(next(iter(loader))[0]) == 15
    assert len(next(iter(pickle.loads(pickle.dumps(loader))))[0]) == 15
