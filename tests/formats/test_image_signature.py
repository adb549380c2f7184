from __future__ import annotations

import pytest

from headrace.formats.codecs.image_signature import sniff_image
from images import encode


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (encode(8, 9), "jpg"),
        (encode(8, 9, format="PNG"), "png"),
        (encode(8, 9, format="GIF"), "gif"),
        (encode(8, 9, format="WEBP"), "webp"),
        (encode(8, 9, format="BMP"), "bmp"),
        (encode(8, 9, format="PPM"), "ppm"),
        (encode(8, 9, format="PPM", mode="L"), "pgm"),
        (encode(8, 9, format="TIFF"), "tif"),
        (b"MM\0*\0\0\0\x08", "tif"),
        (b"BM is how this text begins", None),
        (b"P6M", None),
        (b"RIFF....WAVE", None),
        (b"", None),
    ],
)
def test_a_format_is_known_by_its_first_bytes(data: bytes, kind: str | None) -> None:
    assert sniff_image(data) == kind
