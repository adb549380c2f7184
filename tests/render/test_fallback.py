"""Images that Pillow decodes for the core equal Pillow in every pixel."""

from __future__ import annotations

import hashlib
import io
import json

import numpy as np
import pytest
from PIL import Image

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import Status, build_seek, decode_jpeg, render_batch
from images import encode, encode_deep, make_pixels
from render import reference
from stored import list_hostile_folders

KINDS = {
    "baseline": {},
    "grey": {"mode": "L"},
    "progressive": {"progressive": True},
    "cmyk": {"mode": "CMYK"},
    "png": {"format": "PNG"},
    "png with alpha": {"format": "PNG", "mode": "RGBA"},
    "png with palette": {"format": "PNG", "mode": "P"},
    "webp": {"format": "WEBP"},
    "gif": {"format": "GIF"},
    "bmp": {"format": "BMP"},
    "tiff": {"format": "TIFF"},
}


def with_orientation():
    exif = Image.Exif()
    exif[0x0112] = 6
    return encode(40, 50, exif=exif)


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_equals_pillow(kind):
    image = encode(45, 61, **KINDS[kind])
    expected = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))
    np.testing.assert_array_equal(decode_jpeg(image), expected)
    out, status = render_batch([image], [(5, 6, 30, 20)], (16, 16), flips=[True])
    assert status[0] == 0
    np.testing.assert_array_equal(
        out[0], reference.render(expected, (5, 6, 30, 20), (16, 16), flip=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_only_baseline_jpegs_have_a_seek_table(kind):
    # A table pays for a picture of some size only.
    image = encode(400, 400, **KINDS[kind])
    assert bool(build_seek(image)) == (kind in ("baseline", "grey"))


def test_the_exif_orientation_is_not_applied():
    image = with_orientation()
    assert decode_jpeg(image).shape == (40, 50, 3)
    np.testing.assert_array_equal(decode_jpeg(image), reference.decode(image))


@pytest.mark.parametrize("image", [b"", b"\xff\xd8", b"no image", encode(30, 30)[:300]])
def test_damaged_data_is_a_decode_error(image):
    with pytest.raises(DecodeError, match=f"{len(image)} bytes"):
        decode_jpeg(image)


def test_an_image_that_pillow_calls_truncated_has_this_status():
    image = encode(60, 60, format="PNG")
    _, status = render_batch([image[:-200]], [(0, 0, 5, 5)], (4, 4))
    assert status[0] == Status.TRUNCATED


def test_a_picture_beyond_pillows_limit_is_too_large(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    _, status = render_batch([encode(60, 60, format="PNG")], [(0, 0, 5, 5)], (4, 4))
    assert status[0] == Status.TOO_LARGE


def test_many_unsupported_images_keep_their_rows():
    images = [encode(20 + row, 30, row, format="PNG") for row in range(9)]
    boxes = [(row, row, 15, 12) for row in range(9)]
    for threads in (1, 4):
        out, status = render_batch(images, boxes, (10, 10), threads=threads)
        assert not status.any()
        for row in range(9):
            expected = reference.render(make_pixels(20 + row, 30, row), boxes[row], (10, 10))
            np.testing.assert_array_equal(out[row], expected)


COSTLY = ("bomb", "many-scans")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", list_hostile_folders(), ids=lambda path: path.parts[-3])
@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_odd_and_broken_images_equal_pillow(folder, kind):
    expected = json.loads((folder / "expected.json").read_text())[kind]
    for entry in expected if kind == "jpeg" else expected["results"]:
        if any(word in entry["file"] for word in COSTLY):
            continue
        image = (folder / entry["file"]).read_bytes()
        if entry["status"] == "ok":
            pixels = decode_jpeg(image)
            assert pixels.shape[:2] == (entry["height"], entry["width"]), entry["file"]
            assert hashlib.sha256(pixels).hexdigest() == entry["rgb_sha256"], entry["file"]
        else:
            with pytest.raises(DecodeError):
                decode_jpeg(image)


def test_a_damaged_jpeg_that_pillow_decodes_is_rendered():
    image = bytearray(encode(64, 64, quality=90))
    start = image.index(b"\xff\xda") + 40
    image[start : start + 8] = b"\xff\x01" * 4  # markers amid the entropy-coded data
    assert _core.decode_jpeg(image)[0] == Status.CORRUPT
    expected = reference.render(reference.decode(image), (0, 0, 64, 64), (32, 32))
    out, status = render_batch([image], [(0, 0, 64, 64)], (32, 32))
    assert status[0] == 0
    np.testing.assert_array_equal(out[0], expected)


LEVELS = np.array([[0, 1, 128, 255], [256, 257, 40000, 65535]])


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_16_bits_are_clipped_as_in_pillow_or_scaled(format):
    data = encode_deep(LEVELS, format)
    whole = [[0, 0, 4, 2]]
    clipped, _ = render_batch([data], whole, (2, 4))
    assert np.array_equal(clipped[0, :, :, 0], LEVELS.clip(0, 255))
    assert np.array_equal(clipped[0], np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    scaled, status = render_batch([data], whole, (2, 4), depth16="scale")
    assert not status.any()
    assert np.array_equal(scaled[0, :, :, 2], np.round(LEVELS / 257))
    assert np.array_equal(decode_jpeg(data, "scale"), scaled[0])


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_16_bits_does_not_change_other_images(kind):
    data = encode(20, 30, **KINDS[kind])
    assert np.array_equal(decode_jpeg(data, "scale"), decode_jpeg(data))


def test_an_unknown_depth16_is_refused():
    with pytest.raises(ValueError, match="depth16 is 'stretch'; give 'clip' or 'scale'"):
        render_batch([], np.zeros((0, 4), int), (2, 4), depth16="stretch")
