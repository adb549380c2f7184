"""Folders of images that are no classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace import Loader, index_dataset, open_dataset
from headrace.errors import SourceError
from headrace.formats.detect import detect, open_source
from trees import write_images


def refuses(root: Path, reason: str) -> None:
    """It is no image folder, unless it is said to be one."""
    with pytest.raises(SourceError, match=reason):
        detect(root)
    assert open_source(root, format="folder").classes is not None


@pytest.mark.parametrize(
    ("names", "shown", "example"),
    [
        (("train/a/0.jpg", "train/b/0.jpg", "test/a/0.jpg"), "test, train", "train"),
        (("ILSVRC2012_devkit_t12/readme", "train/n01/0.JPEG", "val/0.JPEG"), "train, val", "train"),
        (("annotations/x.json", "train2017/0.jpg", "val2017/0.jpg"), "train2017, val2017", "train2017"),
        (("cars_train/0.jpg", "cars_test/0.jpg"), "cars_test, cars_train", "cars_train"),
        (("testA/0.jpg", "trainA/0.jpg"), "testA, trainA", "trainA"),
        (("train/a/0.jpg", "val/a/0.jpg", "assets/logo.png"), "train, val", "train"),
        (("seg_train/a/0.jpg", "seg_test/a/0.jpg", "seg_pred/0.jpg"), "seg_test, seg_train", "seg_train"),
    ],
)  # fmt: skip
def test_splits_are_not_taken_for_classes(
    tmp_path: Path, names: tuple[str, ...], shown: str, example: str
) -> None:
    write_images(tmp_path, *names)
    refuses(tmp_path, rf"{shown} look like splits .*such as {tmp_path}/{example}, or .*folder")


@pytest.mark.parametrize(
    ("names", "shown", "example"),
    [
        (("images/0.jpg", "annotations/trimaps/0.png"), "annotations, images", "images"),
        (("JPEGImages/0.jpg", "SegmentationClass/1.png"), "JPEGImages, SegmentationClass", "JPEGImages"),
        (("leftImg8bit/train/0_leftImg8bit.png", "gtFine/train/0_labelIds.png"),
         "gtFine, leftImg8bit", "leftImg8bit"),
        (("images/a/0.jpg", "images/b/0.jpg", "meta/classes.txt"), "images", "images"),
        (("images/0.jpg", "test/0.jpg"), "images, test", "images"),
        (("image/0.jpg", "label/0.jpg"), "image, label", "image"),
        (("gt/1.png", "train/0.jpg"), "gt, train", "train"),
    ],
)  # fmt: skip
def test_containers_are_not_taken_for_classes(
    tmp_path: Path, names: tuple[str, ...], shown: str, example: str
) -> None:
    write_images(tmp_path, *names)
    refuses(
        tmp_path,
        rf"{shown} look like splits or containers.*such as {tmp_path}/{example}, or a list",
    )


@pytest.mark.parametrize(
    "names",
    [
        ("train/0.jpg", "bus/0.jpg"),
        ("freight_train/0.jpg", "passenger_train/0.jpg"),
        ("bullet train/0.jpg", "test tube/0.jpg", "cup/0.jpg", "dog/0.jpg", "cat/0.jpg"),
        ("images/0.jpg", "drawings/0.jpg"),
        ("masks/0.jpg", "no-masks/0.jpg"),
    ],
)
def test_a_class_may_be_called_like_a_split_or_a_container(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    assert detect(write_images(tmp_path, *names)).name == "folder"


def test_a_container_behind_very_many_other_files_is_not_a_class_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.formats.folder_contents._WALKED", 0)
    with pytest.raises(SourceError, match="images look like splits or containers"):
        detect(write_images(tmp_path, "labels/0.txt", "images/0.jpg"))


def test_a_loader_says_how_to_take_such_folders_for_classes(tmp_path: Path) -> None:
    root = write_images(tmp_path / "in", "train/0.jpg", "test/0.jpg")
    with pytest.raises(SourceError, match=f"`headrace index {root} --format folder --out DIR`"):
        Loader(root, 1)
    index_dataset(root, format="folder", out=tmp_path / "out")
    assert open_dataset(tmp_path / "out").classes == ["test", "train"]


@pytest.mark.parametrize("classes", [["cat"], ["cat", "dog"]])
def test_a_single_split_that_holds_the_classes_is_not_a_class(
    tmp_path: Path, classes: list[str]
) -> None:
    root = write_images(tmp_path, *(f"train/{name}/0.jpg" for name in classes))
    with pytest.raises(SourceError, match=f"train look like .* such as {root / 'train'}, or"):
        detect(root)
    assert open_source(root / "train").classes == classes
    assert open_source(root, format="folder").classes == ["train"]


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (("train2017/0.jpg", "annotations/instances_train2017.json"), ["train2017"]),
        (("val2017/0.jpg", "annotations/x.json", "labels/val2017/0.txt"), ["val2017"]),
        (("train/0.jpg",), ["train"]),
        (("train/images/0.jpg",), ["train"]),
        (("train/0.jpg", "empty/readme"), ["empty", "train"]),
    ],
)
def test_a_single_split_is_not_taken_for_a_class(
    tmp_path: Path, names: tuple[str, ...], classes: list[str]
) -> None:
    root = write_images(tmp_path, *names)
    split = names[0].partition("/")[0]
    refuses(root, f"{split} look like splits .*such as {root / split}, .*listing.*folder")
    assert open_source(root, format="folder").classes == classes


def test_a_folder_of_annotations_is_not_an_empty_class(tmp_path: Path) -> None:
    root = write_images(tmp_path, "cat/0.jpg", "dog/0.jpg", "annotations/a.json", "Labels/x/0.txt")
    (root / "masks").mkdir()  # as long as it is empty it may be a class
    source = open_source(root)
    assert source.classes == ["cat", "dog", "masks"]
    assert source.ignored == ["Labels/x/0.txt", "annotations/a.json"]


def test_a_listing_with_very_long_rows_is_one_too(tmp_path: Path) -> None:
    root = write_images(tmp_path, "images/0.jpg", "images/1.jpg")
    rows = [{"path": f"images/{i}.jpg", "label": i, "text": "x" * 700_000} for i in range(2)]
    (root / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    layout = detect(root)
    assert (layout.name, layout.place) == ("listing", root / "metadata.jsonl")
