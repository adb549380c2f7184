"""Folders that hold several splits, and how one of them is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from formats.making import (
    make_example,
    photos,
    write_arrow,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from headrace import index_dataset, open_dataset
from headrace.errors import SourceError
from headrace.formats.check_splits import find_split
from headrace.formats.detect import detect, open_source


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-00002.parquet", "train"),
        ("train-00001-of-00002-0123abcd.parquet", "train"),
        ("mnist-test.tfrecord-00000-of-00001", "mnist-test.tfrecord"),
        ("default/partial-train/0000.parquet", "train"),
        ("imagenet-val-000127.tar", "validation"),
        ("Training-extra.tar", "train"),
        ("train/train-1.parquet", "train"),
        ("pascal_trainval.record", "trainval"),
        ("crash-test-val-0.tar", "test validation"),
        ("dev-kit/train/0.parquet", "dev train"),
        ("default/0000.parquet", ""),
        ("latest-trains.tar", ""),
        ("trainA.parquet", "train"),
        ("imagenetVal-0.tar", "validation"),
        ("TRAINING_0.tar", "train"),
    ],
)
def test_a_name_says_its_split(name: str, split: str) -> None:
    assert find_split(name) == split


def write_record(path: Path, images: list[bytes]) -> Path:
    return write_tfrecord(path, [make_example({"image": data}) for data in images])


def write_numbered_tar(path: Path, images: list[bytes]) -> Path:
    return write_tar(path, {f"{path.stem}{i}.jpg": data for i, data in enumerate(images)})


WRITERS = {
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".tfrecord": write_record,
    ".tar": write_numbered_tar,
}


@pytest.fixture(params=WRITERS)
def splits(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write: Callable[[Path, list[bytes]], Path] = WRITERS[request.param]
    write(tmp_path / f"train-00000-of-00002{request.param}", photos(2))
    write(tmp_path / f"train-00001-of-00002{request.param}", photos(3))
    write(tmp_path / f"test-00000-of-00001{request.param}", photos(1))
    return tmp_path


def test_several_splits_in_a_folder_are_an_error_that_names_them(splits: Path) -> None:
    with pytest.raises(SourceError, match=r"several splits \(test, train\): say which one"):
        open_source(splits)


@pytest.mark.parametrize("pattern", ["train-*", "train-0000{0..1}-of-00002.*"])
def test_a_pattern_names_one(splits: Path, pattern: str) -> None:
    assert detect(splits / pattern).name == detect(next(splits.iterdir())).name
    names = open_source(splits / pattern).names
    assert len(names) == 5
    assert len(open_source(splits / "*").names) == 6


def test_folders_of_splits_are_not_merged_either(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / "default" / name).mkdir(parents=True)
        write_parquet(tmp_path / "default" / name / "0000.parquet", photos(2))
    with pytest.raises(SourceError, match=r"several splits \(test, train\)"):
        open_source(tmp_path, format="parquet")
    assert len(open_source(tmp_path / "default/train").names) == 2


def test_records_of_several_folders_are_indexed_by_a_pattern(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write_record(tmp_path / name / "x.tfrecord", photos(2))
    index_dataset(tmp_path / "*/x.tfrecord", out=tmp_path / "index")
    images = [sample["jpg"] for sample in open_dataset(tmp_path / "index")]
    assert images == photos(2) * 2


@pytest.mark.parametrize("pattern", ["val-*", "val-{0..1}.tar"])
def test_a_pattern_of_nothing_is_an_error(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SourceError, match="val-.*: no such file"):
        open_source(tmp_path / pattern)


def test_a_pattern_of_other_files_says_what_patterns_are_for(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(photos(1)[0])
    with pytest.raises(SourceError, match="patterns are for tars, Parquet"):
        open_source(tmp_path / "*.jpg")


def test_a_file_that_is_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    write_tar(tmp_path / "a[1].tar", {"a.jpg": photos(1)[0]})
    assert len(open_source(tmp_path / "a[1].tar").names) == 1


def test_folders_that_exist_do_not_belong_to_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set[1]/x").mkdir(parents=True)
    write_numbered_tar(tmp_path / "set[1]/x/a-0.tar", photos(1))
    write_numbered_tar(tmp_path / "set[1]/x/a-1.tar", photos(2))
    monkeypatch.chdir(tmp_path)
    for pattern in ("set[1]/x/a-*.tar", "set[1]/*/a-?.tar", tmp_path / "set[1]/x/a-[01]*"):
        assert len(open_source(pattern).names) == 3
