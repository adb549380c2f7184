"""Which image format some bytes begin with. A look at the first bytes, no proof."""

from __future__ import annotations

_SIGNATURES = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
)


def sniff_image(data: bytes) -> str | None:
    """Return the field that such an image is packed as (`jpg`, `png`, ...); None if the kind is unknown."""
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[:2] == b"BM" and data[6:10] == bytes(4):
        return "bmp"
    if data[:2] in (b"P5", b"P6") and data[2:3].isspace():
        return "pgm" if data[1:2] == b"5" else "ppm"
    return None
