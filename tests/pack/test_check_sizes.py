"""Masks and maps have the size of their image, or are refused with both sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace
from formats.making import write_tar
from formats.making_pairs import VOC, write_mask, write_pairs, write_voc
from headrace.errors import PackError, SourceError
from headrace.formats.codecs.arrays import encode_npy
from headrace.pack.check_sizes import check_sizes
from headrace.pack.describe_images import describe_sample
from headrace.sample import Sample
from images import encode, encode_deep

PHOTO = encode(20, 30)


def grey(height: int, width: int) -> bytes:
    return encode(height, width, format="PNG", mode="L")


def array(dtype: str, *shape: int) -> bytes:
    return encode_npy(np.zeros(shape, dtype))


@pytest.mark.parametrize(
    ("fields", "name", "sizes"),
    [
        ({"jpg": PHOTO, "mask.png": grey(10, 15)}, "mask.png", "15 x 10 pixels, its image has 30 x 20"),
        ({"jpg": PHOTO, "mask.png": grey(30, 20)}, "mask.png", "20 x 30 pixels, its image has 30 x 20"),
        ({"jpg": PHOTO, "mask.npy": array("uint8", 9, 9)}, "mask.npy", "9 x 9 pixels, its image has 30 x 20"),
        ({"jpg": PHOTO, "flow.npy": array("float32", 9, 9, 2)}, "flow.npy", "9 x 9 pixels"),
        ({"jpg": PHOTO, "depth.png": encode_deep(np.zeros((9, 9)))}, "depth.png", "9 x 9 pixels"),
        ({"a.jpg": PHOTO, "b.jpg": encode(9, 9), "b.mask.png": grey(20, 30)}, "b.mask.png", "its image has 9 x 9"),
        ({"d.npy": array("uint8", 9, 8, 3), "mask.png": grey(20, 30)}, "mask.png", "its image has 8 x 9"),
        ({"jpg": encode(20, 30, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
          "mask.png": grey(30, 20)}, "mask.png", r"30 x 20, since it is stored on its side \(EXIF\)"),
    ],
)  # fmt: skip
def test_a_target_of_another_size_is_refused(
    fields: dict[str, bytes], name: str, sizes: str
) -> None:
    with pytest.raises(SourceError, match=f"{name} of 'k': .*{sizes}"):
        check_sizes(describe_sample(Sample("k", fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"jpg": PHOTO, "mask.png": grey(20, 30)},
        {"mask.png": grey(20, 30), "gt.png": grey(9, 9)},
        {"jpg": PHOTO, "npy": array("float64", 5, 2), "boxes.npy": array("float32", 3, 4)},
        {"jpg": PHOTO, "second.png": grey(9, 9)},
        {"lq.png": encode(9, 9, format="PNG"), "gt.png": encode(36, 36, format="PNG")},
        {"a.jpg": PHOTO, "b.jpg": encode(9, 9), "b.mask.png": grey(9, 9), "mask.png": grey(20, 30)},
        {"d.npy": array("uint8", 9, 8, 3), "d.label.npy": array("float64", 61, 61, 2)},
    ],
)
def test_targets_that_fit_and_other_images_pass(fields: dict[str, bytes]) -> None:
    check_sizes(describe_sample(Sample("k", fields)))


def test_packing_and_indexing_leave_such_pairs_out_on_request(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in")
    write_mask(root / "masks/p2.png", 10, 15)
    with pytest.raises(
        PackError, match=r"mask\.png of 'p2': 15 x 10 pixels, its image has 32 x 22"
    ):
        headrace.pack_dataset(root, tmp_path / "out")
    assert headrace.pack_dataset(root, tmp_path / "out", on_error="skip").samples == 4

    members = {"a.jpg": PHOTO, "a.mask.png": grey(20, 30), "b.jpg": PHOTO, "b.mask.png": grey(9, 9)}
    tar = write_tar(tmp_path / "x.tar", members)
    with pytest.raises(PackError, match=r"mask\.png of 'b': 9 x 9 pixels"):
        headrace.index_dataset(tar, out=tmp_path / "index")
    assert headrace.index_dataset(tar, out=tmp_path / "index", on_error="skip").samples == 1


def test_an_image_with_boxes_is_not_shrunk_without_them(tmp_path: Path) -> None:
    root, shrink = write_voc(tmp_path / "in", VOC), headrace.Shrink(short=10)
    with pytest.raises(
        PackError, match=r"a\.jpg: has boxes \(boxes\), which would no longer match"
    ):
        headrace.pack_dataset(root, tmp_path / "out", shrink=shrink)
    headrace.pack_dataset(root, tmp_path / "out", shrink=headrace.Shrink(short=100))
