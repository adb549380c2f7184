"""A packed dataset is packed again with everything that it knows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import headrace
from headrace.errors import CorruptError, PackError, SourceChangedError
from headrace.formats.source import Source
from headrace.pack.packed_source import open_packed
from headrace.testing.source_contract import SourceContract, same
from images import encode
from trees import make_folder


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A dataset with class names, columns and a file that was left out."""
    folder = make_folder(tmp_path / "in")
    (tmp_path / "list.csv").write_text(
        "path,label,age,note\nclass0/000.jpg,dog,7,\nclass1/004.png,cat,,a\nclass2/001.jpg,dog,1,b\n"
        "gone.jpg,cow,1,b\n"
    )
    headrace.pack_dataset(
        folder, tmp_path / "p", listing=tmp_path / "list.csv", shard_size=2000, on_error="skip"
    )
    return tmp_path / "p"


class TestPacked(SourceContract):
    @staticmethod
    def open(path: Path) -> Source:
        source = open_packed(path)
        assert source is not None
        return source

    @pytest.fixture
    def path(self, listed: Path) -> Path:
        return listed


def assert_equal(a: Path, b: Path) -> None:
    """The same samples, whatever their order."""
    first, second = headrace.open_dataset(a), headrace.open_dataset(b)
    assert first.classes == second.classes and first.fields == second.fields
    types = [{column.name: column.type for column in d.index.schema} for d in (first, second)]
    assert types[0] == types[1]
    samples = {sample.key: sample for sample in second}
    assert len(first) == len(second) == len(samples)
    assert all(same(sample, samples[sample.key]) for sample in first)


def test_labels_classes_columns_and_bytes_are_kept(listed: Path, tmp_path: Path) -> None:
    summary = headrace.pack_dataset(listed, tmp_path / "again")
    assert_equal(listed, tmp_path / "again")
    assert headrace.open_dataset(tmp_path / "again").classes == ["cat", "cow", "dog"]
    assert (summary.rejected, summary.ignored) == ([], ())
    headrace.pack_dataset(listed / "headrace.json", tmp_path / "named")
    assert_equal(listed, tmp_path / "named")


def test_videos_keep_their_frames(shared: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(shared / "fixtures/gulp", tmp_path / "p")
    headrace.pack_dataset(tmp_path / "p", tmp_path / "again")
    assert_equal(tmp_path / "p", tmp_path / "again")


def test_an_index_of_data_elsewhere_is_packed(tmp_path: Path) -> None:
    headrace.index_dataset(make_folder(tmp_path / "in"), out=tmp_path / "index")
    headrace.pack_dataset(tmp_path / "index", tmp_path / "p")
    dataset = headrace.open_dataset(tmp_path / "p")
    assert (len(dataset), dataset.classes) == (15, ["class0", "class1", "class2"])


def test_what_was_added_to_a_folder_after_it_was_indexed_is_packed_too(tmp_path: Path) -> None:
    headrace.index_dataset(make_folder(tmp_path / "in"))
    (tmp_path / "in" / "class0" / "new.jpg").write_bytes(encode(8, 8))
    assert headrace.pack_dataset(tmp_path / "in", tmp_path / "p").samples == 16


def test_a_replaced_source_is_noticed(tmp_path: Path) -> None:
    def pack(seed: int) -> None:
        data = encode(24, 24)  # byte 15 is of the pixel density, which changes no pixel
        (tmp_path / "in" / "c").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "c" / "a.jpg").write_bytes(data[:15] + bytes([seed]) + data[16:])
        shutil.rmtree(tmp_path / "p", ignore_errors=True)
        headrace.pack_dataset(tmp_path / "in", tmp_path / "p")
        for path in (tmp_path / "p").iterdir():
            os.utime(path, ns=(0, 0))

    pack(1)
    headrace.pack_dataset(tmp_path / "p", tmp_path / "again")
    assert headrace.pack_dataset(tmp_path / "p", tmp_path / "again").resumed == 1
    pack(2)
    with pytest.raises(PackError, match="already holds a dataset made from another source"):
        headrace.pack_dataset(tmp_path / "p", tmp_path / "again")


def test_a_shard_that_changes_after_it_was_opened_is_an_error(listed: Path) -> None:
    source = open_packed(listed)
    assert source is not None
    os.utime(listed / "shard-000000.tar", ns=(0, 0))
    with pytest.raises(SourceChangedError, match=r"shard-000000\.tar changed after the dataset"):
        source.read(0)


def test_damaged_samples_are_not_packed_again(listed: Path, tmp_path: Path) -> None:
    index = headrace.open_dataset(listed).index.to_pylist()
    row = next(row for row in index if row["key"] == "class0/000")
    tar = bytearray((listed / row["file"]).read_bytes())
    tar[row["cls.offset"]] ^= 1
    (listed / row["file"]).write_bytes(tar)
    with pytest.raises(
        PackError,
        match="class0/000: .*: cls of 'class0/000': its bytes are not those that were indexed",
    ):
        headrace.pack_dataset(listed, tmp_path / "again")
    path = listed / "shard-000000.arrow"
    path.write_bytes(path.read_bytes().replace(b"class", b"clasp"))
    with pytest.raises(CorruptError, match="shard-000000.arrow: its SHA-256 is not"):
        headrace.pack_dataset(listed, tmp_path / "again")
