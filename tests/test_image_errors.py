"""What Pillow raises for an image is the image's fault; what the machine lacks is not."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from headrace.errors import SourceError
from headrace.image_header import blame_image
from images import damaged_dds, damaged_tiff, encode

DAMAGED = {
    "dds": (damaged_dds(20, 31), "Unknown pixel format"),
    "tiff": (damaged_tiff(20, 31), "'IFDRational'"),
    "cut": (encode(20, 31, format="BMP")[:-9], "truncated"),
    "bomb": (b"P6 99999 99999 255\n", "exceeds limit"),
    "text": (b"<html>", "cannot identify image file$"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_whatever_pillow_raises_for_an_image_is_a_source_error_that_says_why(kind: str) -> None:
    data, reason = DAMAGED[kind]
    with (
        pytest.raises(SourceError, match=f"^does not decode: .*{reason}"),
        blame_image("does not decode"),
        Image.open(io.BytesIO(data)) as image,
    ):
        image.load()


def test_an_error_without_words_is_named_by_its_kind() -> None:
    with pytest.raises(SourceError, match="^damaged: EOFError$"), blame_image("damaged"):
        raise EOFError


@pytest.mark.parametrize("error", [MemoryError(), SourceError("as it is"), KeyboardInterrupt()])
def test_what_is_not_the_images_fault_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, blame_image("does not decode"):
        raise error
    assert caught.value is error
