"""Photographs are shrunk on request; what shrinking would spoil is an error that says so."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import headrace
from headrace.errors import PackError, SourceError
from headrace.pack.shrink_images import shrink_sample
from images import encode, make_pixels

SHRINK = headrace.Shrink(short=40)


def encode_as(mode: str, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(make_pixels(80, 120)).convert(mode).save(out, format, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("mode", "format", "options", "becomes"),
    [
        ("RGB", "JPEG", {}, ("jpg", "RGB")),
        ("L", "JPEG", {}, ("jpg", "L")),
        ("CMYK", "JPEG", {}, ("jpg", "RGB")),
        ("RGB", "WEBP", {}, ("jpg", "RGB")),
        ("RGB", "WEBP", {"lossless": True}, ("png", "RGB")),
        ("RGB", "BMP", {}, ("png", "RGB")),
        ("L", "PNG", {}, ("png", "L")),
        ("RGBA", "PNG", {}, ("png", "RGBA")),
        ("RGB", "PNG", {"transparency": (1, 2, 3)}, ("png", "RGBA")),
    ],
)
def test_lossy_photographs_become_jpeg_and_others_png(
    mode: str, format: str, options: dict[str, Any], becomes: tuple[str, str]
) -> None:
    data = encode_as(mode, format, **options)
    sample = shrink_sample(headrace.Sample("a", {"x.tif": data, "cls": b"1"}), SHRINK)
    ((name, smaller), _) = sorted(sample.items(), reverse=True)
    with Image.open(io.BytesIO(smaller)) as image:
        assert (name, image.mode, image.size) == (f"x.{becomes[0]}", becomes[1], (60, 40))


def make_16_bit_rgb() -> bytes:
    """A PPM with a maximum of 65535: Pillow reads it as 8 bits."""
    return b"P6 80 80 65535\n" + bytes(80 * 80 * 6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_as("P", "PNG"), "mode P;"),
        (encode_as("1", "PNG"), "mode 1;"),
        (encode_as("I;16", "PNG"), "mode I;16;"),
        (encode_as("F", "TIFF"), "mode F;"),
        (make_16_bit_rgb(), "more than 8 bits a channel"),
        (
            encode_as("RGB", "TIFF", save_all=True, append_images=[Image.new("RGB", (80, 80))]),
            "several frames",
        ),
    ],
)
def test_an_image_whose_meaning_shrinking_would_change_is_an_error(
    data: bytes, reason: str
) -> None:
    with pytest.raises(SourceError, match=f"cannot be shrunk.*{reason}.*without shrinking"):
        shrink_sample(headrace.Sample("a", {"png": data}), SHRINK)


def test_a_16_bit_png_in_colour_is_an_error() -> None:
    data = bytearray(encode_as("RGB", "PNG"))
    data[24] = 16  # the bits of a channel in the header; its checksum follows
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    with pytest.raises(SourceError, match="more than 8 bits"):
        shrink_sample(headrace.Sample("a", {"png": bytes(data)}), SHRINK)


@pytest.mark.parametrize("mask", ["png", "mask.png"])
def test_a_photograph_with_a_mask_is_refused_by_name(tmp_path: Path, mask: str) -> None:
    fields = {"jpg": encode(80, 120), mask: encode_as("L", "PNG")}
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        for name, data in fields.items():
            info = tarfile.TarInfo(f"one.{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with pytest.raises(PackError, match=rf"one: has several images \(jpg, {mask}\)"):
        headrace.pack_dataset(tmp_path / "in.tar", tmp_path / "out", shrink=SHRINK)
    headrace.pack_dataset(tmp_path / "in.tar", tmp_path / "out", shrink=headrace.Shrink(short=80))
    assert dict(headrace.open_dataset(tmp_path / "out")[0]) == fields, "small enough: as it was"


@pytest.mark.parametrize("shrink", [headrace.Shrink(short=40), headrace.Shrink(longest=60)])
def test_shrinking_resizes_the_larger_images_only(tmp_path: Path, shrink: headrace.Shrink) -> None:
    (tmp_path / "in" / "c").mkdir(parents=True)
    small, large = encode(20, 30), encode(80, 120, format="PNG")
    (tmp_path / "in" / "c" / "small.jpg").write_bytes(small)
    (tmp_path / "in" / "c" / "large.png").write_bytes(large)
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out", order="source", shrink=shrink)
    first, second = headrace.open_dataset(tmp_path / "out")
    assert second["jpg"] == small
    with Image.open(io.BytesIO(first["png"])) as image:
        assert (image.format, image.size) == ("PNG", (60, 40)), "what had no loss stays without"


def test_a_shrunk_image_has_the_suffix_of_its_new_format() -> None:
    sample = headrace.Sample("a", {"jpg": encode(80, 120)}, suffixes={"jpg": "JPEG"})
    assert shrink_sample(sample, SHRINK).suffixes == {}
    assert shrink_sample(sample, headrace.Shrink(short=80)).suffixes == {"jpg": "JPEG"}


def test_shrunk_images_of_low_quality_are_smaller() -> None:
    sample = headrace.Sample("a", {"jpg": encode(200, 300)})
    low, high = (
        shrink_sample(sample, headrace.Shrink(short=150, quality=quality)) for quality in (10, 90)
    )
    assert len(low["jpg"]) < len(high["jpg"]) / 2
