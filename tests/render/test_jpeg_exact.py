"""Pixels are Pillow's, to the last bit: whole pictures and boxes, with and without seek tables."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from images import encode
from jpegs import BAD_BOX, CORRUPT, OK, UNSUPPORTED, decode_with_pillow, make_multiscan
from stored import read_photos

SIZES = [(1, 1), (1, 40), (40, 1), (2, 2), (7, 9), (8, 8), (17, 33), (33, 17), (64, 48), (101, 67)]
SAMPLINGS = ["4:4:4", "4:2:2", "4:2:0"]
ODD_SAMPLINGS = {
    "4:4:4": [(1, 1), (1, 1), (1, 1)],
    "4:4:0": [(1, 2), (1, 1), (1, 1)],
    "4:2:0": [(2, 2), (1, 1), (1, 1)],
    "4:1:1": [(4, 1), (1, 1), (1, 1)],
    "4:1:0": [(4, 2), (1, 1), (1, 1)],
    "4:4:1": [(1, 4), (1, 1), (1, 1)],
    "3:1:1": [(3, 1), (1, 1), (1, 1)],
    "mixed": [(2, 2), (1, 2), (2, 1)],
    "finer chroma": [(1, 1), (2, 2), (1, 1)],
}


@pytest.fixture(params=["auto", "portable"])
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    _core.set_simd(request.param)
    yield request.param
    _core.set_simd("auto")


def random_boxes(height: int, width: int, count: int, seed: int) -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        left, top = int(rng.integers(width)), int(rng.integers(height))
        yield (
            left,
            top,
            int(rng.integers(1, width - left + 1)),
            int(rng.integers(1, height - top + 1)),
        )


def check_box(data: bytes, expected: np.ndarray, box: tuple[int, ...], seek: bytes) -> None:
    left, top, width, height = box
    status, pixels = _core.decode_jpeg(data, box, seek)
    assert status == OK
    np.testing.assert_array_equal(pixels, expected[top : top + height, left : left + width])


def check(data: bytes, boxes: int = 4) -> None:
    expected = decode_with_pillow(data)
    height, width, _ = expected.shape
    status, seek = _core.build_seek(data)
    assert status == OK
    assert len(seek) <= 0.015 * len(data)
    for box in [(0, 0, width, height), *random_boxes(height, width, boxes, seed=len(data))]:
        for table in {b"", seek}:
            check_box(data, expected, box, table)


@pytest.mark.parametrize("subsampling", SAMPLINGS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_sampling_and_size_equals_pillow(
    size: tuple[int, int], subsampling: str, simd: str
) -> None:
    check(encode(*size, subsampling=subsampling, quality=90))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_grey_images_equal_pillow(size: tuple[int, int], simd: str) -> None:
    check(encode(*size, mode="L"))


@pytest.mark.parametrize("sampling", ODD_SAMPLINGS.values(), ids=ODD_SAMPLINGS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_several_scans_of_any_sampling_equal_pillow(
    size: tuple[int, int], sampling: list[tuple[int, int]], simd: str
) -> None:
    check(make_multiscan(*size, sampling))


def test_several_scans_with_restart_markers_equal_pillow() -> None:
    check(make_multiscan(67, 101, ODD_SAMPLINGS["4:2:0"], restart=5))


@pytest.mark.parametrize("quality", range(1, 101))
def test_every_quality_equals_pillow(quality: int) -> None:
    check(encode(50, 75, quality=quality, subsampling=SAMPLINGS[quality % 3], seed=quality))


@pytest.mark.parametrize("optimize", [False, True])
def test_saturated_noise_equals_pillow(optimize: bool, simd: str) -> None:
    """It has the largest coefficients that an encoder makes, and the longest codes."""
    noise = np.random.default_rng(0).integers(0, 2, (64, 80, 3), np.uint8) * 255
    for quality in (1, 10, 100):
        out = io.BytesIO()
        Image.fromarray(noise).save(out, "JPEG", quality=quality, optimize=optimize)
        check(out.getvalue())


@pytest.mark.parametrize("subsampling", SAMPLINGS)
@pytest.mark.parametrize("blocks", [1, 2, 7, 1000])
def test_restart_intervals_in_mcus_equal_pillow(blocks: int, subsampling: str) -> None:
    check(encode(90, 130, subsampling=subsampling, restart_marker_blocks=blocks), boxes=12)


@pytest.mark.parametrize("rows", [1, 3])
def test_restart_intervals_in_rows_equal_pillow(rows: int) -> None:
    check(encode(90, 130, restart_marker_rows=rows), boxes=12)


def test_optimised_tables_equal_pillow() -> None:
    check(encode(200, 300, optimize=True, quality=95))


def test_huffman_tables_of_the_previous_picture_are_not_used() -> None:
    pictures = [encode(40, 40, seed, optimize=seed > 0) for seed in range(3)]
    damaged = bytearray(pictures[0])
    counts = damaged.index(b"\xff\xc4") + 5
    # As many codes, but two of two bits where there is room for one: found when a part is built.
    damaged[counts : counts + 16] = bytes([1, 2, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0])
    for data in [*pictures, pictures[0], bytes(damaged), *pictures, *pictures[::-1]]:
        status, pixels = _core.decode_jpeg(data)
        assert status == (OK if data in pictures else CORRUPT)
        if status == OK:
            np.testing.assert_array_equal(pixels, decode_with_pillow(data))


def test_rgb_without_colour_transform_equals_pillow(simd: str) -> None:
    check(encode(50, 75, keep_rgb=True))


def test_every_pair_of_chroma_equals_pillow(simd: str) -> None:
    level = np.repeat(np.arange(256, dtype=np.uint8), 8)
    planes = np.broadcast_arrays(np.uint8(100), level[None, :], level[:, None])
    out = io.BytesIO()
    Image.fromarray(np.stack(planes, -1), "YCbCr").save(out, "JPEG", quality=100, subsampling=0)
    status, pixels = _core.decode_jpeg(out.getvalue())
    assert status == OK
    np.testing.assert_array_equal(pixels, decode_with_pillow(out.getvalue()))


def test_extreme_coefficients_wrap_as_in_libjpeg_turbo(simd: str) -> None:
    """Tables of 16 bits make products that overflow in every SIMD decoder; all wrap alike."""
    base = bytearray(encode(64, 64, quality=50, mode="L"))
    at = base.index(b"\xff\xdb")
    rng = np.random.default_rng(1)
    for factor in (255, 1000, 9000, 65535):
        table = rng.integers(1, factor + 1, 64).astype(">u2").tobytes()
        wide = b"\xff\xdb" + (2 + 1 + 128).to_bytes(2, "big") + b"\x10" + table
        check(bytes(base[:at]) + wide + bytes(base[at + 69 :]))


@pytest.mark.parametrize("options", [{"mode": "CMYK"}, {"format": "PNG"}])
def test_other_kinds_are_unsupported(options: dict[str, object]) -> None:
    data = encode(20, 30, **options)
    assert _core.decode_jpeg(data) == (UNSUPPORTED, None)
    assert _core.build_seek(data) == (UNSUPPORTED, b"")


@pytest.mark.parametrize(
    "box",
    [(-1, 0, 5, 5), (0, -1, 5, 5), (0, 0, 0, 5), (0, 0, 31, 20), (26, 0, 5, 5), (0, 16, 5, 5)],
    ids=str,
)
def test_a_box_outside_the_picture_is_refused(box: tuple[int, int, int, int]) -> None:
    assert _core.decode_jpeg(encode(20, 30), box) == (BAD_BOX, None)


PICTURES = [
    encode(83, 117, subsampling=subsampling, quality=97, seed=7) for subsampling in SAMPLINGS
]
EXPECTED = [decode_with_pillow(data) for data in PICTURES]
SEEKS = [_core.build_seek(data)[1] for data in PICTURES]


@given(st.data())
def test_any_box_equals_pillow(data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(PICTURES) - 1))
    height, width, _ = EXPECTED[which].shape
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    box = (
        left,
        top,
        data.draw(st.integers(1, width - left)),
        data.draw(st.integers(1, height - top)),
    )
    for seek in (b"", SEEKS[which]):
        check_box(PICTURES[which], EXPECTED[which], box, seek)


def test_the_seek_tables_above_are_not_empty() -> None:
    assert all(SEEKS)


@pytest.mark.parametrize("part", range(4))
def test_photos(part: int) -> None:
    for photo in read_photos()[part::4]:
        check(photo, boxes=20)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_all_photos_equal_pillow(beside: Path, part: int) -> None:
    with tarfile.open(beside / "data" / "imagenet-sample.tar") as tar:
        photos = [member for member in tar if member.isfile()]
        for member in photos[part::6]:
            file = tar.extractfile(member)
            assert file is not None
            check(file.read(), boxes=20)
