from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import SourceError
from headrace.image_header import ImageHeader, describe_deep, read_header
from images import damaged_dds, encode, encode_deep
from stored import list_hostile_folders


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (encode(20, 31), ImageHeader("baseline", 20, 31)),
        (encode(20, 31, progressive=True), ImageHeader("progressive", 20, 31)),
        (encode(20, 31, mode="L"), ImageHeader("grey", 20, 31)),
        (encode(20, 31, mode="CMYK"), ImageHeader("cmyk", 20, 31)),
        (
            encode(20, 31).replace(b"\xff\xc0\0\x11\x08", b"\xff\xc1\0\x11\x0c"),
            ImageHeader("12-bit", 20, 31),
        ),
        (encode(20, 31, format="PNG"), ImageHeader("png", 20, 31)),
        (encode(20, 31, format="WEBP"), ImageHeader("webp", 20, 31)),
        (encode(20, 31, format="BMP"), ImageHeader("bmp", 20, 31)),
        (encode_deep(np.zeros((20, 31))), ImageHeader("png-16", 20, 31)),
        (encode_deep(np.zeros((20, 31)), "TIFF"), ImageHeader("tiff-16", 20, 31)),
        (encode_deep(np.zeros((20, 31)), "PPM"), ImageHeader("ppm-16", 20, 31)),
        (encode(20, 31, format="TIFF", mode="I"), ImageHeader("tiff", 20, 31)),
    ],
)
def test_kind_height_and_width_come_from_the_header(data: bytes, expected: ImageHeader) -> None:
    assert read_header(data) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<html>not here</html>", "no known format"),
        (damaged_dds(20, 31), "Unknown pixel format"),
        (b"\xff\xd8\xff\xe0", "truncated"),
        (encode(20, 31)[:60], "truncated"),
        (b"\xff\xd8\xff\xd9" + bytes(4), "before its frame header"),
        (b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x00\x00\x10\x03" + bytes(9), "16×0"),
    ],
)
def test_what_is_not_an_image_is_an_error_that_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read_header(data)


def test_filler_and_stray_bytes_before_a_marker_are_passed() -> None:
    data = encode(20, 31)
    frame = data.index(b"\xff\xc0")
    assert read_header(data[:frame] + b"\x00\xff\xff" + data[frame:]) == ("baseline", 20, 31)


@pytest.mark.parametrize("folder", list_hostile_folders(), ids=lambda path: path.parts[-3])
def test_headers_of_the_odd_images_agree_with_pillow(folder: Path) -> None:
    for entry in json.loads((folder / "expected.json").read_text())["jpeg"]:
        if entry["expect"] == "decode":
            header = read_header((folder / entry["file"]).read_bytes())
            assert header[1:] == (entry["height"], entry["width"]), entry["file"]


def test_deep_images_of_all_formats_are_counted() -> None:
    assert describe_deep({"png": 5, "12-bit": 1, "baseline": 3}) is None
    assert str(describe_deep({"png-16": 1})).startswith("1 image has 16 bits per pixel")
    sentence = str(describe_deep({"png-16": 2, "tiff-16": 3, "png": 9}))
    assert sentence.startswith("5 images have 16 bits") and "depth16='scale'" in sentence
