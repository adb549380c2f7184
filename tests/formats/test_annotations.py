"""Annotations of PASCAL VOC and COCO become columns; those that are wrong are refused."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace
from formats.making_pairs import VOC, coco_content, voc_object, write_coco, write_mask, write_voc
from headrace.cli.app import app
from headrace.errors import PackError, SourceError
from headrace.formats.codecs.coco_json import parse_coco
from headrace.formats.codecs.voc_xml import parse_voc
from headrace.formats.detect import open_source
from headrace.kinds import Boxes, Image

VOC_BOXES = Boxes(columns=("labels", "difficult", "truncated"))


def test_boxes_of_voc_become_columns_as_they_stand(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "in", VOC)
    headrace.pack_dataset(root, tmp_path / "out", order="source")
    dataset = headrace.open_dataset(tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.manifest.field_kinds == {"boxes": VOC_BOXES, "jpg": Image()}
    assert dict(dataset[0].columns) == {
        "boxes": [[1, 2, 10, 12.5], [3, 3, 9, 9]],
        "labels": [1, 0],
        "difficult": [1, 0],
        "truncated": [0, 1],
    }
    assert dataset[1].columns["boxes"] == [] == dataset[1].columns["labels"]
    assert dataset[2]["xml"] == (root / "Annotations/c.xml").read_bytes()
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_voc_has_masks_beside_its_boxes(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "in", VOC)
    for stem in VOC:
        write_mask(root / f"SegmentationClass/{stem}.png")
    assert set(open_source(root).read(0)) == {"jpg", "xml", "mask.png"}


def test_classes_of_another_dataset_number_the_boxes(tmp_path: Path) -> None:
    headrace.pack_dataset(write_voc(tmp_path / "in", VOC), tmp_path / "train", order="source")
    root = write_voc(tmp_path / "val", {"x": voc_object("dog", (1, 1, 2, 2))})
    headrace.pack_dataset(root, tmp_path / "out", classes=["cat", "dog"])
    dataset = headrace.open_dataset(tmp_path / "out")
    assert (dataset[0].columns["labels"], dataset.classes) == ([1], ["cat", "dog"])
    with pytest.raises(SourceError, match="1 of the source's 1 classes are not among those given"):
        headrace.pack_dataset(root, tmp_path / "other", classes=["cat"])


def test_a_broken_annotation_is_a_rejected_sample(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "in", {**VOC, "d": "<object>"})
    with pytest.raises(PackError, match=r"d\.jpg: Annotations/d\.xml: not readable XML"):
        headrace.pack_dataset(root, tmp_path / "out")
    summary = headrace.pack_dataset(root, tmp_path / "out", on_error="skip")
    assert (summary.samples, len(summary.rejected)) == (3, 1)


BOMB = "<!DOCTYPE a [<!ENTITY x '{}'>{}]>".format(
    "ha" * 10, "".join(f"<!ENTITY x{k} '&x;&x;'>" for k in range(9))
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{BOMB}<annotation>&x8;</annotation>", "declares a document type"),
        ("<!DOCTYPE a SYSTEM 'file:///etc/passwd'><annotation/>", "declares a document type"),
        ("<annotation>&x;</annotation>", "not readable XML"),
        ("<annotation><object></annotation>", "not readable XML"),
        ("", "not readable XML"),
        ("\0\1\2", "not readable XML"),
        ("<?xml version='1.0' encoding='nonsense'?><annotation/>", "not readable XML"),
        ("<html/>", "its XML is <html>"),
        ("<annotation><object/></annotation>", "an object without <name>"),
        ("<annotation><object><name>a</name></object></annotation>", "without <bndbox/xmin>"),
        (f"<annotation>{voc_object('a', (1, 2, 3, float('nan')))}</annotation>", "not a number"),
        (f"<annotation>{voc_object('a', (1, 2, 3, 'x'))}</annotation>", "'x', not a number"),  # type: ignore[arg-type]
        (
            f"<annotation>{voc_object('a', (1, 2, 3, 4), '<difficult>7</difficult>')}</annotation>",
            "<difficult> is '7', not 0 or 1",
        ),
    ],
)
def test_xml_that_is_not_an_annotation_is_refused(text: str, reason: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(SourceError, match=reason):
            parse_voc(text.encode(encoding))


def test_real_annotations_of_blood_cells_are_read(beside: Path, tmp_path: Path) -> None:
    with tarfile.open(beside / "data/bccd.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    source = open_source(tmp_path / "bccd")
    assert source.classes == ["Platelets", "RBC", "WBC"]
    sample = source.read(0)
    assert sample.columns["boxes"][0] == [260, 177, 491, 376]
    assert source.classes[sample.columns["labels"][0]] == "WBC"
    assert len(source.names) == 120


def test_annotations_of_coco_become_columns(tmp_path: Path) -> None:
    images = write_coco(tmp_path, coco_content())
    args = ["pack", str(images), str(tmp_path / "out"), "--order", "source"]
    result = CliRunner().invoke(app, [*args, "--annotations", str(tmp_path / "instances.json")])
    assert result.exit_code == 0, result.output
    dataset = headrace.open_dataset(tmp_path / "out")
    assert dataset.classes == ["car", "toothbrush"]
    assert [sample.key for sample in dataset] == ["b", "deep/a", "c"]
    assert dict(dataset[1].columns) == {
        "boxes": [[1, 2, 11.5, 6], [2, 2, 3, 3]],
        "labels": [1, 0],
        "category_id": [90, 3],
        "iscrowd": [0, 0],
        "area": [30.5, 1],
    }
    assert (dataset[0].columns["area"], dataset[0].columns["iscrowd"]) == ([25], [1])
    assert all(value == [] for value in dataset[2].columns.values())
    assert json.loads(dataset[1]["json"])[0]["segmentation"] == [[1, 2, 3, 4, 5, 6]]
    beside = ("labels", "category_id", "iscrowd", "area")
    assert dataset.manifest.field_kinds == {"boxes": Boxes(columns=beside), "jpg": Image()}


def test_coco_is_indexed_in_place_with_its_columns(tmp_path: Path) -> None:
    images = write_coco(tmp_path, coco_content())
    headrace.index_dataset(images, annotations=tmp_path / "instances.json", out=tmp_path / "index")
    dataset = headrace.open_dataset(tmp_path / "index")
    assert dataset[1].columns["labels"] == [1, 0]
    assert isinstance(dataset.manifest.field_kinds["boxes"], Boxes)


def test_other_annotations_are_another_source(tmp_path: Path) -> None:
    content = coco_content()
    images = write_coco(tmp_path, content)
    options: Any = {"annotations": tmp_path / "instances.json"}
    headrace.pack_dataset(images, tmp_path / "out", **options)
    assert headrace.pack_dataset(images, tmp_path / "out", **options).resumed == 1
    content["annotations"][0]["segmentation"] = []
    write_coco(tmp_path, content)
    with pytest.raises(PackError, match="made from another source"):
        headrace.pack_dataset(images, tmp_path / "out", **options)


def test_keypoints_are_a_column_if_all_have_them() -> None:
    content = coco_content()
    for entry in content["annotations"][:2]:
        entry["keypoints"] = [1, 2, 2, 0, 0, 0]
    assert "keypoints" not in parse_coco(json.dumps(content).encode()).columns.names
    content["annotations"][2]["keypoints"] = [3, 4, 1]
    found = parse_coco(json.dumps(content).encode())
    assert found.rows[1]["keypoints"] == [[[1, 2], [0, 0]], [[3, 4]]]
    assert found.rows[1]["visibility"] == [[2, 0], [1]]


def test_captions_are_a_column_of_texts() -> None:
    content = coco_content()
    content["annotations"] = [
        {"id": k, "image_id": 9, "caption": text} for k, text in enumerate(["a car", "red"])
    ]
    del content["categories"]
    found = parse_coco(json.dumps(content).encode())
    assert found.columns.names == ["captions"]
    assert [row["captions"] for row in found.rows] == [["a car", "red"], [], []]
    assert found.classes is None


def broken(path: str, value: Any) -> bytes:
    content: Any = coco_content()
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = content
    for part in parents:
        place = place[part]
    place[last] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not readable JSON"),
        (b"[" * 100_000, "not readable JSON"),
        (b'{"images": [], "images": []}', "images is there twice"),
        (b"[]", "not annotations as COCO has them"),
        (b'{"images": []}', "lists no images"),
        (broken("images", 3), "its images are not a list of objects"),
        (broken("annotations", [3]), "its annotations are not a list of objects"),
        (broken("images.0.file_name", "../b.jpg"), "not a path below the folder"),
        (broken("images.0.file_name", "/etc/b.jpg"), "not a path below the folder"),
        (broken("images.0.file_name", 3), "not a path below the folder"),
        (broken("images.0.file_name", "c.jpg"), "'c.jpg' is listed twice"),
        (broken("images.0.id", 5), "image id 5 is there twice"),
        (broken("images.0.id", [5]), "not a number or a text"),
        (broken("annotations.0.image_id", 77), "the image 77, which is not listed"),
        (broken("annotations.0.category_id", 77), "annotation 1: its category 77 is not listed"),
        (broken("annotations.0.category_id", 10**30), "not an integer of 64 bits"),
        (broken("annotations.0.bbox", [1, 2, 3]), "its bbox is .*, not a list of 4 numbers"),
        (broken("annotations.0.bbox", [1, 2, 3, "4"]), "its bbox has '4', not a number"),
        (broken("annotations.0.bbox", [1, 2, 3, float("nan")]), "its bbox has nan"),
        (broken("annotations.0.bbox", [1, 2, 3, 10**400]), "its bbox has 1000"),
        (broken("annotations.0.bbox", None), "its bbox is None"),
        (broken("annotations.0.iscrowd", {}), "its iscrowd is {}"),
        (broken("annotations.0.area", "x"), "its area has 'x'"),
        (broken("categories.0.name", ""), "the category 90 .* has the name ''"),
        (broken("categories.0.id", 3), "the category 3 is there twice"),
    ],
)
def test_json_that_is_not_cocos_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        parse_coco(data)


def test_images_that_are_missing_are_rejected_by_name(tmp_path: Path) -> None:
    images = write_coco(tmp_path, coco_content())
    (images / "c.jpg").unlink()
    options: Any = {"annotations": tmp_path / "instances.json"}
    with pytest.raises(PackError, match=r"c\.jpg: no such file below"):
        headrace.pack_dataset(images, tmp_path / "out", **options)
    with pytest.raises(SourceError, match=r"none of its 3 images, such as 'b\.jpg', is below"):
        open_source(tmp_path, **options)


def test_the_format_coco_needs_annotations(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"format 'coco' needs annotations \(--annotations\)"):
        open_source(tmp_path, format="coco")
    with pytest.raises(ValueError, match="annotations cannot be combined"):
        open_source(tmp_path, annotations="x.json", listing="x.csv")
    with pytest.raises(SourceError, match=r"x\.json: No such file"):
        open_source(tmp_path, annotations=tmp_path / "x.json")
