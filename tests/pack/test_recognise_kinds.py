"""Fields have the kinds that their names and contents say, however they are packed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from formats.making import write_tar
from headrace.formats.codecs.arrays import encode_npy
from headrace.kinds import Boxes, Image, Kind, Map, Mask, Points, Text
from headrace.pack import staging
from headrace.pack.describe_images import describe_sample
from headrace.sample import Sample
from images import encode, encode_deep
from trees import digests

PHOTO = encode(20, 30)
GREY = encode(20, 30, format="PNG", mode="L")
DEEP = encode_deep(np.arange(600).reshape(20, 30))


def zeros(dtype: str, *shape: int) -> bytes:
    return encode_npy(np.zeros(shape, dtype))


def recognise(fields: dict[str, bytes], **columns: Any) -> dict[str, Kind | None]:
    return dict(describe_sample(Sample("k", fields, columns=columns)).field_kinds)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("mask.png", GREY, Mask()),
        ("labelids.png", GREY, Mask()),
        ("mask.png", DEEP, Mask()),
        ("mask.jpg", PHOTO, Image()),
        ("depth.png", DEEP, Map()),
        ("depth.png", GREY, None),
        ("disparity.png", DEEP, Map(scale="x")),
        ("left.disp.png", DEEP, Map(scale="x")),
        ("other.png", DEEP, Image()),
        ("d1.npy", zeros("uint8", 4, 5, 3), Image()),
        ("seg.npy", zeros("int64", 20, 30), Mask()),
        ("x.npy", zeros("uint8", 20, 30), Mask()),
        ("x.npy", zeros("uint8", 20, 31), None),
        ("mask.npy", zeros("uint8", 20, 31), Mask()),
        ("label.npy", zeros("int64", 7, 5), None),
        ("x.npy", zeros("float32", 20, 30), Map()),
        ("x.npy", zeros("float32", 20, 30, 2), Map()),
        ("flow.npy", zeros("float32", 20, 30, 2), Map(scale="xy")),
        ("flow.npy", zeros("float32", 10, 15, 2), Map(scale="xy")),
        ("disparity.npy", zeros("float64", 20, 30), Map(scale="x")),
        ("boxes.npy", zeros("float32", 3, 4), Boxes()),
        ("gt_bbox.npy", zeros("int64", 0, 4), Boxes()),
        ("boxes.npy", zeros("float32", 3, 5), None),
        ("label.npy", zeros("float64", 61, 61, 2), Points()),
        ("npy", zeros("float32", 5, 2), Points()),
        ("mean.npy", zeros("float32", 2), None),
        ("x.npy", zeros("complex64", 20, 30), "absent"),
        ("x.npy", encode_npy(np.array(["a", "b"])), "absent"),
        ("x.npy", zeros("uint8", 20, 30)[:-1], "absent"),
        ("x.npy", b"\x93NUMPY\x01\x00\xff\xff{", "absent"),
        ("x.npy", b"", "absent"),
        ("caption", b"a cat", Text()),
        ("title.txt", b"a cat", Text()),
        ("json", b"{}", "absent"),
    ],
)
def test_a_field_has_the_kind_that_its_name_and_content_say(
    name: str, data: bytes, kind: object
) -> None:
    assert recognise({"jpg": PHOTO, name: data}).get(name, "absent") == kind


def test_a_target_belongs_to_the_image_whose_name_its_own_begins_with() -> None:
    pixels, points = zeros("uint8", 4, 5, 3), zeros("float64", 3, 2)
    kinds = recognise({"d1.npy": pixels, "d1.label.npy": points, "d1.a.label.npy": points})
    assert (kinds["d1.label.npy"], kinds["d1.a.label.npy"]) == (Points("d1"), Points("d1"))
    kinds = recognise({"left.jpg": PHOTO, "left.mask.png": GREY, "right.mask.png": GREY})
    assert (kinds["left.mask.png"], kinds["right.mask.png"]) == (Mask("left"), Mask())


def test_arrays_without_an_image_are_of_no_kind() -> None:
    assert recognise({"npy": zeros("float32", 5, 2)}) == {"npy": None}


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ({"boxes": [[0, 1, 2, 3]]}, {"boxes": Boxes()}),
        ({"bbox": [[0, 1, 2, 3.5]] * 2, "n": 2}, {"bbox": Boxes()}),
        ({"boxes": [[0, 1, 2, 3]], "labels": [3]}, {"boxes": Boxes(columns=("labels",))}),
        ({"boxes": [[0, 1, 2, 3]], "labels": [3, 4]}, {"boxes": Boxes()}),
        ({"boxes": [[0, 1, 2]]}, {"boxes": None}),
        ({"boxes": [[0, 1, 2, "3"]]}, {"boxes": None}),
        ({"boxes": []}, {}),
        ({"boxes": 3}, {}),
        ({"other": [[0, 1, 2, 3]]}, {}),
        ({"keypoints": [[0, 1.5], [2, 3]]}, {"keypoints": Points()}),
        ({"points": [[[0, 1], [2, 3]]]}, {"points": Points()}),
        ({"points": [0, 1]}, {"points": None}),
    ],
)
def test_a_column_has_the_kind_that_its_name_and_lists_say(
    columns: dict[str, Any], kinds: dict[str, Kind | None]
) -> None:
    assert recognise({}, **columns) == kinds


def dense_members(count: int = 12) -> dict[str, bytes]:
    members = {}
    for i in range(count):
        height, width = 16 + i, 20 + i
        members[f"k{i:02}.jpg"] = encode(height, width, seed=i)
        members[f"k{i:02}.mask.png"] = encode(height, width, format="PNG", mode="L")
        members[f"k{i:02}.depth.npy"] = zeros("float32", height, width)
        members[f"k{i:02}.npy"] = zeros("float64", 5, 2)
        members[f"k{i:02}.vector.npy"] = zeros("float64", 5)
    return members


KINDS = {"depth.npy": Map(), "jpg": Image(), "mask.png": Mask(), "npy": Points()}


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_tar(tmp_path / "in/x-0000.tar", dense_members())


def test_packing_and_indexing_in_place_write_the_same_kinds(tar: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(tar, tmp_path / "packed", shard_size=20_000)
    headrace.index_dataset(tar, out=tmp_path / "indexed")
    for name in ("packed", "indexed"):
        dataset = headrace.open_dataset(tmp_path / name)
        assert dataset.manifest.field_kinds == KINDS
        assert headrace.verify_dataset(tmp_path / name) == []
    headrace.pack_dataset(tmp_path / "packed", tmp_path / "again")
    assert headrace.open_dataset(tmp_path / "again").manifest.field_kinds == KINDS


def test_the_index_has_the_size_and_kind_of_arrays(tar: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(tar, tmp_path / "packed", order="source")
    row = headrace.open_dataset(tmp_path / "packed").index.slice(1, 1).to_pydict()
    names = ("height", "width", "kind")
    assert [row[f"depth.npy.{n}"][0] for n in names] == [17, 21, "npy-float32-1"]
    assert [row[f"npy.{n}"][0] for n in names] == [5, 2, "npy-float64-1"]
    assert [row[f"vector.npy.{n}"][0] for n in names] == [None, None, None]
    manifest = json.loads((tmp_path / "packed/headrace.json").read_text())
    assert manifest["kinds"] == {"baseline": 12, "png": 12}


def test_a_field_whose_samples_disagree_has_no_kind(tmp_path: Path) -> None:
    members = dense_members(4)
    members["k02.npy"] = zeros("float64", 5, 3)
    members["k03.depth.npy"] = b"damaged"
    headrace.pack_dataset(write_tar(tmp_path / "x.tar", members), tmp_path / "out", shard_size=3000)
    manifest = headrace.open_dataset(tmp_path / "out").manifest
    assert len(manifest.shards) > 1
    assert manifest.field_kinds == {n: kind for n, kind in KINDS.items() if n != "npy"}


def test_a_pack_that_is_resumed_writes_the_same_kinds(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    headrace.pack_dataset(tar, tmp_path / "whole", shard_size=6000, workers=2)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(staging, "publish", stop)
        headrace.pack_dataset(tar, tmp_path / "resumed", shard_size=6000, workers=1)
    summary = headrace.pack_dataset(tar, tmp_path / "resumed", shard_size=6000)
    assert summary.resumed == summary.shards > 1
    assert digests(tmp_path / "resumed") == digests(tmp_path / "whole")
