"""Labels count in given classes: those of another dataset, or of a list."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace import Dataset, PackError, SourceError, open_dataset, pack_dataset
from headrace.cli.app import app
from headrace.pack.class_map import read_classes
from trees import write_images


@pytest.fixture
def train(tmp_path: Path) -> Path:
    pack_dataset(
        write_images(tmp_path / "photos/train", "ant/1.jpg", "bee/2.jpg", "cat/3.jpg"),
        tmp_path / "train",
    )
    return tmp_path / "train"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A validation set without ants: alone, its bees would be 0."""
    return write_images(tmp_path / "photos/val", "bee/4.jpg", "cat/5.jpg")


def labels_by_key(dataset: Dataset) -> dict[str, int | None]:
    return {sample.key: sample.label for sample in dataset}


def test_labels_are_the_indexes_of_their_names(photos: Path, tmp_path: Path) -> None:
    pack_dataset(photos, tmp_path / "val", classes=["dog", "cat", "ant", "bee"])
    dataset = open_dataset(tmp_path / "val")
    assert dataset.classes == ["dog", "cat", "ant", "bee"]
    assert labels_by_key(dataset) == {"bee/4": 3, "cat/5": 1}
    assert {sample.key: sample["cls"] for sample in dataset} == {
        "bee/4": b"3",
        "cat/5": b"1",
    }


def test_a_packed_set_is_renumbered_in_its_shards_too(photos: Path, tmp_path: Path) -> None:
    pack_dataset(photos, tmp_path / "alone")
    pack_dataset(tmp_path / "alone", tmp_path / "val", classes=["ant", "bee", "cat"])
    dataset = open_dataset(tmp_path / "val")
    assert labels_by_key(dataset) == {"bee/4": 1, "cat/5": 2}
    assert {sample["cls"] for sample in dataset} == {b"1", b"2"}


@pytest.mark.parametrize("kind", ["dataset", "file"])
def test_the_command_takes_a_dataset_or_a_file(
    kind: str, train: Path, photos: Path, tmp_path: Path
) -> None:
    given = train
    if kind == "file":
        given = tmp_path / "names.txt"
        given.write_text("ant\nbee\ncat\n")
    result = CliRunner().invoke(
        app, ["pack", str(photos), str(tmp_path / "val"), "--classes", str(given)]
    )
    assert result.exit_code == 0, result.output
    assert open_dataset(tmp_path / "val").classes == open_dataset(train).classes
    assert labels_by_key(open_dataset(tmp_path / "val")) == {"bee/4": 1, "cat/5": 2}


def test_a_missing_class_is_named(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match="1 of the source's 2 classes are not among those given: 'bee'"
    ):
        pack_dataset(photos, tmp_path / "val", classes=["ant", "cat"])
    assert not (tmp_path / "val").exists()


def test_labels_without_names_cannot_be_numbered(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "val.csv").write_text("path,label\nbee/4.jpg,5\n")
    with pytest.raises(SourceError, match="labels of this source are numbers without names"):
        pack_dataset(photos, tmp_path / "val", listing=tmp_path / "val.csv", classes=["ant"])


@pytest.mark.parametrize(
    ("classes", "words"),
    [(["a", "b", "a"], "'a' occurs 2 times"), ([""], "is not a name")],
)
def test_classes_must_be_unique_names(
    classes: list[str], words: str, photos: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        pack_dataset(photos, tmp_path / "val", classes=classes)


def test_the_same_photos_with_other_classes_are_another_dataset(
    photos: Path, tmp_path: Path
) -> None:
    pack_dataset(photos, tmp_path / "val")
    with pytest.raises(PackError, match="with other options"):
        pack_dataset(photos, tmp_path / "val", classes=["ant", "bee", "cat"])


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "has no class names"), (b"\xff\xfe", "not a UTF-8 text file")]
)
def test_a_file_without_names_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(data)
    with pytest.raises(SourceError, match=words):
        read_classes(tmp_path / "names.txt")
